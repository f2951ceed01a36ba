"""Shares of failures, on scores made by hand (see `test_tables` for what the tables show)."""

from collections.abc import Iterator, Sequence

import pytest

from mmconv.benchmarks.ablations.metrics import DUE, Courses, Grading
from mmconv.benchmarks.base.metrics import Delta, Group, Mean, Ratio
from mmconv.benchmarks.convbench.metrics import DIRECT, PAIRWISE, metrics
from mmconv.core.types import Cell, Score, Summary
from mmconv.stats import ScoreFrame
from tests.mmconv.benchmarks.convbench.rows import options

LEVELS = ("perception", "reasoning", "creation")
CONDITIONS = ("free", "perception", "reasoning")


def creations(
    failing: Sequence[str], metric: str = "rating", rows_per_image: int = 2
) -> ScoreFrame:
    """Creations by sample: `fp?` fails freely, passes with perception given, is unscored then."""

    def scores() -> Iterator[Score]:
        for sample, states in enumerate(failing):
            for condition, state in zip(CONDITIONS, states, strict=False):
                passed, failed = (8.0, 3.0) if metric == "rating" else (1.0, 0.0)
                yield Score(
                    sample=str(sample),
                    condition=condition,
                    metric=metric,
                    turn=3,
                    tags={"cluster": f"image {sample // rows_per_image}"},
                    value={"p": passed, "f": failed}.get(state),
                    why="unparsed" if state == "?" else None,
                )

    return ScoreFrame(scores())


def net(frame: ScoreFrame, grading: Grading = DIRECT) -> dict[tuple[str, str], Summary]:
    """(level that failed, cause) -> its net share, however few the failures are."""
    found = {}
    for each in metrics(options()):
        if isinstance(each, Ratio) and each.group == grading.bounds:
            level, _, cause = each.name.partition(DUE)
            if (summary := each.summarise(frame)) is not None:
                found[level, cause] = summary
    return found


def failing(frame: ScoreFrame) -> dict[str, Cell]:
    """What fails and what it is due to, in percent of the samples."""
    return {
        each.name: cell
        for each in metrics(options())
        if isinstance(each, Mean | Delta)
        and (each.table, each.group.title) == ("failures", DIRECT.failures)
        and (cell := each.measure(frame)) is not None
    }


def shares(frame: ScoreFrame) -> dict[str, float | None]:
    found = net(frame)
    return {level: found["creation", level].mean for level in LEVELS}


def test_a_share_is_what_is_mended_less_what_is_spoilt() -> None:
    """Free failures 5; 3 with perception given (one of them spoilt); 1 with reasoning given."""
    frame = creations(["fpp", "fpp", "fpp", "ffp", "fff", "pfp", "ppp", "ppp"])
    assert shares(frame) == pytest.approx({"perception": 0.4, "reasoning": 0.4, "creation": 0.2})
    assert {each.n for each in net(frame).values()} == {5}


def test_a_share_is_negative_where_perfection_spoils_more_than_it_mends() -> None:
    found = shares(creations(["fff", "pff", "pfp", "fpp", "ppp", "ppp"]))
    assert found == pytest.approx({"perception": -0.5, "reasoning": 0.5, "creation": 1.0})


@pytest.mark.parametrize("metric", ["rating", "win"])
def test_luck_alone_leaves_everything_to_the_level_itself(metric: str) -> None:
    """All eight outcomes once: half of the creations fail under each condition, independently."""
    states = [f"{a}{b}{c}" for a in "fp" for b in "fp" for c in "fp"]
    found = net(creations(states, metric), DIRECT if metric == "rating" else PAIRWISE)
    assert [found["creation", level].mean for level in LEVELS] == pytest.approx([0, 0, 1])


def test_samples_count_that_are_scored_under_every_condition() -> None:
    """What is missing are failures: a sample that passes, or that has no free score, is none."""
    frame = creations(["fpp", "ffp", "fff", "?pp", "f?p", "fp?", "fp", "ppp", "p?p", "pf?"])
    assert net(frame)["creation", "perception"].mean == pytest.approx(1 / 3)
    for each in net(frame).values():
        assert each.n == 3
        assert each.missing == {
            "no score with perfect perception": 1,
            "no score with perfect reasoning": 2,
        }


def test_what_can_be_laid_without_a_score_is_not_counted_for_it() -> None:
    """Without it, only failures that perfect perception mends could be counted."""
    frame = creations(["fpp", "ffp", "fff"] * 4 + ["fp?", "f?p"] * 20)
    assert list(shares(frame).values()) == pytest.approx([1 / 3] * 3)
    courses = Courses(grading=DIRECT, level="creation")(frame)
    laid = [each.cause for each in courses if each.passed[0] is False]
    assert (laid.count("perception"), laid.count(None)) == (24, 20)


@pytest.mark.parametrize("conditions", [1, 2])
def test_what_was_never_asked_for_has_no_shares(conditions: int) -> None:
    frame = creations([states[:conditions] for states in ("fpp", "ffp", "fff", "ppp")])
    assert net(frame) == {}


def measured(frame: ScoreFrame, group: Group) -> dict[str, Cell]:
    """The cells of the attribution's table in one column, by cause."""
    return {
        each.name.partition(DUE)[2]: cell
        for each in metrics(options())
        if (each.table, each.group) == ("attribution_net", group)
        and each.name.startswith("creation")
        and (cell := each.measure(frame)) is not None
    }


