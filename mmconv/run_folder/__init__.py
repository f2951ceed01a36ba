"""A run's folder: its files, their formats, and how to read them.

`mmconv.engine.run` and `mmconv.report` write it.
"""
