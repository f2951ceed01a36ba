"""Scores from judgements: what counts, what is missing and why, and the tables of it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.benchmarks.base.layouts import Context, make_tables
from mmconv.benchmarks.base.replay import replay
from mmconv.benchmarks.cmteval.benchmark import OFF_SCALE, CMTEval
from mmconv.benchmarks.cmteval.data import Dialogue, Subset, add_subset, read_dialogue
from mmconv.benchmarks.cmteval.metrics import MISSING, layouts, metrics
from mmconv.benchmarks.data_files.records import Record
from mmconv.core.config import ModelSpec
from mmconv.core.types import Cell, Failure, Outcome, Reply, Score, Skipped, Table
from mmconv.stats import ScoreFrame
from tests.mmconv.benchmarks.cmteval.dialogues import REAL, built, hard_record, record, spec


def dialogue(subset: Subset = "standard", **fields: Any) -> Dialogue:
    made = hard_record(**fields) if subset == "hard" else record(**fields)
    return read_dialogue(add_subset(Record(where="here", fields=made), subset))


def benchmark(model: str = "m", **options: Any) -> CMTEval:
    roles = dict.fromkeys(("candidate", "judge"), ModelSpec(provider="fake", model=model))
    return CMTEval(spec(Path("unread"), **options).model_copy(update={"models": roles}))


def entry(span: str, synthesis: object, adaptability: object) -> dict[str, object]:
    return {"轮次": span, "统筹能力": synthesis, "适应能力": adaptability, "评分理由": "理由"}


def scored(
    sample: Dialogue, judgement: Outcome | list[dict[str, object]], model: str = "m"
) -> list[Score]:
    if isinstance(judgement, list):
        judgement = Reply(text=orjson.dumps({"评估结果": judgement}).decode())
    outcomes: dict[str, Outcome] = {
        f"turn_{turn.number}": Reply(text="答", output_tokens=4, finish="length")
        for turn in sample.turns
    }
    outcomes["judge"] = judgement
    calls = {call.id: call for call in benchmark(model).calls(sample, "free")}
    return benchmark(model).scores(sample, "free", calls, outcomes)


def values(scores: list[Score], metric: str) -> dict[int | None, float | str | None]:
    """By turn: the value, or why there is none."""
    return {
        score.turn: score.why if score.value is None else score.value
        for score in scores
        if score.metric == metric
    }


def tables(*scores: Score) -> dict[str, Mapping[str, Mapping[str, Cell]]]:
    return {name: table.rows for name, table in whole_tables(*scores).items()}


def whole_tables(*scores: Score) -> dict[str, Table]:
    frame, context = ScoreFrame(scores), Context(candidate="m", judge="j")
    models = frame.distinct("model")
    tables = make_tables(layouts(models), [*metrics(models)], {"m": frame}, context)
    return {table.name: table for table in tables}


TURN_MISSING = [entry("1", 4, 5), entry("3", 2, 2)]


class TestScores:
    def test_a_turn_is_the_mean_of_two_and_a_dialogue_of_its_turns(self) -> None:
        scores = scored(dialogue(), [entry("1", 4, 5), entry("2", 3, 3), entry("3", 5, 5)])
        assert values(scores, "TLS") == {1: 4.5, 2: 3, 3: 5}
        assert values(scores, "DLS") == {0: 12.5 / 3}
        assert values(scores, "DLS_min") == {0: 3}
        assert values(scores, "surplus") == {0: 0}

    def test_merged_turns_get_the_same_and_are_marked(self) -> None:
        scores = scored(dialogue(), [entry("1", 4, 5), entry("2-3", 3, 4)])
        assert values(scores, "IS") == {1: 4, 2: 3, 3: 3}
        assert values(scores, "merged") == {1: 0, 2: 1, 3: 1}
        # turns that the dialogue does not have are counted
        beyond = scored(dialogue(), [entry("1-5", 4, 4)])
        assert (values(beyond, "surplus"), values(beyond, "DLS")) == ({0: 2}, {0: 4})

    @pytest.mark.parametrize(
        ("entries", "why"),
        [
            (TURN_MISSING, MISSING),
            ([entry("1", 4, 5), entry("2", 9, 2), entry("3", 2, 2)], OFF_SCALE),
        ],
    )
    def test_unscored_turn_voids_dialogue(self, entries: list[dict[str, object]], why: str) -> None:
        scores = scored(dialogue(), entries)
        assert values(scores, "TLS") == {1: 4.5, 2: why, 3: 2}
        assert values(scores, "DLS") == values(scores, "DLS_min") == {0: why}
        assert values(scores, "authors_IS") == {1: 4, 2: 3 if why == MISSING else 9, 3: 2}

    @pytest.mark.parametrize("wrong", [0, 6, 4.5, -1, "10"])
    def test_a_score_off_the_scale_is_unscored(self, wrong: object) -> None:
        scores = scored(dialogue(), [entry("1", wrong, 5), entry("2-3", 2, 2)])
        assert values(scores, "IS") == {1: OFF_SCALE, 2: 2, 3: 2}
        assert values(scores, "Adp") == {1: 5, 2: 2, 3: 2}
        assert values(scores, "TLS")[1] == OFF_SCALE
        assert values(scores, "authors_IS")[1] == float(str(wrong))

    @pytest.mark.parametrize(
        ("outcome", "why"),
        [
            (Failure(kind="timeout", message="", attempts=3), "failed: timeout"),
            (Skipped(because="turn_2"), "skipped: turn_2"),
            (Reply(text="很好"), "unparsed"),
        ],
    )
    def test_without_a_judgement_nothing_is_scored(self, outcome: Outcome, why: str) -> None:
        scores = scored(dialogue(), outcome)
        for metric in ("IS", "Adp", "TLS", "merged"):
            assert values(scores, metric) == dict.fromkeys((1, 2, 3), why)
        for metric in ("DLS", "DLS_min", "surplus"):
            assert values(scores, metric) == {0: why}
        authors = set(values(scores, "authors_Adp").values())
        assert authors == ({3.0} if why == "unparsed" else {why})

    def test_tags_are_what_tables_group_by(self) -> None:
        found = scored(dialogue("hard", turns=5), [entry("1-5", 4, 4)])
        by_turn = {score.turn: score.tags for score in found if score.metric == "TLS"}
        assert by_turn[3] == {
            "model": "m",
            "subset": "hard",
            "pattern": "Context Tracking",
            "persona": "Mr.Qi",
            "strategy": "Synthesis",
            "act Suggestion": "1",
            "act Feedback": "1",
        }
        assert by_turn[5]["act Suggestion"] == "2"
        assert by_turn[5]["strategy"] == "none"


class TestTables:
    def test_scores_are_means_over_dialogues_not_over_turns(self) -> None:
        short, long = dialogue(key="1", turns=1), dialogue(key="2", turns=3)
        found = [*scored(short, [entry("1", 1, 1)]), *scored(long, [entry("1-3", 5, 4)])]
        row = tables(*found)["scores"]["m, standard"]
        assert [row[name].value for name in ("IS", "Adp", "DLS")] == [3, 2.5, 2.75]
        assert row["DLS"].n == 2
        both = scored(dialogue(), [entry("1", 1, 1), entry("2-3", 5, 5)])
        row = tables(*both)["scores"]["m, standard"]
        assert (row["DLS"].value, row["DLS by the lowest turn"].value) == (11 / 3, 1)

    def test_trials_repeat_a_dialogue_and_no_speech_acts(self) -> None:
        found = scored(dialogue(turns=5), [entry("1-5", 1, 1)])
        again = [
            replace(score, sample=f"{score.sample}#2", tags={"cluster": score.sample, **score.tags})
            for score in found
        ]
        once, twice = (tables(*each)["speech_act_counts"] for each in (found, [*found, *again]))
        assert once
        assert once == twice

    def test_overall_weighs_subsets_and_not_dialogues(self) -> None:
        found = [
            *scored(dialogue(key="1"), [entry("1-3", 1, 1)]),
            *scored(dialogue(key="2"), [entry("1-3", 1, 1)]),
            *scored(dialogue("hard"), [entry("1-3", 5, 4)]),
        ]
        made = tables(*found)
        assert made["scores"]["m, overall"]["DLS"].value == 2.75
        assert made["paper_scores"]["m"]["overall"].value == 2.75

    def test_a_turn_with_two_acts_counts_for_both_and_a_doubled_one_once(self) -> None:
        found = scored(
            dialogue(turns=5), [entry("1-2", 1, 1), entry("3", 5, 5), entry("4-5", 2, 2)]
        )
        acts = {name: row["m, standard"] for name, row in tables(*found)["speech_acts"].items()}
        assert (acts["Suggestion"].value, acts["Suggestion"].n) == (3.5, 2)
        assert (acts["Feedback"].value, acts["Feedback"].n) == (5, 1)
        assert "Modification" not in acts
        counts = tables(*found)["speech_act_counts"]["Suggestion, all"]
        assert {turn: cell.value for turn, cell in counts.items()} == {"turn 3": 1, "turn 5": 2}

    def test_each_breakdown_has_its_rows(self) -> None:
        made = tables(*scored(dialogue("hard"), [entry("1", 1, 1), entry("2-3", 5, 4)]))
        assert made["personas"]["Mr.Qi"]["m, hard"].value == 10 / 3
        assert made["patterns"]["Context Tracking"]["m, hard"].value == 10 / 3
        strategies = {name: row["m, hard"].value for name, row in made["strategies"].items()}
        assert strategies == {"Global Constraints": 1, "Omission": 4.5, "Synthesis": 4.5}
        assert made["speech_acts_by_turn"]["Follow-up, turn 2"]["m, hard"].value == 4.5

    def test_several_models_have_their_plain_mean(self) -> None:
        found = [
            *scored(dialogue(key="1"), [entry("1-3", 1, 1)], "a"),
            *scored(dialogue(key="2"), [entry("1-3", 1, 1)], "a"),
            *scored(dialogue(key="1"), [entry("1-3", 5, 4)], "b"),
        ]
        made = tables(*found)
        row = made["personas"]["Mr.Qi"]
        assert list(row) == ["a, standard", "b, standard", "mean over models, standard"]
        assert row["mean over models, standard"].value == 2.75
        assert made["paper_scores"]["Mean"]["standard DLS"].value == 2.75
        deviation = made["paper_scores"]["Standard Deviation"]["standard DLS"].value
        assert deviation == pytest.approx(3.5 / 3**0.5)

    def test_what_the_judge_left_out_is_counted(self) -> None:
        found = [
            *scored(dialogue(key="1"), [entry("1-2", 4, 4), entry("4", 1, 1)]),
            *scored(dialogue(key="2"), Reply(text="?")),
        ]
        made = tables(*found)
        row = made["judgements"]["m, standard"]
        assert row["scored turns"].missing == {MISSING: 1, "unparsed": 3}
        assert [cell.value for cell in row.values()] == [2, 1, 1, 6, 2, 2, 1, 1]
        for cell in made["scores"]["m, standard"].values():
            assert (cell.value, cell.missing) == (None, {MISSING: 1, "unparsed": 1})
        assert made["paper_scores"]["m"]["standard DLS"].value == (11 / 3 + 3) / 2

    def test_dls_is_the_mean_of_is_and_adp_whatever_was_left_out(self) -> None:
        found = [
            *scored(dialogue(key="1"), [entry("1-3", 4, 2)]),
            *scored(dialogue(key="2"), [entry("1", 5, 5), entry("3", 1, 5)]),
            *scored(dialogue(key="3"), [entry("1-2", 5, 4), entry("3", 2, 3)]),
        ]
        row = tables(*found)["scores"]["m, standard"]
        assert {row[name].n for name in ("DLS", "IS", "Adp")} == {2}
        synthesis, adaptability = (float(row[name].value or 0) for name in ("IS", "Adp"))
        assert row["DLS"].value == pytest.approx((synthesis + adaptability) / 2)

    def test_the_papers_table_counts_what_is_made_of_threes(self) -> None:
        """Of four judgements two score no turn and one lacks a turn; a fifth was never made."""
        found = [
            *scored(dialogue(key="1"), [entry("1-3", 4, 4)]),
            *scored(dialogue(key="2"), [entry("1-2", 5, 5)]),
            *scored(dialogue(key="3"), Reply(text="?")),
            *scored(dialogue(key="4"), [entry("7", 5, 5)]),
            *scored(dialogue(key="5"), Skipped(because="turn_2")),
        ]
        table = whole_tables(*found)["paper_scores"]
        cell = table.rows["m"]["standard DLS"]
        assert cell.value == pytest.approx((4 + 13 / 3 + 3 + 3) / 4)
        assert cell.n == 2
        assert cell.missing == {
            "unparsed (taken as 3)": 1,
            f"{MISSING} (taken as 3)": 1,
            "skipped: turn_2": 1,
        }
        deviation = table.rows["Standard Deviation"]["standard DLS"]
        assert (deviation.n, deviation.missing) == (cell.n, cell.missing)

    def test_the_papers_table_is_empty_where_nothing_was_judged(self) -> None:
        hard = scored(dialogue("hard"), [entry("1-3", 4, 4)])
        row = tables(*scored(dialogue(), Skipped(because="turn_2")), *hard)["paper_scores"]["m"]
        for column in ("standard IS", "standard DLS"):
            assert (row[column].value, row[column].n) == (None, 0)
        assert (row["overall"].value, row["overall"].missing) == (None, {"skipped: turn_2": 1})

    @pytest.mark.skipif(not REAL.is_dir(), reason="the authors' data are not here")
    def test_the_counts_of_acts_are_those_of_the_papers_table_11(self) -> None:
        made = built(REAL)
        frame = ScoreFrame(
            score for each in made.load() for score in replay(made, each, "free", {})
        )
        context = Context(candidate="m", judge="j")
        found = make_tables([*made.layouts()], [*made.metrics()], {"m": frame}, context)
        [counts] = [table.rows for table in found if table.name == "speech_act_counts"]
        for act, first, expected in (
            ("Supplementation, all", 2, [153, 57, 126, 181, 123, 56, 24, 8, 2]),
            ("Follow-up, all", 2, [305, 204, 162, 94, 130, 112, 87, 50, 30, 13]),
            ("Suggestion, standard", 2, [1]),
        ):
            row = counts[act]
            turns = range(first, first + len(expected))
            assert [row[f"turn {turn}"].value for turn in turns] == expected
