"""The web page: its HTML and files, and what its scripts ask for beside the API."""
