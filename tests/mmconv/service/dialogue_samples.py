"""A dialogue about one image, and its outcomes without any model."""

from collections.abc import Mapping
from typing import Any

from mmconv.benchmarks.dialogue import Dialogue
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.graph import check
from mmconv.core.plans import Finished, Plan, ResolvedCall
from mmconv.core.types import Image, Outcome, Reply, Skipped
from mmconv.service.dialogue_run import DialogueRequest, DialogueRun

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


def request(**fields: Any) -> DialogueRequest:
    return DialogueRequest.model_validate({**DOCUMENT, **fields})


def dialogue(*, judge: str = "fake/judge", **fields: Any) -> DialogueRun:
    """The run of a request without faults."""
    asked = request(**fields)
    assert list(asked.faults()) == []
    own = tuple((PICTURE,) * len(turn.images) for turn in asked.turns)
    images = ((PICTURE,) * len(asked.images) + own[0], *own[1:])
    provider, model = judge.split("/")
    roles = {"judge": ModelSpec(provider=provider, model=model)}
    options = {"data": "unused", **asked.options}
    benchmark = Dialogue(RunSpec(benchmark="dialogue", options=options, models=roles))
    return DialogueRun(request=asked, benchmark=benchmark, sample=asked.sample(images))


def finish(plan: Plan, replies: Mapping[str, Outcome]) -> Finished:
    """The plan with these outcomes; another call says its own name, unless it lacks an answer."""
    outcomes: dict[str, Outcome] = {}
    failed: set[str] = set()
    for call in check(plan.calls):
        lost = [outcomes[name] for name in call.needs if name in failed]
        if lost:
            failed.add(call.id)
            root = next((each.because for each in lost if isinstance(each, Skipped)), None)
            outcomes[call.id] = Skipped(because=root or min(call.needs & failed))
            continue
        outcomes[call.id] = replies.get(call.id, Reply(text=f"{call.id} says so."))
        if not isinstance(outcomes[call.id], Reply):
            failed.add(call.id)
    resolved = {
        call.id: ResolvedCall(
            call=call, key="", messages=call.messages, sampling=call.sampling, cached=False
        )
        for call in plan.calls
    }
    return Finished(plan=plan, outcomes=outcomes, resolved=resolved)
