"""A run's folder as it is written: its records, Parquet files, tables and report."""
