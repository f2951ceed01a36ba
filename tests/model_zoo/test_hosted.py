"""What the providers of hosted APIs share."""

from __future__ import annotations

import socket

import pytest

from mmconv.core.errors import Transient
from model_zoo.providers import find_provider
from tests.model_zoo.hosted_support import host_spec
from tests.model_zoo.openai_support import Pictures, ask, asked


@pytest.mark.parametrize("provider", ["anthropic", "google"])
async def test_a_host_that_is_away_is_transient(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant")
    monkeypatch.setenv("GEMINI_API_KEY", "AIza")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        spec = host_spec(provider, f"http://127.0.0.1:{unused.getsockname()[1]}")
    backend = await find_provider(provider).open_backend(spec, Pictures())
    with pytest.raises(Transient) as caught:
        await ask(backend, asked("Colour?"))
    await backend.aclose()
    assert caught.value.kind == "connection"
