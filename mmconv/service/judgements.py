"""`/v1/judgements`: a run of any benchmark with one sample whose replies the request holds.

The judge gets the messages that a run of the benchmark sends, and its replies are cached under the
same keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field, ValidationError
from starlette.responses import Response

from judges import read_verdict
from mmconv.api import JudgedCall, JudgedScore, Judgement, JudgeReply
from mmconv.benchmarks.base import Benchmark, Sample
from mmconv.benchmarks.base.dataset import Choice, Dataset
from mmconv.benchmarks.base.results import NOT_JUDGED
from mmconv.benchmarks.base.sample import IMAGES, OpenImage
from mmconv.benchmarks.registry import CLASSES, find_class
from mmconv.core.config import CANDIDATE, ModelSpec, Strict
from mmconv.core.documents import name_place
from mmconv.core.errors import InputError, PlanError
from mmconv.core.graph import check
from mmconv.core.judges import JUDGE
from mmconv.core.plans import Plan
from mmconv.core.types import Call, Failure, Image, Outcome, Reply, Skipped
from mmconv.service.access import Caller, Chatter, Shared
from mmconv.service.errors import Problem, json_response, presentable, validation_problem
from mmconv.service.models import (
    check_answered,
    presentable_outcomes,
    run_plans,
    verdict_state,
)
from mmconv.service.openapi import documented
from mmconv.service.request_images import RequestImages, request_images
from mmconv.service.requests import (
    NOT_SENT,
    JsonRoute,
    Words,
    check_bounds,
    check_volume,
    while_connected,
)
from mmconv.service.run_requests import (
    build_benchmark,
    build_problem,
    check_options,
    convbench_only,
    is_offline,
    named_model,
    offline_judges,
    require_key,
)
from mmconv.service.settings import DataSpec
from mmconv.service.state import Service

router = APIRouter(prefix="/v1", tags=["judgements"], route_class=JsonRoute)

REPLAYED = "replayed"
"""The role of calls whose replies the request holds."""

NOT_MADE: Outcome = Skipped(because=NOT_JUDGED, reason="absent")
"""The outcome of calls of an ordinary run that are not made."""

Role = Annotated[str, Field(pattern=r"^[\w-]{1,64}$")]


class JudgementRequest(Strict):
    """Replies to be judged as `benchmark` judges them, under one of its conditions.

    `GET /v1/prompts` lists the benchmarks with the fields of their samples and options. Images of
    the sample are `image:<id>` or data URIs; its id, and a single image that the judge is not sent,
    may be left out. `replies` are texts by the ids of a run's calls, such as `turn_1`. Judgements
    whose replies are missing are left out. `calls` limits the judgements to these ids, such as
    `direct/turn_2`. `roles` names models besides the candidate that some of the replies are of.
    """

    benchmark: Literal[tuple(CLASSES)]  # type: ignore[valid-type]
    judge: Words
    sample: Mapping[str, Any]
    replies: Mapping[str, str] = Field(min_length=1)
    condition: str | None = None
    options: Mapping[str, Any] = Field(default_factory=dict)
    calls: tuple[Words, ...] | None = Field(default=None, min_length=1)
    roles: tuple[Role, ...] = Field(default=(), max_length=16)


@router.post("/judgements", response_model=Judgement, responses=documented(404, 409, 502, 503, 504))
async def add_judgement(
    body: JudgementRequest, request: Request, shared: Shared, caller: Chatter
) -> Response:
    """Judge replies to a sample of a benchmark: the scores and all verdicts with their reasons.

    Judgements that fail or cannot be read are part of the response. If no call was answered, the
    response is the first failure. Equal judgements, also of runs, come from the cache.
    """
    return json_response(await while_connected(request, judge(shared, caller, body)))


async def judge(shared: Service, caller: Caller, body: JudgementRequest) -> Judgement:
    """Call the judge. Raises `Problem`, also if the judge fails."""
    role = shared.model(body.judge, JUDGE)
    require_key(shared.settings.models[body.judge], body.judge, JUDGE)
    benchmark = _benchmark(shared, body)
    condition = body.condition or benchmark.conditions[0]
    with request_images(shared, caller.as_owner) as images:
        sample = await _read_sample(images, benchmark, body.sample)
        texts = {f"replies.{call_id}": text for call_id, text in body.replies.items()}
        length = check_bounds({"sample": sample, **texts}, shared.settings.sizes)
        check_volume(length, shared.settings.sizes.turns, "sample")
        planned = await asyncio.to_thread(_plan_calls, benchmark, sample, condition)
        plan = Plan(
            order=0,
            sample=sample.id,
            condition=condition,
            calls=_calls_to_make(body, planned),
            replies={call_id: Reply(text=text) for call_id, text in body.replies.items()},
        )
        roles = {JUDGE: role, REPLAYED: role}
        names = {JUDGE: body.judge}
        finished = await run_plans(shared, caller, roles, names, [plan], "judgement")
    check_answered(finished)
    calls = {call.id: call for call in plan.calls}
    outcomes = presentable_outcomes(finished[0])
    absent = dict.fromkeys((call.id for call in planned), NOT_MADE)
    results = benchmark.results(
        sample, condition, {call.id: call for call in planned} | calls, absent | outcomes
    )
    return Judgement(
        benchmark=body.benchmark,
        condition=condition,
        judge=body.judge,
        scores=tuple(
            JudgedScore(
                metric=score.metric,
                value=score.value,
                reason=score.why,
                turn=score.turn,
                tags=score.tags,
            )
            for score in benchmark.score(sample, results)
            if score.why != NOT_JUDGED
        ),
        judgements=tuple(_judged(call, outcomes) for call in plan.calls if call.parser is not None),
    )


def _benchmark(shared: Service, body: JudgementRequest) -> Benchmark[Any, Any]:
    """The benchmark as the request sets it up; raises `Problem`."""
    spec = named_model(shared.settings, body.judge, JUDGE)
    if is_offline(spec) and spec.provider not in offline_judges(body.benchmark):
        raise convbench_only(body.judge, JUDGE)
    check_options(shared.settings, DataSpec(benchmark=body.benchmark), body.options)
    known = find_class(body.benchmark).conditions
    if body.condition is not None and body.condition not in known:
        message = f"condition: {body.benchmark} has none of this name; there are: "
        raise Problem(400, message + ", ".join(known), param="condition")
    roles = (CANDIDATE, *body.roles)
    models = {role: ModelSpec(provider="replay", model="request", name=role) for role in roles}
    conditions = None if body.condition is None else (body.condition,)
    models[JUDGE] = spec
    return build_benchmark(shared.settings, body.benchmark, body.options, models, conditions)


async def _read_sample(
    images: RequestImages, benchmark: Benchmark[Any, Any], fields: Mapping[str, Any]
) -> Sample:
    """The sample in the field `sample` of a request, as the only one of the benchmark's dataset.

    Images are named as in all requests. The id and a single image may be left out. Raises
    `Problem`, naming the field.
    """
    kind = benchmark.sample_type
    document = dict(fields)
    for name, field in kind.model_fields.items():
        alias = field.validation_alias or name
        is_optional = name == "id" or (field.annotation is Image and field.is_required())
        if is_optional and name not in fields and alias not in fields:
            document[str(alias)] = "request" if name == "id" else NOT_SENT
    names: set[str] = set()

    def note(name: str) -> Image:
        names.add(name)
        return NOT_SENT

    sample = _validate(kind, document, note)
    opened = {
        text: await images.image(text, param)
        for param, text in _texts("sample", fields if names else {})
        if text in names
    }
    for name in names:
        if name not in opened:
            message = f"sample: {name} is not an image; name one by image:<id> or a data URI"
            raise Problem(400, message, param="sample")
    sample = _validate(kind, document, opened.__getitem__) if names else sample
    benchmark.dataset = Dataset(samples=(sample,), choice=Choice(), bad={})
    return sample


def _validate(kind: type[Sample], document: Mapping[str, Any], open_image: OpenImage) -> Sample:
    try:
        return kind.model_validate(document, extra="forbid", context={IMAGES: open_image})
    except ValidationError as error:
        details = error.errors(include_url=False)
        errors = [{**detail, "loc": ("body", "sample", *detail["loc"])} for detail in details]
        raise validation_problem(errors, {"sample": document}) from error


def _texts(param: str, value: Any) -> Iterator[tuple[str, str]]:
    """Every text in a JSON value, with its place."""
    if isinstance(value, str):
        yield param, value
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _texts(f"{param}[{place}]", item)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(f"{param}.{name}", item)


def _plan_calls(benchmark: Benchmark[Any, Any], sample: Sample, condition: str) -> tuple[Call, ...]:
    """The calls of an ordinary run, each after what it needs; raises `Problem`."""
    for place, message in benchmark.faults(sample):
        param = f"sample.{name_place(place, first=0)}"
        raise Problem(400, f"{param}: {message}", param=param)
    try:
        return check(benchmark.calls(sample, condition))
    except InputError as error:
        raise build_problem(error, benchmark.spec) from error
    except PlanError as error:  # the sample lacks what a judge reads
        message = presentable(str(error), "its judges need more than it has")
        raise Problem(400, f"sample: {message}", param="sample") from error


def _calls_to_make(body: JudgementRequest, planned: Sequence[Call]) -> tuple[Call, ...]:
    """The calls with replies, and those of the judge that need no others; raises `Problem`."""
    _check_names(body, planned)
    possible: dict[str, Call] = {}
    for call in planned:
        if call.id in body.replies:
            # It is not made, so it needs nothing.
            possible[call.id] = replace(
                call, model=REPLAYED, messages=(), fallbacks=(), compares=None
            )
        elif call.model == JUDGE and call.needs <= possible.keys():
            possible[call.id] = call
    needed = set(body.calls or possible)
    for call in reversed(possible.values()):
        if call.id in needed:
            needed |= call.needs
    missing = needed - possible.keys()
    if missing or all(call.parser is None for call in possible.values()):
        for call in planned:
            if call.parser is not None and (not missing or call.id in missing):
                others = ", ".join(sorted(call.needs - possible.keys()))
                message = f"replies: {call.id} cannot be judged without {others}"
                raise Problem(400, message, param="replies")
        raise Problem(400, "options: with these nothing is judged", param="options")
    calls = [call for call in possible.values() if call.id in needed | body.replies.keys()]
    if any(NOT_SENT in message.parts for call in calls for message in call.messages):
        raise Problem(400, "sample: the judge is sent its image; name it", param="sample")
    return tuple(calls)


def _check_names(body: JudgementRequest, planned: Sequence[Call]) -> None:
    for param, names in (("replies", body.replies), ("calls", body.calls or ())):
        known = [call.id for call in planned if param == "replies" or call.model == JUDGE]
        for name in names:
            if name not in known:
                there = ", ".join(known)
                message = f"{param}: the call {name!r} does not exist; there are: {there}"
                raise Problem(400, message, param=param)


def _judged(call: Call, outcomes: Mapping[str, Outcome]) -> JudgedCall:
    reading = read_verdict(call, outcomes)
    verdict, outcome = reading.verdict, outcomes[call.id]
    return JudgedCall(
        call=call.id,
        prompt=str(call.prompt),
        state=verdict_state(outcome, is_read=verdict is not None),
        label=None if verdict is None else verdict.label,
        scores={} if verdict is None else verdict.scores,
        rationale="" if verdict is None else verdict.rationale,
        reason=reading.why,
        problem=outcome.message if isinstance(outcome, Failure) else None,
        replies=tuple(_replies(call, outcomes)),
    )


def _replies(call: Call, outcomes: Mapping[str, Outcome]) -> Iterator[JudgeReply]:
    for attempt in call.attempts:
        outcome = outcomes.get(attempt.id)
        if isinstance(outcome, Reply):
            yield JudgeReply(
                call=attempt.id,
                text=outcome.text,
                finish=outcome.finish,
                input_tokens=outcome.input_tokens,
                output_tokens=outcome.output_tokens,
            )
