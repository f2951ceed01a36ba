"""What benchmarks have in common beside their data files.

A module has the name of the benchmarks' own modules that it serves: `options` is what all their
`options` are made of, and so on. No benchmark is known here but by name. Nothing is exported from
here: import the modules.
"""
