"""A sample's calls as conversations: questions and answers by turn, and how they were judged.

A transcript has one record per call, and each repeats the history; here every text is once. An
answer in a history is a given one unless the model replied it there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TypeAlias

from mmconv.core.judges import split_call
from mmconv.core.types import UNASKED, UNPARSED
from mmconv.report.data_quality import (
    NOT_REQUESTED,
    UNREADABLE,
    Record,
    call_order,
    deciding_attempt,
    group_attempts,
    is_judgement,
    natural_order,
)
from mmconv.report.tables.cells import in_words
from mmconv.run_folder.layout import SCORES, TRANSCRIPTS
from mmconv.run_folder.saved_run import read_by_sample

VerdictWords: TypeAlias = Callable[[str, str | None, Mapping[str, float]], str]
"""Words a verdict from the call's id, the label and the scores."""

_NUMBER = re.compile(r"_(\d+)$")


def aligned(
    folders: Sequence[Path],
) -> Iterator[tuple[str, list[list[Record]], list[list[Record]]]]:
    """Each sample with the records of its calls and of its scores, a list of both for each folder.

    The order is that of the first file that has a sample; files of calls go before those of scores.
    """
    files = [folder / name for name in (TRANSCRIPTS, SCORES) for folder in folders]
    streams = [read_by_sample(file) for file in files]
    waiting: list[dict[str, list[Record]]] = [{} for _ in streams]

    def take(sample: str, first: int) -> tuple[str, list[list[Record]], list[list[Record]]]:
        """Read the files after the first one that has the sample until they have it too."""
        for read, stream in zip(waiting[first + 1 :], streams[first + 1 :], strict=True):
            while sample not in read and (group := next(stream, None)) is not None:
                read.update([group])
        records = [read.pop(sample, []) for read in waiting]
        return sample, records[: len(folders)], records[len(folders) :]

    for place, stream in enumerate(streams):
        yield from (take(sample, place) for sample in [*waiting[place]])
        for sample, records in stream:
            waiting[place][sample] = records
            yield take(sample, place)


def dialogue(calls: Sequence[Record], words: VerdictWords) -> Record:
    """The calls of one plan as `turns`, and the `verdicts` that belong to no answer."""
    judgements: dict[str, list[Record]] = {}
    answers: list[Record] = []
    for (_, name), attempts in group_attempts(calls).items():
        if is_judgement(attempts[0]):
            judgements[name] = attempts
        else:
            answers += attempts
    # independent calls end in any order; the longer history is the later turn
    answers.sort(key=lambda call: (len(call["messages"] or ()), natural_order(call["call"])))
    turns = _turns(answers)
    verdicts = {
        name: _verdict(name, judgements[name], words) for name in sorted(judgements, key=call_order)
    }
    # a verdict whose id ends in an answer's id belongs to that answer
    for answer in (answer for turn in turns for answer in turn["answers"]):
        names = [name for name in verdicts if name.endswith(f"/{answer.get('call')}")]
        if names:
            answer["verdicts"] = [verdicts.pop(name) for name in names]
    return {"turns": turns, "verdicts": list(verdicts.values())}


def _turns(answers: Iterable[Record]) -> list[Record]:
    thread: list[tuple[str, ...]] = []
    turns: list[Record] = []
    systems: set[tuple[str, ...]] = set()

    def open_turn() -> Record:
        """The turn that takes the next question: a new one if the last one is answered."""
        if not turns or turns[-1]["answers"]:
            turns.append({"asked": [], "answers": []})
        return turns[-1]

    def last_turn() -> Record:
        return turns[-1] if turns else open_turn()

    for call in answers:
        messages = call["messages"] or ()
        prompts = {_contents(system): system for system in messages if system["role"] == "system"}
        for prompt in [prompt for prompt in prompts if prompt not in systems]:
            open_turn()["asked"].append(_written(prompts[prompt]))
        systems |= prompts.keys()
        spoken = [message for message in messages if message["role"] != "system"]
        contents = [_contents(message) for message in spoken]
        shared = takewhile(lambda pair: pair[0] == pair[1], zip(thread, contents, strict=False))
        for message in spoken[sum(1 for _ in shared) :]:
            if message["role"] == "assistant":
                last_turn()["answers"].append({"given": True, **_written(message)})
            else:
                open_turn()["asked"].append(_written(message))
        if _turn_number(last_turn()) not in (None, _number(call)):
            # a model that talks with itself is asked by its own last answer
            turns.append({"asked": [], "answers": []})
        last_turn()["answers"].append(_answer(call))
        thread = [*contents, (call["text"] or "",)]
    for place, turn in enumerate(turns):
        turn["n"] = _turn_number(turn) or (turns[place - 1]["n"] + 1 if place else 1)
    return turns


def _turn_number(turn: Record) -> int | None:
    numbers = (_number(answer) for answer in turn["answers"] if "call" in answer)
    return next((number for number in numbers if number is not None), None)


def _number(call: Record) -> int | None:
    match = _NUMBER.search(call["call"])
    return int(match[1]) if match else None


def _contents(message: Record) -> tuple[str, ...]:
    """The parts of a message without its role: when a model talks with itself, roles alternate."""
    return tuple(part.get("text") or part.get("image") or "" for part in message["parts"])


def _written(message: Record) -> Record:
    text = "\n".join(part["text"] for part in message["parts"] if part.get("text"))
    images = [part["image"][:16] for part in message["parts"] if part.get("image")]
    return {"role": message["role"], "text": text} | ({"pictures": images} if images else {})


def _answer(call: Record) -> Record:
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
    answer = {
        "call": call["call"],
        "text": call["text"] or "",
        "problem": _problem(call),
        "waits": _waits(call),
        "thought": call["reasoning"],
        "cut": call["finish"] == "length",
        "facts": ", ".join(facts),
        "prompt": call["prompt"],
    }
    return {name: value for name, value in answer.items() if value or name in ("call", "text")}


def _problem(call: Record) -> str | None:
    if call["state"] == "failure":
        return f"failed: {call['problem']}"
    if call["state"] == "skipped":
        _, words = in_words(f"skipped: {call['problem']}")
        # an unfinished run says just that
        return words if call["messages"] else f"{NOT_REQUESTED}, {words}"
    return None


def _waits(call: Record) -> bool:
    """Whether the call of an unfinished run has not been requested yet; that is not a problem."""
    return bool(call["state"] == "skipped" and call["problem"] == UNASKED)


def _verdict(name: str, attempts: list[Record], words: VerdictWords) -> Record:
    call = deciding_attempt(attempts)
    if call is None:
        first = attempts[0]
        parse = (first["parse"] or "not read").replace(UNPARSED, UNREADABLE)
        return {
            "call": name,
            "problem": _problem(first) or parse,
            **({"waits": True} if _waits(first) else {}),
            "text": "\n\n".join(call["text"] for call in attempts if call["text"]),
        }
    scores = {score["name"]: score["value"] for score in call["scores"] or ()}
    return {
        "call": name,
        "said": words(split_call(name)[0], call["label"], scores),
        "text": call["rationale"] or call["text"],
        **({"tries": len(attempts)} if len(attempts) > 1 else {}),
    }
