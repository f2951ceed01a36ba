"""Where replies are kept: one store per user or project, shared by all of its runs.

`Store` is what runs ask; `mmconv.store.merging` joins the stores of shards, and `mmconv.store.jobs`
keeps the service's. Only this package knows SQL.
"""

from mmconv.store.store import Store

__all__ = ["Store"]
