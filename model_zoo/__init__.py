"""Backends: everything that turns resolved messages into a reply.

A provider is a module (or package) with `fingerprint(spec)` and `open_backend(spec, images)`;
`model_zoo.providers` finds the one that a model names. Only this package imports model libraries,
and each module only when it is used: importing `model_zoo` loads none of them.
"""
