"""Published judgements in the authors' layout: their numbers by their rules, and what they hide."""

from pathlib import Path

import pytest

from mmconv.benchmarks.readers.botchat import rescore
from mmconv.core.errors import DataError
from mmconv.core.types import Table
from tests.mmconv.benchmarks.botchat.samples import compared, dialogue, lay_out, opponents, write

HUMAN, OWN = dialogue("Human", 5), dialogue("own", 5)
LOOP = [*OWN[:2], "so it goes", "so it goes", "so it goes"]


def tables(*files: Path) -> dict[str, Table]:
    return {table.name: table for table in rescore(files)}


def unieval(model: str, number: int, reply: str, count: int = 16) -> dict[str, object]:
    return {
        "model": model,
        "qidx": number,
        "index": f"MT-{number}",
        "conversation": lay_out(dialogue(model, count)),
        "gpt4": reply,
    }


def test_unieval(tmp_path: Path) -> None:
    replies = [
        "Choice: No\nIndex: None\nReason: smooth.",
        "Choice: Yes\nIndex: 9\nReason: long.",
        "Choice: Yes\nIndex: 3\nReason: odd.",
        "Choice: Yes\nReason: everywhere.",
        "",
        "Choice: Yes\nIndex: 3 or 4\nReason: odd.",
    ]
    rows = [unieval("gpt35", number, reply) for number, reply in enumerate(replies)]
    found = tables(write(tmp_path / "UniEval.tsv", [*rows, unieval("GT", 0, replies[0], 4)]))
    row = found["unieval"].rows["gpt35"]
    # theirs: 16, 8, 2, 16 human utterances; the last reply stops their code
    assert [row[f"authors: N={n}"].value for n in (4, 8, 12, 16)] == [75.0, 75.0, 50.0, 50.0]
    assert row["authors: N=4"].n == 4
    assert row["authors: N=4"].missing == {"skipped: a judgement": 1, "unknown": 1}
    # ours: 16, 8, 2; without an index, or with two, there is none
    values = [row[f"N={n}"].value for n in (4, 8, 12, 16)]
    assert values == pytest.approx([200 / 3, 200 / 3, 100 / 3, 100 / 3])
    assert row["N=4"].missing == {"unparsed": 2, "skipped: a judgement": 1}
    assert list(found["unieval"].rows) == ["gpt35", "GT"]
    assert "gpt35, unieval: 6 of the 547 published judgements." in found["unieval"].notes


def test_gteval_in_both_orders(tmp_path: Path) -> None:
    choices = ["Conversation 1", "Conversation 2", "Both", "Neither", "I cannot say"]
    rows = []
    for number, choice in enumerate(choices):
        reply = f"Choice: {choice}; Reason: style."
        rows.append(compared(f"MT-{number}", "GT", "gpt35", (HUMAN, OWN), reply))
        rows.append(compared(f"MT-{number}", "gpt35", "GT", (OWN, HUMAN), reply))
    found = tables(write(tmp_path / "GTEval.tsv", rows))
    row = found["gteval"].rows["gpt35"]
    names = ("win", "tie", "lose", "win+tie", "not bad")
    assert [row[f"authors: {name}"].value for name in names] == [20.0, 40.0, 20.0, 60.0, 40.0]
    assert [row[name].value for name in names] == [25.0, 50.0, 25.0, 75.0, 50.0]
    assert (row["authors: win"].n, row["win"].n) == (10, 8)
    assert any("utterances (5 in the files), each" in note for note in found["gteval"].notes)
    judged = found["judgements"].rows["GTEval: gpt35"]
    assert judged["unread by the authors"].value == 2
    assert found["gteval"].title.endswith("judged by gpt4")
    assert "gpt35, GTEval: 10 of the 444 published judgements." in found["gteval"].notes


def test_equal_dialogues_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = [
        compared("MT-1", "GT", "m", (HUMAN, HUMAN), "EM"),
        compared("MT-1", "m", "GT", (OWN, HUMAN), "EM"),
        compared("MT-2", "m", "GT", (OWN, HUMAN), "Choice: Conversation 2"),
    ]
    found = tables(write(tmp_path / "GTEval.tsv", rows))
    row = found["gteval"].rows["m"]
    assert (row["authors: win"].value, row["authors: win"].n) == (100.0, 1)
    assert row["win"].missing == {"same text": 2}


