"""Runs of one sample that a request holds: `POST /v1/dialogues` and `POST /v1/judgements`.

They make the calls and scores of an ordinary run of the benchmark. They have no folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from pydantic import ValidationError

from mmconv.api import VerdictState
from mmconv.benchmarks.base import Benchmark, Sample
from mmconv.benchmarks.base.dataset import Choice, Dataset
from mmconv.benchmarks.base.sample import IMAGES, OpenImage
from mmconv.benchmarks.options import as_new, file_options
from mmconv.benchmarks.registry import find_class
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import InputError
from mmconv.core.judges import JUDGE
from mmconv.core.plans import Finished
from mmconv.core.types import Failure, Image, Outcome, Reply, Skipped
from mmconv.service.errors import Problem, validation_problem, without_runs
from mmconv.service.models import problem_of_failure, words_of_failure
from mmconv.service.request_images import RequestImages
from mmconv.service.run_requests import build_problem
from mmconv.service.settings import Settings

NO_FILE = "unused"
"""The value of options that locate data: the sample comes with the request."""

NOT_SENT = Image(sha256="0" * 64, media_type="", width=0, height=0)
"""Stands for an image that the request leaves out. No call that is made may show it."""

AnyBenchmark: TypeAlias = Benchmark[Any, Any]


def build_benchmark(
    settings: Settings, name: str, options: Mapping[str, Any], models: Mapping[str, ModelSpec]
) -> AnyBenchmark:
    """The benchmark without data, with the operator's prompts; `models` are by role.

    Raises `Problem` 400, naming the option.
    """
    kind = find_class(name)
    fields = kind.options_type.model_fields
    files = {option for option in file_options(kind.options_type) if fields[option].is_required()}
    is_offline = JUDGE in models and models[JUDGE].provider in kind.offline_judges
    spec = RunSpec(
        benchmark=name,
        options={**dict.fromkeys(files, NO_FILE), **options},
        models=models,
        prompts=None if is_offline else settings.prompt_folder(name),
    )
    try:
        benchmark: AnyBenchmark = kind(as_new(spec))
    except InputError as error:
        raise build_problem(error, spec) from error
    return benchmark


async def read_sample(
    images: RequestImages, benchmark: AnyBenchmark, fields: Mapping[str, Any]
) -> Sample:
    """The sample in the field `sample` of a request, as the only one of the benchmark's dataset.

    Images are named as in all requests. The id and a single image may be left out. Raises
    `Problem`, naming the field.
    """
    kind = benchmark.sample_type
    document = dict(fields)
    for name, field in kind.model_fields.items():
        alias = field.validation_alias
        if name in fields or alias in fields:
            continue
        if name == "id" or (field.annotation is Image and field.is_required()):
            document[alias if isinstance(alias, str) else name] = (
                "request" if name == "id" else NOT_SENT
            )
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


def check_answered(finished: list[Finished]) -> None:
    """Raise the first failure as a `Problem` if no call that was made has a reply."""
    outcomes = [
        outcome
        for each in finished
        for call_id, outcome in each.outcomes.items()
        if call_id not in each.plan.replies
    ]
    if any(isinstance(outcome, Reply) for outcome in outcomes):
        return
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            raise problem_of_failure(outcome)


def presentable_outcomes(finished: Finished) -> dict[str, Outcome]:
    """The outcomes by call id, with the messages of failures as clients may see them."""
    return {
        call_id: replace(
            outcome, message=without_runs(words_of_failure(outcome.kind, outcome.message))
        )
        if isinstance(outcome, Failure)
        else outcome
        for call_id, outcome in finished.outcomes.items()
    }


def verdict_state(outcome: Outcome, *, is_read: bool) -> VerdictState:
    """The state of a judgement whose request ended like this."""
    match outcome:
        case Failure():
            return "failed"
        case Skipped():
            return "skipped"
    return "parsed" if is_read else "unparsed"
