"""The call graph: its order, what is refused, and what resolving makes of messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmconv.core.errors import PlanError
from mmconv.core.graph import chain_lengths, check, resolve
from mmconv.core.types import Call, Finish, Image, Message, Part, Ref, Reply, Text
from tests.messages import user

PICTURE = Image(sha256="cd" * 32, media_type="image/png", width=2, height=3)


def call(name: str, *needs: str, fallbacks: tuple[Call, ...] = ()) -> Call:
    parts: tuple[Part, ...] = tuple(Ref(call=need) for need in needs) or (Text(text="hi"),)
    message = Message(role="user", parts=parts)
    return Call(id=name, model="candidate", messages=(message,), fallbacks=fallbacks)


@given(st.permutations(range(6)))
def test_calls_follow_what_they_need_whatever_their_order(order: list[int]) -> None:
    chain = [call(str(number), *([str(number - 1)] if number else [])) for number in range(6)]
    checked = check([chain[place] for place in order])
    assert [each.id for each in checked] == [str(number) for number in range(6)]


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ((call("a"), call("a")), "two calls are named 'a'"),
        ((call("a", "nobody"),), "'a' refers to 'nobody'"),
        ((call("a", "b"), call("b", "a")), "wait for each other"),
        ((call("a", "a"),), "wait for each other"),
        ((call("a", fallbacks=(call("a"),)),), "two calls are named 'a'"),
        ((call("a", fallbacks=(call("r", "nobody"),)),), "'r' refers to 'nobody'"),
        ((call("a", fallbacks=(call("r", fallbacks=(call("s"),)),)),), "fallbacks of its own"),
        (
            (call("a", fallbacks=(call("r", "a", "b"),)), call("b")),
            "fallback 'r' refers to 'b', which 'a' does not wait for",
        ),
        ((call("a", fallbacks=(call("r", "b"),)), call("b", "a")), "'a' does not wait for"),
        ((call("a", fallbacks=(call("r"), call("s", "r"))),), "'s' refers to 'r'"),
    ],
)
def test_a_graph_that_cannot_run_is_refused(calls: tuple[Call, ...], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        check(calls)


def test_a_rescue_may_refer_to_its_call_and_to_what_that_could() -> None:
    judged = call("judge", "turn", fallbacks=(call("judge~1", "judge", "turn", "first"),))
    checked = check((judged, call("turn", "first"), call("first")))
    assert [each.id for each in checked] == ["first", "turn", "judge"]


def test_dependencies_are_read_off_the_messages() -> None:
    assert call("x", "a", "b", "a").needs == {"a", "b"}


def test_resolving_joins_neighbouring_texts_and_keeps_images_in_place() -> None:
    parts = (Text(text="see "), PICTURE, Text(text="and "), Ref(call="a"), Text(text="!"))
    [message] = resolve((Message(role="user", parts=parts),), {"a": Reply(text="this")})
    assert message.parts == (Text(text="see "), PICTURE, Text(text="and this!"))


def test_what_is_resolved_already_is_not_made_again() -> None:
    """Most messages are; a benchmark may still write two texts one after the other."""
    image = Image(sha256="ab", media_type="image/png", width=1, height=1)
    said = user("one", image, "two")
    apart = user(image, "one", "two")
    kept, joined = resolve((said, apart), {})
    assert kept is said
    assert joined.parts == (image, Text(text="onetwo"))


def test_resolving_needs_every_reply() -> None:
    with pytest.raises(KeyError):
        resolve(call("x", "a").messages, {})


def test_a_call_counts_the_longest_chain_behind_it() -> None:
    calls = (call("a"), call("short", "a"), call("b", "a"), call("c", "a", "b"), call("d"))
    assert chain_lengths(calls) == {"a": 3, "short": 1, "b": 2, "c": 1, "d": 1}


@pytest.mark.parametrize(
    ("finish", "messages"), [("stop", "Well,"), ("unknown", "Well,"), ("length", "Well, (cut off)")]
)
def test_a_reference_may_say_that_its_reply_was_cut_off(finish: Finish, messages: str) -> None:
    parts = (Ref(call="a", cut_off=" (cut off)"), Text(text=" | "), Ref(call="a"))
    message = Message(role="user", parts=parts)
    [resolved] = resolve((message,), {"a": Reply(text="Well,", finish=finish)})
    assert resolved.text == f"{messages} | Well,"