def test_dupdetect_of_published_comparisons(tmp_path: Path) -> None:
    rows = [
        compared("MT-1", "m", "GT", (LOOP, HUMAN), "Choice: Neither"),
        compared("MT-2", "m", "GT", (OWN, HUMAN), "Choice: Neither"),
    ]
    found = tables(write(tmp_path / "GTEval.tsv", rows))
    assert found["gteval"].rows["m"]["win+tie"].value == 100.0
    assert found["gteval_dupdetect"].rows["m"]["win+tie"].value == 50.0
    assert (
        "difflib's ratio over characters above 0.9, in the compared utterances"
        in found["gteval_dupdetect"].notes[1]
    )


def test_comparisons_of_models_make_an_arena(tmp_path: Path) -> None:
    pytest.importorskip("evalica", reason="the arena's ratings need it")
    texts = {name: dialogue(name, 8) for name in "xyz"}
    rows = [
        compared(f"MT-{number}", left, right, (texts[left], texts[right]), f"Choice: {choice}")
        for number, choice in enumerate(("Conversation 1", "Conversation 2", "Conversation 2"))
        for left, right in ("xy", "yz", "xz")
    ]
    rows += [compared("MT-0", "y", "x", (texts["y"], texts["x"]), "Choice: Conversation 2")]
    found = tables(write(tmp_path / "Arena.tsv", rows))
    assert list(found["paireval"].rows) == ["x - y, N=8", "x - z, N=8", "y - z, N=8"]
    row = found["paireval"].rows["x - y, N=8"]
    assert (row["authors: win"].value, row["win"].n) == (50.0, 4)
    assert set(found["arena"].rows) == {"x", "y", "z"}


def test_dialogues_alone_give_loops_and_lengths(tmp_path: Path) -> None:
    path = opponents(tmp_path / "convs.tsv", {"m": [LOOP, OWN], "conv-GT": [HUMAN, HUMAN]})
    found = tables(path)
    assert found["loops"].rows["m"]["non-loop (%)"].value == 50.0
    assert found["loops"].rows["GT"]["non-loop (%)"].value == 100.0
    assert found["lengths"].rows["m"]["words"].n == 6


JUDGED_BY_NO_ONE = {name: text for name, text in unieval("m", 1, "").items() if name != "gpt4"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"model": "m", "conversation": "A: Hi."}, "has the columns model, conversation"),
        (
            compared("MT-1", "m", "GT", (OWN, HUMAN), "Choice: Both") | {"A": "other"},
            "cmp_index 'MT-1;m;GT' does not name other and GT",
        ),
        (unieval("", 1, "Choice: No"), "model is missing"),
        # the judge's column must be plain
        (JUDGED_BY_NO_ONE, "which column holds the judge's replies: there is none"),
        (JUDGED_BY_NO_ONE | {"a": "No", "b": "No"}, "which column holds the judge's replies: a, b"),
    ],
)
def test_other_rows_are_refused(tmp_path: Path, row: dict[str, object], message: str) -> None:
    with pytest.raises(DataError) as refused:
        rescore([write(tmp_path / "file.tsv", [row])])
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("row", "judge"),
    [
        (unieval("m", 1, "Choice: No") | {"claude": "No", "gpt4o": "No"}, "gpt4"),
        (JUDGED_BY_NO_ONE | {"claude": "Choice: No\nIndex: None"}, "claude"),
    ],
)
def test_the_column_of_the_judge(tmp_path: Path, row: dict[str, object], judge: str) -> None:
    found = tables(write(tmp_path / "one.tsv", [row]))
    assert found["unieval"].title.endswith(f"judged by {judge}")


def test_a_judgement_given_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "UniEval.tsv", [unieval("m", 1, "Choice: No")])
    with pytest.raises(DataError, match=r"unieval, m, MT-1 is that of UniEval\.tsv row 2"):
        rescore([path, write(tmp_path / "again.tsv", [unieval("m", 1, "Choice: No")])])


@pytest.mark.parametrize(("losses", "is_unbounded"), [(1, True), (20, False)])
def test_a_rating_without_an_interval_has_its_reason(
    tmp_path: Path, losses: int, is_unbounded: bool
) -> None:
    """A single loss is in two of three draws only."""
    pytest.importorskip("evalica", reason="the arena's ratings need it")
    rows = [
        compared(f"MT-{n}", "gpt", "vic", (OWN, HUMAN), f"Choice: Conversation {1 + (n >= losses)}")
        for n in range(40)
    ]
    arena = tables(write(tmp_path / "PairEval.tsv", rows))["arena"]
    assert (arena.rows["gpt"]["Bradley-Terry, N=5"].low is None) is is_unbounded
    assert arena.rows["gpt"]["Elo, N=5"].low is not None
    brackets = [note for note in arena.notes if note.startswith("Brackets hold")]
    assert brackets == ["Brackets hold the middle 95 % of the draws of dialogues."]
    assert any(note.startswith("A Bradley-Terry rating or interval is not") for note in arena.notes)
