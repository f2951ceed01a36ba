"""The web pages, and the data that they need besides the public API."""

PAGES = "web.pages"
"""The module of the pages. Its routes accept any query, because the pages' scripts read it."""
