"""Files of ratings and of a run's scores: what is read, and what is refused by file and record."""

from pathlib import Path

import openpyxl
import orjson
import pytest

from mmconv.core.errors import ConfigError, DataError
from mmconv.core.types import Score
from mmconv.report.agreement.files import read_ratings
from mmconv.report.agreement.panels import Rating
from mmconv.run_folder.transcripts import score_record


def write(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_ratings_are_read_with_whatever_tells_them_apart(tmp_path: Path) -> None:
    path = write(
        tmp_path / "people.csv",
        "sample,value,rater,metric,condition,turn,cluster",
        " a , 2.50,ann ,style, free,02,d1 ",
        "b,good,,,,,",
        "c,,,,,,",
    )
    assert read_ratings(path) == [
        Rating(
            where="people.csv row 2",
            sample="a",
            rater="ann",
            value=2.5,
            metric="style",
            condition="free",
            turn="2",
            cluster="d1",
        ),
        Rating(where="people.csv row 3", sample="b", rater="people", value="good"),
        Rating(where="people.csv row 4", sample="c", rater="people", value=None),
    ]


def test_scores_are_ratings_by_the_judge_and_chosen_by_their_tags(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    scores = [
        Score(sample="1#2", condition="free", metric="duel", turn=0, value=3, tags={"order": "1"}),
        Score(
            sample="2",
            condition="free",
            metric="duel",
            turn=None,
            value=None,
            why="unparsed",
            tags={"order": "2"},
        ),
    ]
    path.write_bytes(b"".join(orjson.dumps(score_record(score)) + b"\n" for score in scores))
    trial, unread = read_ratings(path)
    assert (trial.rater, trial.sample, trial.turn, trial.cluster) == ("judge", "1#2", "0", "1")
    assert (unread.value, unread.why, unread.turn) == (None, "unparsed", None)
    assert [each.sample for each in read_ratings(path, {"order": "2"})] == ["2"]
    # the line is that of the file, whichever scores were chosen
    assert [each.where for each in read_ratings(path, {"order": "2"})] == ["scores.jsonl line 2"]
    with pytest.raises(ConfigError, match=r"no score has order=3; their tags: order \(1, 2\)$"):
        read_ratings(path, {"order": "3"})


def sided(sample: str, side: str, value: float | None, **tags: str) -> Score:
    why = None if value is not None else "unparsed"
    tags = {"cluster": "picture", "side": side, **tags}
    return Score(
        sample=sample, condition="free", metric="win", turn=2, value=value, why=why, tags=tags
    )


def test_an_answer_judged_on_both_sides_has_the_mean_as_in_tables(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    scores = [
        sided("1", "A", 1.0),
        sided("1", "B", 0.0),
        sided("2", "A", 1.0),
        sided("2", "B", None),
        sided("3", "B", 1.0),
    ]
    path.write_bytes(b"".join(orjson.dumps(score_record(score)) + b"\n" for score in scores))
    both = [(each.sample, each.value, each.why) for each in read_ratings(path)]
    assert both == [("1", 0.5, ""), ("2", None, "unparsed"), ("3", 1.0, "")]
    first = [(each.sample, each.value) for each in read_ratings(path, {"side": "A"})]
    assert first == [("1", 1.0), ("2", 1.0)]


@pytest.mark.parametrize(
    ("header", "row", "problem"),
    [
        ("sample,value", ",3", "no sample"),
        ("sample,value", " ,3", "no sample"),
        ("sample,value", 'a,"7,5"', "value is 7,5; use a decimal point, not a comma"),
        ("sample,value", "a,nan", "value is nan"),
        ("sample,turn,value", "a,last,3", "turn is 'last'"),
    ],
)
def test_one_problem_a_record(tmp_path: Path, header: str, row: str, problem: str) -> None:
    with pytest.raises(DataError, match=rf"ann\.csv row 2: {problem}"):
        read_ratings(write(tmp_path / "ann.csv", header, row))


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("sample,who,score", "no field value; its fields: sample, who, score"),
        ("id,person,score", "no field sample and no field value; its fields: id, person, score"),
    ],
)
def test_a_wrong_column_is_named_with_the_others(tmp_path: Path, header: str, problem: str) -> None:
    rows = ["a,1,2"] * 3
    with pytest.raises(DataError) as refused:
        read_ratings(write(tmp_path / "ann.csv", header, *rows))
    assert (refused.value.where, refused.value.problems) == ("ann.csv row 2", (problem,))


def test_two_tables_in_a_file_are_not_joined(tmp_path: Path) -> None:
    """A second header would be a unit of its own where values are labels."""
    rows = ("a,good", "b,bad", "", "sample,value", "c,good")
    path = write(tmp_path / "both.csv", "sample,value", *rows)
    message = r"both\.csv row 5: repeats the column names: use one file for each table"
    with pytest.raises(DataError, match=message):
        read_ratings(path)


def test_several_sheets_of_ratings_are_not_taken_for_one(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.create_sheet("notes").append(["what this is about"])
    for name in ("ann", "ben"):
        sheet = book.create_sheet(name)
        sheet.append(["sample", "value"])
        sheet.append(["a", 1])
    path = tmp_path / "people.xlsx"
    book.save(path)
    with pytest.raises(DataError, match="the sheets ann, ben name equally many of the columns"):
        read_ratings(path)
    book.remove(book["ben"])
    book.save(path)
    assert [each.value for each in read_ratings(path)] == [1]


def test_values_quoted_for_spreadsheets_are_read_without_the_quote(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "people.csv", "sample,value", "1,'=won", "2,'-1", "3,won")
    assert [rating.value for rating in read_ratings(path)] == ["=won", -1.0, "won"]


def task(sample: str, *results: object, by: object = 7, **more: object) -> dict[str, object]:
    """A task of Label Studio's export with one annotation."""
    annotation = {"completed_by": by, "result": list(results), "was_cancelled": False, **more}
    return {"id": 1, "data": {"sample": sample, "turn": 3}, "annotations": [annotation]}


def test_an_export_of_label_studio_is_read(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    stars = {"type": "rating", "value": {"rating": 4}}
    choice = {"type": "choices", "value": {"choices": ["win"]}}
    tasks = [
        task("a", stars, by={"id": 1, "email": "ann@example.org"}),
        task("b", choice),
        task("c", stars, was_cancelled=True),
    ]
    path.write_bytes(orjson.dumps(tasks))
    assert [(each.sample, each.value, each.rater, each.turn) for each in read_ratings(path)] == [
        ("a", 4.0, "ann@example.org", "3"),
        ("b", "win", "7", "3"),
    ]
    path.write_bytes(orjson.dumps([task("a", stars, stars)]))
    with pytest.raises(DataError, match="item 1, annotation 1: 2 ratings"):
        read_ratings(path)
