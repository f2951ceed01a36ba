r"""Prompt files: Markdown with role headings and named slots, read and filled.

A file is UTF-8. Lines before the first role heading are a note to readers and never sent. A role
heading is a line that is exactly `# system`, `# user` or `# assistant`; its message runs to the
line break before the next heading or the end of the file, and is sent to the byte.

- `{{name}}` is a slot; names are lower-case letters, digits and underscores.
- `{{name|encoding}}` is the same slot written in another way: `repr` and `json4` write data (a
  checklist, a form) as Python's `repr` and as JSON with an indent of 4; `json_escaped` writes texts
  and replies as they are inside a JSON string, without the quotes.
- A prompt that replaces another has the same slots. One that must not show some of them lists these
  in its note, in a line `leaves out: answer_1, answer_2`.
- `{{ name }}` and `{{Name}}` are that slot, too.
- Backslashes right before any of these are halved; one left over makes the braces literal, so
  `\{{name}}` is sent as `{{name}}`.
- A line of a message that looks like a role heading is written with a backslash before it.

Slots are filled in one pass: a filled value is never searched for slots. Any sequence of messages
can be written in this format, to the byte. No prompt's text and no model is known here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from mmconv.core.documents import nearest
from mmconv.core.errors import PromptError
from mmconv.core.graph import join_texts
from mmconv.core.keys import hash_bytes
from mmconv.core.types import Image, Message, Part, Ref, Role, Text, escape_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """A value of JSON's types for a slot, and its `text` where the prompt names no encoding."""

    value: Any
    text: str


Slot: TypeAlias = str | Part | Data | Sequence[str | Part]
"""The value of a slot: a text, a reply to come, an image, data, or a whole dialogue of texts."""

_OF_DATA: dict[str, Callable[[Any], str]] = {
    "repr": repr,
    "json4": lambda value: json.dumps(value, ensure_ascii=False, indent=4),
}
_ESCAPED = "json_escaped"
_ENCODINGS = (*_OF_DATA, _ESCAPED)

Other = TypeVar("Other")

# `str | Part`, which `isinstance` would rebuild for every piece of every prompt.
_ONE_PIECE = (str, Text, Image, Ref)

