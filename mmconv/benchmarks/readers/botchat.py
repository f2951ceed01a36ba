"""BotChat's published judgements, through the parsers, scores and tables of a run.

`UniEval.tsv` has one row per model and dialogue, `GTEval.tsv` and files like it one per comparison;
the judge's reply is in a column named after the judge. Files of dialogues have loops and lengths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from judges.parsers.botchat import UniEvalParser, comparison
from mmconv.benchmarks.base.layouts import Context, make_tables
from mmconv.benchmarks.base.replay import Rescoring
from mmconv.benchmarks.base.results import Results
from mmconv.benchmarks.botchat.dialogues import (
    END,
    GTEVAL,
    HUMAN,
    INDEX,
    PAIREVAL,
    UTTERANCES,
    Comparison,
    DupDetect,
    as_lines,
    from_json,
    model_columns,
    record_dialogues,
    speaker,
)
from mmconv.benchmarks.botchat.metrics import (
    UNCON,
    UNIEVAL,
    checkpoints,
    metrics,
    score_comparison,
    score_dialogue,
    score_unieval,
)
from mmconv.benchmarks.botchat.tables import layouts
from mmconv.benchmarks.data_files.records import Record, scan_records, text
from mmconv.core.errors import DataError
from mmconv.core.score_rows import ScoreRows
from mmconv.core.types import Call, Outcome, Parser, Reply, Score, Skipped, Table
from mmconv.stats import ScoreFrame

EXACT_MATCH = "EM"
"""The judge's reply if both dialogues are the same."""

PUBLISHED = {UNIEVAL: 547, GTEVAL: 444}
"""How many judgements of each kind the authors publish per model."""

ADVICE = "Give the authors' files as they are."

_UNIEVAL = ("model", INDEX, "conversation")
_COMPARISON = ("cmp_index", "A", "B", "conversation1", "conversation2")
_OTHER_COLUMNS = {"qidx", INDEX, "nround", "result", "match", "winner"}
_DUP_DETECT = DupDetect()


