"""What a run leaves behind for readers: tables, records and the report that binds them.

Nothing here scores or estimates; that is done in `mmconv.benchmarks` and `mmconv.stats`.
"""
