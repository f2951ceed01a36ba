"""The served API: the zoo, the judges and the benchmarks over HTTP, behind thin routes.

README.md describes the modules. Importing this package loads no web library and no model library.
"""
