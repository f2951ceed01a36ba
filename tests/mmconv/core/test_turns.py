"""Chains of turns: whose words stand in the history."""

import pytest

from mmconv.core.turns import Turn, begin_with, chain, without_oldest
from mmconv.core.types import Message, Ref, Role, Sampling, Text

ONE, TWO = (Text(text="one?"),), (Text(text="two?"),)


def test_a_turn_without_an_answer_stands_as_a_reference() -> None:
    calls = chain([Turn(user=ONE), Turn(user=TWO)], model="candidate", sampling=Sampling())
    assert [call.id for call in calls] == ["turn_1", "turn_2"]
    assert calls[1].messages[1].parts == (Ref(call="turn_1"),)
    assert [message.role for message in calls[1].messages] == ["user", "assistant", "user"]


def test_a_golden_history_is_text_and_every_turn_is_still_generated() -> None:
    turns = [Turn(user=ONE, answer="gold"), Turn(user=TWO, answer="more gold")]
    calls = chain(turns, model="candidate", sampling=Sampling())
    assert [call.id for call in calls] == ["turn_1", "turn_2"]
    assert calls[1].messages[1].parts == (Text(text="gold"),)


def test_a_given_turn_is_history_only() -> None:
    turns = [Turn(user=ONE, answer="gold", generate=False), Turn(user=TWO)]
    [call] = chain(turns, model="candidate", sampling=Sampling(), system="Be brief.", first=3)
    assert call.id == "turn_4"
    assert call.messages[0].role == "system"
    with pytest.raises(ValueError, match="needs the answer"):
        Turn(user=ONE, generate=False)


def said(*words: str) -> tuple[Message, ...]:
    """Utterances, the last of them the user's."""
    roles: tuple[Role, Role] = ("assistant", "user")
    return tuple(
        Message(role=roles[(len(words) - place) % 2], parts=(Text(text=word),))
        for place, word in enumerate(words)
    )


def texts(messages: tuple[Message, ...] | None) -> list[tuple[str, str]] | None:
    if messages is None:
        return None
    return [
        (message.role, "".join(part.text for part in message.parts if isinstance(part, Text)))
        for message in messages
    ]


def test_a_prompt_in_the_users_name_never_stands_beside_another_of_the_users_messages() -> None:
    assert texts(begin_with("Chat!", said("a", "b"))) == [
        ("user", "Chat!"),
        ("assistant", "a"),
        ("user", "b"),
    ]
    assert texts(begin_with("Chat!", said("a"))) == [("user", "Chat!\n\na")]
    own = Message(role="user", parts=(Ref(call="x"),))
    assert begin_with("Chat!", [own])[0].parts == (Text(text="Chat!\n\n"), Ref(call="x"))


def test_oldest_utterances_go_one_by_one_and_what_is_pinned_stays() -> None:
    system = Message(role="system", parts=(Text(text="Be brief."),))
    messages: tuple[Message, ...] | None = (system, *begin_with("Chat!", said(*"abcd")))
    left = []
    while messages is not None:
        assert messages[0] == system
        assert [message.role for message in messages[1::2]] == ["user"] * len(messages[1::2])
        left.append(texts(messages[1:]))
        messages = without_oldest(messages, "Chat!")
    assert left == [
        [("user", "Chat!"), ("assistant", "a"), ("user", "b"), ("assistant", "c"), ("user", "d")],
        [("user", "Chat!\n\nb"), ("assistant", "c"), ("user", "d")],
        [("user", "Chat!"), ("assistant", "c"), ("user", "d")],
        [("user", "Chat!\n\nd")],
    ]


def test_without_anything_pinned_a_system_prompt_and_the_last_message_stay() -> None:
    system = Message(role="system", parts=(Text(text="Be brief."),))
    assert without_oldest((system, *said("a", "b"))) == (system, *said("a", "b")[1:])
    assert without_oldest((system, *said("a"))) is None
    assert without_oldest(said("a")) is None


def test_what_is_pinned_must_be_there() -> None:
    with pytest.raises(ValueError, match="do not begin"):
        without_oldest(said("a", "b"), "Chat!")
