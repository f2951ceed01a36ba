"""Panels: who is compared with whom, over what, and with which interval."""

import math
from dataclasses import replace

import numpy as np
import pytest

from mmconv.stats.agreement import many_raters, two_raters
from mmconv.stats.agreement import panel as panels
from mmconv.stats.agreement.many_raters import alike_between
from mmconv.stats.agreement.panel import (
    ALL,
    CONSENSUS,
    DIFFERENCE,
    EACH,
    PEOPLE,
    Panel,
    compare,
    figures,
)
from mmconv.stats.agreement.two_raters import Measure
from tests.mmconv.stats.agreement.draws import once
from tests.mmconv.stats.agreement.test_many_raters import fleiss_kappa

NONE = math.nan


def panel(judge: list[float], *people: list[float], clusters: str = "") -> Panel:
    judges = np.array([judge], dtype=np.float64)
    return Panel(
        judges=judges,
        people=np.array(people, dtype=np.float64),
        clusters=tuple(clusters or map(str, range(len(judge)))),
        unjudged={"unparsed": 1},
    )


def of_two(measure: Measure, left: list[float], right: list[float]) -> float:
    weights = np.ones((len(left), 1))
    return float(measure(two_raters.cross(np.array(left), np.array(right), weights))[0])


JUDGE = [4.0, 3.0, 5.0, 1.0, 2.0]
ANN = [4.0, 3.0, 4.0, 1.0, 2.0]
BEN = [4.0, 2.0, 5.0, 2.0, 1.0]
CAT = [4.0, 3.0, 5.0, 1.0, 5.0]


def test_one_person_is_compared_with_the_judge_alone() -> None:
    found = figures(panel(JUDGE, ANN))
    assert {*found} == {
        "agreement",
        "Cohen's kappa",
        "Fleiss' kappa",
        "Krippendorff's alpha (ordinal)",
        "quadratic weighted kappa",
        "Pearson's r",
        "Spearman's rho",
        "Kendall's tau-b",
        DIFFERENCE,
    }
    assert all({*row} == {EACH} for row in found.values())
    figure = found["agreement"][EACH]
    assert (figure.value, figure.n, figure.missing) == (4 / 5, 5, {"unparsed": 1})


def test_several_people_are_compared_as_in_mt_bench_101() -> None:
    """Its table 9: among people, over all annotations, average of persons, majority."""
    people = np.array([ANN, BEN, CAT])
    judge = np.array([JUDGE])
    row = figures(panel(JUDGE, ANN, BEN, CAT))["Fleiss' kappa"]
    assert row[PEOPLE].value == pytest.approx(fleiss_kappa(people))
    everybody = np.concatenate((judge, people))
    assert row[ALL].value == pytest.approx(fleiss_kappa(everybody))
    alone = [fleiss_kappa(np.stack((judge[0], person))) for person in people]
    assert row[EACH].value == pytest.approx(np.mean(alone))
    voted = np.array([4.0, 3.0, 5.0, 1.0, NONE])
    assert row[CONSENSUS].value == pytest.approx(fleiss_kappa(np.stack((judge[0], voted))))
    assert row[CONSENSUS].n == 4
    assert row[CONSENSUS].missing == {"unparsed": 1, "no majority": 1}
    assert [row[each].missing for each in (EACH, PEOPLE, ALL)] == [{"unparsed": 1}] * 3


def test_measures_of_two_are_means_over_pairs() -> None:
    row = figures(panel(JUDGE, ANN, BEN, CAT))["Cohen's kappa"]
    kappas = [of_two(two_raters.cohen_kappa, *two) for two in ((ANN, BEN), (ANN, CAT), (BEN, CAT))]
    assert row[PEOPLE].value == pytest.approx(np.mean(kappas))
    assert ALL not in row


def test_rank_correlations_take_the_mean_of_people_as_consensus() -> None:
    row = figures(panel(JUDGE, ANN, BEN))["Spearman's rho"]
    averaged = [(ann + ben) / 2 for ann, ben in zip(ANN, BEN, strict=True)]
    rho = of_two(two_raters.spearman_rho, JUDGE, averaged)
    assert row[CONSENSUS].value == pytest.approx(rho)


