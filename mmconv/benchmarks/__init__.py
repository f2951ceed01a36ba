"""Benchmarks: the shipped ones, and the base class that those of users share with them.

`base` has samples, datasets, metrics, tables, comparison and replay; `data_files` reads records,
`readers` published judgements. `registry` names the shipped benchmarks, which are imported when
they are used and do not import each other; `dialogue` alone is built on ConvBench.
"""
