"""Published judgements: the paper's numbers again, and what is odd about a file."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.benchmarks.cmteval.benchmark import OFF_SCALE
from mmconv.benchmarks.cmteval.data import ACTS, PATTERN, PATTERNS, PERSONA, PERSONAS
from mmconv.benchmarks.cmteval.metrics import MISSING
from mmconv.benchmarks.readers.cmteval import rescore
from mmconv.core.errors import DataError
from mmconv.core.types import Cell
from mmconv.report.tables.text import to_text
from tests.mmconv.benchmarks.cmteval.dialogues import REAL, hard_record, published, record, write

SCORES = ((4, 5), (3, 3), (5, 5))
BOM = b"\xef\xbb\xbf"
Rows = Mapping[str, Mapping[str, Cell]]


def tables(*paths: Path) -> dict[str, Rows]:
    return {table.name: table.rows for table in rescore(paths)}


def one(tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> dict[str, Rows]:
    """The tables of one published dialogue of three turns, after a change."""
    [made] = published(record(), *SCORES)
    change(made)
    return tables(write(tmp_path / "eval_standard_m.json", [[made]]))


def mean_of(made: Mapping[str, Rows], *names: str) -> dict[str, tuple[float, int | None]]:
    """The one value of each row of some tables, with its n."""
    return {
        row: (round(float(cell.value), 9), cell.n)
        for name in names
        for row, cells in made[name].items()
        for cell in cells.values()
        if isinstance(cell.value, float)
    }


def means(groups: Mapping[str, list[Fraction]]) -> dict[str, tuple[float, int]]:
    return {
        name: (round(float(sum(values) / len(values)), 9), len(values))
        for name, values in groups.items()
    }


def test_scores_are_those_of_the_file(tmp_path: Path) -> None:
    made = one(tmp_path, lambda found: found["会话内容"][1].pop("模型回复"))
    row = made["scores"]["m, standard"]
    assert [row[name].value for name in ("IS", "Adp", "DLS")] == [4, 13 / 3, 25 / 6]


@pytest.mark.parametrize(("score", "reason"), [("好", MISSING), (7, OFF_SCALE)])
def test_what_is_no_score_is_missing(tmp_path: Path, score: object, reason: str) -> None:
    made = one(tmp_path, lambda found: found["会话内容"][1].update(适应能力=score))
    assert made["scores"]["m, standard"]["Adp"].missing == {reason: 1}


def test_a_missing_score_is_unscored_and_three_for_the_authors(tmp_path: Path) -> None:
    made = one(tmp_path, lambda found: found["会话内容"][2].pop("统筹能力"))
    row = made["scores"]["m, standard"]
    assert (row["IS"].value, row["IS"].missing) == (None, {"missing in the judgement": 1})
    assert (row["Adp"].value, row["Adp"].n) == (13 / 3, 1)
    assert row["DLS"].missing == {"missing in the judgement": 1}
    assert made["paper_scores"]["m"]["standard IS"].value == 10 / 3
    assert made["judgements"]["m, standard"]["scored turns"].missing == {
        "missing in the judgement": 1
    }


def test_neighbours_with_equal_scores_and_reasons_were_merged(tmp_path: Path) -> None:
    def merge(found: dict[str, Any]) -> None:
        for turn in found["会话内容"][1:]:
            turn.update(统筹能力=4, 适应能力=4, 评分理由="合并", 本轮评分=4.0)

    made = one(tmp_path, merge)
    row = made["judgements"]["m, standard"]
    assert (row["merged turns"].value, row["dialogues with merged turns"].value) == (2, 1)
    # equal reasons for different scores are not a merger
    made = one(tmp_path, lambda found: [turn.update(评分理由="同") for turn in found["会话内容"]])
    assert made["judgements"]["m, standard"]["merged turns"].value == 0


def test_files_are_models_and_subsets(tmp_path: Path) -> None:
    standard = published(record(), *SCORES)
    hard = published(hard_record(), (1, 1), (2, 2), (3, 3))
    made = tables(
        write(tmp_path / "eval_standard_a-1b.json", [standard]),
        write(tmp_path / "eval_hard_a-1b.json", [hard]),
        write(tmp_path / "eval_hard_b.json", [hard]),
    )
    assert list(made["scores"]) == ["a-1b, standard", "a-1b, hard", "a-1b, overall", "b, hard"]
    assert made["paper_scores"]["a-1b"]["overall"].value == pytest.approx((25 / 6 + 2) / 2)
    assert "overall" not in made["paper_scores"]["b"]
    (tmp_path / "more").mkdir()
    again = write(tmp_path / "more" / "eval_hard_b.json", [hard])
    with pytest.raises(DataError, match="holds b, hard already"):
        rescore([tmp_path / "eval_hard_b.json", again])
    # a name without a subset is taken by the fields of its records
    mine = write(tmp_path / "mine.json", [hard])
    assert list(tables(mine)["scores"]) == ["mine, hard"]


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        ([{"origin_id": "1"}], "会话内容 is missing"),
        ([], "holds no records"),
        ([published(record(), *SCORES)] * 2, "item 2: standard/1 is there twice"),
        ([record("1"), record("2")], "no turn has a score: 统筹能力 or 适应能力"),
    ],
)
def test_files_without_verdicts_are_bad(tmp_path: Path, records: list[Any], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        rescore([write(tmp_path / "eval_standard_a.json", records)])


PUBLISHED = REAL / "eval_long-text_llama3.1-8b.json"


@pytest.mark.skipif(not PUBLISHED.is_file(), reason="the authors' data are not here")
class TestPublished:
    def test_every_breakdown_is_that_of_the_stored_scores(self) -> None:
        """By hand and without any float: by act, by act and turn, by persona, by pattern."""
        found = tables(PUBLISHED)
        dialogues = [made for [made] in orjson.loads(PUBLISHED.read_bytes().removeprefix(BOM))]
        acts: dict[str, list[Fraction]] = {}
        wholes: dict[str, list[Fraction]] = {}
        for made in dialogues:
            turns = [Fraction(str(turn["本轮评分"])) for turn in made["会话内容"]]
            for kind, names in ((PERSONA, PERSONAS), (PATTERN, PATTERNS)):
                wholes.setdefault(names[made[kind]], []).append(sum(turns, Fraction()) / len(turns))
            for number, (turn, score) in enumerate(
                zip(made["会话内容"], turns, strict=True), start=1
            ):
                for act in {ACTS[each] for each in turn["言语行为"].split("+")}:
                    for row in (act, f"{act}, turn {number}"):
                        acts.setdefault(row, []).append(score)
        assert mean_of(found, "speech_acts", "speech_acts_by_turn") == means(acts)
        assert mean_of(found, "personas", "patterns") == means(wholes)
        assert (len(dialogues), len(wholes), len(acts)) == (63, 9, 36)

    def test_table_8_is_matched_to_the_digit(self) -> None:
        made = {table.name: to_text(table) for table in rescore([PUBLISHED])}
        rows = {
            name: next(line for line in text.splitlines() if line.startswith("llama"))
            for name, text in made.items()
            if name in ("paper_scores", "scores")
        }
        means = ["3.84", "n=63", "3.99", "n=63", "3.91", "n=63"]
        assert rows["paper_scores"].split() == ["llama3.1-8b", *means]
        assert rows["scores"].count("n=63") == 4
        for number in (" 3.84 [", " 3.99 [", " 3.91 ["):
            assert number in rows["scores"]
        assert "llama3.1-8b, long-text: 63 of 63 dialogues, 432 of 432 turns." in made["scores"]
