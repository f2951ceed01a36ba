"""Backends: everything that turns resolved messages into a reply.

A provider is a module (or package) with `fingerprint(spec)` and `open_backend(spec, images)`; which
of them a model names is decided in `mmconv.assemble`. Only this package imports model libraries,
and each module only when it is used: importing `model_zoo` loads none of them.
"""
