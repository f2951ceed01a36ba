"""What candidate and judge are asked."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mmconv.benchmarks.botchat.benchmark import UTTERANCE_TOKENS
from mmconv.core.errors import ConfigError, DataError, PromptError
from mmconv.core.graph import check
from mmconv.core.types import Call
from tests.mmconv.benchmarks.botchat.samples import (
    JUDGE,
    MUTUAL,
    OTHER,
    SPEAKER,
    built,
    dialogue,
    lay_out,
    needs_mutual,
    opponents,
    record,
    write,
)
from tests.mmconv.benchmarks.prompts import text


def planned(data: Path, **fields: Any) -> dict[str, Call]:
    benchmark = built(data, **fields)
    sample = next(benchmark.load())
    calls = check(benchmark.calls(sample, benchmark.conditions[0]))
    return {call.id: call for call in calls}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "data.jsonl", [record(1)])


@needs_mutual
def test_the_whole_file_has_the_papers_counts() -> None:
    benchmark = built(MUTUAL)
    assert benchmark.conditions == ("uncon",)
    counts: Counter[str] = Counter()
    for sample in benchmark.load():
        for call in check(benchmark.calls(sample, "uncon")):
            counts[call.id.split("/")[0].split("_")[0]] += 1
    assert counts == {"utterance": 547 * 14, "unieval": 547, "gteval": 444}


def test_roles_alternate_backwards_from_the_users_last(data: Path) -> None:
    calls = planned(data)
    third, fourth = calls["utterance_3"], calls["utterance_4"]
    assert [message.role for message in third.messages] == ["system", "assistant", "user"]
    assert [message.role for message in fourth.messages] == ["system", "user", "assistant", "user"]
    assert [text(message) for message in fourth.messages[1:]] == [
        *dialogue("Human 1", 2),
        "<utterance_3>",
    ]
    last = calls["utterance_16"]
    assert len(last.messages) == 16
    assert last.needs == {f"utterance_{number}" for number in range(3, 16)}
    assert {call.overflow for call in calls.values() if call.model == "candidate"} == {
        "drop_oldest"
    }
    assert (third.sampling.temperature, third.sampling.max_tokens) == (0.0, 1024)
    assert third.expected_tokens == UTTERANCE_TOKENS
    assert calls["unieval"].expected_tokens is None


def test_the_prompt_can_stand_in_the_users_message(data: Path) -> None:
    calls = planned(data, prompt_role="user")
    third, fourth = calls["utterance_3"].messages, calls["utterance_4"].messages
    for messages in (third, fourth):
        assert [message.role for message in messages] == ["user", "assistant", "user"]
    assert text(fourth[0]) == f"{text(third[0])}\n\n{dialogue('Human 1', 1)[0]}"
    utterances = [call for call in calls.values() if call.model == "candidate"]
    assert {(call.overflow, call.pinned) for call in utterances} == {
        ("drop_oldest", text(third[0]))
    }


def test_the_document_stands_in_the_system_prompt_of_con_only(tmp_path: Path) -> None:
    path = write(tmp_path / "data.jsonl", [record(1, title="Tea", text="Leaves and water.")])
    benchmark = built(path)
    assert benchmark.conditions == ("uncon", "con")
    [sample] = benchmark.load()
    plain, document = (
        text(benchmark.calls(sample, condition)[0].messages[0]) for condition in ("uncon", "con")
    )
    assert "Title: Tea" in document
    assert "Text: Leaves and water." in document
    assert "Leaves" not in plain
    assert len(benchmark.calls(sample, "con")) == len(benchmark.calls(sample, "uncon"))


def test_the_judge_reads_the_whole_dialogue(data: Path) -> None:
    message = text(planned(data)["unieval"].messages[-1])
    lines = [*dialogue("Human 1", 2), *(f"<utterance_{number}>" for number in range(3, 17))]
    assert message == f"Conversation:\n{lay_out(lines)}"


def test_gteval_cuts_to_the_human_length_in_both_orders(data: Path) -> None:
    calls = planned(data)
    human = dialogue("Human 1", 5)
    own = [*human[:2], "<utterance_3>", "<utterance_4>", "<utterance_5>"]
    for order, (first, second) in {"1": (own, human), "2": (human, own)}.items():
        message = text(calls[f"gteval/{order}"].messages[-1])
        assert message == (
            f"Conversation 1:\n{lay_out(first)}\n\nConversation 2:\n{lay_out(second)}"
        )
        assert "Exactly one" in text(calls[f"gteval/{order}"].messages[0])


def test_human_dialogues_are_compared_if_long_enough_and_cut_if_longer(tmp_path: Path) -> None:
    short = write(tmp_path / "short.jsonl", [record(1, 3)])
    assert "gteval/1" not in planned(short)
    path = write(tmp_path / "data.jsonl", [record(1, 9)])
    message = text(planned(path, utterances=6)["gteval/1"].messages[-1])
    assert message.count("<chat_end>") == 12
    assert "<utterance_6>" in message


def test_opponents_of_a_file_are_compared_at_every_length(data: Path, tmp_path: Path) -> None:
    convs = opponents(tmp_path / "c.tsv", {"gpt": [dialogue("g", 16)], "vic": [dialogue("v", 16)]})
    calls = planned(data, opponents=[str(convs)], pair_lengths=[8, 16])
    pairs = [name for name in calls if name.startswith("paireval")]
    assert sorted(pairs) == sorted(
        f"paireval/first/{opponent}/{length}/{order}"
        for opponent in ("gpt", "vic")
        for length in (8, 16)
        for order in (1, 2)
    )
    message = text(calls["paireval/first/gpt/8/2"].messages[-1])
    assert message.startswith(f"Conversation 1:\n{lay_out(dialogue('g', 8))}\n\nConversation 2:")
    assert message.endswith("<utterance_8><chat_end>")
    assert "Exactly one" not in text(calls["paireval/first/gpt/8/2"].messages[0])


def test_all_pairs_and_none_of_the_same_text(data: Path, tmp_path: Path) -> None:
    """Two stored dialogues that are equal are known before anything is asked."""
    same, other = dialogue("s", 16), dialogue("o", 16)
    convs = opponents(tmp_path / "c.tsv", {"one": [same], "two": [same], "three": [other]})
    calls = planned(data, opponents=[str(convs)], pairs="all")
    pairs = {tuple(name.split("/")[1:3]) for name in calls if name.startswith("paireval")}
    assert pairs == {
        ("first", "one"), ("first", "two"), ("first", "three"), ("one", "three"), ("two", "three")
    }  # fmt: skip


def test_another_role_speaks_for_itself(data: Path) -> None:
    roles = {"candidate": SPEAKER, "judge": JUDGE, "rival": OTHER}
    calls = planned(data, models=roles)
    assert calls["rival/utterance_3"].model == "rival"
    assert calls["rival/utterance_3"].messages == calls["utterance_3"].messages
    assert "<rival/utterance_16>" in text(calls["paireval/first/second/16/1"].messages[-1])
    assert "gteval/1" in calls
    assert sum(call.model == "rival" for call in calls.values()) == 14
    alone = planned(data, generate_only=True, models={"candidate": SPEAKER})
    assert {call.model for call in alone.values()} == {"candidate"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"protocols": "paireval"}, "PairEval needs opponents"),
        ({"pair_lengths": [17]}, "pair_lengths"),
        ({"utterances": 2}, "utterances"),
        ({"dup_detect": 0.8}, "single value: it has the fields similarity, threshold, scope"),
        ({"dup_detect": {"threshold": 1.5}}, r"dup_detect\.threshold"),
        ({"dup_detect": {"similarity": "bleu"}}, r"dup_detect\.similarity"),
        (
            {"models": {"candidate": SPEAKER, "judge": JUDGE, "rival": SPEAKER}},
            "several opponents are named first",
        ),
    ],
)
def test_wrong_options_are_refused(data: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        built(data, **fields)


def test_opponents_must_have_whole_dialogues(tmp_path: Path) -> None:
    path = write(tmp_path / "data.jsonl", [record(1), record(2), record(3, 3)])
    convs = opponents(tmp_path / "c.tsv", {"gpt": [dialogue("g", 12)]})
    with pytest.raises(DataError) as refused:
        built(path, opponents=[str(convs)])
    problem = "gpt: no dialogue of a compared sample has 16 utterances"
    assert refused.value.problems == (problem,)
    other = write(tmp_path / "other.jsonl", [record(7)])
    message = "holds no dialogue of any sample that is compared\nName the folder of a BotChat run"
    with pytest.raises(DataError, match=message):
        built(other, opponents=[str(convs)])


def test_only_the_dialogues_that_are_compared_are_needed(tmp_path: Path) -> None:
    path = write(
        tmp_path / "data.jsonl", [record(each, 3 if each == 2 else 5) for each in range(1, 61)]
    )
    convs = opponents(tmp_path / "c.tsv", {"gpt": [dialogue("g", 16)]})
    arena: dict[str, Any] = {"opponents": [str(convs)]}
    chosen: list[dict[str, Any]] = [{"limit": 2}, {"samples": ("MT-1", "MT-2")}]
    for fields in chosen:
        assert built(path, **fields, **arena).provenance["compared"] == 1
    missing = "gpt has no whole dialogue of 58 of the 59 compared samples"
    assert any(note.startswith(missing) for note in built(path, **arena).remarks())
    with pytest.raises(ConfigError, match=r"^none of the 1 samples is compared"):
        built(path, samples=("MT-2",), **arena)


def test_a_users_prompt_for_utterances_is_checked_first(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "prompts"
    folder.mkdir()
    (folder / "generate.md").write_text("# system\nBe brief.\n# user\nGo on.\n", encoding="utf-8")
    with pytest.raises(PromptError, match="holds one message, not 2"):
        built(data, prompts=folder)


def test_dupdetect_is_a_matter_of_scoring_so_it_can_be_set_after_a_run(data: Path) -> None:
    assert planned(data) == planned(data, dup_detect={"scope": "whole", "threshold": 0.7})
