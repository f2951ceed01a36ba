"""The call graph: read off the messages, checked before anything is paid, resolved when asked.

A call depends on exactly the calls that its messages refer to, so the graph cannot disagree with
the prompts. Scheduling is not done here but in `mmconv.runner`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from mmconv.errors import PlanError
from mmconv.values import Call, Message, Part, Ref, Reply, Text


def refs(messages: Iterable[Message]) -> Iterator[str]:
    """The ids that the messages refer to, in order, repeated where they repeat."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, Ref):
                yield part.call


def dependencies(call: Call) -> frozenset[str]:
    """The ids of the calls that must have replied before this one can be asked."""
    return frozenset(refs(call.messages))


def check(calls: Sequence[Call]) -> tuple[Call, ...]:
    """Return the calls in an order in which each follows what it needs.

    Raises `PlanError` for an id used twice, a reference to no call, or a circle. A rescue may
    refer to the call that it rescues and to whatever that call could refer to.
    """
    by_id: dict[str, Call] = {}
    for call in calls:
        for each in (call, *call.rescues):
            if each.id in by_id:
                raise PlanError(f"two calls are named {each.id!r}")
            by_id[each.id] = each
    known = {call.id for call in calls}
    for call in calls:
        _check_known(call, known)
        for rescue in call.rescues:
            _check_known(rescue, known)
            if rescue.rescues:
                raise PlanError(f"rescue {rescue.id!r} has rescues of its own")
    if _is_ordered(calls):
        return tuple(calls)
    graph = {call.id: sorted(_needs(call)) for call in calls}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise PlanError(f"calls wait for each other: {' -> '.join(error.args[1])}") from error
    return tuple(by_id[call_id] for call_id in order)


def chain_lengths(needs: Mapping[str, Collection[str]]) -> dict[str, int]:
    """For each call, how many calls the longest chain has that begins with it, itself included.

    `needs` holds the calls' dependencies by id, each call after what it needs.
    """
    lengths = dict.fromkeys(needs, 1)
    for call, needed in reversed([*needs.items()]):
        for need in needed:
            lengths[need] = max(lengths[need], 1 + lengths[call])
    return lengths


def is_needless(call: Call, replies: Mapping[str, Reply]) -> bool:
    """Whether the call compares texts that came out equal."""
    if call.compares is None:
        return False
    one, other = ([_text(part, replies) for part in parts] for parts in call.compares)
    return one == other


def resolve(messages: Sequence[Message], replies: Mapping[str, Reply]) -> tuple[Message, ...]:
    """The messages with every `Ref` replaced by its reply's text.

    Neighbouring texts are joined, so that equal prompts are equal values. Raises `KeyError` for a
    reference without a reply: the runner asks only for calls whose needs are met.
    """
    return tuple(_resolved(message, replies) for message in messages)


def _text(part: Text | Ref, replies: Mapping[str, Reply]) -> str:
    return part.text if isinstance(part, Text) else replies[part.call].text


def _resolved(message: Message, replies: Mapping[str, Reply]) -> Message:
    parts = message.parts
    if len(parts) == 1 and not isinstance(parts[0], Ref):
        return message
    done: list[Part] = []
    pending: list[str] = []
    for part in parts:
        if isinstance(part, Text):
            pending.append(part.text)
        elif isinstance(part, Ref):
            pending.append(replies[part.call].text)
        else:
            if pending:
                done.append(Text(text="".join(pending)))
                pending = []
            done.append(part)
    if pending:
        done.append(Text(text="".join(pending)))
    return Message(role=message.role, parts=tuple(done))


def _is_ordered(calls: Sequence[Call]) -> bool:
    """Whether each call needs only calls before it, as nearly all plans have it."""
    seen: set[str] = set()
    for call in calls:
        if not _needs(call) <= seen:
            return False
        seen.add(call.id)
    return True


def _needs(call: Call) -> set[str]:
    """What the call and its rescues need, the call itself left out."""
    needs = set(dependencies(call))
    for rescue in call.rescues:
        needs |= dependencies(rescue) - {call.id}
    return needs


def _check_known(call: Call, known: set[str]) -> None:
    for name in dependencies(call):
        if name not in known:
            raise PlanError(f"call {call.id!r} refers to {name!r}, which no call is named")
