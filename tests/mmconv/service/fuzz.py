"""Schemathesis over the service's OpenAPI document, and what the web page asks for besides.

Against a real server: `make fuzz`, or

    python -m tests.mmconv.service.fuzz [SECONDS]

It sends what the document allows and what it forbids, alone and in sequences that follow one
another's answers. A server error, a status or shape that is not documented, or forbidden data that
is taken, is a failure; each is printed with a curl line that repeats it.
"""

import copy
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2
from fastapi import APIRouter

from mmconv.service.openapi import EVERYWHERE, describe
from mmconv.service.web import data
from tests.mmconv.service.conftest import Servers
from tests.mmconv.service.run_settings import drawn, request
from tests.mmconv.service.tokens import bearer, token
from tests.pictures import picture

ROOT = Path(__file__).parents[3]

LEFT_OUT = (
    # Rules between fields (a judge for gradings, a reference for a condition) are no part of it.
    "positive_data_acceptance",
    # What is deleted here is stopped, and stays to be looked at.
    "use_after_free",
)


def fuzz(folder: Path, seconds: int, *options: str) -> tuple[int, str, str]:
    """Schemathesis' exit status and words, and the server's log; `folder` takes all files."""
    servers = Servers(folder)
    try:
        server = servers(data=drawn(folder), tokens=[token("fuzz", "admin")])
        run = _fill(server.url)
        document = folder / "openapi.json"
        document.write_text(json.dumps(whole_document(server.url)))
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "run", str(document)),
                *("--url", server.url),
                *(f"--header={name}:{value}" for name, value in bearer("fuzz").items()),
                *("--max-time", str(seconds), "--exclude-checks", ",".join(LEFT_OUT)),
                *(
                    "--continue-on-failure",
                    "--warnings",
                    "off",
                    "--request-timeout",
                    "60",
                    *options,
                ),
            ],
            cwd=folder,
            env=os.environ
            | {
                "PYTHONPATH": str(ROOT),
                "SCHEMATHESIS_HOOKS": "tests.mmconv.service.fuzz_hooks",
                "MMCONV_FUZZ_RUN": run,
            },
            capture_output=True,
            text=True,
        )
        assert httpx2.get(f"{server.url}/health").status_code == 200
    finally:
        servers.end()
    return done.returncode, done.stdout + done.stderr, (folder / "serve-0.log").read_text()


def whole_document(url: str) -> dict[str, Any]:
    """The server's own document with the routes of the web page, which it leaves out."""
    document: dict[str, Any] = httpx2.get(f"{url}/openapi.json").raise_for_status().json()
    router, every = APIRouter(), APIRouter()
    for route in data.router.routes:
        shown: Any = copy.copy(route)
        shown.include_in_schema = True
        router.routes.append(shown)
    every.include_router(router, responses=EVERYWHERE)
    web = describe({"title": "web", "version": ""}, every.routes)
    document["paths"] |= web["paths"]
    document["components"]["schemas"] |= web["components"]["schemas"]
    return document


def _fill(url: str) -> str:
    """Leave something behind that paths can lead to: an image, and a run that is done, its id."""
    with httpx2.Client(base_url=f"{url}/v1", headers=bearer("fuzz")) as client:
        client.post("/images", content=picture(1)).raise_for_status()
        run = str(client.post("/runs", json=request()).raise_for_status().json()["id"])
        deadline = time.monotonic() + 60
        while client.get(f"/runs/{run}").json()["state"] != "done":
            assert time.monotonic() < deadline
            time.sleep(0.1)
    return run


def main() -> int:
    """Run for as many seconds as the first argument says; the exit status is Schemathesis'."""
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    with tempfile.TemporaryDirectory() as folder:
        status, words, log = fuzz(Path(folder), seconds)
    sys.stdout.write(words if "Traceback" not in log else f"{words}\nThe server's log:\n{log}")
    return status


if __name__ == "__main__":
    sys.exit(main())
