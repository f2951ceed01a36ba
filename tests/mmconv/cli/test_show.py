"""`mmconv show`: how a message's parts are printed, and raw prompts."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from mmconv.cli.show import as_raw, transcript
from mmconv.core.errors import DataError, Refused
from mmconv.core.plans import Finished, Plan, ResolvedCall
from mmconv.core.protocols import RawPrompt, Renderer
from mmconv.core.types import (
    Call,
    Failure,
    Image,
    Message,
    Outcome,
    Reply,
    Sampling,
    SeenImage,
    Text,
)
from tests.drawn_data import write_scenes
from tests.mmconv.processes import succeed, typed

PICTURE = Image(sha256="ab" * 32, media_type="image/png", width=1000, height=750)
CALL = Call(id="turn_1", model="candidate", messages=(Message(role="user", parts=(PICTURE,)),))
PROMPT = RawPrompt(
    text="<|user|><image>\nWhat? \nAnswer:  ",
    added=(),
    tokens=150,
    image_tokens=144,
    images=((500, 375),),
    tensors={"pixel_values": (576, 1176)},
)


@dataclass(kw_only=True)
class Writing:
    """A renderer that writes one prompt, or refuses, and remembers what it was shown."""

    prompt: RawPrompt = PROMPT
    refusal: Refused | None = None
    note: str = ""
    shown: list[Sequence[Message]] = field(default_factory=list)

    def __call__(self, messages: Sequence[Message]) -> RawPrompt:
        self.shown.append(messages)
        if self.refusal is not None:
            raise self.refusal
        return self.prompt


def finished(outcome: Outcome, call: Call = CALL) -> Finished:
    return Finished(
        plan=Plan(order=0, sample="1", condition="free", calls=(call,)),
        outcomes={"turn_1": outcome},
        resolved={
            "turn_1": ResolvedCall(call=call, key="", messages=call.messages, sampling=Sampling())
        },
    )


def shown(*seen: SeenImage) -> str:
    return "\n".join(transcript(finished(Reply(text="A star.", seen=seen))))


def raw(outcome: Outcome, renderer: Renderer | None, call: Call = CALL) -> list[str]:
    return list(transcript(finished(outcome, call), as_raw({"candidate": renderer})))


def test_a_picture_is_told_by_the_size_and_type_that_were_sent() -> None:
    """What a model's own processor makes of it afterwards is not known here."""
    sent = SeenImage(sha256=PICTURE.sha256, width=500, height=375)
    assert "<image abababababab, image/png, 1000x750, sent as 500x375>" in shown(sent)
    assert "<image abababababab, image/png, 1000x750>" in shown()
    sent = replace(sent, media_type="image/jpeg")
    assert "image/png, 1000x750, sent as image/jpeg, 500x375>" in shown(sent)


def test_a_raw_prompt_shows_all_of_its_text_and_what_became_of_its_picture() -> None:
    assert raw(Reply(text="A star.", input_tokens=150, output_tokens=3), Writing())[3:] == [
        "[raw prompt; ↵ is a line break, ␣ a space at its end]",
        "    <|user|><image>↵",
        "    What? ↵",
        "    Answer:␣␣",
        "150 tokens in, as recorded",
        "<image abababababab, image/png, 1000x750, received by the processor as 500x375>",
        "images: 144 tokens; pixel_values 576x1176",
        "[reply]",
        "    A star.",
        "150 tokens in, 3 out, 0.00 s",
    ]


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (
            Reply(text="", input_tokens=149),
            "but 149 were recorded: the model received a different prompt",
        ),
        (Reply(text=""), "none recorded"),
        (Failure(kind="context", message="too long", attempts=1), "none recorded"),
    ],
)
def test_tokens_are_compared_with_those_recorded(outcome: Outcome, message: str) -> None:
    assert any(f"150 tokens in, {message}" in line for line in raw(outcome, Writing()))


def test_messages_that_were_dropped_are_not_written() -> None:
    said = (
        Message(role="system", parts=(Text(text="Be kind."),)),
        Message(role="user", parts=(Text(text="One?"),)),
        Message(role="user", parts=(Text(text="Two?"),)),
    )
    call = Call(id="turn_1", model="candidate", messages=said, overflow="drop_oldest")
    writing = Writing(prompt=replace(PROMPT, images=()))
    raw(Reply(text="", dropped=1), writing, call)
    assert writing.shown == [(said[0], said[2])]


