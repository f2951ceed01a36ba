"""A PostgreSQL server that hangs: whoever waits for it is told, and may end."""

import asyncio
import os
import signal
import time

import psycopg
import pytest

from mmconv.core.errors import StoreError
from mmconv.store import connections
from mmconv.store.queue import Queue
from tests.mmconv.service.own_postgres import own_postgres
from tests.mmconv.store.test_queue import new

pytestmark = pytest.mark.real

OTHERS = (
    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
    "AND pid <> pg_backend_pid()"
)


async def test_a_hanging_server_is_used_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "SILENT_SECONDS", 1.0)
    with own_postgres() as postgres:
        queue = Queue(postgres.url)
        await queue.submit(new("a"))
        address = postgres.url.replace("+psycopg", "")
        with psycopg.connect(address, autocommit=True) as watcher:
            backends = [pid for (pid,) in watcher.execute(OTHERS)]
        listener = (postgres.data / "postmaster.pid").read_text().split()[0]
        for pid in (int(listener), *backends):
            os.kill(pid, signal.SIGSTOP)
        begun = time.monotonic()
        try:
            with pytest.raises(StoreError, match="connection timeout expired"):
                await asyncio.wait_for(queue.stop("a"), 20)
        finally:
            for pid in (int(listener), *backends):
                os.kill(pid, signal.SIGCONT)
        assert time.monotonic() - begun < 10
        job = await queue.get("a")
        assert job is not None
        assert job.id == "a"
        await queue.aclose()
