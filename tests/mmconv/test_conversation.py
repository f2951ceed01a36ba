"""Chains of turns: whose words stand in the history."""

from __future__ import annotations

import pytest

from mmconv.conversation import Turn, chain
from mmconv.values import Ref, Sampling, Text

ONE, TWO = (Text(text="one?"),), (Text(text="two?"),)


def test_a_turn_without_an_answer_stands_as_a_reference() -> None:
    calls = chain([Turn(user=ONE), Turn(user=TWO)], seat="candidate", sampling=Sampling())
    assert [call.id for call in calls] == ["turn_1", "turn_2"]
    assert calls[1].messages[1].parts == (Ref(call="turn_1"),)
    assert [message.role for message in calls[1].messages] == ["user", "assistant", "user"]


def test_a_golden_history_is_text_and_every_turn_is_still_generated() -> None:
    turns = [Turn(user=ONE, answer="gold"), Turn(user=TWO, answer="more gold")]
    calls = chain(turns, seat="candidate", sampling=Sampling())
    assert [call.id for call in calls] == ["turn_1", "turn_2"]
    assert calls[1].messages[1].parts == (Text(text="gold"),)


def test_a_given_turn_is_history_only() -> None:
    turns = [Turn(user=ONE, answer="gold", generate=False), Turn(user=TWO)]
    [call] = chain(turns, seat="candidate", sampling=Sampling(), system="Be brief.", first=3)
    assert call.id == "turn_4"
    assert call.messages[0].role == "system"
    with pytest.raises(ValueError, match="needs the answer"):
        Turn(user=ONE, generate=False)
