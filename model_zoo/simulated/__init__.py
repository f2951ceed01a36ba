"""Models without weights or a network, for trying things out, for tests and for offline judging.

`planted` (`simulated/...`), `fake`, `reference`, `scenes` and `damaged` are providers. The same
request always gets the same reply. A provider raises its `_REVISION` when the same messages would
get another reply, so that keys change too.
"""
