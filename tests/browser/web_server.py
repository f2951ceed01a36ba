"""A real server for the web page: drawn scenes, and models of known error rates or none."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2

from tests.drawn_data import write_scenes
from tests.mmconv.service.conftest import ServerProcess, Servers

ROWS = 6
TOKEN = "a-token-for-tests"
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"

MODELS: Mapping[str, Any] = {
    "careful": {"provider": "simulated", "model": "candidate", "options": {"perception": 0.2}},
    "blurred": {"provider": "simulated", "model": "candidate", "options": {"perception": 0.9}},
    "slow": {
        "provider": "fake",
        "model": "slow",
        "max_concurrency": 2,
        "options": {"seconds": 0.4},
    },
    # no other run asks it, so none of its answers is there before its run is stopped
    "patient": {
        "provider": "fake",
        "model": "scripted",
        "max_concurrency": 1,
        "options": {"seconds": 0.3, "script": {"(?s).*": "All in good time."}},
    },
    "hostile": {
        "provider": "fake",
        "model": "scripted",
        "options": {"script": {"(?s).*": HOSTILE}},
    },
    "arbiter": {"provider": "simulated", "model": "judge"},
    "judge": {"provider": "fake", "model": "judge"},
    # reads ConvBench's layout only
    "overlap": {"provider": "reference", "model": "chrf"},
}


def serve_scenes(servers: Servers, folder: Path, **fields: Any) -> ServerProcess:
    """A server that runs may ask for `scenes`, a dataset of `ROWS` drawn pictures."""
    if not (folder / "scenes").exists():
        write_scenes(folder / "scenes", ROWS, seed=3)
    options = {
        "data": str(folder / "scenes" / "data.jsonl"),
        "images": str(folder / "scenes" / "images"),
    }
    data = {"scenes": {"benchmark": "convbench", "options": options}}
    return servers(**{"models": dict(MODELS), "data": data} | fields)


def token_entry(*scopes: str) -> dict[str, Any]:
    """The settings' entry of `TOKEN`."""
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    return {"name": "ada", "sha256": digest, "scopes": list(scopes)}


def finish(url: str, candidate: str, judge: str, **fields: Any) -> str:
    """A run that is done, of all samples where the fields say nothing else; its id."""
    asked = {"data": "scenes", "models": {"candidate": candidate, "judge": judge}} | fields
    run = str(httpx2.post(f"{url}/v1/runs", json=asked).json()["id"])
    with httpx2.stream("GET", f"{url}/v1/runs/{run}/events", timeout=60) as events:
        assert any(line == "event: end" for line in events.iter_lines())
    return run


def run_of(url: str, model: str) -> str:
    """The first run of a model."""
    found = httpx2.get(f"{url}/v1/runs", params={"model": model}).json()["data"]
    return str(found[-1]["id"])
