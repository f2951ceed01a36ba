"""Prompt files: the format, its escapes, filling, and folders that replace shipped files."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.template import Data, Prompt, PromptSet, parse_prompt
from mmconv.core.errors import PromptError
from mmconv.core.graph import resolve
from mmconv.core.types import Image, Ref, Reply, Text
from tests.messages import user

PICTURE = Image(sha256="00" * 32, media_type="image/png", width=1, height=1)


def parsed(text: str) -> Prompt:
    return parse_prompt(text, "sample")


def sent(text: str, **values: str) -> list[tuple[str, str]]:
    """Role and text of every message of a filled prompt."""
    messages = parsed(text).fill(values)
    return [(message.role, message.text) for message in messages]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("# user\nhello\n", [("user", "hello")]),
        ("# user\nhello", [("user", "hello")]),
        ("# user\n\nhello\n\n", [("user", "\nhello\n")]),
        ("# user\n", [("user", "")]),
        ("# user", [("user", "")]),
        ("a note\n\n# system\nbe kind\n# user\nhi\n", [("system", "be kind"), ("user", "hi")]),
        ("\ufeff# user\nhi\n", [("user", "hi")]),
        ("# user\none\n\n# assistant\ntwo\n", [("user", "one\n"), ("assistant", "two")]),
        ("# user\n# user\nx\n", [("user", ""), ("user", "x")]),
        ("# user\n\\# user\n", [("user", "# user")]),
        ("# user\n\\\\# user\n", [("user", "\\# user")]),
        ("# user\n\\# System \n", [("user", "# System ")]),
        ("# user\n## user\n # user\n# users\n", [("user", "## user\n # user\n# users")]),
        ("# user\n\\{{x}}\n", [("user", "{{x}}")]),
        ("# user\n\\\\\\{{x}}\n", [("user", "\\{{x}}")]),
        (
            "# user\n\\{{x|repr}} \\{{ x | y }} {{x|}} {{|x}}\n",
            [("user", "{{x|repr}} {{ x | y }} {{x|}} {{|x}}")],
        ),
        ("# user\n{{}} {x} {{1}} \\n\n", [("user", "{{}} {x} {{1}} \\n")]),
        ("{{ x }}\n# user\n\\{{X}} \\\\\\{{ x }}\n", [("user", "{{X}} \\{{ x }}")]),
        ("# user\na\r\nb\x85c\n", [("user", "a\r\nb\x85c")]),
    ],
)
def test_what_is_sent(text: str, messages: list[tuple[str, str]]) -> None:
    assert sent(text) == messages


def test_a_slot_may_be_written_with_blanks_and_capitals() -> None:
    filled = parsed("# user\n{{ Form | Repr }}{{form}}\n").fill({"form": Data(value=1, text="one")})
    assert [message.text for message in filled] == ["1one"]


def test_backslashes_before_a_filled_slot_are_halved() -> None:
    assert sent("# user\n\\\\{{x}} {{{x}}}\n", x="7") == [("user", "\\7 {7}")]


def test_slots_take_texts_replies_pictures_and_dialogues() -> None:
    prompt = parsed("# user\n{{picture}}Q: {{question}}\n{{talk}}!\n")
    filled = prompt.fill(
        {
            "picture": PICTURE,
            "question": Text(text="why?"),
            "talk": ["A: ", Ref(call="turn_1"), "\nB: ", Ref(call="turn_2"), ""],
        }
    )
    assert filled == (
        user(PICTURE, "Q: why?\nA: ", Ref(call="turn_1"), "\nB: ", Ref(call="turn_2"), "!"),
    )


def test_a_message_filled_with_nothing_is_an_empty_text() -> None:
    assert parsed("# user\n{{x}}\n").fill({"x": ()}) == (user(""),)


PLAIN = [
    "“引号” and 'single'",
    "both ' and \"",
    "line\nbreak\r\ttab \\ back",
    "\x00\x7f\x85\u2028😀",
    "",
]
JSON_VALUES: list[Any] = [
    *PLAIN,
    [[text, 0.1] for text in PLAIN],
    [["whole", 1], ["half", 0.5], ["tiny", 1e-07]],
    {text: {"评判理由": "", "weight": None} for text in PLAIN},
    [],
    {},
]


@pytest.mark.parametrize("value", JSON_VALUES, ids=repr)
def test_data_is_written_as_python_writes_it(value: Any) -> None:
    prompt = parsed("# user\n[{{form|repr}}][{{form|json4}}][{{form}}][{{form|json_escaped}}]\n")
    assert prompt.slots == {"form"}
    [message] = prompt.fill({"form": Data(value=value, text="as\n“text”")})
    as_json = json.dumps(value, ensure_ascii=False, indent=4)
    assert message.text == f"[{value!r}][{as_json}][as\n“text”][as\\n“text”]"


@settings(deadline=None)
@given(st.lists(st.text(max_size=8) | st.sampled_from(PLAIN), min_size=3, max_size=3))
def test_texts_and_replies_are_escaped_as_json(said: list[str]) -> None:
    question, answer, end = said
    prompt = parsed('# user\n{\n  "talk": "<{{talk|json_escaped}}>"\n}\n')
    talk = (f"Q: {question}\nA: ", Ref(call="turn_1", cut_off=' ["cut"]'), Text(text=end))
    filled = prompt.fill({"talk": talk})
    whole_reply, cut_off = Reply(text=answer), Reply(text=answer, finish="length")
    for reply, cut in ((whole_reply, ""), (cut_off, ' ["cut"]')):
        replies = {"turn_1": reply}
        whole = {"talk": f"<Q: {question}\nA: {answer}{cut}{end}>"}
        expected = json.dumps(whole, ensure_ascii=False, indent=2)
        assert [message.text for message in resolve(filled, replies)] == [expected]


def test_an_escaped_image_is_an_image() -> None:
    [message] = parsed("# user\n{{picture|json_escaped}}\n").fill({"picture": PICTURE})
    assert message.parts == (PICTURE,)


@pytest.mark.parametrize("encoding", ["repr", "json4"])
@pytest.mark.parametrize("value", ["text", Ref(call="turn_1"), ("a", Ref(call="turn_1"))])
def test_text_is_not_written_as_data(encoding: str, value: Any) -> None:
    message = rf"'\{{\{{x\|{encoding}\}}\}}' needs data, and the slot holds text; write '\{{"
    with pytest.raises(PromptError, match=message):
        parsed(f"# user\n{{{{x|{encoding}}}}}\n").fill({"x": value})


def test_an_unknown_encoding_is_refused() -> None:
    message = (
        r"'sample': '\{\{x\|yaml\}\}' has no known encoding; use one of repr, json4, json_escaped"
    )
    with pytest.raises(PromptError, match=message):
        parsed("# user\n\\{{x|yaml}}\n{{x|yaml}}\n")


def test_slots_must_be_the_ones_that_are_filled() -> None:
    prompt = parsed("# user\n{{caption}} {{answer}}\n")
    assert prompt.slots == {"caption", "answer"}
    with pytest.raises(PromptError, match=r"'sample': slots missing caption; superfluous b, c"):
        prompt.fill({"answer": "", "c": "", "b": ""})


def test_the_digest_is_that_of_the_file() -> None:
    text = "\ufeffnote\n# user\nhé\r\n"
    assert parsed(text).digest == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("only a note\n", 1),
        ("# user\r\nhi\r\n", 1),
        ("# user\nhi\n# Assistant\n", 3),
        ("note\n#system\n# user\nx\n", 2),
        ("# user\nhi\n# system \n", 3),
    ],
)
def test_what_is_no_prompt_names_the_line(text: str, line: int) -> None:
    with pytest.raises(PromptError, match=rf"'sample', line {line}: "):
        parsed(text)


@settings(deadline=None)
@given(st.text() | st.sampled_from(["{{x}}", "# user", "\\{{ x }}", "\r\n", "\ufeff"]))
def test_a_filled_value_is_sent_to_the_byte(value: str) -> None:
    assert sent("# user\n<{{x}}>\n", x=value) == [("user", f"<{value}>")]


def test_a_set_reads_shipped_prompts() -> None:
    prompts = PromptSet("convbench")
    assert prompts["pairwise_turn_1"] is prompts["pairwise_turn_1"]
    assert "caption" in prompts["pairwise_turn_1"].slots
    assert set(prompts.digests()) == set(prompts.names)
    assert prompts.digests()["direct_overall"] == prompts["direct_overall"].digest


def test_a_set_names_its_prompts_when_one_is_unknown() -> None:
    with pytest.raises(PromptError, match=r"no prompt 'pairwise'; its prompts are .*direct_turn_1"):
        PromptSet("convbench")["pairwise"]
    with pytest.raises(PromptError, match="no prompts are shipped for 'chessbench'"):
        PromptSet("chessbench")


def test_a_file_of_the_folder_replaces_the_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "pairwise_extract.md").write_bytes(b"# user\n{{judgement}}\r\n")
    (tmp_path / "README.txt").write_text("no prompt")
    prompts = PromptSet("convbench", tmp_path)
    assert prompts["pairwise_extract"].fill({"judgement": "A."}) == (user("A.\r"),)
    assert prompts["pairwise_extract"].name == "pairwise_extract"
    shipped = PromptSet("convbench")
    assert prompts["direct_extract"] == shipped["direct_extract"]
    changed = {
        name for name, digest in shipped.digests().items() if prompts.digests()[name] != digest
    }
    assert changed == {"pairwise_extract"}


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="no such folder of prompts"):
        PromptSet("convbench", tmp_path / "none")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "pairwise_turn_4",
            b"# user\nx\n",
            r"no prompt 'pairwise_turn_4'; its prompts are .*turn_3",
        ),
        ("direct_extract", b"# user\n{{judgment}}\n", "judgment; did you mean judgement.$"),
        (
            "direct_extract",
            b"# user\n\xff{{judgement}}\n",
            "direct_extract.md: not UTF-8 at byte 7",
        ),
        ("direct_extract", b"{{judgement}}\n", "direct_extract.md: .*line 1: no role heading"),
    ],
)
def test_bad_replacements_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / f"{name}.md").write_bytes(content)
    with pytest.raises(PromptError, match=message):
        PromptSet("convbench", tmp_path)


def test_a_replacement_that_can_not_be_opened(tmp_path: Path) -> None:
    (tmp_path / "direct_extract.md").mkdir()
    with pytest.raises(PromptError, match=r"direct_extract\.md: Is a directory"):
        PromptSet("convbench", tmp_path)


class TestSlotsLeftOut:
    """A prompt that is not to show what fills a slot says so in its note."""

    def test_they_are_filled_and_go_nowhere(self) -> None:
        prompt = parsed("Blind.\n leaves out: caption,answer_1 \n# user\n{{answer_2}}\n")
        assert prompt.slots == {"caption", "answer_1", "answer_2"}
        assert prompt.fill({"caption": "c", "answer_1": Ref(call="t"), "answer_2": "b"}) == (
            user("b"),
        )
        with pytest.raises(PromptError, match="slots missing caption"):
            prompt.fill({"answer_1": "a", "answer_2": "b"})

    def test_a_line_of_a_message_leaves_out_nothing(self) -> None:
        assert parsed("# user\nleaves out: caption\n{{answer}}\n").slots == {"answer"}

    def test_a_replacement_may_leave_out_only_what_it_names(self, tmp_path: Path) -> None:
        file = tmp_path / "direct_extract.md"
        file.write_text("leaves out: judgement\n# user\nSay 5.\n")
        filled = PromptSet("convbench", tmp_path)["direct_extract"].fill({"judgement": "A."})
        assert filled == (user("Say 5."),)
        file.write_text("leaves out: judgement, taste\n# user\nSay 5.\n")
        with pytest.raises(PromptError, match=r"slots superfluous taste; there are: judgement$"):
            PromptSet("convbench", tmp_path)
        file.write_text("# user\nSay 5.\n")
        with pytest.raises(PromptError, match="put a line 'leaves out: judgement' above the first"):
            PromptSet("convbench", tmp_path)


def test_a_folder_without_prompts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "direct_extract.MD").write_text("# user\n{{judgement}}\n")
    with pytest.raises(PromptError, match=r"holds no \.md file, so .* are .*direct_extract"):
        PromptSet("convbench", tmp_path)
