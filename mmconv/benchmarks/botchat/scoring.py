"""BotChat's scores, of a run and of published judgements.

Of a dialogue: `human` (utterances before the first one taken for AI), `pass` (0 or 1, at the length
that is the turn), `pass_at_human_length`, `non_loop` (0 or 1), `non_loop_utterances` (those up to
the first repetition). Of an utterance, whose number is the turn: `characters`, `words`, `dropped`.
Of a comparison: `duel`, its points from `WIN` to `LOSS`. The tag `reading` separates our reading of
a judgement from the authors', `dup` says whether DupDetect went before the judge, `model` whose
score it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from judges.parsers.botchat import (
    AUTHORS_UTTERANCES,
    FIRST,
    HUMAN,
    SECOND,
    authors_comparison,
    authors_human,
)
from mmconv.benchmarks.base.results import Result, Results
from mmconv.benchmarks.botchat.dialogues import SEED, Comparison, Line, resolve
from mmconv.benchmarks.botchat.loops import DupDetect, first_repeat
from mmconv.core.errors import Unparsed
from mmconv.core.types import SAME_TEXT, Parser, Ref, Reply, Score, Skipped, Text, Verdict

UNIEVAL = "unieval"
"""The id of the call that judges the candidate's dialogue alone."""

WIN, GOOD_TIE, BAD_TIE, LOSS = 3.0, 1.0, -1.0, -3.0
"""A win, both taken for human, both taken for AI, a loss: the weights of the authors' Score."""

OURS, AUTHORS = "ours", "authors"
JUDGE_ALONE, DUP_FIRST = "judge alone", "DupDetect first"
"""The tag `dup`: whether a loop decides a comparison before the judge does."""

UNKNOWN = "unknown"
"""The reason for missing points by the authors' reading; these stay in their denominator."""

UNFINISHED = "unfinished dialogue"
"""The reason for missing scores of a dialogue without one of its utterances."""

Value: TypeAlias = tuple[float | None, str | None]
"""A number, or None and the reason."""


def score_unieval(
    results: Results, model: str, lengths: Sequence[int], human_length: int | None = None
) -> Iterator[Score]:
    """Pass rates at `lengths` by both readings, and ours at the human dialogue's length.

    `human_length` is None for a dialogue that is not compared with a human one. The authors' code
    takes no dialogue for longer than `AUTHORS_UTTERANCES`, and has no rate beyond.
    """
    judgement = results[UNIEVAL]
    verdict = judgement.verdict
    ours = None if verdict is None else verdict.scores[HUMAN], judgement.reason
    verdict, reason = _read_as_authors(judgement, authors_human)
    authors = None if verdict is None else verdict.scores[HUMAN], reason
    yield results.score("human", *ours, model=model, reading=OURS)
    if human_length is not None:
        passed = _passed(ours, human_length)
        yield results.score("pass_at_human_length", *passed, model=model, reading=OURS)
    for reading, human in ((OURS, ours), (AUTHORS, authors)):
        for length in lengths:
            if reading == OURS or length <= AUTHORS_UTTERANCES:
                passed = _passed(human, length)
                yield results.score("pass", *passed, turn=length, model=model, reading=reading)


def _passed(human: Value, length: int) -> Value:
    """Whether the first utterance taken for AI comes after `length` others."""
    return (None, human[1]) if human[0] is None else (float(human[0] >= length), None)


def score_comparison(
    results: Results, compared: Comparison, settings: DupDetect
) -> Iterator[Score]:
    """Points by both readings, with the judge alone and with DupDetect first.

    A pair of the same text has no points, as the authors have it. Its call is not among the results
    if that was known before, or if a dialogue is missing.
    """
    own, other = (resolve(lines, results.outcomes) for lines in (compared.own, compared.other))
    reason, is_void = SAME_TEXT, own is not None and own == other
    if compared.missing is not None:
        reason, is_void = Skipped(because=f"a whole dialogue of {compared.missing}").why, True
    is_judged = compared.call_id in results.calls and not is_void
    judgement = results[compared.call_id]
    decided = None if is_void else _decide_by_loops(compared, results, settings)
    for reading in (OURS, AUTHORS):
        value: Value = (None, reason)
        if is_judged:
            verdict, unread = judgement.verdict, judgement.reason
            if reading == AUTHORS:
                verdict, unread = _read_as_authors(judgement, authors_comparison)
            value = _points(compared, verdict), unread
        for dup in (JUDGE_ALONE, DUP_FIRST):
            if dup == DUP_FIRST and decided is not None:
                value = (decided, None)
            yield results.score(
                "duel",
                *value,
                model=compared.model,
                reading=reading,
                dup=dup,
                protocol=compared.protocol,
                opponent=compared.opponent,
                length=str(compared.length),
                order=compared.order,
            )


def _points(compared: Comparison, verdict: Verdict | None) -> float | None:
    if verdict is None:
        return None
    taken_for_ai = {"both": "12", "neither": "", FIRST: "1", SECOND: "2"}[str(verdict.label)]
    if len(taken_for_ai) == 1:
        return LOSS if taken_for_ai == compared.order else WIN
    return BAD_TIE if taken_for_ai else GOOD_TIE


def _decide_by_loops(compared: Comparison, results: Results, settings: DupDetect) -> float | None:
    """What DupDetect decides: a tie if both loop, else a win for the one that does not.

    The paper's tie has no weight in the authors' Score; two loops count as two bad dialogues.
    """
    own, other = (resolve(lines, results.outcomes) for lines in compared.searched)
    if own is None or other is None:
        return None
    own_loops, other_loops = (first_repeat(each, settings) is not None for each in (own, other))
    if own_loops:
        return BAD_TIE if other_loops else LOSS
    return WIN if other_loops else None


def _read_as_authors(judgement: Result, parser: Parser) -> tuple[Verdict | None, str | None]:
    """The verdict of the first reply, or the reason; the authors retry nothing."""
    if judgement.text is None:
        return None, judgement.first_reason
    try:
        return parser(judgement.text), None
    except Unparsed:
        return None, UNKNOWN


def score_dialogue(
    results: Results, model: str, lines: Sequence[Line], count: int, settings: DupDetect
) -> Iterator[Score]:
    """Loops and lengths of a dialogue of `count` utterances, which has no lines if it is missing.

    The utterance that repeats is the last that counts as non-looping; without one all do (paper,
    sections 3.2 and 4.3). Lengths are in characters, and in words separated by blanks.
    """
    texts = resolve(lines, results.outcomes) if lines else None
    repeat = None if texts is None else first_repeat(texts, settings)
    for name, number in (("non_loop", repeat is None), ("non_loop_utterances", repeat or count)):
        whole: Value = (None, UNFINISHED) if texts is None else (number, None)
        yield results.score(name, *whole, model=model)
    for number in range(SEED + 1, count + 1):
        line = lines[number - 1] if lines else None
        outcome = results.outcomes[line.call] if isinstance(line, Ref) else line
        values: dict[str, float | None] = dict.fromkeys(("characters", "words"))
        reason = None
        if isinstance(outcome, Reply | Text):
            values = {"characters": len(outcome.text), "words": len(outcome.text.split())}
        else:
            reason = UNFINISHED if outcome is None else outcome.why
        if isinstance(line, Ref):
            values["dropped"] = outcome.dropped if isinstance(outcome, Reply) else None
        for name, value in values.items():
            yield results.score(name, value, reason, turn=number, model=model)
