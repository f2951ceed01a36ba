"""Drafts of what ConvBench's rows lack: the calls that make them, and how their replies are read.

The calls follow the paper's curation stages ii to v (section 3.2): an instruction-conditioned
caption, polished from a plain description; three reference answers, given in one conversation;
focus points; categories. What a row has goes into the prompts of the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from judges import Judge, PromptSet, read_verdict
from judges.template import Slot
from mmconv.benchmarks.base.results import Outcomes
from mmconv.benchmarks.convbench.data import (
    CAPTION,
    CATEGORIES,
    DRAFTED,
    FOCUS_POINTS,
    LISTS,
    REFERENCES,
    Row,
    as_listed,
    folded,
)
from mmconv.core.errors import Unparsed
from mmconv.core.turns import Turn, chain
from mmconv.core.types import Call, Failure, Ref, Reply, Sampling, Text, Verdict

ROLE = "annotator"
"""The role that every call of a draft is asked of."""

_COLUMN_OF = {
    "caption": CAPTION,
    "turn_1": REFERENCES[0],
    "turn_2": REFERENCES[1],
    "turn_3": REFERENCES[2],
    "focus_points": FOCUS_POINTS,
}
_UNUSABLE = {
    "length": "cut off, raise --max-tokens",
    "filter": "stopped by the provider's content filter",
}
_TURNS = {"first": 1, "second": 2, "third": 3}
_CHOICE = re.compile(
    rf"[\W\d_]*({'|'.join(_TURNS)})(?:\s+(?:turn|instruction))?[\W_]*[:：](.*)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What was drafted for one row: texts by column.

    `faults` say what went wrong with which calls: the draft is not to be written then.
    `unreadable` names the columns that stay empty because twice no categories could be read.
    """

    texts: Mapping[str, str]
    faults: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotator:
    """Plans the calls for a row's draft, with the prompts of curation stages ii to v."""

    prompts: PromptSet
    sampling: Sampling

    def calls(self, row: Row) -> Iterator[Call]:
        """The calls that draft what the row lacks: none if it lacks nothing."""
        caption = Ref(call="caption") if row.caption is None else row.caption
        third = row.references[2]
        if row.caption is None:
            yield self._call("describe", "annotate_describe", {"image": row.image})
            slots = {"image": row.image, "description": Ref(call="describe"), **_instructions(row)}
            yield self._call("caption", "annotate_caption", slots)
        if None in row.references:
            yield from self._answers(row, caption)
        if row.focus_points is None:
            slots = {"image": row.image, "caption": caption, **_instructions(row)}
            slots["reference_3"] = Ref(call="turn_3") if third is None else third
            yield self._call("focus_points", "annotate_focus_points", slots)
        if None in row.categories:
            yield self._categories(row)

    def _call(self, call_id: str, name: str, slots: Mapping[str, Slot]) -> Call:
        prompt = self.prompts[name]
        return Call(
            id=call_id,
            model=ROLE,
            messages=prompt.fill(slots),
            sampling=self.sampling,
            prompt=prompt.label,
        )

    def _answers(self, row: Row, caption: str | Ref) -> Iterator[Call]:
        """The answers that are missing, in one conversation in which given ones stand."""
        prompt = self.prompts["annotate_answers"]
        slots = {"image": row.image, "caption": caption, "instruction_1": row.instructions[0]}
        *before, opening = prompt.fill(slots)
        later = [(Text(text=instruction),) for instruction in row.instructions[1:]]
        turns = [
            Turn(user=user, answer=answer, generate=answer is None)
            for user, answer in zip((opening.parts, *later), row.references, strict=True)
        ]
        for call in chain(turns, model=ROLE, sampling=self.sampling):
            yield replace(call, messages=(*before, *call.messages), prompt=prompt.label)

    def _categories(self, row: Row) -> Call:
        slots = _instructions(row)
        for number, names in LISTS.items():
            slots[f"categories_{number}"] = "\n".join(names)
        judge = Judge(parser=read_categories, sampling=self.sampling, model=ROLE, retries=1)
        return judge.call("categories", self.prompts["annotate_categories"], slots)


def gaps(row: Row) -> tuple[str, ...]:
    """The columns that the row lacks and that can be drafted."""
    held = (row.caption, *row.categories, *row.references, row.focus_points)
    return tuple(column for column, text in zip(DRAFTED, held, strict=True) if text is None)


def read_draft(row: Row, calls: Iterable[Call], outcomes: Outcomes) -> Draft:
    """Read the outcomes of a row's calls; texts lose blanks around them, and nothing else.

    An empty reply, or one that was cut off, is a fault like a failed call.
    """
    texts: dict[str, str] = {}
    faults: list[str] = []
    for call in calls:
        faults += _faults(call, outcomes)
        outcome = outcomes[call.id]
        if call.parser is not None:
            texts |= _read_choice(row, call, outcomes)
        elif call.id in _COLUMN_OF and isinstance(outcome, Reply):
            texts[_COLUMN_OF[call.id]] = outcome.text.strip()
    empty = () if faults else tuple(column for column in gaps(row) if column not in texts)
    return Draft(texts=texts, faults=tuple(faults), unreadable=empty)


def read_categories(text: str) -> Verdict:
    """The three categories, spelt as in the paper's lists, as a label of three lines.

    There must be one line `First: name`, one `Second: name` and one `Third: name`; case, blanks,
    list marks and Markdown do not count. Raises `Unparsed` for a name that is not on its list.
    """
    lines = [match for line in text.splitlines() if (match := _CHOICE.match(line))]
    chosen = []
    for turn, number in _TURNS.items():
        given = {folded(match[2]) for match in lines if match[1].lower() == turn}
        if len(given) != 1:
            raise Unparsed(f"looked for one line '{turn.title()}: name', found {len(given)}")
        wanted = given.pop()
        found = as_listed(number, wanted)
        if found is None:
            raise Unparsed(f"{wanted!r} is not a category of the {turn} turn")
        chosen.append(found)
    return Verdict(label="\n".join(chosen))


def _instructions(row: Row) -> dict[str, Slot]:
    return {f"instruction_{turn}": text for turn, text in enumerate(row.instructions, start=1)}


def _read_choice(row: Row, call: Call, outcomes: Outcomes) -> dict[str, str]:
    verdict = read_verdict(call, outcomes).verdict
    if verdict is None or verdict.label is None:
        return {}
    missing = gaps(row)
    chosen = zip(CATEGORIES, verdict.label.splitlines(), strict=True)
    return {column: name for column, name in chosen if column in missing}


def _faults(call: Call, outcomes: Outcomes) -> Iterator[str]:
    """What went wrong with a call and its fallbacks, as far as they were requested."""
    for each in call.attempts:
        match outcomes.get(each.id):
            case Failure() as failure:
                yield f"{each.id}: {failure.description}"
            case Reply(text=text, finish=finish) if each.parser is None:
                if finish in _UNUSABLE:
                    yield f"{each.id}: {_UNUSABLE[finish]}"
                elif not text.strip():
                    yield f"{each.id}: an empty reply"
