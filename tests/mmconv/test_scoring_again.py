"""Scoring a run's folder again, or showing it: neither takes today's data for the run's."""

from __future__ import annotations

import gc
import shutil
import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from mmconv.cli import commands, show
from mmconv.errors import ConfigError, DataError, StoreError
from mmconv.plans import Finished
from mmconv.run_folder.saved_run import read_calls

ROWS = 4
JUDGING = "# user\n{{riddle}}\n{{answer}}\nRate from 1 to 10: 'Rating: n'\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A file of riddles, a prompt of one's own, and where runs lie."""

    here: Path
    shard: str = "1/1"

    @property
    def data(self) -> Path:
        return self.here / "riddles.jsonl"

    @property
    def prompt(self) -> Path:
        return self.here / "prompts" / "fit.md"

    @property
    def store(self) -> Path:
        return self.here / "runs" / "store.sqlite"

    @property
    def folder(self) -> Path:
        mark = "*" if self.shard == "1/1" else f"*{self.shard.replace('/', 'of')}"
        [folder] = (self.here / "runs").glob(f"riddles-{mark}/")
        return folder

    def write(self, *records: dict[str, Any]) -> None:
        self.data.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))

    def run(self, *more: str) -> str:
        """What is told on standard error."""
        spec = self.here / "riddles.yaml"
        spec.write_text("benchmark: tests.example_benchmark:Riddles\n", encoding="utf-8")
        return typed(
            *("run", str(spec), "--data", str(self.data), "--prompts", str(self.prompt.parent)),
            *("--candidate", "fake/echo", "--judge", "fake/judge", "--skip-bad-records"),
            *("--out", str(self.here / "runs"), "--shard", self.shard, "--no-page", *more),
        )

    def score(self) -> str:
        """What is told on standard error."""
        return typed("score", str(self.folder))

    def files(self) -> dict[str, bytes]:
        found = [path for path in self.folder.rglob("*") if path.is_file()]
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in found}

    def refused(self) -> DataError:
        """What scoring is refused with; nothing in the folder is touched."""
        before = self.files()
        with pytest.raises(DataError) as caught:
            self.score()
        assert self.files() == before
        assert str(caught.value).startswith(f"{self.folder}: ")
        assert "Nothing was written." in str(caught.value)
        return caught.value

    def forget(self) -> None:
        """Remove an answer from the store, which its judgement needs."""
        with sqlite3.connect(self.store) as database:
            database.execute("delete from replies where key = ?", (self.key("answer"),))

    def key(self, call: str) -> str:
        lines = map(orjson.loads, (self.folder / "transcripts.jsonl").read_bytes().splitlines())
        return str(next(line["key"] for line in lines if line["call"] == call))

    def change(self, name: str, **fields: Any) -> None:
        path = self.folder / name
        path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | fields))


def typed(*arguments: str) -> str:
    result = CliRunner().invoke(commands, arguments)
    if result.exception is not None:
        raise result.exception
    return result.stderr


def riddles() -> list[dict[str, Any]]:
    return [{"id": number, "riddle": f"What is {number}?"} for number in range(1, ROWS + 1)]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(here=tmp_path)
    desk.write(*riddles())
    desk.prompt.parent.mkdir()
    desk.prompt.write_text(JUDGING, encoding="utf-8")
    return desk


def test_other_data_are_named_and_nothing_is_written(desk: Desk) -> None:
    desk.run()
    desk.write(*riddles()[:-1], {"id": ROWS, "riddle": "What is that?"})
    assert desk.refused().problems == (
        f"the run was finished, and {desk.store} has no answer to 2 of its calls today",
        "riddles.jsonl is not the file that the run was made from",
    )
    desk.write(*riddles())
    assert desk.score() == ""


def test_another_prompt_is_named(desk: Desk) -> None:
    desk.run()
    desk.prompt.write_text(JUDGING.replace("Rate", "Judge"), encoding="utf-8")
    lost, cause = desk.refused().problems
    assert f"no answer to {ROWS} of its calls" in lost
    assert cause == "the prompt fit is not the one that the run was made with"


