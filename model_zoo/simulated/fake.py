"""Provider `fake`: echoes, scripts and made-up verdicts, for tests and to try a configuration.

`slow` and `failing` echo; options give latency and failures to any of the models. The same request
always gets the same reply and, attempt by attempt, the same failures. Images are not read, and
nothing is cut to `max_tokens`. Verdicts are drawn: what is judged plays no part.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeAlias

import orjson
from pydantic import Field, TypeAdapter, ValidationError, field_validator, model_validator

from mmconv.core.config import ModelSpec
from mmconv.core.documents import read_yaml
from mmconv.core.errors import ConfigError, Refused, Transient
from mmconv.core.keys import content_key, hash_json
from mmconv.core.protocols import ImageSource
from mmconv.core.types import ANY_OBJECT, Message, Reply, Sampling, Text
from model_zoo.base import Fields
from model_zoo.simulated.common import Offline, counted

FailingKind = Literal["timeout", "connection", "rate_limit", "server", "malformed"]
"""The failures that can be simulated: those after which a runner retries."""

Script: TypeAlias = tuple[str, ...] | Mapping[str, str]
"""Replies by their number, or by a regular expression on the last user text."""

Speaker: TypeAlias = Callable[[Sequence[Message], Sampling], str]
"""Makes the text of a reply. Pure."""

UNDECIDED = "Both sides have their merits, and I would rather not decide."
"""All that the unreadable judge ever says."""

FAKES = {
    "echo": "repeats the last user message",
    "scripted": "replies with options.script",
    "slow": "echo, each reply after options.seconds",
    "failing": "echo that fails at options.rate",
    "judge": "gives a verdict in the form that the prompt asks for",
    "unreadable": "a judge that never gives a verdict",
}
"""What `spec.model` may be, and what each does."""

_NOT_IN_REPLIES = {"script", "seconds", "rate", "kinds", "retry_after"}
_DEFAULT_CONCURRENCY = 64
_SCRIPT: TypeAdapter[Script] = TypeAdapter(Script)

_RATING = "Rating: {rating}"
_CHOICE = "Overall, Response {choice} is better."
_REMARK = "So it seems."
_TURN = re.compile(r"轮次 (\d+) - 用户:")


class FakeOptions(Fields):
    """Options of a fake model; a call with a JSON schema is answered by that alone."""

    script: Path | Script | None = None
    """Replies in their order, or by regular expressions on the last user text, or the YAML or JSON
    file that holds either."""
    seconds: float | None = Field(default=None, ge=0)
    """The time that a reply takes; by default 0.05 for `slow` and 0 for the others."""
    rate: float | None = Field(default=None, ge=0, le=1)
    """The share of attempts that fail; by default 0.2 for `failing` and 0 for the others."""
    kinds: tuple[FailingKind, ...] = Field(
        default=("rate_limit", "server", "connection", "timeout", "malformed"), min_length=1
    )
    """The kinds of failures."""
    retry_after: float | None = Field(default=0.05, ge=0)
    """Seconds that a rate limit asks to wait for."""
    seed: int = 0
    """Decides which attempts fail and which verdicts are given."""
    verdict: Literal["auto", "rating", "choice"] = "auto"
    """How `judge` closes its reply: auto as `closing` has it for the prompt, else as that asks."""
    closing: Mapping[str, str] = Field(default_factory=dict)
    """By a regular expression on the prompt, how `judge` closes its reply: a text that may hold
    `{rating}` and `{choice}`."""
    lowest: int = 1
    """The lowest rating."""
    highest: int = 10
    """The highest rating."""
    choices: tuple[str, ...] = Field(default=("A", "B"), min_length=1)
    """The choices to draw from."""

    @field_validator("closing")
    @classmethod
    def _patterns_compile(cls, closing: Mapping[str, str]) -> Mapping[str, str]:
        _compile(closing)
        return closing

    @model_validator(mode="after")
    def _ratings_are_a_range(self) -> FakeOptions:
        if self.lowest > self.highest:
            raise ValueError(f"lowest ({self.lowest}) is above highest ({self.highest})")
        return self

    def fill(self, template: str, draw: Random) -> str:
        """The template with `{rating}` and `{choice}` drawn."""
        rating, choice = draw.randint(self.lowest, self.highest), draw.choice(self.choices)
        return template.replace("{rating}", str(rating)).replace("{choice}", choice)


def fingerprint(spec: ModelSpec) -> str:
    """Hash of everything that can change a reply: the model, its options, its script's content.

    Raises `ConfigError` as `open_backend` does.
    """
    options = FakeOptions.of(spec)
    _speaker(spec.model, options)
    fields = options.model_dump(mode="json", exclude=_NOT_IN_REPLIES)
    script = None if options.script is None else _read_script(options.script)
    return hash_json(["fake", spec.model, fields, script])


def guides_output(spec: ModelSpec) -> bool:
    """Whether the model answers with JSON if a call has a schema."""
    return spec.model == "judge"


async def open_backend(spec: ModelSpec, images: ImageSource) -> FakeBackend:
    """The fake model; raises `ConfigError` for an unknown model, wrong options or script."""
    options = FakeOptions.of(spec)
    seconds = 0.05 if spec.model == "slow" else 0.0
    rate = 0.2 if spec.model == "failing" else 0.0
    return FakeBackend(
        speak=_speaker(spec.model, options),
        max_concurrency=spec.max_concurrency or _DEFAULT_CONCURRENCY,
        seconds=seconds if options.seconds is None else options.seconds,
        rate=rate if options.rate is None else options.rate,
        options=options,
    )


@dataclass(slots=True, kw_only=True)
class FakeBackend(Offline):
    """A backend whose replies are made by `speak`, after `seconds`, if the attempt does not fail.

    `failed` counts the failures of each request that is not answered yet.
    """

    speak: Speaker
    max_concurrency: int
    seconds: float
    rate: float
    options: FakeOptions
    failed: dict[str, int] = field(default_factory=dict)

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Answer once; raises `Transient` at the set rate, `Refused` at the script's end."""
        if self.seconds:
            await asyncio.sleep(self.seconds)
        self._fail_sometimes(messages, sampling)
        text = self.speak(messages, sampling)
        return counted(text, map(_text, messages), messages, self.seconds)

    def _fail_sometimes(self, messages: Sequence[Message], sampling: Sampling) -> None:
        if not self.rate:
            return
        request = content_key("", messages, sampling)
        attempt = self.failed.pop(request, 0)
        drawn = hash_json([self.options.seed, request, attempt])
        if int(drawn[:8], 16) >= self.rate * 16**8:
            return
        self.failed[request] = attempt + 1
        kind = self.options.kinds[int(drawn[8:16], 16) % len(self.options.kinds)]
        wait = self.options.retry_after if kind == "rate_limit" else None
        raise Transient(kind, f"made to fail, attempt {attempt + 1}", retry_after=wait)


