"""Readers of dialogues that other tools logged: lmms-eval, VLMEvalKit and Inspect.

`mmconv export` writes the same formats. Its files name the condition and the call of each reply, in
a field `mmconv`; other files have the replies of each sample in their order. Every reader raises
`DataError` with the file, the line or row, and the field.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import orjson

from mmconv.core.errors import ConfigError, DataError
from mmconv.core.plans import name_trial
from mmconv.core.types import Call, Finish, Ref, Reply

if TYPE_CHECKING:
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ModelOutput

FAILED = "Failed to obtain answer"
"""How VLMEvalKit's answer of a failed call begins."""

_IMAGE = "<ImageHere>"
_STOPS: Mapping[str, Finish] = {
    "stop": "stop",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "filter",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A dialogue: its replies in their order, None for a failed call.

    `where` is the file and the line, row or sample. Without `calls`, the file says neither the
    calls nor the condition. `questions` are then what the model was asked, None if unknown.
    """

    where: str
    sample: str
    replies: Sequence[Reply | None]
    condition: str | None = None
    calls: Sequence[str] = ()
    questions: Sequence[str | None] = ()

    def match(self, condition: str, calls: Sequence[Call]) -> dict[str, Reply]:
        """The replies by id of these calls; raises `DataError` if they are of other calls."""
        if len(calls) != len(self.replies):
            names = ", ".join(call.id for call in calls) or "none"
            problem = (
                f"{len(self.replies)} replies, but sample {self.sample} has {len(calls)} calls "
                f"under the condition {condition}: {names}"
            )
            raise DataError(self.where, [problem], "--conditions chooses the conditions of a run.")
        for call, question in zip(calls, self.questions, strict=False):
            if question and not _asks(call, question):
                problem = (
                    f"the question {question[:60]!r} is not that of {call.id} of sample "
                    f"{self.sample}: {call.messages[-1].text[:60]!r}"
                )
                advice = "Samples are matched by id; doc_id of lmms-eval counts rows from 0."
                raise DataError(self.where, [problem], advice)
        pairs = zip(calls, self.replies, strict=True)
        return {call.id: reply for call, reply in pairs if reply is not None}


def read_lmms_eval(fields: Mapping[str, Any], where: str) -> Logged:
    """A line of lmms-eval's samples; `id` or `sample` is the sample's id, or else `doc_id`."""
    texts = fields["filtered_resps"]
    texts = texts if isinstance(texts, list) else [texts]
    if not all(text is None or isinstance(text, str) for text in texts):
        raise DataError(where, ["filtered_resps must be a text or a list of texts"])
    if "mmconv" in fields:
        return _own(fields["mmconv"], texts, where)
    names = [fields[name] for name in ("id", "sample", "doc_id") if name in fields]
    if not names:
        raise DataError(where, ["must have doc_id"])
    question = fields.get("input")
    return Logged(
        where=where,
        sample=str(names[0]),
        replies=_replies(texts),
        questions=[question if isinstance(question, str) else None],
    )


def read_vlmevalkit(path: Path) -> Iterator[Logged]:
    """The rows of a prediction file (.xlsx or .tsv); `index` is the sample's id."""
    for number, row in enumerate(_rows(path), start=2):
        where = f"{path.name} row {number}"
        if missing := [name for name in ("index", "prediction") if row.get(name) in (None, "")]:
            raise DataError(where, [f"{name} is missing" for name in missing])
        texts = _texts(row["prediction"], where, "prediction")
        if row.get("mmconv"):
            try:
                origin = orjson.loads(str(row["mmconv"]))
            except orjson.JSONDecodeError as error:
                raise DataError(where, [f"mmconv is not JSON: {error}"]) from error
            yield _own(origin, texts, where)
            continue
        questions = _texts(row["question"], where, "question") if row.get("question") else []
        index = row["index"]
        yield Logged(
            where=where,
            sample=str(int(index) if isinstance(index, float) and index.is_integer() else index),
            replies=_replies([None if text.startswith(FAILED) else text for text in texts]),
            questions=[question.replace(_IMAGE, "") for question in questions],
        )


def read_inspect(path: Path) -> Iterator[Logged]:
    """The samples of an Inspect log, epochs as trials; `ConfigError` without inspect-ai."""
    if find_spec("inspect_ai") is None:
        raise ConfigError(f"{path}: reading an Inspect log needs a package: pip install inspect-ai")
    from inspect_ai.log import read_eval_log

    try:
        # in a thread: in one with a running event loop, Inspect patches asyncio
        with ThreadPoolExecutor(1) as thread:
            log = thread.submit(read_eval_log, str(path), resolve_attachments=True).result()
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise DataError(str(path), [f"not an Inspect log: {error}"]) from error
    for sample in log.samples or ():
        where = f"{path.name} sample {sample.id} epoch {sample.epoch}"
        yield _own_sample(sample, where) or _other_sample(sample, where)


def _own_sample(sample: EvalSample, where: str) -> Logged | None:
    """A sample that mmconv wrote: its events name the calls of the candidate."""
    outputs = {
        str(event.metadata["call"]): event.output
        for event in sample.events
        if event.event == "model" and event.role is None and "call" in (event.metadata or {})
    }
    if not outputs:
        return None
    return Logged(
        where=where,
        sample=name_trial(str(sample.metadata["sample"]), sample.epoch),
        condition=str(sample.metadata["condition"]),
        calls=[*outputs],
        replies=[_reply_of(output) for output in outputs.values()],
    )


def _other_sample(sample: EvalSample, where: str) -> Logged:
    questions, texts = [], []
    question = None
    for message in sample.messages:
        if message.role == "user":
            question = message.text
        elif message.role == "assistant" and message.source == "generate":
            questions.append(question)
            texts.append(message.text)
    if not texts and sample.error is None:
        raise DataError(where, ["messages have no assistant message with the source 'generate'"])
    if sample.error is not None:  # the reply to the last question is missing
        questions.append(question)
    return Logged(
        where=where,
        sample=name_trial(str(sample.id), sample.epoch),
        replies=_replies([*texts, *([] if sample.error is None else [None])]),
        questions=questions,
    )


def _reply_of(output: ModelOutput) -> Reply | None:
    if output.error is not None or not output.choices:
        return None
    return Reply(
        text=output.completion,
        finish=_STOPS.get(output.stop_reason, "unknown"),
        input_tokens=output.usage.input_tokens if output.usage else None,
        output_tokens=output.usage.output_tokens if output.usage else None,
    )


def _own(origin: Any, texts: Sequence[str | None], where: str) -> Logged:
    """A dialogue that mmconv wrote: `Dialogue.origin` of `mmconv.report.exports`."""
    try:
        calls = origin["calls"]
        if len(calls) != len(texts):
            raise DataError(where, [f"{len(texts)} replies, but {len(calls)} calls in mmconv"])
        return Logged(
            where=where,
            sample=str(origin["sample"]),
            condition=str(origin["condition"]),
            calls=[str(call["call"]) for call in calls],
            replies=[
                None
                if text is None or "problem" in call
                else Reply(
                    text=text,
                    finish=call.get("finish", "stop"),
                    input_tokens=call.get("input_tokens"),
                    output_tokens=call.get("output_tokens"),
                    reasoning=call.get("reasoning"),
                )
                for call, text in zip(calls, texts, strict=True)
            ],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            where, [f"mmconv must have sample, condition and calls: {error}"]
        ) from error


def _replies(texts: Sequence[str | None]) -> list[Reply | None]:
    return [None if text is None else Reply(text=text) for text in texts]


def _texts(cell: Any, where: str, column: str) -> list[str]:
    """The texts of a cell: a list in Python's notation, or one text."""
    text = str(cell)
    if not (text.startswith("[") and text.endswith("]")):
        return [text]
    try:
        texts = ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        problem = f"{column} is not a list of texts, or was cut short"
        raise DataError(where, [problem]) from error
    return [str(item) for item in texts]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".tsv":
        csv.field_size_limit(2**31 - 1)
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from csv.DictReader(file, delimiter="\t")
        return
    from openpyxl import load_workbook

    try:
        book = load_workbook(path, read_only=True, data_only=True)
        columns, *rows = book.worksheets[0].iter_rows(values_only=True)
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise DataError(str(path), [f"not a spreadsheet with rows: {error}"]) from error
    for row in rows:
        yield dict(zip(map(str, columns), row, strict=False))


def _asks(call: Call, question: str) -> bool:
    message = call.messages[-1]
    if any(isinstance(part, Ref) for part in message.parts):
        return True
    planned, logged = ("".join(text.split()) for text in (message.text, question))
    return planned in logged or logged in planned
