"""Read what a reply states, whatever its wording, in English or Chinese.

A reply is first made plain: Markdown, LaTeX, number words and sums go. Then each mention of a
subject is bound to a value of the same line, behind it ("Jan: 34") or before it ("34 in Jan").
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Any, TypeAlias

from images.drawn.truth import Check, Fact, Name, Outcome, Plain, Value
from images.drawn.words import PATTERNS, READING, Mention, Term, find_terms

Pair: TypeAlias = tuple[Mention, Mention]
HEDGED = "hedged"
"""The plain form of a value that a reply leaves open."""


def check_facts(reply: str, facts: Sequence[Fact], others: Sequence[Term] = ()) -> Check:
    """Compare what `reply` states about each subject with the facts; its last word counts."""
    stated = {name: is_true for name, _, is_true in statements(plain(reply), facts, others)}
    extra = [term.en for term in others if term.en in stated]
    missed = [fact.subject.en for fact in facts if not stated.get(fact.subject.en)]
    share = 1 - (len(missed) + len(extra)) / (len(facts) + len(extra))
    outcome: Outcome = "right" if share == 1 else "wrong" if stated else "unread"
    format_kept = len(PATTERNS["listed"].findall(reply)) == len(facts)
    return Check(outcome, share, format_kept, (*missed, *extra))


def check_answer(reply: str, answer: Value) -> Check:
    """Compare the final answer of `reply` with the right one."""
    text = plain(reply)
    values = _marked(text, answer) or _conclusions(text, answer)[-1:]
    is_right = all(answer.accepts(each.value) for each in values)
    outcome: Outcome = "unread" if not values else "right" if is_right else "wrong"
    missed = () if outcome == "right" else ("answer",)
    last = next((line for line in reversed(reply.splitlines()) if line.strip()), "")
    format_kept = bool(PATTERNS["answer_line"].match(plain(last)))
    return Check(outcome, float(not missed), format_kept, missed)


def gives_answer(note: str, answer: Value, facts: Sequence[Fact]) -> bool:
    """Whether a note that states facts gives the answer too, before or after them.

    What it calls its answer or conclusion counts. Without these words a number may be anywhere,
    and a name must be the one of a sentence that states none of the facts, if there is one.
    """
    text = plain(note)
    if values := _marked(text, answer):
        return all(answer.accepts(each.value) for each in values)
    if isinstance(answer, Name):
        values = _conclusions(text, answer, facts)
    return any(answer.accepts(each.value) for each in values or answer.find(text))


def _marked(text: str, answer: Value) -> list[Mention]:
    """The values that a plain text calls its answer, if any."""
    for match in reversed([*PATTERNS["marker"].finditer(text)]):
        start = match.end()
        ends = (end.start() for end in PATTERNS["line_end"].finditer(text, start))
        region = text[start : next((end for end in ends if end > start), None)]
        region = PATTERNS["least"].sub("", region)
        if values := _settled(region, answer):
            gaps = (region[one.end : other.start] for one, other in pairwise(values))
            joined = [*takewhile(PATTERNS["and"].fullmatch, gaps)]
            return values[:1] if values[0].value == HEDGED else values[: len(joined) + 1]
    return []


def _conclusions(text: str, answer: Value, facts: Sequence[Fact] = ()) -> list[Mention]:
    """The value on which each sentence ends that states none of the facts."""
    found = []
    for clause in _clauses(text):
        sentence = PATTERNS["least"].sub("", clause)
        values = _settled(sentence, answer)
        if values and not any(is_true for *_, is_true in statements(sentence, facts)):
            if isinstance(answer, Name):  # the name that it "is", or else the first
                said = [each for each in values if PATTERNS["is"].search(sentence[: each.start])]
                values = said or values[:1]
            found.append(values[-1])
    return found


def statements(
    text: str, facts: Sequence[Fact], others: Sequence[Term] = ()
) -> Iterator[tuple[str, Plain, bool]]:
    """What a plain text states: the English name of a subject, its value, and whether it is so."""
    true = {fact.subject.en: fact.value for fact in facts}
    subjects = [*(fact.subject for fact in facts), *others]
    for name, value in bindings(text, subjects, facts[0].value) if facts else ():
        yield name, value, name in true and true[name].accepts(value)


def bindings(text: str, subjects: Sequence[Term], kind: Value) -> Iterator[tuple[str, Plain]]:
    """Each statement of a plain text: the English name of its subject, and the value."""
    waiting: list[Mention] = []
    pairs: list[Pair] = []
    for line in _clauses(text):
        named = [*find_terms(subjects, line)]
        values = _settled(masked(line, named), kind)
        if named and values:
            pairs += _bind_parts(line, named, values)
        elif len(values) == len(waiting) or len(waiting) == 1:
            pairs += zip(waiting, values, strict=False)
        if named or values:
            waiting = [] if values else named
    return ((str(subject.value), value.value) for subject, value in pairs)


def plain(reply: str) -> str:
    """The reply without markup, with digits for number words, and without sums before "="."""
    reply = reply.rpartition("</think>")[2].replace("，", ", ")
    text = _unfolded(unicodedata.normalize("NFKC", reply))
    for pattern, plainer in _MARKUP:
        text = pattern.sub(plainer, text)
    text = PATTERNS["row"].sub(lambda row: row[0].replace(",", " | "), text)
    text = PATTERNS["heading"].sub(_headed, text).replace("\u2022 ", "")
    if not re.search(r"\d\.\d", text):
        text = re.sub(r"(?<![\d,])(\d{1,3}),(\d\d)(?![\d,])", r"\1.\2", text)
    text = re.sub(r"[^\S\n]+", " ", _worded(text))
    return PATTERNS["product"].sub(" ", PATTERNS["sum"].sub(" ", text))


def _unfolded(text: str) -> str:
    """The text with a line for each member of a JSON object or each record of a JSON list."""
    place = 0
    while match := re.compile(r"[{\[]").search(text, place):
        place = match.start()
        try:
            value, end = json.JSONDecoder().raw_decode(text, place)
        except (ValueError, RecursionError):
            place += 1
            continue
        lines = "\n".join(_members(value))
        text = f"{text[:place]}\n{lines}\n{text[end:]}"
        place += len(lines) + 2
    return text


def _members(value: Any, of: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, member in value.items():
            before: dict[type, str] = {dict: f"{of}{key} ", list: of}
            yield from _members(member, before.get(type(member), f"{of}{key}: "))
    elif isinstance(value, list):
        for record in value:
            cells = [*record.values()] if isinstance(record, dict) else []
            is_row = len(cells) > 1 and not any(isinstance(cell, dict | list) for cell in cells)
            yield from _members(" | ".join(map(str, cells)) if is_row else record, of)
    else:
        yield f"{of}{value}"


def _headed(match: re.Match[str]) -> str:
    """The items below a short heading, each behind it: "From Oslo: - to Lima: 24"."""
    items = match["items"].replace("\u2022", "").splitlines()
    return "".join(f"{match['heading']} {item.strip()}\n" for item in items)


def _worded(text: str) -> str:
    """The text with digits for number words that are not pronouns."""
    for name, digits in (("english", _english), ("one", "1"), ("chinese", _chinese)):
        text = PATTERNS[name].sub(digits, text)
    return text


def _english(match: re.Match[str]) -> str:
    return str(sum(_WORDS[word] for word in re.split("[- ]", match[0].lower())))


def _chinese(match: re.Match[str]) -> str:
    """The digits of a Chinese number below 100."""
    tens, ten, ones = match[0].rpartition("十")
    return str((10 * _WORDS.get(tens, 1) if ten else 0) + _WORDS.get(ones, 0))


def _clauses(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from (part for part in PATTERNS["sentence"].split(line) if part.strip())


def masked(line: str, mentions: Sequence[Mention]) -> str:
    """The line with subjects blanked, so that "4月" or "C4" in a name is not a value."""
    for each in mentions:
        line = line[: each.start] + "\x00" * (each.end - each.start) + line[each.end :]
    return line


def _settled(text: str, kind: Value) -> list[Mention]:
    """The values of a text; one that is left open ("12 or 13", "more than 12") is hedged.

    A correction ("12, no, 13") and a sum ("1 + 2 = 3") replace the values before them, and a value
    replaces the bounds between which it was found.
    """
    values: list[Mention] = []
    for mention in kind.find(text):
        gap = text[values[-1].end if values else 0 : mention.start]
        before = text[max(0, mention.start - 30) : mention.start]
        if values and _opens(text[max(0, values[-1].start - 30) : values[-1].start], gap):
            if values[-1].value != mention.value:
                values[-1] = Mention(values[-1].start, mention.end, HEDGED)
        elif PATTERNS["bound"].search(before) or PATTERNS["more"].match(text, mention.end):
            values.append(Mention(mention.start, mention.end, HEDGED))
        elif not PATTERNS["denied"].search(before):
            start = text.rfind("\x00", 0, mention.start)
            if PATTERNS["corrected"].search(gap):
                values = [each for each in values if each.end <= start]
            elif values and values[-1].value == HEDGED and values[-1].start > start:
                values.pop()
            values.append(mention)
    return values


def _opens(before: str, gap: str) -> bool:
    """Whether a gap between two values leaves open which of them is meant."""
    return bool(
        PATTERNS["open"].fullmatch(gap)
        or (
            PATTERNS["between"].search(before)
            and PATTERNS["and"].fullmatch(gap.replace("the ", ""))
        )
    )


def _bind_parts(line: str, named: list[Mention], values: list[Mention]) -> list[Pair]:
    """Bind each part of a line on its own if all of them have as many subjects as values."""
    cuts = [0, *(match.start() for match in PATTERNS["part"].finditer(line)), len(line)]
    parts = [
        [[each for each in some if start <= each.start < end] for some in (named, values)]
        for start, end in pairwise(cuts)
    ]
    if all(len(some) == len(numbers) or _share(line, some, numbers) for some, numbers in parts):
        return [pair for some, numbers in parts if some for pair in _bind(line, some, numbers)]
    return _bind(line, named, values)


def _bind(line: str, named: list[Mention], values: list[Mention]) -> list[Pair]:
    """Give each subject of a line its value: respectively, behind it, or before it."""
    if len(named) == 1 and (value := _only(line, named[0], values)):
        return [(named[0], value)]
    if _share(line, named, values):
        return [(each, values[0]) for each in named]
    if len(values) == len(named) > 1 and named[-1].end <= values[0].start:
        return [*zip(named, values, strict=True)]
    behind = _links(line, named, values, PATTERNS["behind"])
    before = [pair[::-1] for pair in _links(line, values, named, PATTERNS["before"])]
    is_signed = any(PATTERNS["sign"].search(line[one.end : other.start]) for one, other in behind)
    starts = values[0].end <= named[0].start and not is_signed
    if len(before) > len(behind) or (len(before) == len(behind) and starts):
        return before
    return _links(line, named, values, None)


def _share(line: str, named: list[Mention], values: list[Mention]) -> bool:
    """Whether several subjects have one value: "both are 3", "3: Jan, Feb"."""
    if len(values) != 1 or len(named) < 2:
        return False
    if named[-1].end <= values[0].start:
        return bool(PATTERNS["each"].search(line[max(0, named[0].start - 10) : values[0].end + 10]))
    return bool(re.match(r"[^\x00]{0,8}:", line[values[0].end : named[0].start]))


def _only(line: str, subject: Mention, values: list[Mention]) -> Mention | None:
    """The value of the only subject of a line, if a cell or a total sets it apart."""

    def after(name: str, each: Mention) -> bool:
        return bool(PATTERNS[name].search(line[: each.start]))

    def until(name: str, each: Mention) -> bool:
        return bool(PATTERNS[f"{name}_end"].match(line, each.end))

    cells = [each for each in values if after("cell", each) and until("cell", each)]
    totals = [each for each in values if after("total", each) or until("total", each)]
    is_first = values[-1].end <= subject.start
    chosen = (cells if "|" in line else []) or totals or (values if is_first else [])
    return chosen[-1] if chosen else None


def _links(
    line: str, first: list[Mention], second: list[Mention], gap: re.Pattern[str] | None
) -> list[Pair]:
    """Each of `first` with the next of `second`, if no other of `first` is between them."""
    links = []
    for each, after in zip(first, [*first[1:], None], strict=True):
        end = after.start if after else len(line)
        following = [other for other in second if each.end <= other.start and other.end <= end]
        if following and (gap is None or gap.fullmatch(line[each.end : following[0].start])):
            links.append((each, following[0]))
    return links


_MARKUP = [(re.compile(pattern, re.MULTILINE), plainer) for pattern, plainer in READING["markup"]]
_WORDS: dict[str, int] = READING["words"]
