"""`/v1/judgements`: a finished dialogue, or a pair, judged by a prompt of any of the benchmarks.

The judge gets the prompt that a run of that benchmark would send, and its reply is cached, so an
equal judgement costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Body, Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import Response

from mmconv.benchmarks.botchat.judging import BotChatJudgement
from mmconv.benchmarks.convbench.judgements import ConvBenchJudgement
from mmconv.benchmarks.shared.judgements import (
    Judgement,
    JudgementRequest,
    Supplies,
    read_judgement,
)
from mmconv.core.plans import Plan
from mmconv.core.types import Failure
from mmconv.service.access import Caller, Chatter, Shared
from mmconv.service.errors import Problem, json_response
from mmconv.service.http.requests import JsonRoute, check_bounds, refuse_faults, while_connected
from mmconv.service.http.responses import documented
from mmconv.service.models import (
    convbench_only,
    is_offline,
    problem_of_failure,
    prompt_set,
    require_key,
    run_plans,
)
from mmconv.service.request_images import request_images
from mmconv.service.state import Service

KINDS = ("convbench", "fbbench", "mtbench101", "botchat")
"""The benchmarks whose prompts can be named."""

AnyJudgement: TypeAlias = Annotated[
    BotChatJudgement,
    Body(discriminator="benchmark"),
]

SEAT = "judge"


class _JudgementRoute(JsonRoute):
    """Names the field if the benchmark is missing or unknown."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_judgement(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                if not error.errors()[0]["type"].startswith("union_tag"):
                    raise
                message = f"benchmark: name one of {', '.join(KINDS)}"
                raise Problem(400, message, param="benchmark") from error

        return handle_judgement


router = APIRouter(prefix="/v1", tags=["judgements"], route_class=_JudgementRoute)


@router.post("/judgements", response_model=Judgement, responses=documented(404, 409, 502, 503, 504))
async def add_judgement(
    asked: AnyJudgement, request: Request, shared: Shared, caller: Chatter
) -> Response:
    """Judge a finished dialogue: a score or a choice, the reasons, and whether they were read."""
    refuse_faults(asked.faults())
    check_bounds(asked, shared.settings.sizes)
    return json_response(await while_connected(request, judge(shared, caller, asked)))


async def judge(shared: Service, caller: Caller, asked: JudgementRequest) -> Judgement:
    """Call the judge. Raises `Problem`, also if the judge fails."""
    seat = shared.model(asked.judge, "judge")
    require_key(shared.models.specs[asked.judge], asked.judge, "judge")
    with request_images(shared) as images:
        picture = None
        if isinstance(asked, ConvBenchJudgement) and asked.image is not None:
            picture = await images.image(asked.image, "image")
        offline = is_offline(shared.models.specs[asked.judge])
        prompts = prompt_set(shared.settings, _prompts(asked, offline=offline))
        call = asked.call(Supplies(prompts=prompts, picture=picture, offline=offline))
        plan = Plan(order=0, sample=call.id, condition=asked.benchmark, calls=(call,))
        names = {SEAT: asked.judge}
        [finished] = await run_plans(shared, caller, {SEAT: seat}, names, [plan], "judgement")
    outcome = finished.outcomes[call.id]
    if isinstance(outcome, Failure):
        raise problem_of_failure(outcome)
    return read_judgement(asked, call, finished.outcomes)


def _prompts(asked: JudgementRequest, *, offline: bool) -> str:
    """The set of prompts; raises `Problem` where an offline judge has none for the benchmark."""
    if not offline:
        return asked.benchmark
    if asked.benchmark != "convbench":
        raise convbench_only(asked.judge, "judge")
    return "convbench_reference"
