"""The web pages, and the data that they need besides the public API."""
