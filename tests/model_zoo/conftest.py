"""Makes torchvision importable, where it can be, before any test here imports transformers.

Beside that what tests of several models share.
"""

from pathlib import Path

import pytest

from tests import torchvision_stub
from tests.messages import message as message

torchvision_stub.install()


def pytest_configure(config: pytest.Config) -> None:
    """GLM's processor makes an array of a tensor in a way that NumPy is about to drop."""
    ignored = "ignore:__array__ implementation:DeprecationWarning:transformers"
    config.addinivalue_line("filterwarnings", ignored)


class NoImages:
    """An image source that is never asked."""

    def read(self, sha256: str) -> bytes:
        raise AssertionError(f"nobody may look at an image: {sha256}")


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty folder of `org/name` in a cache of the hub's library, at revision 0123abc."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--org--name"
    (repository / "snapshots" / "0123abc").mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0123abc")
    return repository / "snapshots" / "0123abc"