def test_what_changed_in_place_is_told_before_its_results_are_replaced(desk: Desk) -> None:
    assert "will be replaced" not in desk.run() + desk.run()
    desk.prompt.write_text(JUDGING.replace("Rate", "Judge"), encoding="utf-8")
    told = f"{desk.folder}: the prompt fit is not the one that the run was made with. The results"
    assert desk.run().startswith(told)
    assert "will be replaced" not in desk.run()


def test_another_model_is_named(desk: Desk) -> None:
    desk.run()
    desk.forget()
    models = orjson.loads((desk.folder / "manifest.json").read_bytes())["models"]
    desk.change("manifest.json", models=models | {"candidate": "other"})
    _, cause = desk.refused().problems
    assert cause == "the model of the seat candidate is not the one that the run was made with"


def test_a_sample_that_is_gone_is_told(desk: Desk) -> None:
    desk.run()
    desk.write(*riddles()[:-1])
    assert desk.refused().problems == (
        "the run had 4 samples, and there are 3 today",
        "the data no longer give 1 sample of the run: 4",
        "riddles.jsonl is not the file that the run was made from",
    )


def test_a_record_that_went_bad_is_told(desk: Desk) -> None:
    desk.run()
    desk.write(*riddles()[:-1], {"id": ROWS})
    *_, cause = desk.refused().problems
    assert cause == "riddles.jsonl line 4 (id 4) is left out today: no riddle"


def test_no_other_sample_takes_the_place_of_one_that_is_gone(desk: Desk) -> None:
    """The store holds answers to all four riddles; a run of the first two chose 1 and 2."""
    desk.run()
    shutil.rmtree(desk.folder)
    desk.run("--limit", "2")
    before = desk.files()["scores.jsonl"]
    desk.write(*riddles()[1:])
    assert desk.refused().problems == (
        "the run had 2 samples, and there are 1 today",
        "the data no longer give 1 sample of the run: 1",
        "riddles.jsonl is not the file that the run was made from",
    )
    # a bad record is gone too, and what is wrong with it is told
    desk.write({"id": 1}, *riddles()[1:])
    lost, gone, _, reason = desk.refused().problems
    assert "2 samples" in lost
    assert gone.endswith("of the run: 1")
    assert reason == "riddles.jsonl line 1 (id 1) is left out today: no riddle"
    shown = CliRunner().invoke(commands, ["show", str(desk.folder)]).output.splitlines()
    assert shown == ["2  free: 2 of 2 calls answered", gone]
    with pytest.raises(DataError) as caught:
        typed("show", str(desk.folder), "1")
    assert caught.value.problems == (gone, reason)
    with pytest.raises(ConfigError, match="has no sample '3'"):
        typed("show", str(desk.folder), "3")
    assert gone in typed("report", str(desk.folder))
    desk.write(*riddles())
    assert desk.score() == ""
    assert desk.files()["scores.jsonl"] == before


def test_a_sample_that_was_bad_at_the_start_stays_out_of_the_run(desk: Desk) -> None:
    desk.write({"id": 1}, *riddles()[1:])
    desk.run("--limit", "2")
    files = desk.files()
    assert desk.score() == ""
    # the tables, and what they say of left-out records, are those of the run
    made = [name for name in files if not name.startswith(("transcripts", "summary"))]
    assert [name for name in made if desk.files()[name] != files[name]] == []
    desk.write(*riddles())
    assert desk.score() == ""
    assert desk.files()["scores.jsonl"] == files["scores.jsonl"]


@pytest.mark.parametrize("choice", [(), ("--limit", "4", "--shuffle", "1"), ("--samples", "1,4")])
def test_records_that_were_added_since_are_not_scored(desk: Desk, choice: tuple[str, ...]) -> None:
    desk.run(*choice)
    before = desk.files()["scores.jsonl"]
    desk.write(*({"id": number, "riddle": "New?"} for number in range(10, 30)), *riddles())
    assert desk.score() == ""
    assert desk.files()["scores.jsonl"] == before


