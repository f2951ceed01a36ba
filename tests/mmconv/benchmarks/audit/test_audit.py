"""Audits: the judge's prompts are those of a run, and planted errors are found."""

from pathlib import Path
from typing import Any

import pytest

from images import ImageStore
from mmconv.benchmarks.audit import Audit
from mmconv.benchmarks.audit.metrics import are_right
from mmconv.benchmarks.registry import AUDIT
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.graph import check, resolve
from mmconv.core.types import Cell, Ref, Reply, Table
from mmconv.engine.run import Result
from mmconv.engine.setup import build_benchmark
from tests.drawn_data import write_scenes
from tests.mmconv.benchmarks.fbbench.samples import correction
from tests.mmconv.benchmarks.fbbench.samples import write as write_records
from tests.mmconv.benchmarks.mtbench101.dialogues import write
from tests.mmconv.report.runs import ALPHA, BETA, evaluate, write_data

PLANTED = "tests.mmconv.benchmarks.audit.planted_judge"


def planted(*, name: str = "planted", **errors: float) -> ModelSpec:
    return ModelSpec(provider=PLANTED, model=name, options=errors)


def write_answered(benchmark: str, folder: Path) -> dict[str, Any]:
    """Data of the benchmark whose samples have references that differ; returns its options."""
    options = write_data(benchmark, folder)
    numbers = range(1, 7)
    if benchmark == "convbench":
        write_scenes(folder, 30)
    elif benchmark == "dialogue":
        rows = [
            [{"instruction": f"Ask {n}?", "reference": f"Say {number}, {n}."} for n in (1, 2)]
            for number in numbers
        ]
        write(folder / "data.jsonl", [{"id": str(n), "turns": each} for n, each in enumerate(rows)])
    elif benchmark == "fbbench":
        records = [correction(n, reference_second_response=f"It is {2 * n}.") for n in numbers]
        write_records(folder / "data.json", records)
    return options


def spec_of(benchmark: str, folder: Path, judge: ModelSpec, **fields: Any) -> RunSpec:
    options = {"of": benchmark, **write_answered(benchmark, folder), **fields.pop("options", {})}
    models = {"candidate": judge, **fields.pop("models", {})}
    return RunSpec(benchmark=AUDIT, options=options, models=models, **fields)


def build(spec: RunSpec) -> Audit:
    made = build_benchmark(spec, ImageStore())
    assert isinstance(made, Audit)
    return made


async def audit(folder: Path, judge: ModelSpec, **fields: Any) -> Result:
    return await evaluate(spec_of("convbench", folder / "data", judge, **fields), folder / "runs")


def cell_of(result: Result, row: str, column: str = "direct rating") -> Cell:
    return next(table.rows[row][column] for table in result.tables if row in table.rows)


def holds(cell: Cell, value: float) -> bool:
    return cell.low is not None and cell.high is not None and cell.low <= value <= cell.high


def warnings_of(table: Table) -> list[str]:
    return [note for note in table.notes if note.startswith("WARNING")]


@pytest.mark.parametrize("benchmark", ["convbench", "dialogue", "mtbench101", "fbbench"])
def test_the_judge_reads_what_it_reads_in_a_run(benchmark: str, tmp_path: Path) -> None:
    made = build(spec_of(benchmark, tmp_path, ALPHA))
    ordinary = made.inner
    for sample in made.load():
        references = ordinary.references(sample, made.condition)
        replies = {call: Reply(text=text) for call, text in references.items()}
        judged = [call for call in ordinary.calls(sample, made.condition) if call.model == "judge"]
        audited = made.calls(sample, "right")
        assert [call.id for call in audited] == [call.id for call in judged]
        for call in judged:
            replies.setdefault(call.id, Reply(text="a judgement"))
        for ours, theirs in zip(audited, judged, strict=True):
            assert resolve(ours.messages, replies) == resolve(theirs.messages, replies)
            assert (ours.sampling, ours.parser) == (theirs.sampling, theirs.parser)
            assert [each.id for each in ours.fallbacks] == [each.id for each in theirs.fallbacks]
            assert ours.model == "candidate"


@pytest.mark.parametrize("benchmark", ["convbench", "dialogue", "mtbench101", "fbbench"])
def test_wrong_answers_are_not_the_references(benchmark: str, tmp_path: Path) -> None:
    made = build(spec_of(benchmark, tmp_path, ALPHA))
    for sample in made.load():
        assert check(made.calls(sample, "wrong"))
        wrong, right = made._known(sample, "wrong"), made._known(sample, "right")
        assert wrong.keys() == right.keys()
        assert all(wrong[call] != right[call] for call in right)


