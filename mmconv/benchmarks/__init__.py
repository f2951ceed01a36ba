"""One module or small package per benchmark: its data, its prompts' slots, its scores and tables.

Benchmarks never import each other. Names become benchmarks in `mmconv.assemble`, lazily.
"""
