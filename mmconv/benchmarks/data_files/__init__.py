"""Data files of any benchmark, read record by record."""
