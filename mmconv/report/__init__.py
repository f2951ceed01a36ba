"""What a run leaves behind for readers: tables, records and the report that binds them.

`writing` writes a run's folder, `tables` renders tables, `page` makes the report as a page,
`comparison` compares several runs, `exports` writes files for other tools.

Nothing here scores or estimates; that is done in `mmconv.benchmarks` and `mmconv.stats`.
"""
