"""Cards of audited judges: an audit writes one, and a run that cites it is corrected by it.

The run's folder holds a copy of the card, so that scoring the run again corrects it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mmconv.benchmarks.audit import Audit
from mmconv.benchmarks.audit.card import JudgeCard, Judged, make_card
from mmconv.benchmarks.base import Benchmark
from mmconv.core.atomic_writes import write_file
from mmconv.core.errors import ConfigError
from mmconv.core.types import Score, Table
from mmconv.stats import ScoreFrame

CARD = "judge_card.json"
"""The card in an audit's folder."""

CITED = "audit.json"
"""The copy of the card that a run cites."""

BY_CONTROLS = (
    "Corrected by controls, not by people: {judge} failed {shares} % of the right answers in turns "
    "{turns} of the audit {audit}."
)

KINDER = (
    "WARNING: the audit {audit} found that the judge is kinder after right turns in {scores}. Its "
    "error rate is then not the same under all conditions, so nothing is corrected."
)


def cite(folder: Path, audit: Path, judged: Judged) -> None:
    """Have the run in `folder` be corrected by an audit's card; raises `ConfigError`."""
    card = _read(audit / CARD, "run `mmconv judge` to make one")
    _check(card, judged)
    _write(folder / CITED, card)


def tabulate(
    benchmark: Benchmark[Any, Any],
    folder: Path,
    judged: Callable[[], Judged],
    scores: Iterable[Score],
) -> list[Table]:
    """The benchmark's tables; an audit writes its card, and a run that cites one is corrected."""
    frame = ScoreFrame.of(scores)
    tables = benchmark.tables(frame)
    if isinstance(benchmark, Audit):
        _write(folder / CARD, make_card(benchmark, frame, judged(), run=folder.name))
    if not (folder / CITED).exists():
        return tables
    card = _read(folder / CITED, "delete it, or give --audit again")
    _check(card, judged())
    if card.kinder:
        warning = KINDER.format(audit=card.audit, scores=", ".join(card.kinder))
        return [replace(tables[0], notes=(*tables[0].notes, warning)), *tables[1:]]
    return [*tables, *(_noted(table, card) for table in benchmark.corrected(frame, card.rate))]


def _noted(table: Table, card: JudgeCard) -> Table:
    rates = [each for each in card.fails_right if each.turn]
    note = BY_CONTROLS.format(
        judge=card.judge,
        shares=", ".join(f"{100 * each.value:.0f}" for each in rates),
        turns=", ".join(str(each.turn) for each in rates),
        audit=card.audit,
    )
    return replace(table, notes=(note, *table.notes))


def _check(card: JudgeCard, judged: Judged) -> None:
    if differences := [*card.judged.differences(judged)]:
        raise ConfigError(
            f"the audit {card.audit} is of another judge; these differ: {', '.join(differences)}. "
            "`mmconv judge` audits this one"
        )


def _read(path: Path, advice: str) -> JudgeCard:
    try:
        return JudgeCard.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: no judge card found; {advice}") from error
    except ValidationError as error:
        raise ConfigError(f"{path} is not a judge card; {advice}") from error


def _write(path: Path, card: JudgeCard) -> None:
    write_file(path, card.model_dump_json(indent=2) + "\n")
