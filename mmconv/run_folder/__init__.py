"""A run's folder: the names of its files, what stands in them, and how it is read back.

It is written by `mmconv.engine.run` and `mmconv.report`; benchmarks, reports, commands and the
service read it. Nothing is scored or estimated here.
"""
