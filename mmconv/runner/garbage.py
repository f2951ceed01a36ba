"""The garbage collector, kept out of the way of whatever has many requests under way.

Runs and servers hold many small objects for a while and make hardly any cycles: a full collection
would go through all of them, find nothing, and hold up every request for a tenth of a second.
"""

from __future__ import annotations

import gc


def collect_rarely() -> None:
    """Leave alone what there is by now, and look for cycles in the rest only now and then."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