def test_messages_are_printed_where_nothing_writes_them() -> None:
    refused = raw(Reply(text=""), Writing(refusal=Refused("rejected", "no system messages")))
    picture = "    <image abababababab, image/png, 1000x750>"
    assert refused[3:6] == ["[user]", picture, "no raw prompt: no system messages"]
    assert raw(Reply(text=""), None)[3:5] == ["[user]", picture]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two drawn pictures as the working directory."""
    write_scenes(tmp_path / "data", 2)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(candidate: str, *options: str) -> None:
    data = ("--data", "data/data.jsonl", "--images", "data/images", "--limit", "1", "--no-page")
    short = ("--set", "sampling.candidate.max_tokens=4", "--conditions", "free")
    succeed("run", "convbench", *data, "--candidate", candidate, *short, "--no-judge", *options)


def test_of_other_providers_it_says_that_it_does_not_know(here: Path) -> None:
    run("fake/echo")
    [folder] = (here / "runs").glob("convbench-*")
    output = typed("show", str(folder), "1", "--raw").output
    assert output.startswith(
        "candidate (echo): no raw prompts: the provider fake does not write them"
    )
    assert "[user]\n    <image " in output
    listing = typed("show", str(folder), "--raw")
    assert listing.exit_code == 2
    assert "--raw needs a SAMPLE: `mmconv show" in listing.output


def test_what_was_said_is_shown_to_the_letter_and_not_obeyed(here: Path) -> None:
    said = "\x1b[31mred\x1b[0m\x0bhere\u2028there\r\n\u202elast\n"
    run("fake/scripted", "--set", f"models.candidate.options.script={json.dumps({'(?s).*': said})}")
    [folder] = (here / "runs").glob("convbench-*")
    output = typed("show", str(folder), "1").output
    shown = r"    \x1b[31mred\x1b[0m\x0bhere" + "\u2028" + r"there\x0d"
    # once as the reply, once in the question of each later turn
    assert output.count(f"{shown}\n    \\u202elast\n    \n") == 3 + 3
    assert not set("\x1b\x0b\r\u202e") & set(output)


def test_a_token_is_one() -> None:
    lines = list(transcript(finished(Reply(text="", input_tokens=1, output_tokens=2))))
    assert lines[-1] == "1 token in, 2 out, 0.00 s"


def test_who_answered_is_told() -> None:
    lines = list(transcript(finished(Reply(text="", answered_by="gpt-4o-2024-08-06"))))
    assert lines[-1] == "0.00 s, by gpt-4o-2024-08-06"


def test_a_local_checkpoint_needs_no_weights(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.model_zoo.hf_support import checkpoint

    shutil.copytree(checkpoint("llava"), here / "model")
    run(f"hf/{here}/model")
    [folder] = (here / "runs").glob("convbench-*")
    from model_zoo.hf import loading

    monkeypatch.setattr(loading, "load_checkpoint", None)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    output = typed("show", str(folder), "1", "--raw").output
    assert output.startswith("=== sample 1, condition free")
    assert output.count("[raw prompt; ") == output.count(" tokens in, as recorded\n") == 3
    assert "    <|begin|><|user|><image>Count and name the large" in output
    assert "received by the processor as 256x256>\nimages: 16 tokens; " in output
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_what_another_model_answered_is_not_taken_for_a_runs_own(here: Path) -> None:
    from tests.model_zoo.hf_support import checkpoint

    shutil.copytree(checkpoint("llava"), here / "model")
    run(f"hf/{here}/model")
    [folder] = (here / "runs").glob("convbench-*")
    with (here / "model" / "chat_template.jinja").open("a") as template:
        template.write("Well:")

    def refused(*command: str) -> str:
        error = typed(*command).exception
        assert isinstance(error, DataError)
        return str(error)

    other = "the model of the role candidate has changed"
    assert f"has no reply to 3 of its calls now\n  {other}" in refused("show", str(folder), "1")
    # by now the store has the answers of another run, of the same file
    run(f"hf/{here}/model")
    scores = (folder / "scores.jsonl").read_bytes()
    for command in (("show", "1"), ("show",), ("score",)):
        message = refused(command[0], str(folder), *command[1:])
        assert f"1 problem\n  {other}" in message
        assert "Restore what has changed" in message
    assert (folder / "scores.jsonl").read_bytes() == scores
