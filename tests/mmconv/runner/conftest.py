"""A store of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mmconv.store import Store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = Store(str(tmp_path / "store.sqlite"))
    yield opened
    await opened.aclose()