def _speaker(model: str, options: FakeOptions) -> Speaker:
    match model:
        case "echo" | "slow" | "failing":
            return lambda messages, _: _last_user_text(messages)
        case "unreadable":
            return lambda *_: UNDECIDED
        case "judge":
            return partial(_judgement, options)
        case "scripted":
            if options.script is None:
                raise ConfigError("fake model 'scripted': options.script is missing")
            script = _read_script(options.script)
            if not isinstance(script, Mapping):
                return partial(_numbered_reply, script)
            try:
                return partial(_matching_reply, _compile(script))
            except ValueError as error:
                raise ConfigError(f"fake model 'scripted': {error}") from error
    raise ConfigError(f"fake model {model!r}: choose one of {', '.join(FAKES)}")


def _compile(patterns: Mapping[str, str]) -> dict[re.Pattern[str], str]:
    """Raises `ValueError` that names a text that is not a regular expression."""
    try:
        return {re.compile(pattern): text for pattern, text in patterns.items()}
    except re.error as error:
        raise ValueError(f"{error.pattern!r} is not a regular expression: {error}") from error


def _read_script(script: Path | Script) -> Script:
    if not isinstance(script, Path):
        return script
    try:
        return _SCRIPT.validate_python(read_yaml(script))
    except ValidationError as error:
        raise ConfigError(
            f"{script}: expected a list of replies, or a mapping from patterns to replies"
        ) from error


def _matching_reply(
    patterns: Mapping[re.Pattern[str], str], messages: Sequence[Message], _: Sampling
) -> str:
    question = _last_user_text(messages)
    for pattern, reply in patterns.items():
        if pattern.search(question):
            return reply
    raise Refused("rejected", f"no pattern of the script matches {question[:80]!r}")


