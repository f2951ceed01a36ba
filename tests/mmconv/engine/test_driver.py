"""The driver against a scripted backend: order, reuse, failures, rescues, stopping."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import pytest

from judges.parsers import rating
from judges.parsers.cmteval import TurnsParser
from mmconv.core.errors import Refused, Transient, Unparsed
from mmconv.core.plans import Finished, Plan
from mmconv.core.run_stats import RunStats
from mmconv.core.types import (
    SAME_TEXT,
    UNASKED,
    Call,
    Failure,
    Message,
    Outcome,
    Parser,
    Ref,
    Reply,
    Sampling,
    Skipped,
    Text,
    Verdict,
)
from mmconv.engine import Model, RoleModel, Runner
from mmconv.store import Store
from tests.messages import Messages, message, user

Answer = Callable[[str, Sampling], Reply]


class Scripted:
    """Answers by a function of the last message's text; remembers prompts and affinities."""

    def __init__(self, answer: Answer, *, most: int = 4, seconds: float = 0.0) -> None:
        self.answer = answer
        self.max_concurrency = most
        self.seconds = seconds
        self.prompts: list[list[tuple[str, str]]] = []
        self.affinities: list[str] = []
        self.busy = self.busiest = 0

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        self.prompts.append([(message.role, text_of(message)) for message in messages])
        self.affinities.append(affinity)
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        try:
            await asyncio.sleep(self.seconds)
            return self.answer(text_of(messages[-1]), sampling)
        finally:
            self.busy -= 1

    async def aclose(self) -> None:
        pass


class Gathering(Scripted):
    """Answers nobody before all of its slots are taken."""

    def __init__(self, answer: Answer, *, most: int) -> None:
        super().__init__(answer, most=most, seconds=0.005)
        self.taken = 0
        self.full = asyncio.Event()

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        self.taken += 1
        if self.taken == self.max_concurrency:
            self.full.set()
        async with asyncio.timeout(10):
            await self.full.wait()
        return await super().generate(messages, sampling, affinity=affinity)


def text_of(message: Message) -> str:
    assert all(isinstance(part, Text) for part in message.parts)
    return "".join(part.text for part in message.parts if isinstance(part, Text))


def shout(text: str, sampling: Sampling) -> Reply:
    return Reply(text=f"{text.upper()}.{sampling.trial}")


def call(name: str, *parts: str | Ref, **options: object) -> Call:
    return Call(id=name, model="candidate", messages=(user(*parts),), **options)  # type: ignore[arg-type]  # options are Call's own fields


def raising(error: BaseException) -> Answer:
    def answer(text: str, sampling: Sampling) -> Reply:
        raise error

    return answer


REFUSING = raising(Refused("rejected", "no such model"))


def chain_of_two(order: int = 0, word: str = "hello") -> Plan:
    calls = (call("second", "after ", Ref(call="first")), call("first", word))
    return Plan(order=order, sample=str(order), condition="free", calls=calls)


def model_for(
    backend: Scripted, *, attempts: int = 8, system: str | None = None, seed: int | None = None
) -> RoleModel:
    async def open_backend() -> Scripted:
        return backend

    model = Model("scripted", open_backend, attempts)
    return RoleModel(model=model, system=system, sampling={} if seed is None else {"seed": seed})


async def run(
    store: Store, backend: Scripted, plans: Sequence[Plan], role: RoleModel | None = None
) -> list[Finished]:
    runner = Runner({"candidate": role or model_for(backend)}, store)
    done: list[Finished] = []
    await runner.run(plans, done.append)
    assert runner.stats.finished == len(plans)
    return sorted(done, key=lambda finished: finished.plan.order)


async def run_calls(
    store: Store, backend: Scripted, *calls: Call, offline: bool = False
) -> tuple[Mapping[str, Outcome], RunStats]:
    """The outcomes of one conversation."""
    runner = Runner({"candidate": model_for(backend)}, store, offline=offline)
    done: list[Finished] = []
    await runner.run([Plan(order=0, sample="0", condition="f", calls=calls)], done.append)
    assert runner.stats.finished == 1
    return done[0].outcomes, runner.stats


