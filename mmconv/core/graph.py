"""The call graph: read off the messages, checked before anything is paid, resolved per call.

A call depends on exactly the calls that its messages refer to, so the graph cannot disagree with
the prompts. Scheduling is not done here but in `mmconv.engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from mmconv.core.errors import PlanError
from mmconv.core.types import CUT_OFF, Call, Message, Part, Ref, Reply, Text

Other = TypeVar("Other")


def check(calls: Sequence[Call]) -> tuple[Call, ...]:
    """Return the calls in an order in which each follows what it needs.

    Raises `PlanError` for an id used twice, a reference to an unknown call, or a cycle. A fallback
    may refer to its call and to calls that have replies before its call is requested.
    """
    by_id: dict[str, Call] = {}
    needs: dict[str, frozenset[str]] = {}
    for call in calls:
        for each in call.attempts:
            if each.id in by_id:
                raise PlanError(f"two calls are named {each.id!r}")
            by_id[each.id] = each
        needs[call.id] = call.needs
    for call in calls:
        _check_known(call.id, needs[call.id], needs)
        for fallback in call.fallbacks:
            if fallback.fallbacks:
                raise PlanError(f"fallback {fallback.id!r} has fallbacks of its own")
            _check_fallback(fallback, call, needs)
    if _is_ordered(needs):
        return tuple(calls)
    graph = {call_id: sorted(needed) for call_id, needed in needs.items()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise PlanError(f"calls wait for each other: {' -> '.join(error.args[1])}") from error
    return tuple(by_id[call_id] for call_id in order)


def chain_lengths(calls: Sequence[Call]) -> dict[str, int]:
    """The length of the longest chain that begins with each call; they are in their order."""
    lengths = {call.id: 1 for call in calls}
    for call in reversed(calls):
        for need in call.needs:
            lengths[need] = max(lengths[need], 1 + lengths[call.id])
    return lengths


def is_needless(call: Call, replies: Mapping[str, Reply]) -> bool:
    """Whether the call compares texts that came out equal."""
    if call.compares is None:
        return False
    one, other = (
        [part.text if isinstance(part, Text) else replies[part.call].text for part in parts]
        for parts in call.compares
    )
    return one == other


def resolve(messages: Sequence[Message], replies: Mapping[str, Reply]) -> tuple[Message, ...]:
    """The messages with every `Ref` replaced by its reply's text.

    Neighbouring texts are joined, so that equal prompts are equal values. Raises `KeyError` for a
    reference without a reply: the runner asks only for calls whose needs are met.
    """
    return tuple(_resolved(message, replies) for message in messages)


def change_parts(
    messages: Iterable[Message], change: Callable[[Part], Part]
) -> tuple[Message, ...]:
    """The messages with each part changed."""
    return tuple(replace(each, parts=tuple(map(change, each.parts))) for each in messages)


def join_texts(pieces: Iterable[str | Text | Other]) -> list[Text | Other]:
    """The pieces in their order, each run of neighbouring texts as one `Text`."""
    joined: list[Text | Other] = []
    run: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            run.append(piece)
        elif isinstance(piece, Text):
            run.append(piece.text)
        else:
            if run:
                joined.append(Text(text="".join(run)))
                run = []
            joined.append(piece)
    if run:
        joined.append(Text(text="".join(run)))
    return joined


def _resolved(message: Message, replies: Mapping[str, Reply]) -> Message:
    if _is_resolved(message):
        return message
    pieces: list[str | Part] = []
    for part in message.parts:
        if isinstance(part, Ref):
            reply = replies[part.call]
            text = reply.text + part.cut_off if reply.finish in CUT_OFF else reply.text
            pieces.append(part.write(text))
        else:
            pieces.append(part)
    return Message(role=message.role, parts=tuple(join_texts(pieces)))


def _is_resolved(message: Message) -> bool:
    """Whether nothing is to be filled in, and no two texts are to be joined."""
    is_behind_text = False
    for part in message.parts:
        is_text = isinstance(part, Text)
        if isinstance(part, Ref) or (is_text and is_behind_text):
            return False
        is_behind_text = is_text
    return True


def _is_ordered(needs: Mapping[str, Collection[str]]) -> bool:
    """Whether each call needs only calls before it, as nearly all plans have it."""
    seen: set[str] = set()
    for call_id, needed in needs.items():
        if not seen.issuperset(needed):
            return False
        seen.add(call_id)
    return True


def _check_known(call_id: str, needed: Collection[str], known: Collection[str]) -> None:
    for name in needed:
        if name not in known:
            raise PlanError(f"call {call_id!r} refers to {name!r}, which no call is named")


def _check_fallback(fallback: Call, call: Call, needs: Mapping[str, frozenset[str]]) -> None:
    _check_known(fallback.id, fallback.needs, needs)
    other = fallback.needs - needs[call.id] - {call.id}
    for name in other and other - _before(call.id, needs):
        raise PlanError(
            f"fallback {fallback.id!r} refers to {name!r}, which {call.id!r} does not wait for"
        )


def _before(call_id: str, needs: Mapping[str, Collection[str]]) -> set[str]:
    ancestors: set[str] = set()
    left = [call_id]
    while left:
        new = set(needs.get(left.pop(), ())) - ancestors
        ancestors |= new
        left += new
    return ancestors
