"""Scoring a run's folder again, or showing it: neither takes today's data for the run's."""

import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from mmconv.cli import commands
from mmconv.core.errors import DataError, StoreError
from tests.mmconv.riddle_desk import JUDGING, ROWS, Desk, riddle_desk, riddles, typed


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return riddle_desk(tmp_path)


def test_other_data_are_named_and_nothing_is_written(desk: Desk) -> None:
    desk.run()
    desk.write(*riddles()[:-1], {"id": ROWS, "riddle": "What is that?"})
    assert desk.refused().problems == (
        f"the run was finished, and {desk.store} has no reply to 2 of its calls now",
        "riddles.jsonl has changed since the run",
    )
    desk.write(*riddles())
    assert desk.score() == ""


def test_another_prompt_is_named(desk: Desk) -> None:
    desk.run()
    desk.prompt.write_text(JUDGING.replace("Rate", "Judge"), encoding="utf-8")
    lost, cause = desk.refused().problems
    assert f"no reply to {ROWS} of its calls" in lost
    assert cause == "the prompt fit has changed"


def test_what_changed_in_place_is_told_before_its_results_are_replaced(desk: Desk) -> None:
    assert "will be replaced" not in desk.run() + desk.run()
    desk.prompt.write_text(JUDGING.replace("Rate", "Judge"), encoding="utf-8")
    message = f"{desk.folder}: the prompt fit has changed. The results"
    assert desk.run().startswith(message)
    assert "will be replaced" not in desk.run()


def test_another_model_is_named(desk: Desk) -> None:
    desk.run()
    desk.forget()
    models = orjson.loads((desk.folder / "manifest.json").read_bytes())["models"]
    desk.change("manifest.json", models=models | {"candidate": "other"})
    _, cause = desk.refused().problems
    assert cause == "the model of the role candidate has changed"


def test_where_nothing_is_known_to_have_changed_that_is_told(desk: Desk) -> None:
    desk.run()
    desk.forget()
    desk.change("manifest.json", mmconv="0.0.1")
    _, cause = desk.refused().problems
    assert cause.startswith("its data files, prompts and models are unchanged: ")
    assert cause.endswith("other requests than the run's (0.0.1)")


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
    assert "1 call was never requested" in desk.score()


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
    message = "2 calls were never requested: this run is not finished"
    assert message in unfinished.score()
    # it has no more to lose than it had
    assert message in unfinished.score()


def test_a_run_that_was_only_scored_keeps_what_it_has(unfinished: Desk) -> None:
    desk = unfinished
    (desk.folder / "transcripts.jsonl").unlink()
    desk.score()
    whole = desk.data.read_bytes()
    desk.write(*riddles()[:-1], {"id": ROWS, "riddle": "What is that?"})
    assert desk.refused().problems == (
        f"the run was stopped, and {desk.store} has no reply to 4 of its calls now",
        "riddles.jsonl has changed since the run",
    )
    desk.write(*riddles()[:-1])
    assert "the run had 4 samples, and there are 3 now" in desk.refused().problems
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
            f"the run was finished, and {desk.store} has no reply to 2 of its calls now",
            "riddles.jsonl has changed since the run",
        )
        assert "the requests of the run are in transcripts.jsonl" in str(caught.value)
    # what was asked of the others is what would be asked today
    typed("show", str(desk.folder), "1")


def test_where_answers_are_gone_a_finished_run_is_not_shown_as_unasked(desk: Desk) -> None:
    desk.run()
    desk.forget()
    with pytest.raises(DataError, match="replies may have been removed"):
        typed("show", str(desk.folder))


def test_an_unfinished_run_is_shown_while_its_data_are_the_same(unfinished: Desk) -> None:
    desk = unfinished
    typed("show", str(desk.folder))
    desk.write(*riddles()[:-1], {"id": ROWS, "riddle": "What is that?"})
    with pytest.raises(DataError, match=r"riddles\.jsonl has changed"):
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


def test_scoring_tells_who_answered_as_the_store_knows_it(desk: Desk) -> None:
    desk.run()
    assert orjson.loads((desk.folder / "manifest.json").read_bytes())["answered_by"] == {}
    with sqlite3.connect(desk.store) as database:
        database.execute(
            "update replies set answered_by = 'echo-2025-01-01', checksum = null where rowid > 2"
        )
        database.execute(
            "update replies set answered_by = 'other', checksum = null where rowid <= 2"
        )
    desk.score()
    manifest = orjson.loads((desk.folder / "manifest.json").read_bytes())
    counts = {role: sum(named.values()) for role, named in manifest["answered_by"].items()}
    assert counts == {"candidate": ROWS, "judge": ROWS}
    [*_, message] = [
        note for note in manifest["notes"] if note.startswith("SEVERAL MODELS: the server of cand")
    ]
    report = (desk.folder / "report.md").read_text(encoding="utf-8")
    assert message in report
    assert "- **candidate**: echo, answered by " in report
    lines = map(orjson.loads, (desk.folder / "transcripts.jsonl").read_bytes().splitlines())
    assert {line["answered_by"] for line in lines} == {"other", "echo-2025-01-01"}
