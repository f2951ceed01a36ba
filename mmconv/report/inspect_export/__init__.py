"""A run as a log of Inspect AI, for its viewer; all of it needs the package inspect-ai."""
