"""The served API: the zoo, the judges and the benchmarks over HTTP, behind thin routes.

`mmconv.service.app.build_app` makes the application, `mmconv.service.command` is `mmconv serve`.
Importing this package loads no web library and no model library.
"""
