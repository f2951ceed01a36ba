"""Models without weights or a network, for trying things out, for tests and for offline judging.

Modules are providers: `planted` is `simulated`, and `damaged` by another name; `fake` and
`reference` go by their own. The same request always gets the same reply. A provider raises its
`_REVISION` if the same messages would get another reply, so that keys change too.
"""
