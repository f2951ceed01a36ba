"""Which records are dialogues, and the faults of those that are not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mmconv.benchmarks.cmteval.benchmark import CMTEval
from mmconv.benchmarks.cmteval.data import Dialogue, Reference, find_files, subset_of
from mmconv.benchmarks.readers.cmteval import SIZES
from mmconv.core.errors import ConfigError, DataError
from tests.mmconv.benchmarks.cmteval.dialogues import (
    REAL,
    built,
    hard_record,
    long_record,
    published,
    record,
    reference,
    spec,
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
        assert (dialogue.id, dialogue.persona, dialogue.pattern) == (
            "hard/7",
            "齐业",
            "上文记忆保持",
        )
        assert [turn.acts for turn in dialogue.turns] == [
            ["Initial Query"],
            ["Follow-up"],
            ["Suggestion", "Feedback"],
            ["Topic Shift"],
            ["Suggestion", "Suggestion"],
        ]
        assert [turn.strategy for turn in dialogue.turns] == ["A", "B", "D", None, None]
        assert dialogue.turns[2].label == "建议+反馈"

    def test_lists_of_one_are_opened_and_a_full_width_plus_joins_acts(self, tmp_path: Path) -> None:
        made = record("1")
        made["会话内容"][2].update(言语行为="反馈＋追问")
        first, second = built(standard(tmp_path, [made], [[record("2")]])).load()
        assert (first.id, second.id) == ("standard/1", "standard/2")
        assert first.turns[2].acts == ["Feedback", "Follow-up"]

    def test_long_texts_are_joined_with_their_references(self, tmp_path: Path) -> None:
        first, _ = built(write_folder(tmp_path), subsets="long-text").load()
        qa_pairs = '[{"question": "文章讲了什么？", "answer": "风筝。"}]'
        assert first.reference == Reference(summary="一篇文章的摘要", qa_pairs=qa_pairs)

    def test_one_in_a_request_needs_no_data_and_may_have_english_names(self) -> None:
        turn = {"number": 1, "query": "你好", "label": "初始问题"}
        names = {"id": "standard/1", "subset": "standard", "pattern": "上文记忆保持"}
        dialogue = Dialogue.model_validate({**names, "persona": "我", "turns": [turn]})
        calls = CMTEval(spec(Path("missing"))).calls(dialogue, "free")
        assert [call.id for call in calls] == ["turn_1", "judge"]


class TestFaults:
    @pytest.mark.parametrize(
        ("change", "fault"),
        [
            (lambda made: made.pop("origin_id"), "origin_id or ID must be a text"),
            (lambda made: made.update(origin_id=[]), "origin_id or ID must be a text"),
            (lambda made: made.update(评测能力="记忆"), "评测能力: Input should be '用户反馈应对'"),
            (lambda made: made.pop("用户角色"), "用户角色 is missing"),
            (lambda made: made.update(会话内容=[]), "会话内容: Tuple should have at least 1 item"),
            (lambda made: made.update(会话内容="无"), "会话内容: Input should be a valid tuple"),
            (
                lambda made: made["会话内容"].append(3),
                "会话内容[4]: Input should be a valid dictionary",
            ),
            (
                lambda made: made["会话内容"][1].update(用户query=" "),
                "会话内容[2].用户query is empty",
            ),
            (lambda made: made["会话内容"][1].pop("用户query"), "会话内容[2].用户query is missing"),
            (
                lambda made: made["会话内容"][1].update(用户query=[]),
                "会话内容[2].用户query holds []",
            ),
            (
                lambda made: made["会话内容"][2].update(言语行为="抱怨"),
                "会话内容[3].言语行为: '抱怨' must be one of",
            ),
            (
                lambda made: made["会话内容"][2].update(言语行为="追问+"),
                "会话内容[3].言语行为: '' must be one of",
            ),
            (lambda made: made["会话内容"].pop(0), "会话内容[1].轮次: is 2, not 1"),
            (
                lambda made: made["会话内容"][0].update(难度设计方法="E"),
                "会话内容[1].难度设计方法: Input should be 'A', 'B'",
            ),
        ],
    )
    def test_file_and_field_are_named(self, tmp_path: Path, change: Change, fault: str) -> None:
        made = record("2")
        change(made)
        found = problems(standard(tmp_path, record("1"), made))
        assert found[0].startswith("standard_data.json item 2")
        assert fault in found[0]

    @pytest.mark.parametrize("query", ["没有问题", "\n问题", "文章\n", "文章\n又一段\n问题"])
    def test_a_long_text_ends_with_one_line_of_question(self, tmp_path: Path, query: str) -> None:
        made = long_record()
        made["会话内容"][0]["用户query"] = query
        path = write(tmp_path / "long-text_data.json", [made])
        [problem] = problems(path)
        assert "用户query: must be a text, one line break, and a question" in problem

    @pytest.mark.parametrize(
        ("references", "fault"),
        [
            ([reference(2)], "reference.summary is missing"),
            ([reference(1, summary="")], "reference.summary is empty"),
            ([reference(1), reference(1)], "item 2: ID 1 is that of another one"),
            ([reference(1, ID=None)], "reference.summary is missing"),
        ],
    )
    def test_references_are_needed(self, tmp_path: Path, references: list[Any], fault: str) -> None:
        path = write(tmp_path / "long-text_data.json", [long_record()])
        found = problems(path, references=write(tmp_path / "references.json", references))
        assert fault in found[0]


class TestFiles:
    def test_a_folder_has_the_authors_names(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path)
        assert list(find_files(folder, None)) == ["standard", "hard", "long-text"]
        assert list(find_files(folder, ("long-text", "hard"))) == ["hard", "long-text"]
        references = folder / "long-text_summary_QA_data.json"
        assert built(folder).data_files[-1] == references
        assert built(folder / "long-text_data.json").data_files[-1] == references

    def test_a_subset_without_a_file_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="none of these files is here"):
            find_files(tmp_path, None)
        write(tmp_path / "hard_data.json", [hard_record()])
        with pytest.raises(ConfigError, match="data has no standard; it has hard"):
            find_files(tmp_path, ("standard",))

    def test_references_must_be_named_next_to_a_mapping(self, tmp_path: Path) -> None:
        file = write_folder(tmp_path) / "long-text_data.json"
        with pytest.raises(ConfigError, match="give references"):
            built({"long-text": file})

    @pytest.mark.parametrize(
        ("made", "subset"),
        [(record(), "standard"), (hard_record(), "hard"), (long_record(), "long-text")],
    )
    def test_the_fields_say_the_subset(self, tmp_path: Path, made: Any, subset: str) -> None:
        assert subset_of(write(tmp_path / "mine.json", [made])) == subset
        scored = published(made, (1, 1), (1, 1), (1, 1))
        assert subset_of(write(tmp_path / "scored.json", [scored])) == subset


@pytest.mark.skipif(not REAL.is_dir(), reason="the authors' data are not here")
def test_the_authors_files_are_read_as_they_are() -> None:
    benchmark = built(REAL)
    assert (benchmark.size, benchmark.provenance["left_out"]) == (596, [])
    counts: dict[str, list[int]] = {}
    for dialogue in benchmark.load():
        counts.setdefault(dialogue.subset, []).append(len(dialogue.turns))
    assert {name: (len(turns), sum(turns)) for name, turns in counts.items()} == SIZES
