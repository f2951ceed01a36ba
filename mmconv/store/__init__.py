"""Where replies are kept: one store per user or project, shared by all of its runs.

`Store` is the whole interface; `merge` joins the stores of shards. Only this package knows SQL.
"""

from mmconv.store.merging import MergeReport, merge
from mmconv.store.store import Store

__all__ = ["MergeReport", "Store", "merge"]
