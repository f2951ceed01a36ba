"""A dialogue about one picture, the prompts that judge it, and its outcomes without any model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judges import PromptSet
from mmconv.core.graph import check, dependencies
from mmconv.core.plans import Finished, Plan, ResolvedCall
from mmconv.core.types import Image, Outcome, Reply, Skipped
from mmconv.dialogues.plans import PROMPTS, Dialogue
from mmconv.dialogues.request import DialogueRequest

PICTURE = Image(sha256="ab" * 32, media_type="image/png", width=640, height=480)

TURNS = [
    {"instruction": "What is it?", "reference": "A kite."},
    {"instruction": "Why?", "reference": "For fun."},
    {"instruction": "Write a slogan.", "reference": "Fly high!", "focus_points": "A slogan?"},
]
DOCUMENT: dict[str, Any] = {
    "model": "model",
    "judge": "judge",
    "images": ["image:" + "ab" * 32],
    "caption": "A red kite.",
    "turns": TURNS,
    "conditions": ["free", "perception", "reasoning"],
}

SETS = {name: PromptSet(name) for name in PROMPTS}


def request(**fields: Any) -> DialogueRequest:
    return DialogueRequest.model_validate({**DOCUMENT, **fields})


def dialogue(**fields: Any) -> Dialogue:
    """The dialogue that a request without faults asks for."""
    asked = request(**fields)
    assert list(asked.faults()) == []
    own = tuple((PICTURE,) * len(turn.images) for turn in asked.turns)
    first = (PICTURE,) * len(asked.images) + own[0]
    return Dialogue.of(asked, (first, *own[1:]), SETS)


def finish(plan: Plan, replies: Mapping[str, Outcome]) -> Finished:
    """The plan with these outcomes; another call says its own name, unless it lacks an answer."""
    outcomes: dict[str, Outcome] = {}
    failed: set[str] = set()
    for call in check(plan.calls):
        lost = [outcomes[name] for name in dependencies(call) if name in failed]
        if lost:
            failed.add(call.id)
            root = next((each.because for each in lost if isinstance(each, Skipped)), None)
            outcomes[call.id] = Skipped(because=root or min(dependencies(call) & failed))
            continue
        outcomes[call.id] = replies.get(call.id, Reply(text=f"{call.id} says so."))
        if not isinstance(outcomes[call.id], Reply):
            failed.add(call.id)
    asked = {
        call.id: ResolvedCall(
            call=call, key="", messages=call.messages, sampling=call.sampling, cached=False
        )
        for call in plan.calls
    }
    return Finished(plan=plan, outcomes=outcomes, asked=asked)
