import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mmconv.benchmarks.convbench.data import CAPTION, CATEGORIES, REFERENCES
from mmconv.core.errors import ConfigError, DataError
from tests.mmconv.benchmarks.convbench.data_files import write_lines
from tests.mmconv.cli.drafting import DRAFTED, HUMAN, SCRIPT, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


class TestWhatIsWritten:
    def test_bare_rows_become_drafts_that_a_run_reads_with_leave(self, desk: Desk) -> None:
        result = desk.annotate()
        assert result.exit_code == 0
        assert desk.lines() == {key: {**DRAFTED, "status": "draft"} for key in (1, 2, 3)}
        assert "3 drafts written to" in result.stdout
        assert "--allow-drafts" in result.stdout
        assert "Correct and verify them: mmconv review " in result.stdout
        with pytest.raises(DataError, match="--allow-drafts"):
            desk.load()
        rows = desk.load(allow_drafts=True)
        assert [row.draft for row in rows] == [True] * 3
        assert rows[0].references == ("A square.", "Because.", "Roses are red.")

    def test_verified_lines_need_no_leave(self, desk: Desk) -> None:
        desk.annotate()
        text = desk.out.read_text("utf-8").replace('"status":"draft"', '"status":"verified"')
        desk.out.write_text(text, "utf-8")
        assert not any(row.draft for row in desk.load())

    def test_what_the_data_file_has_is_kept_and_not_repeated(self, desk: Desk) -> None:
        some = {CAPTION: "By hand.", REFERENCES[1]: "Said a person."}
        desk.rows(some, HUMAN, {})
        desk.annotate()
        rest = {column: text for column, text in DRAFTED.items() if column not in some}
        assert desk.lines() == {1: {**rest, "status": "draft"}, 3: {**DRAFTED, "status": "draft"}}
        first, second, _ = desk.load(allow_drafts=True)
        assert (first.caption, first.references[1], first.draft) == (
            "By hand.",
            "Said a person.",
            True,
        )
        assert (second.caption, second.draft) == (HUMAN[CAPTION], False)

    def test_earlier_annotations_are_completed_or_taken_over(self, desk: Desk) -> None:
        some = {CAPTION: "By hand.", "status": "verified"}
        whole = {**HUMAN, "status": "verified"}
        earlier = write_lines(desk.path / "earlier.jsonl", [{"ID": 1, **some}, {"ID": 2, **whole}])
        result = desk.annotate(f"--annotations={earlier}")
        assert "2 drafts written to" in result.stdout
        assert "1 row copied unchanged from" in result.stdout
        assert desk.lines() == {
            1: {**DRAFTED, CAPTION: "By hand.", "status": "draft"},
            2: whole,
            3: {**DRAFTED, "status": "draft"},
        }
        assert [row.draft for row in desk.load(allow_drafts=True)] == [True, False, True]

    def test_a_file_that_completes_itself_is_only_added_to(self, desk: Desk) -> None:
        part = {"ID": 1, CAPTION: "By hand.", "status": "verified"}
        write_lines(desk.out, [part])
        before = desk.out.read_bytes()
        result = desk.annotate(f"--annotations={desk.out}")
        assert "Something is missing in the lines of 1 row (ID 1)" in result.stdout
        assert desk.out.read_bytes().startswith(before)
        assert sorted(desk.lines()) == [1, 2, 3]

    def test_a_limit_leaves_the_rest(self, desk: Desk) -> None:
        desk.annotate("--limit=2")
        assert sorted(desk.lines()) == [1, 2]
        desk.annotate()
        assert sorted(desk.lines()) == [1, 2, 3]

    def test_prompts_of_ones_own_are_used(self, desk: Desk) -> None:
        prompts = desk.path / "prompts"
        prompts.mkdir()
        (prompts / "annotate_describe.md").write_text("# user\n{{image}}Look!\n", "utf-8")
        script = {key: text for key, text in SCRIPT.items() if "Describe" not in key}
        desk.model({**script, "Look!": "Looked."})
        assert desk.annotate("--limit=1").exit_code == 1
        assert desk.annotate("--limit=1", f"--prompts={prompts}").exit_code == 0


