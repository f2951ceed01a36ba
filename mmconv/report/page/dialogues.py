"""A sample's calls as conversations: who said what in which turn, and how it was judged.

A transcript has one record per call, and each repeats what came before it. Here every text stands
once. The model's own answers and given ones differ by position: an answer that the history holds
where a reply came is that reply, any other answer in a history was given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from mmconv.core.types import UNASKED, UNPARSED
from mmconv.report.data_quality import UNREADABLE, Tries, deciding_try, group_tries, is_judgement
from mmconv.report.tables.cells import in_words
from mmconv.run_folder.layout import SCORES, TRANSCRIPTS
from mmconv.run_folder.saved_run import read_by_sample

Record: TypeAlias = dict[str, Any]
"""One line of `transcripts.jsonl`, or a part of what the page reads."""

Stream: TypeAlias = Iterator[tuple[str, list[Record]]]
"""The samples of one file, each with its records."""


def aligned(
    folders: Sequence[Path],
) -> Iterator[tuple[str, list[list[Record]], list[list[Record]]]]:
    """Each sample with the records of its calls and of its scores, a list of both for each folder.

    The order is that of the first file that has a sample; files of calls go before those of scores.
    """
    files = [folder / name for name in (TRANSCRIPTS, SCORES) for folder in folders]
    streams = [read_by_sample(file) for file in files]
    waiting: list[dict[str, list[Record]]] = [{} for _ in streams]
    for place, stream in enumerate(streams):
        yield from (_row(sample, waiting, streams, place) for sample in [*waiting[place]])
        for sample, records in stream:
            waiting[place][sample] = records
            yield _row(sample, waiting, streams, place)


def _row(
    sample: str, waiting: list[dict[str, list[Record]]], streams: list[Stream], place: int
) -> tuple[str, list[list[Record]], list[list[Record]]]:
    """The records of one sample; the files after `place` are read on until they have given it."""
    for held, stream in list(zip(waiting, streams, strict=True))[place + 1 :]:
        while sample not in held and (found := next(stream, None)) is not None:
            held.update([found])
    records = [held.pop(sample, []) for held in waiting]
    half = len(records) // 2
    return sample, records[:half], records[half:]


Reader: TypeAlias = Callable[[str, str | None, Mapping[str, float]], str]
"""Puts a verdict into words, from the call's id, the label and the scores."""

_NUMBER = re.compile(r"_(\d+)$")
_DIGITS = re.compile(r"(\d+)")


def call_order(call: str) -> tuple[str, bool, list[Any]]:
    """A key that sorts call ids: those of a group by their turns, then what has no number."""
    group, _, name = call.rpartition("/")
    return group, _DIGITS.search(name) is None, _natural(name)


def dialogue(calls: Sequence[Record], words: Reader) -> Record:
    """The calls of one plan as `turns`, and the `verdicts` that belong to no answer."""
    judgements: dict[str, Tries] = {}
    answers: list[Record] = []
    for (_, name), tries in group_tries(calls).items():
        if is_judgement(tries[0]):
            judgements[name] = tries
        else:
            answers += tries
    # calls that wait for nothing end in any order; the longer history is the later turn
    answers.sort(key=lambda call: (len(call["messages"] or ()), _natural(call["call"])))
    turns = _turns(answers)
    verdicts = {
        name: _verdict(name, judgements[name], words) for name in sorted(judgements, key=call_order)
    }
    _attach(turns, verdicts)
    return {"turns": turns, "verdicts": list(verdicts.values())}


def _turns(answers: Iterable[Record]) -> list[Record]:
    thread: list[tuple[str, ...]] = []
    turns: list[Record] = []
    systems: set[tuple[str, ...]] = set()
    for call in answers:
        spoken = [each for each in call["messages"] or () if each["role"] != "system"]
        for message in call["messages"] or ():
            if message["role"] == "system" and _parts(message) not in systems:
                systems.add(_parts(message))
                _open(turns)["asked"].append(_said(message))
        contents = [_parts(message) for message in spoken]
        known = _common(thread, contents)
        for message in spoken[known:]:
            if message["role"] == "assistant":
                _last(turns)["answers"].append({"given": True, **_said(message)})
            else:
                _open(turns)["asked"].append(_said(message))
        if _turn_number(_last(turns)) not in (None, _number(call)):
            # a model that talks with itself is asked by its own last answer
            turns.append({"asked": [], "answers": []})
        _last(turns)["answers"].append(_answer(call))
        thread = [*contents, (call["text"] or "",)]
    for place, turn in enumerate(turns):
        turn["n"] = _turn_number(turn) or (turns[place - 1]["n"] + 1 if place else 1)
    return turns


