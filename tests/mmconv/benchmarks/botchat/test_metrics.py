"""Rates and what the document changes, against numbers by hand."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mmconv.benchmarks.base.compare import find_quantities
from mmconv.benchmarks.base.layouts import Context, make_tables
from mmconv.benchmarks.botchat.dialogues import DupDetect
from mmconv.benchmarks.botchat.metrics import (
    AUTHORS,
    BAD_TIE,
    CHANGE,
    DUP_FIRST,
    GOOD_TIE,
    JUDGE_ALONE,
    LOSS,
    OURS,
    UNKNOWN,
    WIN,
    metrics,
)
from mmconv.benchmarks.botchat.tables import layouts
from mmconv.core.types import SAME_TEXT, Cell, Score, Table
from mmconv.report.comparison.differences import compare
from mmconv.run_folder.saved_run import read_scores
from mmconv.stats import ScoreFrame, summarise
from tests.mmconv.benchmarks.botchat.samples import JUDGE, OTHER, SPEAKER, record, spec, write
from tests.mmconv.report.runs import evaluate

Values = Sequence[float | str | None]
"""A number for every dialogue, or the reason why there is none."""

BOTH = ("uncon", "con")


def scores(
    metric: str, values: Mapping[str, Values], model: str = "first", **tags: str
) -> Iterator[Score]:
    """A score of every dialogue under each condition."""
    for condition, numbers in values.items():
        for number, value in enumerate(numbers):
            yield Score(
                sample=f"MT-{number}",
                condition=condition,
                metric=metric,
                turn=16 if metric == "pass" else None,
                tags={"model": model, **tags},
                value=None if isinstance(value, str) else value,
                why=value if isinstance(value, str) else None,
            )


def passed(reading: str, **values: Values) -> Iterator[Score]:
    yield from scores("pass", values, reading=reading)


def points(reading: str, dup: str, order: str, **values: Values) -> Iterator[Score]:
    tags = {"reading": reading, "dup": dup, "order": order, "length": "4"}
    yield from scores("duel", values, opponent="GT", protocol="GTEval", **tags)


def generated(*conditions: str, model: str = "first") -> Iterator[Score]:
    """What only a model that talks in the run has."""
    yield from scores("dropped", {name: [0.0] for name in conditions}, model)


def tables(*found: Iterable[Score]) -> dict[str, Table]:
    frame = ScoreFrame(score for each in found for score in each)
    arranged = layouts(DupDetect(), compared="8 of the 8")
    made = make_tables(arranged, [*metrics(16)], {"first": frame}, Context(candidate="first"))
    return {table.name: table for table in made}


def rates(**counts: int) -> dict[str, Cell]:
    """The row of a model with so many comparisons of each kind, and its Scores."""
    values: list[Any] = []
    for name, number in counts.items():
        values += [KINDS[name]] * number
    read = [
        value if reading == AUTHORS or value != UNKNOWN else "unparsed"
        for reading in (OURS, AUTHORS)
        for value in values
    ]
    ours, theirs = read[: len(values)], read[len(values) :]
    made = tables(
        points(OURS, JUDGE_ALONE, "1", uncon=ours), points(AUTHORS, JUDGE_ALONE, "1", uncon=theirs)
    )
    return {**made["gteval"].rows["first"], **made["points"].rows["GTEval: first"]}


KINDS: dict[str, float | str] = {
    "win": WIN,
    "good": GOOD_TIE,
    "bad": BAD_TIE,
    "lose": LOSS,
    "unknown": UNKNOWN,
    "same": SAME_TEXT,
}


def test_rates_are_of_what_could_be_read_and_the_authors_of_all() -> None:
    row = rates(win=3, good=2, bad=1, lose=2, unknown=2, same=5)
    names = ("win", "tie", "lose", "win+tie", "not bad")
    assert [row[f"authors: {name}"].value for name in names] == [30.0, 30.0, 20.0, 60.0, 50.0]
    assert {row[f"authors: {name}"].n for name in names} == {10}
    assert row["authors: win"].missing == {SAME_TEXT: 5}
    tie = row["tie"]
    assert (tie.value, tie.n, tie.missing) == (37.5, 8, {"unparsed": 2, SAME_TEXT: 5})
    assert (tie.low or 100) < 37.5 < (tie.high or 0)
    assert row["judge alone"].value == pytest.approx((9 + 2 - 1 - 6) / 8)
    assert row["authors: judge alone"].value == pytest.approx((9 + 2 - 1 - 6) / 10)
    assert rates(same=2)["authors: judge alone"].value is None


def test_the_authors_win_and_tie_adds_rounded_rates() -> None:
    """114/444 and 202/444 are 25.68 and 45.50: 25.7 + 45.5 is 71.2, together they are 71.17."""
    assert rates(win=114, good=202, lose=128)["authors: win+tie"].value == 71.2
    apart = rates(win=1, good=1, lose=442)
    assert apart["authors: win+tie"].value == 0.4
    assert apart["win+tie"].value == pytest.approx(100 * 2 / 444)


@pytest.mark.parametrize(("values", "rate"), [([1.0] * 360 + [0.0] * 187, 65.8), ([UNKNOWN], None)])
def test_the_authors_round_unieval_to_a_tenth(values: Values, rate: float | None) -> None:
    row = tables(passed(AUTHORS, uncon=values))["unieval"].rows["first"]
    assert row["authors: N=16"].value == rate


def test_comparisons_are_paired_in_each_order() -> None:
    won, lost = [WIN] * 6, [LOSS] * 6
    found = tables(
        generated(*BOTH),
        points(OURS, JUDGE_ALONE, "1", uncon=lost, con=won),
        points(OURS, JUDGE_ALONE, "2", uncon=lost, con=[WIN, *lost[1:]]),
        points(OURS, DUP_FIRST, "1", uncon=won, con=lost),
    )
    row = found["conditions"].rows["first"]
    cell = row["GTEval win+tie"]
    assert cell.value == pytest.approx(100 * 7 / 12)
    assert cell.n == 12
    assert cell.low is not None
    assert row["GTEval win+tie, DupDetect first"].value == -100


def test_only_models_that_talk_under_both_conditions_have_changes() -> None:
    loops: dict[str, Values] = {"uncon": [1.0], "con": [1.0]}
    others = (scores("non_loop", loops, "stored"), scores("non_loop", loops, "GT"))
    assert "conditions" not in tables(*others)
    for condition in BOTH:
        alone = (generated(condition), scores("non_loop", {condition: [1.0]}))
        assert "conditions" not in tables(*alone)
    rival = (generated(*BOTH, model="rival"), scores("non_loop", loops, "rival"))
    [(name, row)] = tables(*rival)["conditions"].rows.items()
    assert (name, list(row)) == ("rival", ["non-loop dialogues"])


async def test_a_run_of_both_conditions_and_a_comparison_of_two(tmp_path: Path) -> None:
    rows = [record(number, 4, title="Tea", text="About tea.") for number in range(1, 8)]
    data = write(tmp_path / "data.jsonl", rows)
    folders = []
    for candidate in (SPEAKER, OTHER):
        chosen = spec(data, models={"candidate": candidate, "judge": JUDGE})
        result = await evaluate(chosen, tmp_path / "runs")
        folders.append(result.folder)
        found = {table.name: table for table in result.tables}
        for name in ("unieval", "gteval"):
            assert list(found[name].rows) == [candidate.model, f"{candidate.model} (con)"]
        assert "Where no condition is named, it is uncon." in found["unieval"].notes
        table = found["conditions"]
        assert table.signed
        [(label, row)] = table.rows.items()
        assert label == candidate.model
        assert [row[f"UniEval, N={length}"].n for length in (4, 8, 12, 16)] == [7] * 4
        assert row["GTEval win+tie"].n == 14
        frame = ScoreFrame(read_scores(result.folder / "scores.jsonl"))
        quantities = [each for each in find_quantities(frame, chosen) if each.kind == "change"]
        assert [each.name for each in quantities] == list(row)
        for each in quantities:
            [column] = each.columns.values()
            summary = summarise(column)
            assert 100 * (summary.mean or 0.0) == pytest.approx(row[each.name].value)
            assert summary.n == row[each.name].n
    made = {table.name: table for table in compare(folders).tables}
    assert made["delta_differences"].rows["GTEval win+tie"][CHANGE.title].n == 14
    assert list(made["conditions"].rows) == ["first", "second"]
