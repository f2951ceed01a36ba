"""What `mmconv annotate` would cost, what bounds it, and what can be set."""

import re
from pathlib import Path

import pytest

from mmconv.benchmarks.convbench.data import CAPTION
from mmconv.core.errors import ConfigError
from tests.mmconv.cli.drafting import HUMAN, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


class TestWhatItCosts:
    PRICE = "models.annotator.price={input: 1000000, output: 0}"
    """A dollar for a token that is read."""

    def test_a_dry_run_tells_calls_tokens_and_dollars_and_writes_nothing(self, desk: Desk) -> None:
        result = desk.annotate("--dry-run", f"--set={self.PRICE}")
        assert result.exit_code == 0
        row = next(line for line in result.stdout.splitlines() if line.startswith("annotator"))
        cells = row.replace(",", "").split()[1:]
        name, calls, stored, unasked, tokens, _, most, dollars = cells
        assert (name, calls, stored, unasked) == ("model", "21", "0", "21")
        assert float(dollars) == pytest.approx(float(tokens), rel=0.001)
        assert most == str(21 * 2048)
        assert not desk.out.exists()

    def test_the_longest_reply_goes_before_that_of_the_models_file(self, desk: Desk) -> None:
        with (desk.path / "model.yaml").open("a") as file:
            file.write("sampling: {max_tokens: 64}\n")
        for given, longest in (((), 64), (("--max-tokens=500",), 500)):
            output = desk.annotate("--dry-run", *given).stdout.replace(",", "")
            assert re.search(rf"^annotator .* {21 * longest} +not priced$", output, re.MULTILINE)

    def test_a_dry_run_knows_what_is_written_and_what_is_stored(self, desk: Desk) -> None:
        desk.annotate("--limit=1")
        desk.out.rename(desk.path / "first.jsonl")
        result = desk.annotate("--dry-run")
        assert re.search(r"^annotator +model +21 +7 +14 ", result.stdout, re.MULTILINE)
        desk.out = desk.path / "first.jsonl"
        result = desk.annotate("--dry-run")
        assert re.search(r"^annotator +model +14 +0 +14 ", result.stdout, re.MULTILINE)

    def test_dry_runs_name_missing_keys(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        result = desk.annotate("--annotator=gpt-4o", "--dry-run")
        assert result.exit_code == 0
        assert "would not start: annotator (gpt-4o): " in result.stderr

    def test_what_is_spent_stops_the_job(self, desk: Desk) -> None:
        result = desk.annotate("--max-cost=1", f"--set={self.PRICE}")
        assert result.exit_code == 130
        assert "--max-cost 1: the calls of this session have cost $" in result.stderr
        assert "Resume with:" in result.stderr
        assert not desk.out.exists()


class TestSettings:
    def test_the_model_and_its_sampling_can_be_set(self, desk: Desk) -> None:
        """The temperature is part of a call's key: the same calls are asked again."""
        drawn = "--set=sampling.annotator.temperature=0.7"
        for given in ([], [drawn], [drawn, "--set=seed=3"]):
            assert "reused" not in desk.annotate(*given).stdout
            desk.out.unlink()
        desk.annotate("--set=models.annotator.options={script: {'': 'A reply.'}}")
        assert desk.lines()[1][CAPTION] == "A reply."

    @pytest.mark.parametrize(
        "field", ["limit", "models.judge", "sampling.candidate.seed", "trials"]
    )
    def test_what_no_draft_depends_on_is_refused(self, desk: Desk, field: str) -> None:
        with pytest.raises(ConfigError, match=r"annotate takes only models\.annotator\.FIELD"):
            desk.annotate(f"--set={field}=1")


class TestNothingToDo:
    def test_complete_data_are_told_and_nothing_is_written(self, desk: Desk) -> None:
        desk.rows(HUMAN, HUMAN)
        result = desk.annotate()
        assert result.exit_code == 0
        assert "Nothing is missing: 2 rows with all columns." in result.stdout
        assert "drafts written" not in result.stdout
        assert not desk.out.exists()


class TestWhichRows:
    def test_named_rows_alone_are_drafted(self, desk: Desk) -> None:
        assert desk.annotate("--sample-id=3,1").exit_code == 0
        assert [*desk.lines()] == [1, 3]