def _open(turns: list[Record]) -> Record:
    """The turn that takes the next question: a new one if the last one is answered."""
    if not turns or turns[-1]["answers"]:
        turns.append({"asked": [], "answers": []})
    return turns[-1]


def _last(turns: list[Record]) -> Record:
    return turns[-1] if turns else _open(turns)


def _turn_number(turn: Record) -> int | None:
    numbers = (_number(each) for each in turn["answers"] if "call" in each)
    return next((number for number in numbers if number is not None), None)


def _number(call: Record) -> int | None:
    found = _NUMBER.search(call["call"])
    return int(found[1]) if found else None


def _parts(message: Record) -> tuple[str, ...]:
    """What a message holds, roles apart: in a talk of a model with itself they take turns."""
    return tuple(part.get("text") or part.get("image") or "" for part in message["parts"])


def _common(thread: Sequence[tuple[str, ...]], contents: Sequence[tuple[str, ...]]) -> int:
    pairs = zip(thread, contents, strict=False)
    return next(
        (at for at, (old, new) in enumerate(pairs) if old != new), min(len(thread), len(contents))
    )


def _said(message: Record) -> Record:
    said: Record = {"role": message["role"]}
    said["text"] = "\n".join(part["text"] for part in message["parts"] if part.get("text"))
    pictures = [part["image"][:16] for part in message["parts"] if part.get("image")]
    return said | ({"pictures": pictures} if pictures else {})


def _answer(call: Record) -> Record:
    """A call of the candidate as its answer; fields that would be empty are left out."""
    answer = {
        "call": call["call"],
        "text": call["text"] or "",
        "problem": _problem(call),
        "waits": _waits(call),
        "thought": call["reasoning"],
        "cut": call["finish"] == "length",
        "facts": _facts(call),
        "prompt": call["prompt"],
    }
    return {name: value for name, value in answer.items() if value or name in ("call", "text")}


def _facts(call: Record) -> str:
    facts = []
    if call["output_tokens"] is not None:
        facts.append(f"{call['output_tokens']} tokens")
    if call["state"] == "reply":
        facts.append(f"{call['seconds']:.2f} s")
    facts += [f"sent as {seen['width']} × {seen['height']}" for seen in call["seen"]]
    if call["dropped"]:
        facts.append(f"{call['dropped']} oldest messages dropped")
    if call["finish"] == "filter":
        facts.append("stopped by a content filter")
    return ", ".join(facts)


def _problem(call: Record) -> str | None:
    if call["state"] == "failure":
        return f"failed: {call['problem']}"
    if call["state"] == "skipped":
        # of a run under way it says just that
        _, words = in_words(f"skipped: {call['problem']}")
        return words if call["messages"] else f"not asked, {words}"
    return None


def _waits(call: Record) -> bool:
    """Whether a call of a run under way has yet to be asked, which is not a problem."""
    return bool(call["state"] == "skipped" and call["problem"] == UNASKED)


def _verdict(name: str, tries: Tries, words: Reader) -> Record:
    """A judgement and what became of it; the first reply that could be read decides."""
    read = deciding_try(tries)
    if read is None:
        first = tries[0]
        return {
            "call": name,
            "problem": _problem(first)
            or (first["parse"] or "not read").replace(UNPARSED, UNREADABLE),
            **({"waits": True} if _waits(first) else {}),
            "text": "\n\n".join(each["text"] for each in tries if each["text"]),
        }
    scores = {each["name"]: each["value"] for each in read["scores"] or ()}
    verdict = {
        "call": name,
        "said": words(name, read["label"], scores),
        "text": read["rationale"] or read["text"],
    }
    return verdict | ({"tries": len(tries)} if len(tries) > 1 else {})


def _attach(turns: Iterable[Record], verdicts: dict[str, Record]) -> None:
    """Move each verdict whose id ends in an answer's id to that answer."""
    for turn in turns:
        for answer in turn["answers"]:
            mine = [name for name in verdicts if name.endswith(f"/{answer.get('call')}")]
            if mine:
                answer["verdicts"] = [verdicts.pop(name) for name in mine]


def _natural(name: str) -> list[Any]:
    """A key that sorts `turn_2` before `turn_10`."""
    parts = _DIGITS.split(name)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)]
