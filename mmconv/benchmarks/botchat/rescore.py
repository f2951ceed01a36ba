"""BotChat rescored: published judgements through the parsers, scores and tables of a live run.

What the files hide is in one more table. Files are read in `published`; nothing is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from judges.parsers.botchat import UniEvalParser, comparison
from mmconv.benchmarks.botchat.chains import written
from mmconv.benchmarks.botchat.dialogue_files import HUMAN, record_dialogues
from mmconv.benchmarks.botchat.grading import UNIEVAL
from mmconv.benchmarks.botchat.options import CHECKPOINTS, SEED, UNCON, UTTERANCES, DupDetect
from mmconv.benchmarks.botchat.players import GTEVAL, PAIREVAL, Duel
from mmconv.benchmarks.botchat.published import (
    ADVICE,
    EXACT_MATCH,
    Alone,
    Compared,
    Judgements,
    read_alone,
    read_compared,
    recognise,
)
from mmconv.benchmarks.botchat.scoring import (
    Scored,
    score_alone,
    score_duel,
    score_length,
    score_loop,
)
from mmconv.benchmarks.botchat.table_rows import TableContext
from mmconv.benchmarks.botchat.tables import build_tables
from mmconv.benchmarks.data_files.records import Record, scan_records
from mmconv.benchmarks.shared.rescore import Rescoring
from mmconv.core.errors import DataError
from mmconv.core.score_rows import ScoreRows
from mmconv.core.types import Call, Cell, Outcome, Reply, Score, Skipped, Table
from mmconv.stats import ScoreFrame

PUBLISHED = {UNIEVAL: 547, GTEVAL: 444}
"""How many judgements of each kind the authors publish per model."""

ROWS, MISSING, EMPTY = "rows", "missing rows", "empty judgements"
EXACT, UNEQUAL = "exact matches (EM)", "EM of texts that differ"
SHORT, OPAQUE = "dialogues of fewer utterances", "conversations in no known form"
FAULTS = (ROWS, MISSING, EMPTY, EXACT, UNEQUAL, SHORT, OPAQUE)
"""What is counted of every model's rows, by the name of its column."""

_JUDGED = Call(id=UNIEVAL, seat="judge", messages=(), parser=UniEvalParser(utterances=UTTERANCES))


def rescore(
    files: Sequence[Path], dup_detect: DupDetect | None = None, *, skip_bad: bool = False
) -> tuple[Table, ...]:
    """The tables of the authors' files: UniEval, GTEval, comparisons of models, dialogues.

    Raises `DataError` for a file that is none of these, and for rows that are none of its kind or
    repeat another; `skip_bad` leaves those out.
    """
    settings = dup_detect or DupDetect()
    rescoring = Rescoring(skip_bad=skip_bad)
    reading = _Reading(settings=settings)
    for path in files:
        reading.read(recognise(path), rescoring)
    judges = ", ".join(dict.fromkeys(reading.judges)) or "nobody"
    compared = f"{len(reading.compared)} in the files"
    context = TableContext(judge=f"judged by {judges}", dup_detect=settings, compared=compared)
    tables = build_tables(ScoreFrame(reading.rows), context)
    return rescoring.rescored((*tables, *_faults(reading.counts)))


