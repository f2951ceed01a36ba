from __future__ import annotations

from tests.mmconv.store.conftest import store

__all__ = ["store"]
