"""Finished plans: the walk over their calls, where messages come from, scores of a trial."""

from dataclasses import replace
from typing import Any

from judges.parsers import rating
from mmconv.core.plans import Finished, Plan, ResolvedCall
from mmconv.core.types import Call, Message, Outcome, Ref, Reply, Sampling, Skipped, Text
from tests.messages import message

ANSWER = Call(id="answer", model="candidate", messages=())
AGAIN = Call(id="judgement~retry_1", model="judge", messages=(), parser=rating)
LAST = replace(AGAIN, id="judgement~retry_2")
JUDGEMENT = replace(AGAIN, id="judgement", fallbacks=(AGAIN, LAST))
LATER = replace(ANSWER, id="later")
PLAN = Plan(order=0, sample="7#2", condition="free", calls=(JUDGEMENT, ANSWER, LATER))


def test_rescues_come_after_what_they_rescue_whatever_ended_first() -> None:
    ended: dict[str, Outcome] = {
        "answer": Reply(text="Red."),
        "judgement": Reply(text="?"),
        "judgement~retry_1": Reply(text="[[3]]"),
        "later": Skipped(because="answer"),
    }
    resolved = {
        call.id: ResolvedCall(call=call, key=call.id, messages=(), sampling=Sampling(temperature=0))
        for call in (ANSWER, JUDGEMENT, AGAIN)
    }
    exchanges = list(Finished(plan=PLAN, outcomes=ended, resolved=resolved).exchanges())
    assert [each.call for each in exchanges] == [JUDGEMENT, AGAIN, ANSWER, LATER]
    assert [each.outcome for each in exchanges] == [ended[each.call.id] for each in exchanges]
    assert [each.resolved for each in exchanges] == [
        *map(resolved.get, (c.id for c in (JUDGEMENT, AGAIN, ANSWER, LATER)))
    ]


def said(role: Any, part: Text | Ref) -> Message:
    return message(role, part)


def test_where_messages_come_from() -> None:
    planned = (
        said("user", Text(text="What is it?")),
        said("assistant", Ref(call="turn_1")),
        said("user", Ref(call="turn_2")),
        said("assistant", Text(text="A kite.")),
    )
    system = said("system", Text(text="Be brief."))
    call = replace(ANSWER, messages=planned)

    def origins(call: Call) -> tuple[str, ...]:
        sampling = Sampling(temperature=0)
        return ResolvedCall(
            call=call, key="", messages=(system, *planned), sampling=sampling
        ).origins

    assert origins(call) == ("model_file", "given", "own", "given", "reference")
    assert origins(replace(call, prompt="direct@1"))[-1] == "prompt_file"