@dataclass(slots=True, kw_only=True)
class _Reading:
    """What has been read so far: scores, judges, and counts of oddities by protocol and model.

    `compared` are the indexes of the samples that comparisons are of.
    """

    settings: DupDetect
    rows: ScoreRows = field(default_factory=ScoreRows)
    judges: list[str] = field(default_factory=list)
    counts: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    seen: dict[tuple[str, ...], str] = field(default_factory=dict)
    pairs: dict[frozenset[str], str] = field(default_factory=dict)
    compared: set[str] = field(default_factory=set)

    def read(self, file: Judgements, rescoring: Rescoring) -> None:
        """Take in one file."""
        indexes: dict[str, str] = {}

        def add(record: Record) -> None:
            match file.kind:
                case "alone":
                    alone = read_alone(record, file.judge)
                    self._once(record.where, (UNIEVAL, alone.model, alone.index))
                    self._add(self._alone(alone))
                case "compared":
                    compared = read_compared(record, file.judge)
                    name = (compared.left, compared.right, compared.index)
                    self._once(record.where, name)
                    self.compared.add(compared.index)
                    self._add(self._compared(compared))
                case "dialogues":
                    self._add(self._dialogues(record, indexes))

        rescoring.take(file.path, scan_records(file.path), add, ADVICE)
        if file.judge:
            self.judges.append(file.judge)

    def _add(self, scores: Iterator[Score]) -> None:
        for score in scores:
            self.rows.append(score)

    def _once(self, where: str, *names: tuple[str, ...]) -> None:
        """Raise `DataError` for what was read before, or take down that it was read here."""
        if told := [
            f"{', '.join(name)} is that of {self.seen[name]}" for name in names if name in self.seen
        ]:
            raise DataError(where, told)
        self.seen |= dict.fromkeys(names, where)

    def _alone(self, row: Alone) -> Iterator[Score]:
        counts = self.counts.setdefault((UNIEVAL, row.model), Counter())
        counts[ROWS] += 1
        counts[EMPTY] += row.reply is None
        counts[OPAQUE] += len(row.utterances) < SEED
        counts[SHORT] += SEED <= len(row.utterances) < UTTERANCES
        scored = Scored(sample=row.index, condition=UNCON, model=row.model)
        outcomes = {UNIEVAL: _outcome(row.reply)}
        yield from score_alone(scored, _JUDGED, outcomes, CHECKPOINTS, None)

    def _compared(self, row: Compared) -> Iterator[Score]:
        duel = self._duel(row)
        counts = self.counts.setdefault((duel.protocol, duel.model), Counter())
        counts[ROWS] += 1
        counts[EMPTY] += row.reply is None
        matched = (row.reply or "").strip() == EXACT_MATCH
        first, second = row.conversations
        counts[EXACT] += matched
        counts[UNEQUAL] += matched and first != second
        counts[OPAQUE] += min(len(first), len(second)) < SEED
        call = Call(id=duel.call_id, seat="judge", messages=(), parser=comparison)
        outcomes = {duel.call_id: _outcome(row.reply)}
        scored = Scored(sample=row.index, condition=UNCON, model=duel.model)
        judged = None if row.same else call
        yield from score_duel(scored, duel, judged, outcomes, self.settings)

    def _duel(self, row: Compared) -> Duel:
        """The row as a comparison of the model that is not the human, or of the pair's first."""
        names = frozenset((row.left, row.right))
        first = row.right if row.left == HUMAN else row.left
        model = self.pairs.setdefault(names, first)
        is_left = model == row.left
        own, other = map(written, row.conversations if is_left else row.conversations[::-1])
        return Duel(
            protocol=GTEVAL if HUMAN in names else PAIREVAL,
            model=model,
            opponent=row.right if is_left else row.left,
            length=max(map(len, row.conversations)),
            order="1" if is_left else "2",
            own=own,
            other=other,
            searched=(own, other),
        )

    def _dialogues(self, record: Record, indexes: dict[str, str]) -> Iterator[Score]:
        found = record_dialogues(record, indexes)
        self._once(record.where, *(("dialogue", each.model, each.index) for each in found))
        for dialogue in found:
            scored = Scored(sample=dialogue.index, condition=UNCON, model=dialogue.model)
            yield from score_loop(scored, dialogue.utterances, self.settings)
            for number, each in enumerate(dialogue.utterances[SEED:], start=SEED + 1):
                yield from score_length(scored, number, each)


def _outcome(reply: str | None) -> Outcome:
    return Skipped(because="a judgement") if reply is None else Reply(text=reply)


def _faults(counts: dict[tuple[str, str], Counter[str]]) -> Iterator[Table]:
    """How many oddities of each kind every model's rows have."""
    if not counts:
        return
    rows = {}
    for (protocol, model), found in counts.items():
        row = {name: Cell(value=float(found[name])) for name in FAULTS if name != MISSING}
        if protocol in PUBLISHED:
            row[MISSING] = Cell(value=float(PUBLISHED[protocol] - found[ROWS]))
        rows[f"{model}, {protocol}"] = row
    yield Table(
        name="faults",
        title="What the files hide",
        columns=FAULTS,
        rows=rows,
        notes=("Missing rows: against the 547 dialogues and 222 x 2 comparisons of MuTual-Test.",),
        digits=0,
    )