@pytest.mark.parametrize("shard", ["1/2", "2/2"])
def test_a_shard_keeps_its_samples_where_one_is_gone(desk: Desk, shard: str) -> None:
    part = replace(desk, shard=shard)
    part.run()
    kept = {"1/2": ["3"], "2/2": ["2", "4"]}[shard]
    desk.write(*riddles()[1:])
    shown = CliRunner().invoke(commands, ["show", str(part.folder)]).output.splitlines()
    assert [line.split()[0] for line in shown if "answered" in line] == kept
    assert ("the data no longer give 1 sample of the run: 1" in shown) is (shard == "1/2")


def test_a_stopped_run_is_scored_without_what_is_gone_and_says_so(desk: Desk) -> None:
    desk.run()
    for name in ("summary.json", "transcripts.jsonl"):
        (desk.folder / name).unlink()
    desk.write(*riddles()[1:])
    desk.score()
    told = "GONE: the data no longer give 1 sample of the run: 1."
    assert told in (desk.folder / "report.md").read_text(encoding="utf-8")
    assert told in orjson.loads(desk.files()["manifest.json"])["notes"]


def test_a_run_that_goes_on_names_the_samples_that_it_no_longer_takes(desk: Desk) -> None:
    desk.run("--limit", "2")
    for name in ("manifest.json", "summary.json", "scores.jsonl", "transcripts.jsonl"):
        (desk.folder / name).unlink()
    desk.write(*riddles()[1:])
    told = f"{desk.folder}: the data no longer give 1 sample of the run: 1\n"
    assert desk.run("--limit", "2").startswith(told)
    assert "no longer" not in desk.run("--limit", "2")
    shown = CliRunner().invoke(commands, ["show", str(desk.folder)]).output.splitlines()
    assert [line.split()[0] for line in shown] == ["2", "3"]


def test_a_folder_that_names_no_samples_is_scored_as_before(desk: Desk) -> None:
    desk.run("--limit", "2")
    start = orjson.loads((desk.folder / "spec.json").read_bytes())
    assert start.pop("samples") == ["1", "2"]
    (desk.folder / "spec.json").write_bytes(orjson.dumps(start))
    assert desk.score() == ""
    desk.write(*riddles()[2:])
    assert not any("no longer give" in problem for problem in desk.refused().problems)


def test_where_nothing_is_known_to_have_changed_that_is_told(desk: Desk) -> None:
    desk.run()
    desk.forget()
    desk.change("manifest.json", mmconv="0.0.1")
    _, cause = desk.refused().problems
    assert cause.startswith("its data files, prompts and models are what they were: ")
    assert cause.endswith("than the one that made it (0.0.1)")


@pytest.mark.parametrize("spoilt", ["manifest.json", "summary.json"])
def test_a_spoilt_file_of_the_run_is_no_leave_to_lose_results(desk: Desk, spoilt: str) -> None:
    desk.run()
    desk.forget()
    (desk.folder / spoilt).write_text("{", encoding="utf-8")
    _, cause = desk.refused().problems
    assert spoilt == "summary.json" or cause.endswith("its manifest.json cannot be read")


def test_no_reply_at_all_is_refused_too(desk: Desk) -> None:
    desk.run()
    with sqlite3.connect(desk.store) as database:
        database.execute("delete from replies")
    desk.refused()
    for name in ("summary.json", "transcripts.jsonl"):
        (desk.folder / name).unlink()
    with pytest.raises(StoreError, match="holds no reply of riddles-"):
        desk.score()


