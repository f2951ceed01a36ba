"""Which replies of a judge are asked for again: unreadable, cut off, and incomplete ones."""

from __future__ import annotations

import pytest

from judges.parsers import rating
from judges.parsers.cmteval import TurnsParser
from mmconv.core.errors import Refused
from mmconv.core.plans import Finished, Plan
from mmconv.core.types import Call, Failure, Message, Parser, Reply, Sampling, Text
from mmconv.engine import Runner
from mmconv.store import Store
from tests.mmconv.engine.test_driver import Scripted, model_for

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
    message = Message(role="user", parts=(Text(text="verdict?"),))
    retry = Call(
        id="judge~retry_1",
        model="candidate",
        messages=(message,),
        sampling=Sampling(trial=1),
        parser=parser,
    )
    call = Call(
        id="judge", model="candidate", messages=(message,), parser=parser, fallbacks=(retry,)
    )
    plan = Plan(order=0, sample="0", condition="free", calls=(call,))
    done: list[Finished] = []
    runner = Runner({"candidate": model_for(backend)}, store)
    await runner.run([plan], done.append)
    assert len(done[0].outcomes) == len(backend.prompts) == asked
    assert runner.stats.planned == runner.stats.ended == asked


async def test_a_retry_that_fails_is_followed_by_the_next(store: Store) -> None:
    def answer(text: str, _sampling: Sampling) -> Reply:
        if text == "again":
            raise Refused("context", "too long")
        return Reply(text="Rating: 9" if text == "extract" else "I cannot say")

    def asking(name: str, text: str, fallbacks: tuple[Call, ...] = ()) -> Call:
        message = Message(role="user", parts=(Text(text=text),))
        return Call(
            id=name, model="candidate", messages=(message,), parser=rating, fallbacks=fallbacks
        )

    fallbacks = asking("judge~1", "again"), asking("judge~2", "extract")
    plan = Plan(
        order=0, sample="0", condition="free", calls=(asking("judge", "verdict?", fallbacks),)
    )
    done: list[Finished] = []
    await Runner({"candidate": model_for(Scripted(answer))}, store).run([plan], done.append)
    kinds = {name: type(outcome) for name, outcome in done[0].outcomes.items()}
    assert kinds == {"judge": Reply, "judge~1": Failure, "judge~2": Reply}
