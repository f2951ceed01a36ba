"""BotChat's data: what is read, and what stops a run before it costs anything."""

from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.benchmarks.botchat.dialogues import stored_dialogues
from mmconv.benchmarks.readers.botchat import split_conversation
from mmconv.core.errors import DataError
from tests.mmconv.benchmarks.botchat.samples import (
    MUTUAL,
    built,
    dialogue,
    lay_out,
    needs_mutual,
    opponents,
    record,
    write,
)


@needs_mutual
def test_the_authors_file() -> None:
    benchmark = built(MUTUAL)
    samples = list(benchmark.load())
    lengths = Counter(len(sample.human) for sample in samples)
    assert (len(samples), benchmark.provenance["compared"]) == (547, 222)
    assert benchmark.conditions == ("uncon",)
    assert (min(lengths), max(lengths)) == (2, 15)
    long = [len(sample.human) for sample in samples if sample.is_compared]
    assert round(sum(long) / len(long), 2) == 7.40
    assert samples[0].id == "MT-1"
    assert samples[0].human[0] == "You look rather pale. Are you feeling well?"


def test_a_record_is_read_whole(tmp_path: Path) -> None:
    rows = [record(1, 4, title="Tea", text="About tea."), record(2, 3, text="About rain.")]
    benchmark = built(write(tmp_path / "data.jsonl", rows))
    first, second = benchmark.load()
    assert first.human == tuple(dialogue("Human 1", 4))
    assert (first.title, first.text) == ("Tea", "About tea.")
    assert (first.is_compared, second.is_compared) == (True, False)
    assert benchmark.conditions == ("uncon", "con")


def test_utterances_may_be_a_plain_list(tmp_path: Path) -> None:
    path = write(tmp_path / "data.jsonl", [record(1) | {"conv-GT": ["Hi.", "Hello."], "nround": 2}])
    [sample] = built(path).load()
    assert sample.human == ("Hi.", "Hello.")


BAD: list[tuple[dict[str, Any], str]] = [
    ({"conv-GT": None}, "conv-GT is empty"),
    ({"conv-GT": "['a', 'b']"}, "conv-GT: not a JSON list of utterances: "),
    ({"conv-GT": "[]"}, "conv-GT: not a JSON list of utterances: '[]'"),
    ({"conv-GT": '["a", "", "b"]'}, "conv-GT: utterance 2 is empty"),
    ({"conv-GT": '["a", 3]'}, "conv-GT: utterance 2 is not a text: 3"),
    ({"conv-GT": '["a"]', "nround": 1}, "conv-GT: has 1 utterance; the seed alone takes 2"),
    ({"index": " "}, "index is empty"),
    ({"index": True}, "index holds True, which is not text"),
    ({"index": "MT-1"}, "index is that of data.jsonl line 1"),
    ({"nround": 7}, "nround is 7, but conv-GT has 5 utterances"),
    ({"title": "Tea"}, "title is there without text"),
]


@pytest.mark.parametrize(("fields", "message"), BAD, ids=[message for _, message in BAD])
def test_a_malformed_record_is_named(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "data.jsonl", [record(1), record(2) | fields])
    with pytest.raises(DataError) as refused:
        built(path)
    for part in (
        "data.jsonl line 2",
        message,
        "--skip-bad-records continues with the 1 good records",
    ):
        assert part in str(refused.value)


def test_conditioned_dialogues_need_their_documents(tmp_path: Path) -> None:
    path = write(tmp_path / "data.jsonl", [record(1, text="Tea."), record(2)])
    with pytest.raises(
        DataError, match=r"line 2 \(index MT-2\): text: needed by the condition con"
    ):
        built(path, conditions=("con",))
    assert built(path).conditions == ("uncon",)


def test_tab_separated_files_hold_long_dialogues(tmp_path: Path) -> None:
    long = [*dialogue("A", 15), "word " * 60000]
    path = opponents(tmp_path / "convs.tsv", {"gpt": [long], "claude": [dialogue("B\t", 16)]})
    found = {each.model: each.utterances for each in stored_dialogues(path)}
    assert found == {"gpt": tuple(long), "claude": tuple(dialogue("B\t", 16))}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("index\tgpt\nMT-1\n", "1 cells, but the header has 2"),
        ("index\tindex\nMT-1\t2\n", "row 1 names 'index' twice"),
        ("index\tgpt\n\t[]\n", "no index"),
        ("index\tgpt\nMT-1\thello\n", "gpt: not a JSON list of utterances: 'hello'"),
        ('index\tgpt\nMT-1\t["a"]\nMT-1\t["a"]\n', "index 'MT-1' is that of convs.tsv row 2"),
        ("index\tnround\nMT-1\t3\n", "holds no dialogues"),
    ],
)
def test_what_holds_no_dialogues_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "convs.tsv"
    path.write_text(text.replace('["a"]', '"[""a""]"'), encoding="utf-8")
    with pytest.raises(DataError) as refused:
        list(stored_dialogues(path))
    assert message in str(refused.value)


def test_conversations_are_taken_apart_as_they_were_laid_out() -> None:
    said = ("Hi.", "Two\nlines: B: no.", "Bye.")
    assert split_conversation(lay_out(said)) == said
    assert split_conversation(orjson.dumps(said).decode()) == said
    assert split_conversation("Hi there.") == ("Hi there.",)
