"""Which records are dialogues, and the faults of those that are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mmconv.benchmarks.cmteval.data import (
    Reference,
    find_files,
    find_references,
    model_of,
    subset_of,
)
from mmconv.benchmarks.cmteval.published import SIZES
from mmconv.core.errors import ConfigError, DataError
from tests.mmconv.benchmarks.cmteval.dialogues import (
    REAL,
    built,
    hard_record,
    long_record,
    published,
    record,
    reference,
    write,
    write_folder,
)

Change = Callable[[dict[str, Any]], Any]


def problems(data: Path, **options: Any) -> tuple[str, ...]:
    with pytest.raises(DataError) as caught:
        built(data, generate_only="references" not in options, **options)
    return caught.value.problems


def standard(tmp_path: Path, *records: Any) -> Path:
    return write(tmp_path / "standard_data.json", records)


class TestDialogues:
    def test_a_record_is_read_with_all_that_tables_need(self, tmp_path: Path) -> None:
        path = write(tmp_path / "hard_data.json", [hard_record("7", turns=5)])
        [dialogue] = built(path).load()
        assert (dialogue.key, dialogue.persona, dialogue.pattern) == (
            "hard/7",
            "齐业",
            "上文记忆保持",
        )
        assert [turn.acts for turn in dialogue.turns] == [
            ("初始问题",),
            ("追问",),
            ("建议", "反馈"),
            ("话题转移",),
            ("建议", "建议"),
        ]
        assert [turn.strategy for turn in dialogue.turns] == ["A", "B", "D", None, None]
        assert dialogue.turns[2].label == "建议+反馈"

    def test_a_full_width_plus_joins_acts_too(self, tmp_path: Path) -> None:
        made = record("1")
        made["会话内容"][2].update(言语行为="反馈＋追问")
        [dialogue] = built(standard(tmp_path, made)).load()
        assert dialogue.turns[2].acts == ("反馈", "追问")

    def test_one_element_lists_are_opened(self, tmp_path: Path) -> None:
        path = standard(tmp_path, [record("1")], [[record("2")]])
        assert [each.id for each in built(path).load()] == ["1", "2"]

    def test_long_texts_are_joined_with_their_references(self, tmp_path: Path) -> None:
        first, _ = built(write_folder(tmp_path), subsets="long-text").load()
        qa_pairs = '[{"question": "文章讲了什么？", "answer": "风筝。"}]'
        assert first.reference == Reference(summary="一篇文章的摘要", qa_pairs=qa_pairs)

    def test_a_file_that_changed_since_it_was_checked_is_refused(self, tmp_path: Path) -> None:
        benchmark = built(standard(tmp_path, record("1")))
        standard(tmp_path, record("1", 评测能力="别的"))
        with pytest.raises(DataError, match="start the run again"):
            list(benchmark.load())


class TestFaults:
    @pytest.mark.parametrize(
        ("change", "fault"),
        [
            (lambda made: made.pop("origin_id"), "no origin_id or ID"),
            (lambda made: made.update(评测能力="记忆"), "评测能力 holds '记忆'; known are"),
            (lambda made: made.pop("用户角色"), "用户角色 is missing"),
            (lambda made: made.update(会话内容=[]), "会话内容 must be a list of at least one turn"),
            (lambda made: made.update(会话内容="无"), "会话内容 must be a list of at least one"),
            (
                lambda made: made["会话内容"].append(3),
                "会话内容 holds 1 turn(s) that are not objects",
            ),
            (
                lambda made: made["会话内容"][1].update(用户query=" "),
                "turn 2: 用户query is empty",
            ),
            (lambda made: made["会话内容"][1].pop("用户query"), "turn 2: 用户query is missing"),
            (lambda made: made["会话内容"][1].update(用户query=[]), "turn 2: 用户query holds []"),
            (
                lambda made: made["会话内容"][2].update(言语行为="抱怨"),
                "turn 3: 言语行为 holds '抱怨'",
            ),
            (
                lambda made: made["会话内容"][2].update(言语行为="追问+"),
                "turn 3: 言语行为 holds ''",
            ),
            (lambda made: made["会话内容"].pop(0), "turn 1: 轮次 is 2, but this is turn 1"),
            (lambda made: made["会话内容"][0].update(难度设计方法="E"), "难度设计方法 holds 'E'"),
        ],
    )
    def test_it_is_named_with_file_record_and_field(
        self, tmp_path: Path, change: Change, fault: str
    ) -> None:
        made = record("2")
        change(made)
        found = problems(standard(tmp_path, record("1"), made))
        assert found[0].startswith("standard_data.json item 2: ")
        assert fault in found[0]

    def test_all_are_named_at_once(self, tmp_path: Path) -> None:
        bad = record("2", 评测能力="", 用户角色="")
        assert len(problems(standard(tmp_path, bad, record("1"), record("1")))) == 3

    def test_a_repeated_identifier_is_a_fault(self, tmp_path: Path) -> None:
        [problem] = problems(standard(tmp_path, record("1"), record("1")))
        assert "identifier is that of standard_data.json item 1" in problem

    def test_a_dialogue_of_another_subset_is_a_fault(self, tmp_path: Path) -> None:
        [problem] = problems(standard(tmp_path, record("1"), hard_record("2")))
        assert "has the fields of hard, but the file is taken for standard" in problem

    @pytest.mark.parametrize("query", ["没有问题", "\n问题", "文章\n", "文章\n又一段\n问题"])
    def test_a_long_text_needs_one_line_break_before_its_question(
        self, tmp_path: Path, query: str
    ) -> None:
        made = long_record()
        made["会话内容"][0]["用户query"] = query
        path = write(tmp_path / "long-text_data.json", [made])
        [problem] = problems(path)
        assert "用户query must be a text, one line break, and a question" in problem

    @pytest.mark.parametrize(
        ("references", "fault"),
        [
            ([reference(2)], "no reference has the ID 1"),
            ([reference(1, summary="")], "summary is empty"),
            ([reference(1), reference(1)], "item 1 has the same ID 1"),
            ([reference(1, ID=None)], "item 1: no ID"),
        ],
    )
    def test_references_must_be_there(
        self, tmp_path: Path, references: list[Any], fault: str
    ) -> None:
        path = write(tmp_path / "long-text_data.json", [long_record()])
        found = problems(path, references=write(tmp_path / "references.json", references))
        assert fault in found[0]

    def test_bad_records_can_be_left_out(self, tmp_path: Path) -> None:
        path = standard(tmp_path, record("1"), record("2", 用户角色=""))
        benchmark = built(path, skip_bad_records=True)
        assert [each.id for each in benchmark.load()] == ["1"]
        [left_out] = benchmark.facts["left_out"]
        assert left_out["where"] == "standard_data.json item 2"

    def test_leaving_everything_out_is_refused(self, tmp_path: Path) -> None:
        assert problems(standard(tmp_path, record("2", 用户角色="")), skip_bad_records=True)


class TestFiles:
    def test_a_folder_has_the_authors_names(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path)
        assert list(find_files(folder, None)) == ["standard", "hard", "long-text"]
        assert list(find_files(folder, ("long-text", "hard"))) == ["hard", "long-text"]
        assert find_references(folder, None) == folder / "long-text_summary_QA_data.json"

    def test_a_subset_without_a_file_is_refused(self, tmp_path: Path) -> None:
        write(tmp_path / "hard_data.json", [hard_record()])
        with pytest.raises(ConfigError, match="data has no standard; it has hard"):
            find_files(tmp_path, ("standard",))

    def test_a_folder_without_any_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="none of these files is here"):
            find_files(tmp_path, None)

    def test_references_must_be_named_next_to_a_mapping(self, tmp_path: Path) -> None:
        file = write_folder(tmp_path) / "long-text_data.json"
        with pytest.raises(ConfigError, match="give references"):
            built({"long-text": file})

    @pytest.mark.parametrize(
        ("stem", "subset", "model"),
        [
            ("eval_long-text_llama3.1-8b", "long-text", "llama3.1-8b"),
            ("eval_standard_llama3.1-8b", "standard", "llama3.1-8b"),
            ("eval_hard_hardy-7b", "hard", "hardy-7b"),
            ("eval_standard_orchard-7b", "standard", "orchard-7b"),
            ("eval_gpt-hard_standard", "standard", "gpt-hard"),
            ("gpt_hard_judged", "hard", "gpt__judged"),
            ("hard", "hard", "hard"),
        ],
    )
    def test_the_rest_of_the_name_is_the_model(self, stem: str, subset: str, model: str) -> None:
        path = Path(f"{stem}.json")
        assert (subset_of(path), model_of(path)) == (subset, model)

    @pytest.mark.parametrize(
        ("made", "subset"),
        [(record(), "standard"), (hard_record(), "hard"), (long_record(), "long-text")],
    )
    def test_else_the_layout_does(self, tmp_path: Path, made: Any, subset: str) -> None:
        assert subset_of(write(tmp_path / "mine.json", [made])) == subset
        scored = published(made, (1, 1), (1, 1), (1, 1))
        assert subset_of(write(tmp_path / "scored.json", [scored])) == subset


@pytest.mark.skipif(not REAL.is_dir(), reason="the authors' data are not here")
def test_the_authors_files_are_read_as_they_are() -> None:
    benchmark = built(REAL)
    assert (benchmark.size, benchmark.facts["left_out"]) == (596, [])
    counts: dict[str, list[int]] = {}
    for dialogue in benchmark.load():
        counts.setdefault(dialogue.subset, []).append(len(dialogue.turns))
    assert {name: (len(turns), sum(turns)) for name, turns in counts.items()} == SIZES
