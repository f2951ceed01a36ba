"""Models: loaded once, lent to runs, refused without a key, and what their failures stop."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from images import ImageStore
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.run_stats import ModelStats
from mmconv.core.types import Reply, Sampling
from mmconv.engine import RoleModel
from mmconv.engine.limiter import Stopped
from mmconv.service.openapi import EXAMPLES
from mmconv.service.state import ModelPool
from mmconv.store.jobs import Filter
from model_zoo.openai_api.client import ChatClient
from model_zoo.providers import provider_of
from model_zoo.simulated import fake
from tests.messages import user
from tests.mmconv.service.conftest import MODELS, Serve
from tests.mmconv.service.run_settings import drawn, ended, request, until
from tests.mock_server import mock_server

SLOW: dict[str, Any] = {
    "provider": "fake",
    "model": "slow",
    "max_concurrency": 2,
    "options": {"seconds": 0.1},
}
HELLO = (user("hello"),)


def pool(**specs: dict[str, Any]) -> ModelPool:
    return ModelPool(
        {name: ModelSpec.model_validate(spec) for name, spec in specs.items()}, ImageStore()
    )


def run_spec(**roles: dict[str, Any]) -> RunSpec:
    return RunSpec.model_validate({"benchmark": "convbench", "models": roles})


async def ask(role: RoleModel, trial: int = 0) -> Any:
    return await role.model.ask(
        HELLO, Sampling(trial=trial), priority=0, affinity="x", pinned=None, stats=ModelStats()
    )


class Held:
    """The calls that fakes were asked, which end together."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_end = asyncio.Event()

    async def generate(self, *_: Any, **__: Any) -> Reply:
        self.asked += 1
        await self.may_end.wait()
        return Reply(text="yes")


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    calls = Held()
    monkeypatch.setattr(fake.FakeBackend, "generate", calls.generate)
    return calls


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that were really opened or closed, in order."""
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
    paid = {"price": {"input": 1, "output": 2}}
    zoo = pool(slow=SLOW, kind=SLOW | {"name": "kind", "system": "Be kind."} | paid)
    assert opened == []
    lent = zoo.lend(run_spec(candidate=SLOW, judge=SLOW))
    assert lent["candidate"].model is lent["judge"].model
    roles = [zoo.roles["slow"], zoo.roles["kind"], lent["candidate"]]
    await asyncio.gather(*map(ask, roles))
    assert opened == ["open"]
    await zoo.aclose()
    assert opened == ["open", "close"]


@dataclass(slots=True)
class Loading:
    """How models load: for as long as the test holds them up, and to an end in `fault`, if any."""

    done: asyncio.Event = field(default_factory=asyncio.Event)
    fault: ConfigError | None = None


@pytest.fixture
def loading(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> Loading:
    how = Loading()
    really = fake.open_backend

    async def open_backend(spec: ModelSpec, images: Any) -> Any:
        backend = await really(spec, images)
        try:
            await how.done.wait()
        except asyncio.CancelledError:
            opened.append("ended")
            raise
        if how.fault is not None:
            raise how.fault
        return backend

    monkeypatch.setattr(fake, "open_backend", open_backend)
    return how


async def test_a_model_is_loaded_though_all_give_up(opened: list[str], loading: Loading) -> None:
    zoo = pool(slow=SLOW)
    run = zoo.lend(run_spec(candidate=SLOW))["candidate"]
    for role in (zoo.roles["slow"], run, zoo.roles["slow"]):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ask(role), 0.01)
    run.model.stop()
    await run.model.aclose()
    asking = asyncio.create_task(ask(zoo.roles["slow"]))
    loading.done.set()
    assert isinstance(await asking, Reply)
    assert opened == ["open"]


async def test_a_model_that_could_not_be_loaded_is_told_and_tried_again(
    opened: list[str], loading: Loading, caplog: pytest.LogCaptureFixture
) -> None:
    zoo = pool(slow=SLOW)
    loading.fault = ConfigError("too large")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ask(zoo.roles["slow"]), 0.01)
    loading.done.set()
    await until(lambda: "model slow cannot be opened: too large" in caplog.text)
    with pytest.raises(ConfigError, match="too large"):
        await ask(zoo.roles["slow"])
    loading.fault = None
    assert isinstance(await ask(zoo.roles["slow"]), Reply)
    assert opened == ["open"] * 3


@pytest.mark.usefixtures("loading")
async def test_what_still_loads_at_the_end_is_ended(opened: list[str]) -> None:
    zoo = pool(slow=SLOW)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ask(zoo.roles["slow"]), 0.01)
    assert opened == ["open"]
    await zoo.aclose()
    assert opened == ["open", "ended"]


async def test_a_run_that_closes_its_models_spares_others(opened: list[str], held: Held) -> None:
    zoo = pool(slow=SLOW)
    run, other = (zoo.lend(run_spec(candidate=SLOW))["candidate"] for _ in range(2))
    asking = [asyncio.create_task(ask(role)) for role in (run, other, zoo.roles["slow"])]
    await until(lambda: held.asked == 2)
    run.model.stop()
    await run.model.aclose()
    held.may_end.set()
    assert all(isinstance(outcome, Reply) for outcome in await asyncio.gather(*asking))
    assert isinstance(await ask(zoo.roles["slow"]), Reply)
    assert opened == ["open"]


async def test_a_run_that_is_stopped_asks_nothing_that_waits_for_others(held: Held) -> None:
    """Its calls have a slot of its own, and none of those that all borrowers share."""
    zoo = pool(slow=SLOW)
    busy, stopped = (zoo.lend(run_spec(candidate=SLOW))["candidate"] for _ in range(2))
    answered = [asyncio.create_task(ask(busy, trial)) for trial in range(2)]
    await until(lambda: held.asked == 2)
    waiting = [asyncio.create_task(ask(stopped, trial)) for trial in range(2)]
    await asyncio.sleep(0.05)
    stopped.model.stop()
    async with asyncio.timeout(5):
        info = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in info] == [Stopped, Stopped]
    held.may_end.set()
    assert [each.text for each in await asyncio.gather(*answered)] == ["yes", "yes"]
    assert held.asked == 2
    assert isinstance(await ask(busy, 2), Reply)


async def test_all_borrowers_share_the_slots(held: Held) -> None:
    zoo = pool(slow=SLOW)
    roles = [zoo.roles["slow"], zoo.lend(run_spec(candidate=SLOW))["candidate"]]
    asking = [asyncio.create_task(ask(role, trial)) for role in roles for trial in range(4)]
    await until(lambda: held.asked == 2)
    await asyncio.sleep(0.05)
    assert held.asked == 2
    held.may_end.set()
    await asyncio.gather(*asking)
    assert held.asked == 8


def test_a_runs_sampling_goes_before_the_models_own() -> None:
    spec = SLOW | {"sampling": {"temperature": 0.5, "max_tokens": 7}}
    run = RunSpec.model_validate(
        {
            "benchmark": "x",
            "models": {"candidate": spec},
            "sampling": {"candidate": {"max_tokens": 9}},
        }
    )
    zoo = pool(slow=spec)
    assert zoo.roles["slow"].sampling == {"temperature": 0.5, "max_tokens": 7}
    assert zoo.lend(run)["candidate"].sampling == {"temperature": 0.5, "max_tokens": 9}


def test_a_runs_seed_is_that_of_its_answers() -> None:
    run = run_spec(candidate=SLOW).model_copy(update={"seed": 5})
    zoo = pool(slow=SLOW)
    drawn = Sampling(temperature=1.0)
    assert zoo.lend(run)["candidate"].prompt(HELLO, drawn)[1].seed == 5
    assert zoo.roles["slow"].prompt(HELLO, drawn)[1].seed is None


def test_options_are_checked_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no_such"):
        pool(bad={"provider": "fake", "model": "echo", "options": {"no_such": 1}})
    with pytest.raises(ConfigError, match="no such folder"):
        pool(bad={"provider": "hf", "model": str(tmp_path / "missing")})


@pytest.mark.parametrize(
    ("spec", "guided"),
    [
        ({"provider": "fake", "model": "echo"}, False),
        ({"provider": "fake", "model": "judge"}, True),
        ({"provider": "openai", "model": "m"}, False),
        ({"provider": "openai", "model": "m", "options": {"guided_json": True}}, True),
        ({"provider": "vllm", "model": "m"}, True),
        ({"provider": "vllm", "model": "m", "options": {"guided_json": False}}, False),
        # One that runs already is asked as any other server is.
        ({"provider": "vllm", "model": "m", "base_url": "http://h:1/v1"}, False),
        ({"provider": "hf", "model": "m"}, False),
    ],
)
def test_whose_replies_are_held_to_a_schema(spec: dict[str, Any], guided: bool) -> None:
    model = ModelSpec.model_validate(spec)
    assert provider_of(model).guides_output(model) is guided


async def test_only_the_clients_seed_is_sent(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    async def answer(_self: Any, _messages: Any, sampling: Any, **_: Any) -> Reply:
        sent.append(sampling.seed)
        return Reply(text="x", finish="stop", seconds=0.1)

    monkeypatch.setattr(ChatClient, "generate", answer)
    away = {"provider": "openai", "model": "far", "base_url": "http://127.0.0.1:9/v1"}
    served = await serve(models={"far": away})
    for fields in ({}, {"seed": 3}):
        body = {"model": "far", "messages": [{"role": "user", "content": "hi"}]} | fields
        answered = await served.client.post("/v1/chat/completions", json=body)
        assert answered.status_code == 200, answered.text
    assert sent == [None, 3]


KEYLESS = {"provider": "openai", "model": "x", "api_key_env": "MMCONV_NO_SUCH_KEY"}
SAID = [{"role": "user", "content": "Hello"}]
ONE_TURN = [{"instruction": "What is it?", "reference": "A kite."}]
REQUESTS: list[tuple[str, dict[str, Any], str]] = [
    ("chat/completions", {"model": "keyless", "messages": SAID}, "model"),
    ("dialogues", {"model": "keyless", "turns": ONE_TURN}, "model"),
    ("dialogues", {"model": "echo", "judge": "keyless", "turns": ONE_TURN}, "judge"),
    (
        "judgements",
        {**next(iter(EXAMPLES["POST /v1/judgements"].values())), "judge": "keyless"},
        "judge",
    ),
    ("runs", request(models={"candidate": "keyless", "judge": "judge"}), "models.candidate"),
]


@pytest.mark.parametrize(("path", "body", "param"), REQUESTS)
@pytest.mark.parametrize("calls", [0, 100])
async def test_it_is_refused_by_name_and_nothing_is_queued(
    serve: Serve, tmp_path: Path, path: str, body: dict[str, Any], param: str, calls: int
) -> None:
    models = {"keyless": KEYLESS}
    served = await serve(models=models, data=drawn(tmp_path), synchronous_calls=calls)
    refused = await served.client.post(f"/v1/{path}", json=body)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (409, "model_unusable", param)
    assert "'keyless'" in error["message"]
    assert "MMCONV_NO_SUCH_KEY" not in refused.text
    assert await served.shared.queue.page(Filter()) == []


async def test_it_is_marked_in_the_list(serve: Serve) -> None:
    served = await serve(models={"keyless": KEYLESS})
    listed = (await served.client.get("/v1/models")).json()["data"]
    assert {card["id"]: card["usable"] for card in listed} == {
        **dict.fromkeys(MODELS, True),
        "keyless": False,
    }
    one = await served.client.get("/v1/models/keyless")
    assert one.json()["usable"] is False


TOLD = (
    "candidate (lost) cannot answer: 3 calls failed in a row: "
    "the model's server does not have the model"
)


@pytest.fixture
def lost() -> Iterator[dict[str, Any]]:
    """A model that its server does not have at this address."""
    with mock_server() as url:
        address = url.replace("/v1", "/v2")
        yield {"provider": "openai", "model": "checkpoints/llava", "base_url": address}


async def test_a_run_fails_and_names_the_model(
    serve: Serve, tmp_path: Path, lost: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    served = await serve(data=drawn(tmp_path), models={"lost": lost})
    asked = request(models={"candidate": "lost", "judge": "judge"})
    run = (await served.client.post("/v1/runs", json=asked)).json()["id"]
    info = await ended(served.client, run)
    assert (info["state"], info["error"]) == ("failed", TOLD)
    assert "in a row: not_found after 1 attempt: HTTP 404" in caplog.text
