"""What the records of a run count while they are taken in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from judges.parsers import rating
from mmconv.plans import Finished, Plan
from mmconv.report.output import RunFolder
from mmconv.values import Call, Failure, Outcome, Reply

READABLE = Reply(text="Good. Rating: [[7]]")
UNREADABLE = Reply(text="Who am I to say?")


def finished(order: int, outcomes: Mapping[str, Outcome]) -> Finished:
    """A plan of an answer and its judgement, which may be asked for once more."""
    answer = Call(id="answer", seat="candidate", messages=())
    rescue = Call(id="judgement~retry_1", seat="judge", messages=(), parser=rating)
    judgement = replace(rescue, id="judgement", rescues=(rescue,))
    plan = Plan(order=order, sample=str(order), condition="free", calls=(answer, judgement))
    return Finished(plan=plan, outcomes=outcomes, asked={})


def test_a_verdict_is_unread_if_none_of_its_replies_can_be_read(tmp_path: Path) -> None:
    answered: dict[str, Outcome] = {"answer": UNREADABLE}
    failed = Failure(kind="server", message="down", attempts=8)
    all_judged: tuple[dict[str, Outcome], ...] = (
        {"judgement": READABLE},
        {"judgement": UNREADABLE, "judgement~retry_1": READABLE},
        {"judgement": UNREADABLE, "judgement~retry_1": UNREADABLE},
        {"judgement": UNREADABLE, "judgement~retry_1": failed},
        {"judgement": failed},
    )
    with RunFolder(tmp_path / "run").records() as records:
        for order, judged in enumerate(all_judged):
            records.add(finished(order, answered | judged), ())
    counted = records.shortfall
    assert (counted.verdicts, counted.unread, counted.again) == (4, 2, 1)
    assert (counted.calls, counted.failed, counted.skipped) == (13, 2, 0)