def test_the_mean_difference_tells_the_milder_side() -> None:
    row = figures(panel(JUDGE, ANN, BEN))[DIFFERENCE]
    assert {*row} == {EACH, CONSENSUS}
    assert row[EACH].value == pytest.approx((1 / 5 + 1 / 5) / 2)
    cell = compare(panel([3.0] * 40, [2.0, 3.0] * 20), replicates=200)[DIFFERENCE][EACH]
    assert (cell.value, cell.n) == (0.5, 40)
    assert cell.low == pytest.approx(0.5 - 1.96 * math.sqrt(0.25 / 40), abs=0.03)


def test_ties_are_left_out_beside() -> None:
    tied = replace(panel([0, 1, 2, 0], [0, 1, 1, 2]), tie=0.0)
    found = figures(tied)
    assert found["agreement"][EACH].value == 2 / 4
    untied = found["agreement, without ties"][EACH]
    assert (untied.value, untied.n) == (1 / 2, 2)


def test_pairs_are_pooled_only_where_that_differs() -> None:
    assert "agreement, pairs pooled" not in figures(panel(JUDGE, ANN))
    gaps = panel(JUDGE, ANN, [NONE, NONE, 5.0, NONE, NONE])
    pooled = figures(gaps)["agreement, pairs pooled"][EACH].value
    assert pooled == pytest.approx(5 / 6)
    alike = alike_between(gaps.judges, gaps.people)
    assert pooled == alike.agreement(once(gaps.people), pooled=True)[0]


def test_labels_have_no_ranks() -> None:
    found = figures(replace(panel(JUDGE, ANN), ordered=False, level="nominal"))
    assert "Krippendorff's alpha (nominal)" in found
    assert {*found} == {"agreement", "Cohen's kappa", "Fleiss' kappa"} | {
        "Krippendorff's alpha (nominal)"
    }


def test_what_is_undefined_is_none_and_counted() -> None:
    flat = compare(panel([3.0] * 4, [1.0, 2.0, 3.0, 3.0]), replicates=20)
    cell = flat["Spearman's rho"][EACH]
    assert (cell.value, cell.low, cell.n) == (None, None, 4)
    assert cell.missing == {"unparsed": 1, "undefined for a pair or group of raters": 1}


def test_what_many_draws_leave_undefined_has_no_interval() -> None:
    """A third of the draws lack the only unit that the judge rates otherwise."""
    cell = compare(panel([3.0] * 7 + [4.0], [*map(float, range(8))]), replicates=100)
    found = cell["Spearman's rho"][EACH]
    assert found.value is not None
    assert (found.low, found.high) == (None, None)


def test_units_that_a_measure_cannot_use_are_missing() -> None:
    row = figures(panel(JUDGE, ANN, BEN, [*CAT[:4], NONE]))["Fleiss' kappa"]
    assert (row[PEOPLE].n, row[PEOPLE].missing) == (
        4,
        {"unparsed": 1, "unequal numbers of ratings": 1},
    )


def test_the_same_seed_gives_the_same_interval() -> None:
    made = panel(JUDGE, ANN, BEN)
    first, again = (compare(made, replicates=50, seed=7) for _ in range(2))
    other = compare(made, replicates=50, seed=8)
    assert first == again
    assert first != other


def bounds(made: Panel, measure: str) -> tuple[float, float]:
    cell = compare(made, replicates=400)[measure][EACH]
    assert cell.low is not None
    assert cell.high is not None
    return cell.low, cell.high


def test_the_interval_of_agreement_is_that_of_a_share() -> None:
    """70 of 100 independent units alike: 0.7 +- 1.96 * sqrt(0.7 * 0.3 / 100)."""
    low, high = bounds(panel([1.0] * 100, [1.0] * 70 + [2.0] * 30), "agreement")
    half = 1.96 * math.sqrt(0.7 * 0.3 / 100)
    assert (low, high) == pytest.approx((0.7 - half, 0.7 + half), abs=0.015)