class TestAgain:
    def test_what_is_written_is_not_asked_or_written_again(self, desk: Desk) -> None:
        desk.annotate()
        before = desk.out.read_bytes()
        result = desk.annotate()
        assert result.exit_code == 0
        assert result.stdout.startswith("0 calls")
        assert "0 drafts written" in result.stdout
        assert "3 rows with a line in" in result.stdout
        assert desk.out.read_bytes() == before

    def test_what_is_answered_is_not_asked_again(self, desk: Desk) -> None:
        desk.annotate()
        written = desk.lines()
        desk.out.unlink()
        result = desk.annotate()
        assert result.stdout.startswith("21 calls, 0.0/s, 21 replies reused")
        assert desk.lines() == written

    def test_an_interrupted_job_is_resumed(self, desk: Desk) -> None:
        desk.rows(*({} for _ in range(6)))
        desk.model(SCRIPT, seconds=0.05)
        job = subprocess.Popen(
            [sys.executable, "-m", "mmconv", "annotate", *desk.arguments()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with job:
            deadline = time.monotonic() + 60
            while not (desk.out.is_file() and desk.out.stat().st_size):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            job.send_signal(signal.SIGINT)
            _, message = job.communicate(timeout=300)
        assert job.returncode == 130
        assert "Resume with:\n  mmconv annotate convbench" in message
        written = desk.lines()
        assert 1 <= len(written) < 6
        result = desk.annotate()
        assert result.exit_code == 0
        assert "replies reused" in result.stdout
        assert desk.lines().items() >= written.items()
        assert len(desk.lines()) == 6


class TestWhatGoesWrong:
    def test_a_row_with_a_failed_call_is_told_and_not_written(self, desk: Desk) -> None:
        script = {key: text for key, text in SCRIPT.items() if key != "What is it"}
        desk.model({**script, r"What is it\? [13]$": "A square."})
        result = desk.annotate()
        assert result.exit_code == 1
        assert sorted(desk.lines()) == [1, 3]
        assert "for 1 row that could not be completed" in result.stderr
        assert "1 row (ID 2): turn_1: rejected after 1 attempt: no pattern" in result.stderr

    def test_rows_that_failed_alike_are_told_together(self, desk: Desk) -> None:
        desk.model({key: text for key, text in SCRIPT.items() if key != "Why"})
        result = desk.annotate()
        assert result.exit_code == 1
        assert "Nothing was written for 3 rows that could not be completed:" in result.stderr
        assert "  3 rows (ID 1, 2, 3): turn_2: rejected after 1 attempt: " in result.stderr
        assert result.stderr.count("rejected") == 1

    def test_categories_that_cannot_be_read_are_left_empty(self, desk: Desk) -> None:
        desk.model({**SCRIPT, "Choose one category": "First: none of them"})
        result = desk.annotate("--limit=1")
        assert result.exit_code == 0
        assert result.stdout.startswith("8 calls")
        assert "Categories are empty in 1 row (ID 1)" in result.stdout
        assert not set(CATEGORIES) & set(desk.lines()[1])

    def test_a_row_that_lacked_only_unreadable_categories_is_taken_over(self, desk: Desk) -> None:
        desk.model({**SCRIPT, "Choose one category": "First: none of them"})
        given = {key: text for key, text in HUMAN.items() if key != CATEGORIES[1]}
        earlier = write_lines(desk.path / "earlier.jsonl", [{"ID": 1, **given}])
        desk.annotate("--limit=1", f"--annotations={earlier}")
        assert desk.lines() == {1: {**given, "status": "verified"}}

    def test_bad_records_stop_the_job_unless_they_are_to_be_left_out(self, desk: Desk) -> None:
        (desk.images / "2.png").unlink()
        with pytest.raises(DataError, match=r"image 2\.png is not in pictures"):
            desk.annotate()
        assert not desk.out.exists()
        result = desk.annotate("--skip-bad-records")
        assert "1 bad record left out" in result.stdout
        assert sorted(desk.lines()) == [1, 3]

    def test_stray_annotations_are_told_where_they_are_left_out(self, desk: Desk) -> None:
        earlier = write_lines(desk.path / "earlier.jsonl", [{"ID": 99, CAPTION: "Whose?"}])
        result = desk.annotate(f"--annotations={earlier}", "--skip-bad-records")
        assert "1 annotation or column not used" in result.stdout

    def test_an_output_that_is_not_json_lines_is_refused(self, desk: Desk) -> None:
        desk.out = desk.path / "drafts.xlsx"
        with pytest.raises(ConfigError, match=r"name it \.jsonl"):
            desk.annotate()

    def test_drafts_are_not_added_to_the_data(self, desk: Desk) -> None:
        before = desk.data.read_bytes()
        desk.out = desk.data
        with pytest.raises(ConfigError, match="this is the data file; name another"):
            desk.annotate()
        assert desk.data.read_bytes() == before