def test_the_split_of_fixed_failures_does_not_depend_on_right_answers_that_fail() -> None:
    """30 failures of wrong answers, 24 of them fixed; a harsh judge fails 20 right ones too."""
    fair = ["fpp"] * 18 + ["ffp"] * 6 + ["fff"] * 6 + ["ppp"] * 50
    harsh = [*fair[:60], *["fff"] * 20]
    for states, own in ((fair, 20.0), (harsh, 52.0)):
        split = measured(creations(states), DIRECT.fixed)
        assert {name: cell.value for name, cell in split.items()} == pytest.approx(
            {"perception": 75, "reasoning": 25}
        )
        assert {cell.n for cell in split.values()} == {24}
        bounds = measured(creations(states), DIRECT.bounds)
        failed = 30 + 20 * (states is harsh)
        for name, count in {"perception": 18, "reasoning": 6}.items():
            cell = bounds[name]
            assert (cell.value, cell.to) == pytest.approx((100 * count / failed, 100 * count / 24))
            assert cell.low is not None and isinstance(cell.value, float)
            assert cell.low < cell.value and (cell.high or 0) > (cell.to or 0)
        assert (bounds["creation"].value, bounds["creation"].low) == (0, 0)
        assert bounds["creation"].to == pytest.approx(own)
        # the true shares are within the bounds, whatever the judge fails
        perception = bounds["perception"]
        assert isinstance(perception.value, float) and perception.value <= 60 <= (
            perception.to or 0
        )


def test_perfect_turns_that_fix_nothing_have_no_split_and_no_upper_bound() -> None:
    frame = creations(["fff"] * 20 + ["ppp"] * 20 + ["pff"] * 3)
    split = measured(frame, DIRECT.fixed)["perception"]
    assert (split.value, split.n) == (None, 0)
    assert measured(frame, DIRECT.bounds)["perception"].to == 100
    assert measured(frame, DIRECT.bounds)["reasoning"].value is None


def test_the_control_is_over_samples_whose_own_turn_was_clearly_right() -> None:
    """Of 30 samples with a right perception, perfect perception seems to fix ten creations."""

    def scores() -> Iterator[Score]:
        yield from creations(["fpp"] * 40 + ["ppp"] * 20, rows_per_image=1)
        for sample in range(60):
            rating = 8.0 if sample >= 30 else 7.0
            yield Score(sample=str(sample), condition="free", metric="rating", turn=1, value=rating)

    frame = ScoreFrame(scores())
    found = measured(frame, DIRECT.points)
    assert found["perception"].value == pytest.approx(100 / 3)
    assert (found["perception"].n, (found["perception"].low or 0) > 0) == (30, True)
    assert "reasoning" not in found or found["reasoning"].n == 0
    deltas = {each.name: each for each in metrics(options()) if each.group == DIRECT.control}
    assert set(deltas) == {"S2_hat - S2", "S3_hat - S3", "S3_tilde - S3_hat"}
    cell = deltas["S3_hat - S3"].measure(frame)
    assert cell is not None and cell.value == pytest.approx(5 / 3)


def test_without_a_failure_there_is_no_share() -> None:
    found = net(creations(["ppp", "pfp", "f??"]))["creation", "creation"]
    assert (found.mean, found.low, found.n) == (None, None, 0)
    assert found.missing == {"no score with perfect perception": 1}


def test_failures_that_are_few_have_no_share_with_an_interval() -> None:
    few, enough = (creations(["fpp", "fff"] * count + ["ppp"] * 80) for count in (2, 8))
    assert net(few)["creation", "creation"].low is None
    below, share, above = interval(enough, "creation")
    assert (share, below > 0, above < 2) == (0.5, True, True)


def test_intervals_end_where_their_scales_do() -> None:
    """What is mended is at most everything; what is left is at least nothing."""
    frame = creations(["fpp"] * 24 + ["ppp"] * 6 + ["pfp"])
    assert interval(frame, "perception")[2] == 1.0
    assert interval(frame, "creation")[0] == 0.0
    assert interval(frame, "reasoning")[0] < 0 < interval(frame, "reasoning")[2]


def interval(frame: ScoreFrame, level: str) -> tuple[float, float, float]:
    found = net(frame)["creation", level]
    assert found.low is not None
    assert found.mean is not None
    assert found.high is not None
    return found.low, found.mean, found.high


def test_what_fails_is_divided_among_the_levels_over_all_samples() -> None:
    """Of ten samples five fail; three with perception given, one of them spoilt; one at the end."""
    states = ["fpp", "fpp", "fpp", "ffp", "fff", "pfp", *["ppp"] * 4]
    found = failing(creations(states))
    assert {name: cell.value for name, cell in found.items()} == pytest.approx(
        {
            "creation failed": 50,
            "creation failed: due to perception": 20,
            "creation failed: due to reasoning": 20,
            "creation failed: due to creation": 10,
        }
    )
    assert {cell.n for cell in found.values()} == {10}
    low = found["creation failed: due to perception"].low
    assert low is not None and low < 0 < (found["creation failed"].low or 0)


def test_a_sample_that_lacks_a_score_is_missing_among_all_samples() -> None:
    frame = creations(["fpp", "ffp", "fff", "?pp", "f?p", "ppp", "p?p", "pf?", "pp"])
    for cell in failing(frame).values():
        assert cell.n == 4
        assert cell.missing == {
            "no score": 1,
            "no score with perfect perception": 2,
            "no score with perfect reasoning": 2,
        }


def test_where_nothing_fails_the_shares_of_samples_still_have_intervals() -> None:
    """0 of 40 is not surely 0."""
    for cell in failing(creations(["ppp"] * 40, rows_per_image=1)).values():
        assert cell.value == 0
        assert cell.high is not None
        assert cell.high > 2