def test_turns_of_a_dialogue_are_drawn_together() -> None:
    """Five equal turns tell no more than one: the interval is that of 40 units, not of 200."""
    judge, person = [1.0] * 200, [1.0] * 140 + [2.0] * 60
    clusters = "".join(chr(ord("A") + number) * 5 for number in range(40))
    low, high = bounds(panel(judge, person, clusters=clusters), "agreement")
    half = 1.96 * math.sqrt(0.7 * 0.3 / 40)
    assert (low, high) == pytest.approx((0.7 - half, 0.7 + half), abs=0.03)


def test_an_agreement_of_0_or_1_has_the_interval_of_a_share() -> None:
    """Wilson's of 40 of 40: 40 / (40 + 1.96 ** 2); where they are 20 dialogues, of those."""
    ones, twos = [1.0, 2.0] * 20, [2.0, 1.0] * 20
    square = 1.96**2
    for person, value in ((ones, 1.0), (twos, 0.0)):
        cell = compare(panel(ones, person), replicates=0)["agreement"][EACH]
        assert cell.value == value
        narrow = 40 / (40 + square)
        ends = (narrow, 1.0) if value else (0.0, 1 - narrow)
        assert (cell.low, cell.high) == pytest.approx(ends, abs=1e-4)
    clusters = "".join(chr(ord("A") + number) * 2 for number in range(20))
    cell = compare(panel(ones, ones, clusters=clusters), replicates=20)["agreement"][EACH]
    assert (cell.low, cell.high) == pytest.approx((20 / (20 + square), 1.0), abs=1e-3)


def test_without_spread_there_is_no_interval() -> None:
    perfect = compare(panel(ANN, ANN), replicates=20)["Cohen's kappa"][EACH]
    assert (perfect.value, perfect.low, perfect.high) == (1.0, None, None)
    alone = compare(panel(JUDGE, ANN, clusters="aaaaa"), replicates=20)["agreement"][EACH]
    assert (alone.value, alone.low) == (4 / 5, None)
    few = compare(panel(ANN, ANN, clusters="aabbc"), replicates=20)["agreement"][EACH]
    assert (few.value, few.low) == (1.0, None)


def test_blocks_of_draws_are_the_same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    made = panel(JUDGE, ANN, BEN)
    whole = compare(made, replicates=50)
    monkeypatch.setattr(panels, "_BLOCK", 35)
    assert compare(made, replicates=50) == whole


def test_an_interval_holds_its_measure() -> None:
    """Of six units without one equal rating, 97.5 % of the draws have a kappa below theirs."""
    made = panel([1, 4, 3, 4, 6, 1], [6, 3, 4, 5, 5, 6])
    cell = compare(made, replicates=100)["Fleiss' kappa"][EACH]
    assert cell.value == cell.high == pytest.approx(-5 / 19)
    assert cell.low is not None
    assert cell.low < -5 / 19


def test_a_panel_fits_together() -> None:
    with pytest.raises(ValueError, match="rate the same units"):
        panel(JUDGE, ANN[:3])
    with pytest.raises(ValueError, match="has judges and people"):
        replace(panel(JUDGE, ANN), people=np.empty((0, 5)))


def test_alpha_of_all_uses_every_rating() -> None:
    row = figures(panel(JUDGE, ANN, BEN))["Krippendorff's alpha (ordinal)"]
    everybody = np.array([JUDGE, ANN, BEN])
    [alpha] = many_raters.krippendorff_alpha(everybody, once(everybody), "ordinal")
    assert row[ALL].value == pytest.approx(alpha)
    assert row[ALL].n == 5


@pytest.mark.parametrize(("clusters", "shown"), [("aabbccdd", False), ("aabbccde", True)])
def test_few_clusters_have_no_interval(clusters: str, shown: bool) -> None:
    made = panel([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 1, 6, 1, 8], clusters=clusters)
    cell = compare(made, replicates=50)["agreement"][EACH]
    assert (cell.value, cell.low is not None) == (6 / 8, shown)


def test_draws_that_only_rounding_tells_apart_have_no_interval() -> None:
    """A judge who ranks as the person does: rho is 1 in every draw, or 0.9999999999999999."""
    made = panel([1, 2, 3, 4, 5, 6, 7], [2, 4, 5, 7, 8, 9, 10])
    cell = compare(made, replicates=50)["Spearman's rho"][EACH]
    assert cell.value == pytest.approx(1.0)
    assert (cell.low, cell.high) == (None, None)