def rescore(files: Sequence[Path], *, skip_bad: bool = False) -> tuple[Table, ...]:
    """The tables of the authors' files: UniEval, GTEval, comparisons of models, dialogues.

    Raises `DataError` for a file of another kind, and for rows that are malformed or repeat
    another; `skip_bad` leaves those out.
    """
    rescoring = Rescoring(skip_bad=skip_bad)
    reader = _Reader()
    judges: dict[str, None] = {}
    for path in files:
        read, judge = reader.recognise(path)
        rescoring.take(path, scan_records(path), read, ADVICE)
        judges |= {judge: None} if judge else {}
    frame = ScoreFrame(reader.rows)
    compared = f"{len(reader.compared)} in the files"
    notes = [
        f"{model}, {protocol}: {count} of the {PUBLISHED[protocol]} published judgements."
        for (model, protocol), count in reader.counts.items()
        if protocol in PUBLISHED
    ]
    context = Context(candidate="the files", judge=", ".join(judges), notes=notes)
    arranged = layouts(_DUP_DETECT, compared=compared)
    tables = make_tables(arranged, [*metrics(UTTERANCES)], {context.candidate: frame}, context)
    return rescoring.rescored(tables)


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Scores of the rows read so far, and counts of judgements by model and protocol.

    `places` says where each judgement or dialogue was read, `models` which of a pair is the model
    and not the opponent; `compared` are the indexes of the samples that comparisons are of.
    """

    rows: ScoreRows = field(default_factory=ScoreRows)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    places: dict[tuple[str, ...], str] = field(default_factory=dict)
    models: dict[frozenset[str], str] = field(default_factory=dict)
    compared: set[str] = field(default_factory=set)

    def recognise(self, path: Path) -> tuple[Callable[[Record], None], str]:
        """The function that reads the file's rows, and the column of the judge's replies."""
        first = next((row for row in scan_records(path) if row.fields), None)
        if first is None:
            raise DataError(str(path), ["holds no rows"], ADVICE)
        columns = tuple(first.fields)
        kinds = ((_COMPARISON, self._read_comparison), (_UNIEVAL, self._read_unieval))
        for needed, read in kinds:
            if set(needed) <= set(columns):
                judge = _judge_column(path, columns, needed)
                return partial(read, judge=judge), judge
        if INDEX in columns and model_columns(first):
            return self._read_dialogues, ""
        raise DataError(
            str(path),
            [f"has the columns {', '.join(columns)}"],
            f"UniEval needs {', '.join(_UNIEVAL)}, comparisons {', '.join(_COMPARISON)}, each with "
            "the judge's column; dialogues need index and a column per model.",
        )

    def _read_unieval(self, record: Record, judge: str) -> None:
        model, index, _ = _texts(record, _UNIEVAL)
        reply = text(record, judge)
        self._once(record.where, (UNIEVAL, model, index))
        self.counts[model, UNIEVAL] += 1
        results = _results(index, UNIEVAL, UniEvalParser(utterances=UTTERANCES), reply)
        self._add(score_unieval(results, model, checkpoints(UTTERANCES)))

    def _read_comparison(self, record: Record, judge: str) -> None:
        name, left, right, first, second = _texts(record, _COMPARISON)
        index, *names = name.rsplit(";", 2)
        if sorted(names) != sorted((left, right)):
            raise DataError(
                record.where,
                [f"cmp_index {name!r} does not name {left} and {right}: it is <index>;<A>;<B>"],
            )
        reply = text(record, judge)
        self._once(record.where, (left, right, index))
        self.compared.add(index)
        conversations = (split_conversation(first), split_conversation(second))
        compared = self._comparison(left, right, conversations)
        self.counts[compared.model, compared.protocol] += 1
        is_match = (reply or "").strip() == EXACT_MATCH
        parser = None if is_match or first == second else comparison
        results = _results(index, compared.call_id, parser, reply)
        self._add(score_comparison(results, compared, _DUP_DETECT))

    def _comparison(
        self, left: str, right: str, conversations: tuple[tuple[str, ...], tuple[str, ...]]
    ) -> Comparison:
        """A comparison of the model that is not the human, or of the pair's first."""
        names = frozenset((left, right))
        model = self.models.setdefault(names, right if left == HUMAN else left)
        is_left = model == left
        own, other = map(as_lines, conversations if is_left else conversations[::-1])
        return Comparison(
            protocol=GTEVAL if HUMAN in names else PAIREVAL,
            model=model,
            opponent=right if is_left else left,
            length=max(map(len, conversations)),
            order="1" if is_left else "2",
            own=own,
            other=other,
            searched=(own, other),
        )

    def _read_dialogues(self, record: Record) -> None:
        _, dialogues = record_dialogues(record)
        self._once(record.where, *(("dialogue", each.model, each.index) for each in dialogues))
        for dialogue in dialogues:
            results, lines = _results(dialogue.index), as_lines(dialogue.utterances)
            self._add(score_dialogue(results, dialogue.model, lines, len(lines), _DUP_DETECT))

    def _once(self, where: str, *names: tuple[str, ...]) -> None:
        """Note where these were read; raises `DataError` if one was read before."""
        if problems := [
            f"{', '.join(name)} is that of {self.places[name]}"
            for name in names
            if name in self.places
        ]:
            raise DataError(where, problems)
        self.places |= dict.fromkeys(names, where)

    def _add(self, scores: Iterable[Score]) -> None:
        for score in scores:
            self.rows.append(score)


def _results(
    index: str, call_id: str = "", parser: Parser | None = None, reply: str | None = None
) -> Results:
    """The results of a sample with at most one call, to which the file has the reply."""
    call = Call(id=call_id, model="judge", messages=(), parser=parser)
    outcome: Outcome = Skipped(because="a judgement") if reply is None else Reply(text=reply)
    return Results(
        sample=index,
        condition=UNCON,
        calls={} if parser is None else {call_id: call},
        outcomes={call_id: outcome},
        tags=lambda _: {},
    )


def _judge_column(path: Path, columns: Iterable[str], known: Sequence[str]) -> str:
    others = [column for column in columns if column not in {*known, *_OTHER_COLUMNS}]
    if "gpt4" in others:
        return "gpt4"
    if len(others) == 1:
        return others[0]
    raise DataError(
        str(path),
        [f"which column holds the judge's replies: {', '.join(others) or 'there is none'}?"],
        "Leave one column besides the authors' own.",
    )


def _texts(record: Record, names: Sequence[str]) -> list[str]:
    values = {name: text(record, name) for name in names}
    if missing := [f"{name} is missing" for name, value in values.items() if value is None]:
        raise DataError(record.where, missing)
    return [value for value in values.values() if value is not None]


def split_conversation(conversation: str) -> tuple[str, ...]:
    """The utterances of a JSON list, or of a dialogue as judges read it.

    There `A: ...<chat_end>` and `B: ...<chat_end>` take turns, a line each.
    """
    items = from_json(conversation)
    if isinstance(items, list):
        return tuple(map(str, items))
    chats = [chat.strip() for chat in conversation.removesuffix(END).split(END)]
    return tuple(
        chat.removeprefix(f"{speaker(place)}:").strip() for place, chat in enumerate(chats)
    )