_HEADING = re.compile(r"# (system|user|assistant)")
_HEADING_LIKE = re.compile(r"(\\*)(#[ \t]*(?:system|user|assistant)[ \t\r]*)", re.IGNORECASE)
_WORD = r"[ \t]*[A-Za-z][A-Za-z0-9_]*[ \t]*"
_SLOT = re.compile(rf"(\\*)\{{\{{({_WORD}(?:\|{_WORD})?)\}}\}}")
_LEAVES_OUT = re.compile(r"leaves out:(.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The place of a slot in a prompt, with its encoding if it has one."""

    name: str
    encoding: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A message with slots, before they are filled."""

    role: Role
    parts: tuple[Text | Gap, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt file as read; `digest` is the SHA-256 (hex) of the file's bytes.

    `slots` must be filled; they include those that the file's note leaves out, whose values are
    dropped.
    """

    name: str
    digest: str
    messages: tuple[Message | Template, ...]
    slots: frozenset[str]

    @property
    def label(self) -> str:
        """Name and first half of the hash, as records of calls carry it."""
        return f"{self.name}@{self.digest[:16]}"

    def fill(self, values: Mapping[str, Slot]) -> tuple[Message, ...]:
        """The messages with every slot filled, neighbouring texts joined.

        Raises `PromptError` if the names differ from the prompt's slots, or if a value cannot be
        written in the encoding that the prompt names.
        """
        if values.keys() != self.slots:
            problems = _differences(self.slots, frozenset(values))
            raise PromptError(f"prompt {self.name!r}: {problems}")
        return tuple(
            self._filled(each, values) if isinstance(each, Template) else each
            for each in self.messages
        )

    def _filled(self, template: Template, values: Mapping[str, Slot]) -> Message:
        pieces: list[str | Part] = []
        for part in template.parts:
            if isinstance(part, Gap):
                pieces += self._encoded(part, values[part.name])
            else:
                pieces.append(part)
        return Message(role=template.role, parts=_without_empty(join_texts(pieces)))

    def _encoded(self, gap: Gap, value: Slot) -> Sequence[str | Part]:
        """The value of a slot, piece by piece."""
        if isinstance(value, Data):
            if gap.encoding in _OF_DATA:
                return (_OF_DATA[gap.encoding](value.value),)
            value = value.text
        pieces = (value,) if isinstance(value, _ONE_PIECE) else value
        if not gap.encoding:
            return pieces
        if gap.encoding in _OF_DATA:
            raise PromptError(
                f"prompt {self.name!r}: '{{{{{gap.name}|{gap.encoding}}}}}' needs data, and the "
                f"slot holds text; write '{{{{{gap.name}}}}}' or '{{{{{gap.name}|{_ESCAPED}}}}}'"
            )
        return tuple(map(_escaped, pieces))


class PromptSet:
    """The prompts of one benchmark: shipped files, some replaced by those of a user's folder.

    Shipped files are read at first use; a custom benchmark brings its `own` prompts. Raises
    `PromptError` if the folder does not exist or has no .md file, if one of these replaces no
    prompt, or has other slots than the one it replaces.
    """

    def __init__(
        self, benchmark: str, override: Path | None = None, own: Iterable[Prompt] | None = None
    ) -> None:
        self._benchmark = benchmark
        self._read = {prompt.name: prompt for prompt in own or ()}
        self._files = _shipped(benchmark) if own is None else {}
        if override is not None:
            self._replace(override)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all prompts, in alphabetical order."""
        return tuple(sorted({*self._files, *self._read}))

    def __getitem__(self, name: str) -> Prompt:
        """The prompt of this name; raises `PromptError` naming those that there are."""
        if name not in self._read:
            if name not in self._files:
                raise PromptError(self._unknown(name))
            self._read[name] = _read_shipped(self._benchmark, name)
        return self._read[name]

    def digests(self) -> dict[str, str]:
        """The SHA-256 (hex) of every prompt's file by name: what a run's manifest records."""
        return {name: self[name].digest for name in self.names}

    def _replace(self, folder: Path) -> None:
        if not folder.is_dir():
            raise PromptError(f"{folder}: no such folder of prompts")
        files = _listed(folder)
        if not files:
            raise PromptError(
                f"{folder} holds no .md file, so no prompt would be replaced; "
                f"the prompts of {self._benchmark} are {', '.join(self.names)}"
            )
        for file in files:
            name = file.name.removesuffix(".md")
            if name not in self.names:
                raise PromptError(f"{file}: {self._unknown(name)}")
            replacement = _read_prompt(file, name)
            if problems := _differences(self[name].slots, replacement.slots):
                raise PromptError(f"{file}: {problems}{_advice(self[name], replacement)}")
            self._read[name] = replacement

    def _unknown(self, name: str) -> str:
        valid = ", ".join(self.names)
        return f"{self._benchmark} has no prompt {name!r}; its prompts are {valid}"


def parse_prompt(text: str, name: str) -> Prompt:
    """Read the text of a prompt file; raises `PromptError` naming the prompt and the line."""
    messages: list[Message | Template] = []
    role: Role | None = None
    left_out: set[str] = set()
    body: list[str] = []
    for number, line in enumerate(_lines(text), start=1):
        heading = _HEADING.fullmatch(line)
        if heading is None:
            body.append(_plain_line(line, name, number))
            if role is None:
                left_out |= _left_out(line)
            continue
        if role is not None:
            messages.append(_message(role, "\n".join(body), name))
        role, body = cast(Role, heading[1]), []
    if role is None:
        raise PromptError(
            f"prompt {name!r}, line 1: no role heading anywhere; "
            "a message starts below a line '# system', '# user' or '# assistant'"
        )
    messages.append(_message(role, "\n".join(body), name))
    parts = [part for message in messages for part in message.parts]
    used = frozenset(part.name for part in parts if isinstance(part, Gap))
    return Prompt(
        name=name, digest=hash_bytes(text.encode()), messages=tuple(messages), slots=used | left_out
    )


@cache
def _shipped(benchmark: str) -> Mapping[str, Traversable]:
    """The files of a benchmark's prompts by name; raises `PromptError` if there are none."""
    files = _listed(resources.files("judges") / "prompts" / benchmark)
    if not files:
        raise PromptError(f"no prompts are shipped for {benchmark!r}")
    return {file.name.removesuffix(".md"): file for file in files}


@cache
def _read_shipped(benchmark: str, name: str) -> Prompt:
    return _read_prompt(_shipped(benchmark)[name], name)


def _listed(folder: Traversable) -> list[Traversable]:
    if not folder.is_dir():
        return []
    files = (file for file in folder.iterdir() if file.name.endswith(".md"))
    return sorted(files, key=lambda file: file.name)


def _read_prompt(file: Traversable, name: str) -> Prompt:
    # Bytes, since reading as text would turn CR LF into LF.
    try:
        text = file.read_bytes().decode("utf-8")
    except OSError as error:
        raise PromptError(f"{file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise PromptError(f"{file}: not UTF-8 at byte {error.start}") from error
    try:
        return parse_prompt(text, name)
    except PromptError as error:
        raise PromptError(f"{file}: {error}") from error


def _differences(expected: frozenset[str], names: frozenset[str]) -> str:
    lists = [
        f"{label} {', '.join(sorted(slots))}"
        for label, slots in (("missing", expected - names), ("superfluous", names - expected))
        if slots
    ]
    return f"slots {'; '.join(lists)}" if lists else ""


def _advice(shipped: Prompt, replacement: Prompt) -> str:
    """The slot that an unknown one may mean, or how to leave slots out on purpose."""
    if superfluous := sorted(replacement.slots - shipped.slots):
        return nearest(superfluous[0], sorted(shipped.slots))
    missing = sorted(shipped.slots - replacement.slots)
    if not missing:
        return ""
    line = f"leaves out: {', '.join(missing)}"
    return f"; to leave them out on purpose, put a line {line!r} above the first role heading"


def _left_out(line: str) -> set[str]:
    """The slots that this line of a note leaves out."""
    match = _LEAVES_OUT.fullmatch(line.strip())
    return {slot.strip() for slot in match[1].split(",")} if match else set()


def _lines(text: str) -> list[str]:
    # Editors on Windows may put a byte order mark first; it is not part of the first line.
    return text.removeprefix("\ufeff").removesuffix("\n").split("\n")


def _plain_line(line: str, name: str, number: int) -> str:
    """The line as it is sent, unescaped; an almost-heading raises `PromptError`."""
    match = _HEADING_LIKE.fullmatch(line)
    if match is None:
        return line
    if not match[1]:
        role = match[2].strip("# \t\r").lower()
        raise PromptError(
            f"prompt {name!r}, line {number}: {line!r} is almost a role heading; write exactly "
            f"'# {role}' and end lines in LF, or put a backslash before it to send it as text"
        )
    return line[1:]


def _message(role: Role, body: str, prompt: str) -> Message | Template:
    """A message of a prompt; a `Template` if it has slots."""
    parts = _without_empty(join_texts(_pieces(body, prompt)))
    texts = tuple(part for part in parts if isinstance(part, Text))
    if len(texts) == len(parts):
        return Message(role=role, parts=texts)
    return Template(role=role, parts=parts)


def _pieces(body: str, prompt: str) -> Iterator[str | Gap]:
    end = 0
    for match in _SLOT.finditer(body):
        backslashes, slot = match.groups()
        yield body[end : match.start()] + "\\" * (len(backslashes) // 2)
        end = match.end()
        if len(backslashes) % 2 == 1:
            yield f"{{{{{slot}}}}}"
            continue
        name, _, encoding = re.sub(r"[ \t]", "", slot).lower().partition("|")
        if encoding and encoding not in _ENCODINGS:
            raise PromptError(
                f"prompt {prompt!r}: '{{{{{slot}}}}}' has no known encoding; use one of "
                f"{', '.join(_ENCODINGS)}, or put a backslash before it to send it as text"
            )
        yield Gap(name=name, encoding=encoding)
    yield body[end:]


def _escaped(piece: str | Part) -> str | Part:
    """The piece as it is inside a JSON string; an image stays an image."""
    match piece:
        case str():
            return escape_json(piece)
        case Text(text=text):
            return escape_json(text)
        case Ref():
            return replace(piece, json_escaped=True)
    return piece


def _without_empty(parts: Sequence[Text | Other]) -> tuple[Text | Other, ...]:
    """The parts without empty texts, unless there is nothing else."""
    filled = tuple(part for part in parts if not isinstance(part, Text) or part.text)
    return filled or (Text(text=""),)
