"""`mmconv agree`: files of ratings and of scores in, tables out; nothing mixed up in silence."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from mmconv.cli.judging import agree_command as command
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.types import Score
from mmconv.run_folder.transcripts import score_record
from mmconv.stats.agreement.panel import ALL, CONSENSUS, EACH, PEOPLE


class Desk:
    """A folder of rating files and the command over them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def csv(self, name: str, header: str, *rows: str) -> str:
        path = self.folder / name
        path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
        return str(path)

    def scores(self, *scores: Score) -> str:
        path = self.folder / "scores.jsonl"
        path.write_bytes(b"".join(orjson.dumps(score_record(score)) + b"\n" for score in scores))
        return str(path)

    def run(self, judge: str, *people: str, more: Sequence[str] = ()) -> Result:
        files = [part for person in people for part in ("--human", person)]
        return CliRunner().invoke(command, ["--judge", judge, *files, "--replicates", "20", *more])

    def document(self, judge: str, *people: str, more: Sequence[str] = ()) -> Any:
        result = self.run(judge, *people, more=["--format", "json", *more])
        assert result.exit_code == 0, result.output
        return orjson.loads(result.stdout)

    def refusal(self, judge: str, *people: str, more: Sequence[str] = ()) -> str:
        result = self.run(judge, *people, more=more)
        assert isinstance(result.exception, ConfigError | DataError), result.output
        return str(result.exception)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def rated(sample: str, value: float | None, metric: str = "rating", turn: int | None = 1) -> Score:
    why = "unparsed" if value is None else None
    return Score(sample=sample, condition="free", metric=metric, turn=turn, value=value, why=why)


def test_a_run_is_compared_with_one_person(desk: Desk) -> None:
    judge = desk.scores(
        rated("1", 5),
        rated("1", 6, turn=2),
        rated("2", None),
        rated("2", 7, turn=2),
        *(rated(sample, 7, turn=2) for sample in "345"),
        rated("6", 1),
    )
    same = [f"{sample},2,7" for sample in "345"]
    person = desk.csv("ann.csv", "sample,turn,value", "1,1,5", "1,2,7", "2,1,4", "2,2,7", *same)
    table = desk.document(judge, person)["agreement-rating"]
    cell = table["agreement"][EACH]
    assert cell["value"] == 0.833
    assert (cell["n"], cell["missing"]) == (6, {"unparsed": 1})
    assert cell["low"] < cell["value"] < cell["high"]
    assert {*table["agreement"]} == {EACH}


def test_raters_may_be_in_one_file_or_in_several(desk: Desk) -> None:
    judge = desk.csv("judge.csv", "sample,value", "a,1", "b,2", "c,3", "d,3")
    rows = {"ann": ("a,1", "b,2", "c,2", "d,3"), "ben": ("a,2", "b,2", "c,2", "d,3")}
    files = [desk.csv(f"{name}.csv", "sample,value", *lines) for name, lines in rows.items()]
    lines = [f"{line},{name}" for name, given in rows.items() for line in given]
    together = desk.csv("people.csv", "sample,value,rater", *lines)
    table = desk.document(judge, *files)["agreement"]
    assert table == desk.document(judge, together)["agreement"]
    assert {*table["Fleiss' kappa"]} == {EACH, CONSENSUS, PEOPLE, ALL}
    assert table["agreement"][PEOPLE]["value"] == 0.75
    assert table["agreement"][EACH]["value"] == 0.625


@pytest.mark.parametrize("name", ["metric", "turn"])
def test_what_one_side_does_not_tell_apart_must_be_chosen(desk: Desk, name: str) -> None:
    second = {"metric": rated("a", 3, metric="other"), "turn": rated("a", 3, turn=0)}[name]
    judge = desk.scores(rated("a", 1), rated("b", 2), second)
    person = desk.csv("ann.csv", "sample,value", "a,1", "b,1")
    assert f"choose one with --{name}" in desk.refusal(judge, person)
    chosen = {"metric": "rating", "turn": "1"}[name]
    table = desk.document(judge, person, more=[f"--{name}", chosen])["agreement-rating"]
    assert table["agreement"][EACH]["value"] == 0.5