def _numbered_reply(replies: Sequence[str], messages: Sequence[Message], sampling: Sampling) -> str:
    """The reply for this turn; each further trial of a turn takes one reply further on."""
    turn = sum(message.role == "assistant" for message in messages)
    if turn + sampling.trial >= len(replies):
        raise Refused(
            "rejected",
            f"the script has {len(replies)} replies; turn {turn + 1}, trial {sampling.trial} "
            "is past its end",
        )
    return replies[turn + sampling.trial]


def _judgement(options: FakeOptions, messages: Sequence[Message], sampling: Sampling) -> str:
    drawn = content_key(str(options.seed), messages, sampling)
    draw = Random(drawn)
    if sampling.schema is not None and sampling.schema != ANY_OBJECT:
        return orjson.dumps(obey(orjson.loads(sampling.schema), draw)).decode()
    closing = verdict("\n".join(map(_text, messages)), options, draw)
    if sampling.schema == ANY_OBJECT:
        return closing if closing.startswith("{") else "{}"
    return f"I read all of it with care ({drawn[:8]}).\n\n{closing}".rstrip()


def obey(schema: Mapping[str, Any], draw: Random) -> Any:
    """A value that the JSON schema allows: every property, one item per array, a number in range.

    An `enum`, a `const` and the options of `anyOf` are drawn from.
    """
    if "anyOf" in schema:
        return obey(draw.choice(schema["anyOf"]), draw)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw.choice(schema["enum"])
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {name: obey(value, draw) for name, value in properties.items()}
        case "array":
            return [obey(schema.get("items", {}), draw)]
        case "integer" | "number":
            return draw.randint(int(schema.get("minimum", 1)), int(schema.get("maximum", 10)))
        case "boolean":
            return draw.random() < 0.5
        case "null":
            return None
    return _REMARK


def _turn_scores(prompt: str, draw: Random) -> str:
    """A JSON entry for each turn of the dialogue, as CMT-Eval asks for."""
    turns = max(map(int, _TURN.findall(prompt)), default=0)
    entries = [
        {
            "轮次": str(turn),
            "统筹能力": draw.randint(1, 5),
            "适应能力": draw.randint(1, 5),
            "评分理由": _REMARK,
        }
        for turn in range(1, turns + 1)
    ]
    return orjson.dumps({"评估结果": entries}).decode()


def _filled_form(prompt: str, draw: Random) -> str:
    """FB-Bench's form as the prompt shows it, with a result for each criterion."""
    try:
        form, _ = json.JSONDecoder().raw_decode(prompt, prompt.rfind("\n{\n") + 1)
    except ValueError:
        return ""
    for entry in form.values():
        entry |= {"评判理由": _REMARK, "评判结果": draw.choice("是否")}
    return orjson.dumps(form).decode()


def _first_machine(prompt: str, draw: Random) -> str:
    """Which chat of the last conversation is a machine's first, or none, as UniEval asks."""
    chats = prompt.rpartition("Conversation:\n")[2].count("<chat_end>")
    index = draw.randint(1, chats + 1)
    choice, place = ("No", "None") if index > chats else ("Yes", index)
    return f"Choice: {choice}\nIndex: {place}\nReason: {_REMARK}"


def _which_machine(_prompt: str, draw: Random) -> str:
    """Which of two conversations is a machine's, as BotChat's comparisons ask."""
    machine = draw.choice(("Conversation 1", "Conversation 2", "Both", "Neither"))
    return f"Choice: {machine}\nReason: {_REMARK}"


_FORMS: Mapping[str, str | Callable[[str, Random], str]] = {
    r"\[\[n\]\]": "Rating: [[{rating}]]",
    '"评估结果"': _turn_scores,
    '"评判结果": ""': _filled_form,
    "Choice: Conversation 1": _which_machine,
    "Index: n": _first_machine,
    "is better": _CHOICE,
    r"(?i)\brating\b": _RATING,
}
"""The form of a verdict by what a prompt that asks for it holds; the first one that fits counts."""


def verdict(prompt: str, options: FakeOptions, draw: Random) -> str:
    """The verdict in the form that the prompt asks for; "" if it asks for none that is known."""
    if options.verdict != "auto":
        return options.fill(_RATING if options.verdict == "rating" else _CHOICE, draw)
    for pattern, form in (*options.closing.items(), *_FORMS.items()):
        if re.search(pattern, prompt):
            return options.fill(form, draw) if isinstance(form, str) else form(prompt, draw)
    return ""


def _text(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


def _last_user_text(messages: Sequence[Message]) -> str:
    return next((_text(message) for message in reversed(messages) if message.role == "user"), "")
