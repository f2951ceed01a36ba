"""The web pages, the data that they need besides the public API, and a folder of runs."""