def test_trials_and_named_dialogues_are_clusters(desk: Desk) -> None:
    """Six dialogues of two units that go together: the intervals are those of six units."""
    given = {"a": 1, "b": 2, "c": 1, "d": 2, "e": 1, "f": 1}
    twice = [(key, name, value) for key, value in given.items() for name in (key, f"{key}#2")]
    judge = desk.scores(*(rated(name, value) for _, name, value in twice))
    person = desk.csv("ann.csv", "sample,value", *(f"{name},1" for _, name, _ in twice))
    trials = desk.document(judge, person)["agreement-rating"]["agreement"][EACH]
    rows = [f"{number},{key},{value}" for number, (key, _, value) in enumerate(twice)]
    named = desk.csv("named.csv", "sample,cluster,value", *rows)
    flat = desk.csv("flat.csv", "sample,value", *(f"{number},1" for number in range(12)))
    dialogues = desk.document(named, flat)["agreement"]["agreement"][EACH]
    alone = desk.csv(
        "alone.csv", "sample,value", *(f"{key},{value}" for key, value in given.items())
    )
    ones = desk.csv("ones.csv", "sample,value", *(f"{key},1" for key in given))
    single = desk.document(alone, ones)["agreement"]["agreement"][EACH]
    assert 0 <= single["low"] < single["value"] < single["high"] <= 1
    for cell in (trials, dialogues):
        ends = ("value", "low", "high")
        assert [cell[end] for end in ends] == [single[end] for end in ends]


def test_scores_with_a_tag_are_chosen(desk: Desk) -> None:
    judge = desk.scores(
        *(
            replace(rated("1", value, "duel", None), tags={"order": order, "dup": "no"})
            for order, value in (("1", 3), ("2", -3))
        )
    )
    person = desk.csv("ann.csv", "sample,value", "1,3")
    assert "for example with --tag order=1." in desk.refusal(judge, person)
    more = ["--replicates", "0", "--tag", "dup=no", "--tag"]
    for order, agreement in (("1", 1), ("2", 0)):
        table = desk.document(judge, person, more=[*more, f"order={order}"])["agreement-duel"]
        assert table["agreement"][EACH]["value"] == agreement
    assert "no score has dup=no, order=3; their tags: dup (no), order (1, 2)" in desk.refusal(
        judge, person, more=[*more, "order=3"]
    )
    assert "expected NAME=VALUE" in desk.refusal(judge, person, more=["--tag", "order"])


def test_a_run_s_folder_stands_for_its_scores(desk: Desk) -> None:
    file = desk.scores(*(rated(sample, 1) for sample in "ab"))
    person = desk.csv("ann.csv", "sample,value", "a,1", "b,2")
    assert desk.document(str(desk.folder), person) == desk.document(file, person)
    (desk.folder / "scores.jsonl").unlink()
    assert "scores.jsonl: 1 problem\n  file does not exist" in desk.refusal(
        str(desk.folder), person
    )


def test_different_scales_are_told_above_the_table_and_in_the_files(desk: Desk) -> None:
    judge = desk.csv(
        "judge.csv", "sample,value", *(f"{sample},{sample % 10 + 1}" for sample in range(20))
    )
    halves = [f"{sample},{sample % 10 // 2 + 1}" for sample in range(20)]
    person = desk.csv("ann.csv", "sample,value", *halves)
    message = "WARNING: judges and people seem to rate on different scales: judges gave 1 to 10"
    out = desk.folder / "out"
    output = desk.run(judge, person, more=["--out", str(out)]).stdout
    assert output.startswith(message)
    assert output.count("WARNING") == 1
    assert message in (out / "agreement.md").read_text(encoding="utf-8")
    written = desk.run(judge, person, more=["--format", "md"])
    assert message in written.stdout
    assert message in written.stderr
    assert "WARNING" not in desk.run(judge, judge).output


def test_botchats_tables_of_judges_come_out(desk: Desk) -> None:
    """BotChat's Tables 3 and 4 (Duan et al. 2023) for people and GPT-4, over 470 comparisons."""
    pairs = {
        ("win", "win"): 113,
        ("win", "tie"): 33,
        ("win", "lose"): 19,
        ("tie", "win"): 18,
        ("tie", "tie"): 113,
        ("tie", "lose"): 30,
        ("lose", "win"): 2,
        ("lose", "tie"): 59,
        ("lose", "lose"): 83,
    }
    units = [pair for pair, count in pairs.items() for _ in range(count)]
    judge = desk.csv(
        "GPT-4.csv", "sample,value", *(f"{n},{its}" for n, (_, its) in enumerate(units))
    )
    people = desk.csv(
        "ann.csv", "sample,value", *(f"{n},{own}" for n, (own, _) in enumerate(units))
    )
    table = desk.document(judge, people)["ratings"]
    shares = {
        row: tuple(table[row][f"{label} (%)"]["value"] for label in ("win", "tie", "lose"))
        for row in ("people", "GPT-4")
    }
    assert shares == {"people": (35.11, 34.26, 30.64), "GPT-4": (28.3, 43.62, 28.09)}
    assert table["GPT-4"]["agrees with a person (%)"]["value"] == 65.74