def test_controls_follow_from_what_a_benchmark_declares(tmp_path: Path) -> None:
    both = {"alternating", "opposite", "longer", "repeat", "right", "wrong"}
    assert {*build(spec_of("convbench", tmp_path / "1", ALPHA)).conditions} == both
    # the history is golden, so a judge never reads two answers of the candidate
    for name in ("mtbench101", "fbbench"):
        assert {*build(spec_of(name, tmp_path / name, ALPHA)).conditions} == both - {"opposite"}
    options = {"subsets": ["standard"]}
    with pytest.raises(ConfigError, match="cmteval has no references"):
        build(spec_of("cmteval", tmp_path / "3", ALPHA, options=options))
    with pytest.raises(ConfigError, match="'paraphrase' needs a model: name a paraphraser"):
        build(spec_of("convbench", tmp_path / "1", ALPHA, conditions=("paraphrase",)))


def test_alternating_and_opposite_have_every_turn_after_right_and_after_wrong() -> None:
    one, other = (are_right(control, "7", 3) for control in ("alternating", "opposite"))
    assert [not state for state in one] == [*other]
    assert {are_right("alternating", str(number), 1)[0] for number in range(20)} == {True, False}


async def test_an_exact_judge_gets_no_warning(tmp_path: Path) -> None:
    result = await audit(tmp_path, planted(), options={"grading": ["direct"]})
    table = result.tables[0]
    assert cell_of(result, "right minus wrong").value == 100
    assert cell_of(result, "changes its mind").value == 0
    assert not warnings_of(table)
    assert "NOT TO BE TRUSTED" not in table.findings[0]
    assert result.quality.judged()["read"] > 0


async def test_planted_errors_are_found(tmp_path: Path) -> None:
    errors: dict[str, float] = {
        "fails_right": 0.3,
        "passes_wrong": 0.2,
        "halo": 0.2,
        "side": 0.4,
        "slope": 1.0,
    }
    result = await audit(tmp_path, planted(name="planted", **errors, forgets=0.5))
    # turn 1 and the conversation have no turn before them, and the third turn speaks for that
    assert holds(cell_of(result, "kinder to right"), 20)
    assert holds(cell_of(result, "kinder to wrong"), 20)
    assert holds(cell_of(result, "per doubling"), 1.0)
    assert holds(cell_of(result, "prefers the first", "pairwise win"), 40)
    assert holds(cell_of(result, "passes wrong (b)"), 20)
    assert cell_of(result, "reliability").value not in (None, 1.0)
    assert any("% of wrong answers" in warning for warning in warnings_of(result.tables[0]))


async def test_a_judge_that_draws_lots_is_not_to_be_trusted(tmp_path: Path) -> None:
    result = await audit(tmp_path, planted(fails_right=0.5, passes_wrong=0.5))
    assert "NOT TO BE TRUSTED" in result.tables[0].findings[0]


async def test_a_judge_without_readable_verdicts_is_not_to_be_trusted(tmp_path: Path) -> None:
    options = {"grading": ["direct"], "extraction": False}
    result = await audit(tmp_path, BETA, options=options, conditions=("right", "wrong"))
    assert "NOT TO BE TRUSTED: none of its verdicts" in result.tables[0].findings[0]
    assert result.quality.judged()["unreadable"] > 0


async def test_other_models_paraphrase_and_judge(tmp_path: Path) -> None:
    models = {"second": planted(name="other", fails_right=0.5), "paraphraser": ALPHA}
    result = await audit(tmp_path, planted(), models=models, conditions=None)
    assert cell_of(result, "fails paraphrases").value == 100  # ALPHA echoes the prompt
    assert holds(cell_of(result, "kappa with second"), 0.5)
    # answers that were right lose 4 points, since ALPHA echoes the prompt in their place
    shortened = cell_of(result, "in fewer words").value
    assert isinstance(shortened, float)
    assert shortened < 0


@pytest.mark.parametrize("control", ["paraphrase", "shorter"])
def test_rewritten_answers_are_requested_before_judgement(tmp_path: Path, control: str) -> None:
    made = build(spec_of("convbench", tmp_path, ALPHA, models={"paraphraser": ALPHA}))
    sample = next(made.load())
    calls = made.calls(sample, control)
    assert [call.model for call in calls[:3]] == ["paraphraser"] * 3
    refs = {
        part.call
        for call in calls
        for m in call.messages
        for part in m.parts
        if isinstance(part, Ref)
    }
    assert {f"{control}/turn_{turn}" for turn in (1, 2, 3)} <= refs
    shown = [call.messages[0].text for call in calls[:3]]
    states = are_right(control, sample.id, 3)
    references = made.inner.references(sample, "free").values()
    assert [text in prompt for text, prompt in zip(references, shown, strict=True)] == [*states]