def test_answers_that_another_run_got_since_are_no_loss(desk: Desk) -> None:
    """The run lost an answer, so that its judgement was skipped; now that can be asked."""
    desk.run()
    path = desk.folder / "transcripts.jsonl"
    answer, judgement = desk.key("answer"), desk.key("fit")
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    for line in lines:
        if line["key"] == answer:
            line["state"] = "failure"
        elif line["key"] == judgement:
            line["state"], line["key"] = "skipped", None
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    with sqlite3.connect(desk.store) as database:
        database.execute("delete from replies where key = ?", (judgement,))
    typed("show", str(desk.folder))
    assert "1 call was never asked" in desk.score()


def test_data_that_differ_in_what_is_not_asked_are_scored(desk: Desk) -> None:
    desk.run()
    before = desk.files()["scores.jsonl"]
    desk.write(*({**riddle, "source": "folklore"} for riddle in riddles()))
    assert desk.score() == ""
    assert desk.files()["scores.jsonl"] == before


def never_ended(desk: Desk) -> None:
    (desk.folder / "summary.json").unlink()


def stopped(desk: Desk) -> None:
    desk.change("summary.json", complete=False)


@pytest.fixture(params=[never_ended, stopped])
def unfinished(desk: Desk, request: pytest.FixtureRequest) -> Desk:
    """A run that did not go to its end, of which the last two answers are not in the store."""
    desk.run()
    desk.forget()
    request.param(desk)
    return desk


def test_an_unfinished_run_is_scored_and_told_to_be_one(unfinished: Desk) -> None:
    (unfinished.folder / "transcripts.jsonl").unlink()
    told = "2 calls were never asked: this run is not finished"
    assert told in unfinished.score()
    # it has no more to lose than it had
    assert told in unfinished.score()


def test_a_run_that_was_only_scored_keeps_what_it_has(unfinished: Desk) -> None:
    desk = unfinished
    (desk.folder / "transcripts.jsonl").unlink()
    desk.score()
    whole = desk.data.read_bytes()
    desk.write(*riddles()[:-1], {"id": ROWS, "riddle": "What is that?"})
    assert desk.refused().problems == (
        f"{desk.store} has no answer today to 2 calls more than when the run was scored",
        "riddles.jsonl is not the file that the run was made from",
    )
    desk.write(*riddles()[:-1])
    lost, *_ = desk.refused().problems
    assert lost == "the run had 4 samples, and there are 3 today"
    desk.data.write_bytes(whole)
    desk.score()


def test_transcripts_that_cannot_be_read_are_no_leave_to_lose_results(desk: Desk) -> None:
    desk.run()
    never_ended(desk)
    (desk.folder / "transcripts.jsonl").write_text("{", encoding="utf-8")
    assert desk.score() == ""
    desk.forget()
    (desk.folder / "transcripts.jsonl").write_text("{", encoding="utf-8")
    desk.refused()


def test_a_shard_is_scored_by_itself(desk: Desk) -> None:
    part = replace(desk, shard="2/2")
    part.run()
    assert part.score() == ""
    part.write(*riddles()[:-1], {"id": ROWS, "riddle": "What is that?"})
    part.refused()


def test_a_run_over_merged_stores_is_scored(desk: Desk) -> None:
    parts = [replace(desk, shard=f"{number}/2") for number in (1, 2)]
    stores = [str(desk.here / f"{number}.sqlite") for number in (1, 2)]
    for part, store in zip(parts, stores, strict=True):
        part.run("--store", store)
        shutil.rmtree(part.folder)
    together = str(desk.here / "all.sqlite")
    typed("merge", together, *stores)
    desk.run("--store", together)
    before = desk.files()["scores.jsonl"]
    assert desk.score() == ""
    assert desk.files()["scores.jsonl"] == before


def test_a_renamed_folder_is_scored_where_it_lies(desk: Desk) -> None:
    desk.run()
    folder = desk.folder.rename(desk.folder.with_name("renamed"))
    report = folder / "report.md"
    report.unlink()
    typed("score", str(folder))
    assert report.exists()
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == ["renamed"]


