"""Data files, whichever benchmark they are of: read, checked, and taken in record by record.

Which fields a record needs, and what they mean, is told in each benchmark's `data`; which samples a
run takes, in `mmconv.benchmarks.choosing`. Nothing is exported from here: import the modules.
"""
