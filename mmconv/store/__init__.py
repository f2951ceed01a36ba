"""The database: cached replies of all runs of a user or project, and the service's jobs.

`Store` is the cache of replies, `mmconv.store.queue` the queue of jobs. `mmconv.store.merging`
joins the stores of shards. Only this package uses SQL.
"""

from mmconv.store.store import Store

__all__ = ["Store"]