def test_a_finished_run_is_not_shown_with_other_data(desk: Desk) -> None:
    desk.run()
    desk.write(*riddles()[:-1], {"id": ROWS, "riddle": "What is that?"})
    for sample in ((), (str(ROWS),)):
        with pytest.raises(DataError) as caught:
            typed("show", str(desk.folder), *sample)
        assert caught.value.problems == (
            f"the run was finished, and {desk.store} has no answer to 2 of its calls today",
            "riddles.jsonl is not the file that the run was made from",
        )
        assert "what was asked then stands in transcripts.jsonl" in str(caught.value)
    # what was asked of the others is what would be asked today
    typed("show", str(desk.folder), "1")


def test_where_answers_are_gone_a_finished_run_is_not_shown_as_unasked(desk: Desk) -> None:
    desk.run()
    desk.forget()
    with pytest.raises(DataError, match="answers may have been removed"):
        typed("show", str(desk.folder))


def test_an_unfinished_run_is_shown_while_its_data_are_the_same(unfinished: Desk) -> None:
    desk = unfinished
    typed("show", str(desk.folder))
    desk.write(*riddles()[:-1], {"id": ROWS, "riddle": "What is that?"})
    with pytest.raises(DataError, match=r"riddles\.jsonl is not the file"):
        typed("show", str(desk.folder))


def test_where_data_are_gone_it_is_told_what_can_be_read_without_them(desk: Desk) -> None:
    desk.run()
    desk.data.rename(desk.here / "elsewhere.jsonl")
    for command in (("show", "1"), ("show",)):
        result = CliRunner().invoke(commands, [command[0], str(desk.folder), *command[1:]])
        *data, left = str(result.exception).splitlines()
        assert "riddles.jsonl" in data[0]
        assert left == f"Without its data this run still has transcripts.jsonl in {desk.folder}."
    (desk.folder / "transcripts.jsonl").unlink()
    assert "still has" not in str(
        CliRunner().invoke(commands, ["show", str(desk.folder)]).exception
    )


def test_a_list_of_samples_holds_none_of_their_texts(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.run()
    held: list[int] = []
    how_far = show._how_far

    def counting(finished: Finished) -> str:
        held.append(sum(isinstance(each, Finished) for each in gc.get_objects()))
        return how_far(finished)

    monkeypatch.setattr(show, "_how_far", counting)
    typed("show", str(desk.folder))
    assert held == [1] * ROWS


def test_scoring_tells_who_answered_as_the_store_knows_it(desk: Desk) -> None:
    desk.run()
    assert orjson.loads((desk.folder / "manifest.json").read_bytes())["answered_by"] == {}
    with sqlite3.connect(desk.store) as database:
        database.execute("update replies set answered_by = 'echo-2025-01-01' where rowid > 2")
        database.execute("update replies set answered_by = 'other' where rowid <= 2")
    desk.score()
    manifest = orjson.loads((desk.folder / "manifest.json").read_bytes())
    counts = {seat: sum(named.values()) for seat, named in manifest["answered_by"].items()}
    assert counts == {"candidate": ROWS, "judge": ROWS}
    [*_, told] = [note for note in manifest["notes"] if note.startswith("SEVERAL MODELS: cand")]
    report = (desk.folder / "report.md").read_text(encoding="utf-8")
    assert told in report
    assert "- **candidate**: echo, answered by " in report
    lines = map(orjson.loads, (desk.folder / "transcripts.jsonl").read_bytes().splitlines())
    assert {line["answered_by"] for line in lines} == {"other", "echo-2025-01-01"}


def test_transcripts_of_before_it_was_told_who_answered_are_read(desk: Desk) -> None:
    desk.run()
    path = desk.folder / "transcripts.jsonl"
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    for line in lines:
        del line["answered_by"]
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    assert [call.answered_by for call in read_calls(desk.folder)] == [None] * len(lines)
    del lines[-1]["finish"]
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    with pytest.raises(DataError, match="has no finish; another version"):
        list(read_calls(desk.folder))
