"""Scores of a run's folder as rows: the same scores as record by record."""

from pathlib import Path

import orjson
import pytest

from mmconv.core.errors import DataError
from mmconv.core.types import Score
from mmconv.run_folder.saved_run import read_score_rows, read_scores
from mmconv.run_folder.transcripts import score_record
from mmconv.stats import ScoreFrame

SCORES = (
    Score(sample="1", condition="free", metric="rating", value=7.5, turn=2),
    Score(sample="1#2", condition="free", metric="rating", why="failed", tags={"side": "left"}),
    Score(sample="1#2", condition="free", metric="fit", value=0, tags={"cluster": "a", "x": "ü"}),
    Score(sample="2#1", condition="Perfect\n", metric="rating", value=-1e300, turn=0),
    Score(sample="free", condition="free", metric="free", value=3, tags={"x": "free", "side": ""}),
)


def write(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def test_rows_hold_the_scores_that_records_do(tmp_path: Path) -> None:
    path = write(tmp_path / "scores.jsonl", *map(orjson.dumps, map(score_record, SCORES)))
    frame = ScoreFrame(read_score_rows(path))
    expected = ScoreFrame(read_scores(path))
    assert list(frame) == list(expected) == list(read_scores(path))
    assert frame.clusters() == expected.clusters()
    assert frame.distinct("x") == ("ü", "free")
    assert (
        frame.select(metric="rating", turn=2).values
        == expected.select(metric="rating", turn=2).values
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"sample": "1"', "line 2: cut short"),
        (b'{"sample": "1"}', "line 2: has no condition"),
        (b"[]", "line 2: holds a list"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes, problem: str) -> None:
    first = orjson.dumps(score_record(SCORES[0]))
    with pytest.raises(DataError, match=problem):
        read_score_rows(write(tmp_path / "scores.jsonl", first, line))
