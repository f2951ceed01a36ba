from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from images import Library
from mmconv.config import ModelSpec, RunSpec, load_model
from mmconv.errors import ConfigError
from mmconv.runner import Seat
from mmconv.service.models import Models, guides_output
from mmconv.tally import SeatTally
from mmconv.values import Message, Reply, Sampling, Text

SLOW: dict[str, Any] = {
    "provider": "fake",
    "model": "slow",
    "max_concurrency": 2,
    "options": {"seconds": 0.1},
}
HELLO = (Message(role="user", parts=(Text(text="hello"),)),)


def models(**specs: dict[str, Any]) -> Models:
    return Models({name: ModelSpec.model_validate(spec) for name, spec in specs.items()}, Library())


def run_spec(**seats: dict[str, Any]) -> RunSpec:
    return RunSpec.model_validate({"benchmark": "convbench", "seats": seats})


async def ask(seat: Seat, trial: int = 0) -> Any:
    return await seat.model.ask(
        HELLO,
        Sampling(trial=trial),
        priority=0,
        affinity="x",
        pinned=None,
        tally=SeatTally(),
    )


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that were really opened or closed, in order."""
    import model_zoo.fake as fake

    events: list[str] = []
    really = fake.open_backend

    async def open_backend(spec: ModelSpec, images: Any) -> Any:
        events.append("open")
        return await really(spec, images)

    async def aclose(self: fake.FakeBackend) -> None:
        events.append("close")

    monkeypatch.setattr(fake, "open_backend", open_backend)
    monkeypatch.setattr(fake.FakeBackend, "aclose", aclose)
    return events


async def test_a_model_is_opened_once_for_requests_and_runs(opened: list[str]) -> None:
    zoo = models(slow=SLOW, kind=SLOW | {"name": "kind", "system": "Be kind."})
    assert opened == []
    lent = zoo.lend(run_spec(candidate=SLOW, judge=SLOW))
    assert lent["candidate"].model is lent["judge"].model
    seats = [zoo.seat("slow"), zoo.seat("kind"), lent["candidate"]]
    await asyncio.gather(*map(ask, seats))
    assert opened == ["open"]
    await zoo.aclose()
    assert opened == ["open", "close"]


async def test_a_run_that_stops_and_closes_its_models_leaves_others_be(opened: list[str]) -> None:
    zoo = models(slow=SLOW)
    run, other = (zoo.lend(run_spec(candidate=SLOW))["candidate"] for _ in range(2))
    asking = [asyncio.create_task(ask(seat)) for seat in (run, other, zoo.seat("slow"))]
    await asyncio.sleep(0.02)
    run.model.stop()
    await run.model.aclose()
    assert all(isinstance(outcome, Reply) for outcome in await asyncio.gather(*asking))
    assert isinstance(await ask(zoo.seat("slow")), Reply)
    assert opened == ["open"]


async def test_all_borrowers_share_the_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    from model_zoo.fake import FakeBackend

    under_way = most = 0
    really = FakeBackend.generate

    async def generate(self: FakeBackend, *args: Any, **kwargs: Any) -> Reply:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return await really(self, *args, **kwargs)
        finally:
            under_way -= 1

    monkeypatch.setattr(FakeBackend, "generate", generate)
    zoo = models(slow=SLOW)
    seats = [zoo.seat("slow"), zoo.lend(run_spec(candidate=SLOW))["candidate"]]
    await asyncio.gather(*(ask(seat, trial) for seat in seats for trial in range(4)))
    assert most == 2


def test_a_runs_sampling_goes_before_the_models_own() -> None:
    spec = SLOW | {"sampling": {"temperature": 0.5, "max_tokens": 7}}
    run = run_spec(candidate=spec).model_copy(
        update={
            "sampling": RunSpec.model_validate(
                {
                    "benchmark": "x",
                    "seats": {"candidate": spec},
                    "sampling": {"candidate": {"max_tokens": 9}},
                }
            ).sampling
        }
    )
    zoo = models(slow=spec)
    assert zoo.seat("slow").sampling == {"temperature": 0.5, "max_tokens": 7}
    assert zoo.lend(run)["candidate"].sampling == {"temperature": 0.5, "max_tokens": 9}


def test_options_are_checked_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no_such"):
        models(bad={"provider": "fake", "model": "echo", "options": {"no_such": 1}})
    with pytest.raises(ConfigError, match="no such folder"):
        models(bad={"provider": "hf", "model": str(tmp_path / "missing")})


def test_of_the_fakes_only_the_judge_is_held_to_a_schema() -> None:
    held = {name: guides_output(load_model(f"fake/{name}")) for name in ("echo", "judge", "slow")}
    assert held == {"echo": False, "judge": True, "slow": False}
