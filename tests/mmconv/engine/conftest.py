import pytest

from mmconv.engine import limiter as slots
from tests.mmconv.store.conftest import store

__all__ = ["store", "without_jitter"]


@pytest.fixture
def without_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry waits for as long as the server asks, and no longer."""
    monkeypatch.setattr(slots, "FIRST_DELAY", 0.0)