async def test_a_dependent_call_sees_the_reply(store: Store) -> None:
    [finished] = await run(store, Scripted(shout), [chain_of_two()])
    second = finished.outcomes["second"]
    assert isinstance(second, Reply)
    assert second.text == "AFTER HELLO.0.0"


async def test_what_is_stored_is_not_asked_again(store: Store) -> None:
    first, second = Scripted(shout), Scripted(shout)
    [before] = await run(store, first, [chain_of_two()])
    [after] = await run(store, second, [chain_of_two()])
    assert second.prompts == []
    assert after.outcomes == before.outcomes
    assert all(each.cached for each in after.resolved.values())


async def test_a_reply_is_committed_before_its_dependent_starts(store: Store) -> None:
    seen: list[bool] = []
    committed: list[str] = []
    put = store.put

    async def watched(key: str, fingerprint: str, reply: Reply) -> Reply:
        kept = await put(key, fingerprint, reply)
        committed.append(kept.text)
        return kept

    store.put = watched  # type: ignore[method-assign]  # the test watches commits

    def answer(text: str, sampling: Sampling) -> Reply:
        if text.startswith("after"):
            seen.append("HELLO.0" in committed)
        return shout(text, sampling)

    await run(store, Scripted(answer), [chain_of_two()])
    assert seen == [True]


async def test_failure_is_a_value_and_skips_what_needs_it(store: Store) -> None:
    backend = Scripted(REFUSING)
    a, b, c = call("a", "x"), call("b", Ref(call="a")), call("c", Ref(call="b"), Ref(call="a"))
    outcomes, _ = await run_calls(store, backend, a, b, c, call("d", "y"))
    assert outcomes["a"] == Failure(kind="rejected", message="no such model", attempts=1)
    assert outcomes["b"] == outcomes["c"] == Skipped(because="a")
    assert all("no such model" not in text for prompt in backend.prompts for _, text in prompt)
    assert len(backend.prompts) == 2


async def test_a_failed_call_is_asked_again_in_the_next_run(store: Store) -> None:
    await run(store, Scripted(REFUSING), [chain_of_two()])
    [finished] = await run(store, Scripted(shout), [chain_of_two()])
    assert isinstance(finished.outcomes["second"], Reply)


@pytest.mark.usefixtures("without_jitter")
async def test_transient_failures_are_retried_and_then_given_up(store: Store) -> None:
    asked = 0

    def flaky(text: str, sampling: Sampling) -> Reply:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise Transient("server", "500", retry_after=0.0)
        return shout(text, sampling)

    [finished] = await run(store, Scripted(flaky), [chain_of_two()])
    assert isinstance(finished.outcomes["second"], Reply)

    backend = Scripted(raising(Transient("timeout", "slow", retry_after=0.0)))
    role = model_for(backend, attempts=2)
    [finished] = await run(store, backend, [chain_of_two(word="other")], role)
    assert finished.outcomes["first"] == Failure(kind="timeout", message="slow", attempts=2)


async def test_slots_bound_what_is_under_way(store: Store) -> None:
    backend = Gathering(shout, most=3)
    await run(store, backend, [chain_of_two(order, f"w{order}") for order in range(12)])
    assert backend.busiest == 3


