"""Tasks, abilities, groups and turns by both conventions, on scores made by hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mmconv.benchmarks.base.replay import published_tables, replay
from mmconv.benchmarks.mtbench101 import (
    AUTHORS_TITLE,
    MEAN_TITLE,
    MINIMUM_TITLE,
    TASKS,
    Dialogue,
    Exchange,
    MTBench101,
)
from mmconv.core.types import Cell, Score, Table
from mmconv.stats import ScoreFrame
from tests.mmconv.benchmarks.mtbench101.dialogues import records, spec, write
from tests.mmconv.report.runs import evaluate

BLANK = Exchange.model_construct(user="", bot="")

GOLDEN: dict[str, list[list[str]]] = {
    "CM": [["7", "5"], ["9", "8"]],
    "SI": [["2", "4", "6"], ["10", "10", "x"]],
    "AR": [["8"]],
    "IC": [["0", "6"], ["x"]],
}
"""Task -> dialogue -> what stands in the brackets, turn by turn; x: no brackets."""

SELF: dict[str, list[list[str]]] = {"SI": [["2", "3", "1"], ["10", "8", "4"]]}


def benchmark(*, minimum: bool = True) -> MTBench101:
    return MTBench101(spec(Path("unread.jsonl"), minimum=minimum))


def scores(
    judgements: dict[str, list[list[str]]], condition: str, *, minimum: bool = True
) -> Iterator[Score]:
    for task, dialogues in judgements.items():
        first = TASKS[task].first
        for number, ratings in enumerate(dialogues):
            history = (BLANK,) * (first - 1 + len(ratings))
            sample = Dialogue.model_construct(id=f"{task}{number}", task=task, history=history)
            texts = {
                f"judge/turn_{turn}": "No." if text == "x" else f"Rating: [[{text}]]"
                for turn, text in enumerate(ratings, start=first)
            }
            yield from replay(benchmark(minimum=minimum), sample, condition, texts)


def made(*found: Score, minimum: bool = True) -> dict[str, Table]:
    frames = {"cand": ScoreFrame(found)}
    tables = published_tables(benchmark(minimum=minimum), frames)
    return {table.name: table for table in tables}


@pytest.fixture(scope="module")
def tables() -> dict[str, Table]:
    return made(*scores(GOLDEN, "golden"))


def cell(table: Table, row: str, column: str) -> Cell:
    return table.rows[row][column]


SCORES: dict[tuple[str, str], tuple[float | None, int, dict[str, int]]] = {
    # a task is the mean of its dialogues' minima
    ("CM", MINIMUM_TITLE): ((5 + 8) / 2, 2, {}),
    ("CM", MEAN_TITLE): ((6 + 8.5) / 2, 2, {}),
    # an unscored turn leaves its dialogue out of our scores
    ("SI", MINIMUM_TITLE): (2, 1, {"unparsed": 1}),
    ("SI", MEAN_TITLE): (4, 1, {"unparsed": 1}),
    # the authors drop the turn before the minimum
    ("SI", AUTHORS_TITLE): ((2 + 10) / 2, 2, {}),
    ("IC", AUTHORS_TITLE): (0, 1, {"no [n]": 1}),
    # abilities, groups and the average are means of tasks, and count all their dialogues
    ("understanding", MINIMUM_TITLE): ((2 + 8) / 2, 2, {"unparsed": 1}),
    ("perceptivity", MINIMUM_TITLE): ((6.5 + 2 + 8) / 3, 4, {"unparsed": 1}),
    ("understanding", AUTHORS_TITLE): ((6 + 8) / 2, 3, {}),
    ("average", AUTHORS_TITLE): (round((6.5 + 6 + 8 + 0) / 4, 2), 6, {"no [n]": 1}),
    # a task without any score leaves the average open
    ("average", MINIMUM_TITLE): (None, 4, {"unparsed": 2, "out of range": 1}),
}


def test_scores(tables: dict[str, Table]) -> None:
    for (row, title), (value, n, missing) in SCORES.items():
        found = cell(tables["scores"], row, title)
        assert found.value == (None if value is None else pytest.approx(value, rel=1e-15))
        assert (found.n, dict(found.missing)) == (n, missing)
    assert "reflection" not in tables["scores"].rows
    average = cell(tables["scores"], "average", AUTHORS_TITLE)
    assert cell(tables["paper_authors"], "cand", "average") == average


def test_the_authors_leave_a_task_out_of_which_nothing_was_read() -> None:
    table = made(*scores({"CM": [["4"]], "AR": [["8"]], "IC": [["x"]]}, "golden"))["scores"]
    assert cell(table, "average", AUTHORS_TITLE).value == (4 + 8) / 2


def test_the_papers_layout_has_a_row_per_model(tables: dict[str, Table]) -> None:
    for name in ("paper", "paper_authors"):
        assert tables[name].columns == ("average", "CM", "SI", "AR", "IC")
        assert list(tables[name].rows) == ["cand"]
        assert list(tables[name].rows["cand"]) == ["average", "CM", "SI", "AR", "IC"]


def test_turns_keep_their_numbers(tables: dict[str, Table]) -> None:
    rows = tables["turns"].rows
    assert tables["turns"].columns == ("turn 1", "turn 2", "turn 3")
    assert {turn: found.value for turn, found in rows["CM"].items()} == {"turn 2": 8, "turn 3": 6.5}
    assert rows["SI"]["turn 3"].value == 6
    assert rows["SI"]["turn 3"].missing == {"unparsed": 1}


def test_unscored_turns_are_counted_per_task(tables: dict[str, Table]) -> None:
    table = tables["unscored"]
    counts = {
        name: {column: found.value for column, found in row.items() if found.value}
        for name, row in table.rows.items()
    }
    assert counts["CM"] == {"turns": 4, "scored": 4}
    assert counts["IC"] == {
        "turns": 3,
        "scored": 1,
        "unparsed": 1,
        "out of range": 1,
        "authors: dropped": 1,
        "authors: outside 1-10": 1,
        "authors: read, and not by us": 1,
    }
    assert counts["all"]["turns"] == 14


def test_without_the_minimum_a_dialogue_is_the_mean_of_its_turns() -> None:
    assert made() == {}
    found = made(*scores(GOLDEN, "golden", minimum=False), minimum=False)
    bounds = f"{MEAN_TITLE}, missing lowest to highest"
    assert found["scores"].columns == ("meaning", MEAN_TITLE, bounds, AUTHORS_TITLE)
    assert cell(found["scores"], "CM", MEAN_TITLE).value == (6 + 8.5) / 2
    assert cell(found["scores"], "CM", AUTHORS_TITLE).value == (5 + 8) / 2


def test_histories_are_compared_turn_by_turn() -> None:
    found = made(*scores(GOLDEN, "golden"), *scores(SELF, "self"))
    assert list(found["histories"].rows) == ["SI"]
    row = found["histories"].rows["SI"]
    assert {turn: each.value for turn, each in row.items()} == {
        "turn 1": 0,
        "turn 2": -1.5,
        "turn 3": -5,
    }
    assert row["turn 3"].missing == {"unpaired: unparsed": 1}
    assert found["histories"].signed
    own = f"{MINIMUM_TITLE}, self history"
    assert cell(found["scores"], "SI", own).value == 2.5
    assert own not in found["scores"].rows["CM"]
    assert list(found["turns"].rows) == ["CM", "SI", "AR", "IC"]
    assert list(found["turns_self"].rows) == ["SI"]
    assert cell(found["paper_self"], "cand", "SI").value == 2.5


def test_several_candidates_have_columns_or_rows_each() -> None:
    first, second = (ScoreFrame(scores(each, "golden")) for each in (SELF, GOLDEN))
    frames = {"one": first, "two": second}
    found = {table.name: table for table in published_tables(benchmark(), frames)}
    assert list(found["scores"].rows)[:4] == ["average", "perceptivity", "interactivity", "memory"]
    row = found["scores"].rows["SI"]
    assert (row[f"one: {MINIMUM_TITLE}"].value, row[f"two: {MINIMUM_TITLE}"].value) == (2.5, 2)
    assert list(found["paper"].rows) == ["one", "two"]
    assert list(found["turns"].rows) == ["one: SI", "two: CM", "two: SI", "two: AR", "two: IC"]
    assert {"one: SI", "one: all", "two: all"} <= found["unscored"].rows.keys()


async def test_both_histories_in_one_run_and_none_judged(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", records())
    both = spec(data).model_copy(update={"conditions": ("golden", "self")})
    result = await evaluate(both, tmp_path / "runs")
    found = {table.name: table for table in result.tables}
    assert list(found["paper"].rows) == list(found["paper_self"].rows) == ["echo"]
    assert "Where no history is named, it is the golden one." in found["scores"].notes
    # the first generated turn has the same history either way, and the same judgement
    first = found["histories"].rows["SI"]["turn 1"]
    assert (first.value, first.n) == (0, 1)
    [answers] = (await evaluate(spec(data, generate_only=True), tmp_path / "runs")).tables
    assert (answers.name, set(answers.rows)) == ("answers", set(TASKS))