async def test_a_waiting_retry_holds_no_slot(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    others_answered = asyncio.Event()

    async def wait(model: Model, seconds: float) -> None:
        async with asyncio.timeout(10):
            await others_answered.wait()

    def first_fails(text: str, sampling: Sampling) -> Reply:
        if len(backend.prompts) == 1:
            raise Transient("server", "busy")
        if len(backend.prompts) == 7:
            others_answered.set()
        return shout(text, sampling)

    monkeypatch.setattr(Model, "_wait", wait)
    backend = Scripted(first_fails, most=1)
    await run(store, backend, [chain_of_two(order, f"w{order}") for order in range(4)])
    assert len(backend.prompts) == 9


def read_seven(text: str) -> Verdict:
    if "7" not in text:
        raise Unparsed("no 7")
    return Verdict(scores={"rating": 7.0})


async def test_rescues_are_asked_in_order_until_one_can_be_read(store: Store) -> None:
    fallbacks = (
        call("judge~1", "again", parser=read_seven),
        call("judge~2", "extract 7 from ", Ref(call="judge"), parser=read_seven),
        call("judge~3", "never", parser=read_seven),
    )
    judged = call("judge", "verdict?", parser=read_seven, fallbacks=fallbacks)
    backend = Scripted(shout)
    outcomes, _ = await run_calls(store, backend, judged, call("overall", Ref(call="judge")))
    assert set(outcomes) == {"judge", "judge~1", "judge~2", "overall"}
    assert [prompt[-1][1] for prompt in backend.prompts].count("never") == 0


@pytest.mark.parametrize(
    ("verdict", "offline", "outcome"),
    [("7?", False, Reply), ("no", False, Failure), ("never asked", True, Skipped)],
)
async def test_no_rescue_for_a_readable_verdict_or_where_there_is_no_reply(
    store: Store, verdict: str, offline: bool, outcome: type[Outcome]
) -> None:
    def answer(text: str, sampling: Sampling) -> Reply:
        if text == "no":
            raise Refused("context", "too long")
        return shout(text, sampling)

    backend = Scripted(answer)
    fallback = call("judge~1", "again", parser=read_seven)
    judged = call("judge", verdict, parser=read_seven, fallbacks=(fallback,))
    outcomes, _ = await run_calls(store, backend, judged, offline=offline)
    assert {name: type(end) for name, end in outcomes.items()} == {"judge": outcome}
    assert len(backend.prompts) == (not offline)


async def test_a_bug_stops_the_run_and_keeps_what_was_answered(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store.sqlite"))

    def buggy(text: str, sampling: Sampling) -> Reply:
        if text == "w5":
            raise ZeroDivisionError("a bug")
        return shout(text, sampling)

    plans = [chain_of_two(order, f"w{order}") for order in range(8)]
    with pytest.raises(ZeroDivisionError):
        await run(store, Scripted(buggy, most=1), plans)
    await store.aclose()
    store = Store(str(tmp_path / "store.sqlite"))
    healthy = Scripted(shout)
    await run(store, healthy, plans)
    await store.aclose()
    assert ["user", "w0"] not in [list(prompt[-1]) for prompt in healthy.prompts]


async def test_a_chain_of_any_length_is_skipped_behind_a_failure(store: Store) -> None:
    later = (call(f"{number}", Ref(call=f"{number - 1}")) for number in range(1, 3000))
    outcomes, _ = await run_calls(store, Scripted(REFUSING), call("0", "hello"), *later)
    assert outcomes["2999"] == Skipped(because="0")
    assert len(outcomes) == 3000


async def test_stop_keeps_what_is_under_way_and_asks_nothing_more(store: Store) -> None:
    def answer(text: str, sampling: Sampling) -> Reply:
        runner.stop()
        return shout(text, sampling)

    backend = Gathering(answer, most=2)
    runner = Runner({"candidate": model_for(backend)}, store, window=4)
    plans = [chain_of_two(order, f"w{order}") for order in range(50)]
    assert not await runner.run(plans, lambda _: None)
    assert len(backend.prompts) == 2
    again = Scripted(shout)
    await run(store, again, plans)
    texts = [prompt[-1][1] for prompt in again.prompts]
    assert not {prompt[-1][1] for prompt in backend.prompts} & set(texts)


async def test_offline_asks_nothing(store: Store) -> None:
    backend = Scripted(shout)
    outcomes, _ = await run_calls(store, backend, *chain_of_two().calls, offline=True)
    assert backend.prompts == []
    unasked = Skipped(because=UNASKED, reason="unrequested")
    assert outcomes == {"first": unasked, "second": unasked}


async def test_history_is_shortened_only_when_the_call_says_so(store: Store) -> None:
    def tight(text: str, sampling: Sampling) -> Reply:
        if len(backend.prompts[-1]) > 3:
            raise Refused("context", "too long")
        return Reply(text="fits")

    history = [message("system", "s"), *(user(f"m{number}") for number in range(4))]
    backend = Scripted(tight)
    ways: tuple[Literal["fail", "drop_oldest"], ...] = ("fail", "drop_oldest")
    for overflow in ways:
        one = Call(id="a", model="candidate", messages=tuple(history), overflow=overflow)
        outcomes, _ = await run_calls(store, backend, one)
        outcome = outcomes["a"]
        if overflow == "fail":
            assert isinstance(outcome, Failure)
            assert outcome.kind == "context"
        else:
            assert isinstance(outcome, Reply)
            assert outcome.dropped == 2
    assert backend.prompts[-1] == [("system", "s"), ("user", "m2"), ("user", "m3")]


async def test_the_models_system_prompt_and_sampling_are_part_of_the_key(store: Store) -> None:
    plain, other = Scripted(shout), Scripted(shout)
    await run(store, plain, [chain_of_two()])
    await run(store, other, [chain_of_two()], model_for(other, system="Be brief.", seed=3))
    assert len(other.prompts) == 2
    assert other.prompts[0][0] == ("system", "Be brief.")


async def test_texts_that_come_out_equal_are_not_compared(store: Store) -> None:
    answers = {"one": "yes", "two": "yes", "three": "no"}
    backend = Scripted(lambda text, _: Reply(text=answers.get(text, "compared")))
    said = [call(word, word) for word in answers]
    one, two, three = (Ref(call=word) for word in answers)
    equal = call("equal", one, two, compares=((one,), (two,)))
    different = call("different", one, three, compares=((one,), (three,)))
    outcomes, stats = await run_calls(store, backend, *said, equal, different)
    assert outcomes["equal"] == Skipped(because=SAME_TEXT, reason="same_text")
    assert isinstance(outcomes["different"], Reply)
    assert (stats.stop_reason, stats.lost, stats.model("candidate").needless) == (None, 0, 1)
    assert len(backend.prompts) == 4


TURN = '{"轮次": 1, "统筹能力": 4, "适应能力": 5}'


@pytest.mark.parametrize(
    ("parser", "reply", "asked"),
    [
        (rating, Reply(text="Rating: 9\nThat is", finish="length"), 2),
        (rating, Reply(text="Rating: 9\nThat is."), 1),
        (rating, Reply(text="Good.\nRating: 9\n", finish="length"), 1),
        (TurnsParser(turns=2), Reply(text=TURN), 2),
        (TurnsParser(turns=1), Reply(text=TURN), 1),
    ],
)
async def test_a_judge_is_asked_again_for_a_whole_verdict(
    store: Store, parser: Parser, reply: Reply, asked: int
) -> None:
    backend = Scripted(lambda _text, _sampling: reply)
    retry = call("judge~retry_1", "verdict?", sampling=Sampling(trial=1), parser=parser)
    judged = call("judge", "verdict?", parser=parser, fallbacks=(retry,))
    outcomes, stats = await run_calls(store, backend, judged)
    assert len(outcomes) == len(backend.prompts) == asked
    assert stats.planned == stats.ended == asked


async def test_a_retry_that_fails_is_followed_by_the_next(store: Store) -> None:
    def answer(text: str, _sampling: Sampling) -> Reply:
        if text == "again":
            raise Refused("context", "too long")
        return Reply(text="Rating: 9" if text == "extract" else "I cannot say")

    fallbacks = (call("judge~1", "again", parser=rating), call("judge~2", "extract", parser=rating))
    judged = call("judge", "verdict?", parser=rating, fallbacks=fallbacks)
    outcomes, _ = await run_calls(store, Scripted(answer), judged)
    kinds = {name: type(outcome) for name, outcome in outcomes.items()}
    assert kinds == {"judge": Reply, "judge~1": Failure, "judge~2": Reply}
