"""BotChat: a model talks to itself from two human utterances, and a judge looks for the machine.

Source: Duan et al., BotChat (2024), and open-compass/BotChat; every switch is an option. A run
makes one call per utterance, each with all utterances before it. Roles alternate backwards from the
last utterance, which is always the user's (the authors' chat_api/gpt.py): a prompt with an even
number of utterances begins with the assistant's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from judges import PromptSet
from mmconv.benchmarks.botchat.dialogues import (
    CON,
    CONDITIONS,
    DOCUMENT,
    GTEVAL,
    HUMAN,
    INDEX,
    PAIREVAL,
    SEED,
    SHORTEST_HUMAN,
    UNCON,
    UTTERANCES,
    Comparison,
    Line,
    Participant,
    Sample,
    checkpoints,
    compare,
    load_opponents,
    read_sample,
    resolve,
)
from mmconv.benchmarks.botchat.judging import UNIEVAL, DupDetect, Judging, Scorer
from mmconv.benchmarks.choosing import all_keys, choose
from mmconv.benchmarks.data_files.bad_records import bad_records_list, bad_records_table
from mmconv.benchmarks.data_files.intake import Found, Intake, find_samples
from mmconv.benchmarks.data_files.records import Record, scan_records, text
from mmconv.benchmarks.shared.options import (
    ANY_SEAT,
    CANDIDATE,
    JUDGE,
    BenchmarkOptions,
    Description,
    Display,
    Several,
    named_conditions,
    read_options,
    require_judge,
)
from mmconv.benchmarks.shared.scoring import Calls, Outcomes, Scores
from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError, DataError, PlanError, PromptError
from mmconv.core.keys import hash_files
from mmconv.core.protocols import ImageSink
from mmconv.core.turns import begin_with
from mmconv.core.types import Call, Message, Role, Sampling, Score, Table, Text

Protocol: TypeAlias = Literal["unieval", "gteval", "paireval"]

# The mean of the 14 models' means (paper, Table 5), which go from 20 to 199.
UTTERANCE_TOKENS = 87
"""How many tokens an utterance has; forecasts take it."""

_ROLES: tuple[Role, Role] = ("user", "assistant")


class BotChatOptions(BenchmarkOptions):
    """Options under `options:` of a run file."""

    data: Path
    """The human dialogues: MuTual_test.xlsx, or a file of records in its layout."""
    utterances: int = Field(default=UTTERANCES, gt=SEED, le=1000)
    """How many utterances a generated dialogue has, the two of its seed included."""
    protocols: Several[Protocol] = ("unieval", "gteval", "paireval")
    """What the judge is asked for; PairEval needs opponents."""
    opponents: Several[Path] = ()
    """PairEval's other models: folders of earlier runs, or files like MuTualTest-convs.tsv."""
    pairs: Literal["candidate", "all"] = "candidate"
    """Whether PairEval compares the candidate with each opponent, or everybody with everybody."""
    pair_lengths: Several[int] = ()
    """The lengths that paired dialogues are cut to; none stands for `utterances`."""
    dup_detect: DupDetect = DupDetect()
    """When a dialogue counts as a loop."""
    prompt_role: Literal["system", "user"] = "system"
    """Who says the prompt; `user` is for chat templates without a place for a system prompt."""
    judge_retries: int = Field(default=1, ge=0, le=5)
    """How often an unreadable verdict is requested again; at temperature 0 it may come again."""
    generate_only: bool = False
    """Ask the candidate only, and no judge."""
    skip_bad_records: bool = False
    """Go on without incomplete or unreadable records; the report lists them."""
    max_tokens: int = Field(default=1024, gt=0)
    """The longest utterance, in tokens."""
    judge_max_tokens: int = Field(default=1024, gt=0)
    """The judge's longest reply, in tokens."""

    @field_validator("protocols", "pair_lengths")
    @classmethod
    def _once(cls, value: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(dict.fromkeys(value))

    @model_validator(mode="after")
    def _pairs_fit(self) -> BotChatOptions:
        if any(not SEED < length <= self.utterances for length in self.pair_lengths):
            raise ValueError(
                f"pair_lengths: a pair has more than the {SEED} utterances of its seed "
                f"and at most {self.utterances}"
            )
        return self

    @property
    def judged(self) -> tuple[Protocol, ...]:
        """The protocols that a judge is asked for."""
        return () if self.generate_only else self.protocols

    @property
    def cuts(self) -> tuple[int, ...]:
        """The lengths that PairEval compares at."""
        return self.pair_lengths or (self.utterances,)


DESCRIPTION = Description(
    options=BotChatOptions,
    conditions={
        UNCON: "Dialogues go on from two utterances.",
        CON: "The prompt holds the record's reference document too, its title and text.",
    },
    unnamed="uncon, and con where all records have a document",
    seats={
        "candidate": CANDIDATE,
        "judge": JUDGE,
        ANY_SEAT: "Any other seat, of any name: an opponent, which talks in the run itself.",
    },
    judging=frozenset({"dup_detect", "judge_retries", "judge_max_tokens"}),
    display=Display(
        labels={
            UNCON: "without a document",
            CON: "with a document",
            "human": "utterances before the first taken for AI",
            "pass": "passed at the length that is the turn",
            "pass_at_human_length": "passed at the human dialogue's length",
            "non_loop": "without a loop",
            "non_loop_utterances": "utterances before a loop",
            "characters": "characters of an utterance",
            "words": "words of an utterance",
            "dropped": "oldest messages dropped",
            "duel": "points of a comparison (-3 to 3)",
        }
    ),
)
"""What `mmconv options botchat` prints."""


def build(spec: RunSpec, images: ImageSink) -> BotChat:
    """Check options and data; raises `ConfigError` or `DataError` before anything is paid."""
    return BotChat(spec, read_options(BotChatOptions, spec.options, "botchat"))


class BotChat:
    """The benchmark; see `Benchmark`."""

    name = "botchat"

    def __init__(self, spec: RunSpec, options: BotChatOptions) -> None:
        self._spec = spec
        self._options = options
        conditions = named_conditions(self.name, spec.conditions, CONDITIONS)
        if options.judged:
            require_judge(spec)
        keys = all_keys(scan_records(options.data), _read_key)
        self._intake = Intake(choice=choose(spec, keys), skip_bad=options.skip_bad_records)
        samples = [*self._intake.take(self._find(needs_document=CON in conditions))]
        self._intake.check(options.data)
        self._human_lengths = {sample.index: len(sample.human) for sample in samples}
        self._compared = frozenset(sample.index for sample in samples if sample.is_compared)
        is_documented = all(sample.document is not None for sample in samples)
        self.conditions = conditions or (CONDITIONS if is_documented else (UNCON,))
        self._prompts = PromptSet("botchat", spec.prompts)
        for condition in self.conditions:
            # a user's prompts are checked before the run
            if condition == UNCON or samples[0].document is not None:
                self._instructions(samples[0], condition)
        self._judging = Judging(
            prompts=self._prompts,
            sampling=Sampling(max_tokens=options.judge_max_tokens),
            retries=options.judge_retries,
        )
        self._candidate = Participant(name=spec.seats["candidate"].label, seat="candidate")
        self._opponents = self._find_opponents() if "paireval" in options.judged else ()
        self._pairs = [
            pair
            for pair in combinations((self._candidate, *self._opponents), 2)
            if options.pairs == "all" or pair[0] is self._candidate
        ]

    @property
    def size(self) -> int:
        """How many dialogues will be generated under each condition."""
        return self._intake.good

    @property
    def notes(self) -> tuple[str, ...]:
        """Lengths and prompts that are not the paper's, and records left out."""
        return tuple(self._notes())

    @property
    def facts(self) -> Mapping[str, Any]:
        """Hashes of data and prompts, conventions in force, and the records that are left out.

        `opponents` are those with stored dialogues, each with a hash of its dialogue by sample.
        """
        return {
            "data": hash_files([self._options.data]),
            "prompts": self._prompts.digests(),
            "samples": self._intake.good,
            "compared": len(self._compared),
            "opponents": {each.name: each.hashes() for each in self._opponents if not each.seat},
            "dup_detect": self._options.dup_detect.model_dump(),
            "left_out": bad_records_list(self._intake.bad),
        }

    def load(self) -> Iterator[Sample]:
        """Stream the samples that were found good."""
        return self._intake.stream(self._find())

    def key(self, sample: Sample) -> str:
        """The sample's index."""
        return sample.index

    def about(self, sample: Sample) -> Mapping[str, str]:
        """The human dialogue."""
        return {"human dialogue": "\n".join(sample.human)}

    def plan(self, sample: Sample, condition: str) -> tuple[Call, ...]:
        """The dialogues that are generated in the run, and their judgements."""
        prompt = self._instructions(sample, condition)
        calls = [
            call
            for participant in self._participants(sample)
            if participant.seat is not None
            for call in self._dialogue(prompt, sample, participant, participant.seat)
        ]
        if "unieval" in self._options.judged:
            lines = self._candidate.lines(sample, self._options.utterances)
            calls.append(self._judging.call_unieval(lines))
        calls += [
            self._judging.call_comparison(compared)
            for compared in self._comparisons(sample)
            if not compared.is_void
        ]
        return tuple(calls)

    def score(
        self, sample: Sample, condition: str, calls: Calls, outcomes: Outcomes
    ) -> Iterator[Score]:
        """Lengths and loops of all dialogues, and the scores of their judgements."""
        options = self._options
        dialogues = [
            (participant, options.utterances if participant.seat else max(options.cuts))
            for participant in self._participants(sample)
        ]
        human_length = min(len(sample.human), options.utterances)
        if sample.is_compared:
            dialogues.append((_human(sample), human_length))
        for participant, count in dialogues:
            scorer = self._scorer(sample, condition, participant.name)
            yield from _score_dialogue(scorer, sample, participant, count, outcomes)
        if UNIEVAL in calls:
            yield from self._scorer(sample, condition, self._candidate.name).unieval(
                calls[UNIEVAL],
                outcomes,
                checkpoints(options.utterances),
                human_length if sample.is_compared else None,
            )
        for compared in self._comparisons(sample):
            scorer = self._scorer(sample, condition, compared.model)
            yield from scorer.comparison(compared, calls.get(compared.call_id), outcomes)

    def tables(self, scores: Scores) -> list[Table]:
        """The paper's tables and ours."""
        # numpy comes with them, and only the end of a run needs it
        from mmconv.benchmarks.botchat.metrics import Provenance, build_tables
        from mmconv.benchmarks.layouts import Context
        from mmconv.stats import ScoreFrame

        judge = f"judged by {self._spec.seats['judge'].label}" if self._options.judged else ""
        source = "run" if self._intake.is_part else "data"
        utterances = self._options.utterances
        provenance = Provenance(
            dup_detect=self._options.dup_detect,
            compared=f"{len(self._compared)} of the {self.size} of the {source}",
            cut=utterances if self._longer else None,
        )
        context = Context(
            candidate=self._candidate.name, judge=judge or "not judged", notes=self.notes
        )
        tables = build_tables(ScoreFrame.of(scores), self._spec.options, provenance, context)
        return [*tables, *bad_records_table(self._intake.bad)]

    def _find(self, *, needs_document: bool = False) -> Iterator[Found[Sample]]:
        """The samples of the chosen records, each with its faults."""

        def read(record: Record) -> Found[Sample]:
            try:
                sample = read_sample(record)
            except DataError as error:
                return Found(place=record.where, faults=error.problems)
            is_bare = needs_document and sample.document is None
            faults = (f"{DOCUMENT} is missing, and the condition con needs it",) if is_bare else ()
            return Found(place=record.where, sample=sample, faults=faults)

        records = scan_records(self._options.data)
        return find_samples(records, self._intake.choice, _read_key, read, key_field=INDEX)

    def _find_opponents(self) -> tuple[Participant, ...]:
        """The models that PairEval compares the candidate with."""
        options, compared = self._options, self._compared
        if options.opponents and not compared:
            raise ConfigError(
                f"none of the {self.size} samples is compared, for their human dialogues "
                f"are too short (under {SHORTEST_HUMAN} utterances): take more, or leave out "
                "options.opponents"
            )
        opponents = [
            Participant(name=model.label, seat=seat)
            for seat, model in self._spec.seats.items()
            if seat not in ("candidate", "judge")
        ]
        for path in options.opponents:
            opponents += load_opponents(path, compared, max(options.cuts))
        if not opponents and "protocols" in options.model_fields_set:
            raise ConfigError(
                "PairEval needs opponents: name runs or files in options.opponents, or give models "
                "on seats of their own (--set seats.gpt4=gpt-4.1)"
            )
        names = [HUMAN, self._candidate.name, *(each.name for each in opponents)]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(
                f"several opponents are named {', '.join(repeated)}: set `name` in a model's file, "
                "or rename a column of the opponents' file"
            )
        return tuple(opponents)

    def _participants(self, sample: Sample) -> tuple[Participant, ...]:
        """Those that have a dialogue of the sample."""
        return (self._candidate, *(self._opponents if sample.is_compared else ()))

    def _comparisons(self, sample: Sample) -> Iterator[Comparison]:
        """GTEval cuts to the length of the human dialogue; PairEval has lengths of its own."""
        options = self._options
        if not sample.is_compared:
            return
        pairs = []
        if "gteval" in options.judged:
            length = min(len(sample.human), options.utterances)
            pairs.append((GTEVAL, (self._candidate, _human(sample)), length))
        if "paireval" in options.judged:
            pairs += [(PAIREVAL, pair, length) for length in options.cuts for pair in self._pairs]
        is_whole = options.dup_detect.scope == "whole"
        for protocol, pair, length in pairs:
            searched = options.utterances if is_whole else length
            yield from compare(protocol, sample, pair, length, searched)

    def _dialogue(
        self, prompt: str, sample: Sample, participant: Participant, seat: str
    ) -> Iterator[Call]:
        """The calls that continue the seed.

        The oldest utterances are dropped when the context is full (paper, section 4.1), and the
        prompt never is.
        """
        options = self._options
        lines = participant.lines(sample, options.utterances)
        for number in range(SEED + 1, options.utterances + 1):
            yield Call(
                id=participant.call_id(number),
                seat=seat,
                messages=_messages(prompt, lines[: number - 1], options.prompt_role),
                sampling=Sampling(max_tokens=options.max_tokens),
                overflow="drop_oldest",
                pinned=prompt if options.prompt_role == "user" else "",
                expected_tokens=UTTERANCE_TOKENS,
            )

    def _instructions(self, sample: Sample, condition: str) -> str:
        """The system prompt, with the reference document under the condition `con`."""
        if condition != CON:
            messages = self._prompts["generate"].fill({})
        elif sample.document is None:
            raise PlanError(f"sample {sample.index} has no reference document")
        else:
            slots = {"title": sample.document.title, "text": sample.document.text}
            messages = self._prompts["generate_with_document"].fill(slots)
        if len(messages) != 1:
            raise PromptError(f"a prompt for utterances holds one message, not {len(messages)}")
        return messages[0].text

    def _scorer(self, sample: Sample, condition: str, model: str) -> Scorer:
        return Scorer(
            sample=sample.index,
            condition=condition,
            model=model,
            settings=self._options.dup_detect,
        )

    @property
    def _longer(self) -> int:
        """How many human dialogues have more utterances than generated ones."""
        return sum(length > self._options.utterances for length in self._human_lengths.values())

    def _notes(self) -> Iterator[str]:
        options = self._options
        if len(self.conditions) > 1:
            yield f"Where no condition is named, it is {UNCON}."
        if options.utterances != UTTERANCES:
            yield f"Dialogues have {options.utterances} utterances (paper: {UTTERANCES})."
        if self._longer:
            yield (
                f"Of human dialogues with more utterances ({self._longer} of {self.size}), the "
                f"first {options.utterances} count."
            )
        if "paireval" in options.judged and not self._opponents:
            yield (
                "PairEval is left out, since it needs opponents: name runs or files in "
                "options.opponents, or give models on seats of their own."
            )
        for opponent in self._opponents:
            missing = 0 if opponent.seat else len(self._compared - opponent.stored.keys())
            if missing:
                yield (
                    f"{opponent.name} lacks a whole dialogue of {missing} of the "
                    f"{len(self._compared)} compared samples: its pairs of them are missing."
                )
        if options.prompt_role == "user":
            yield "The system prompt stands in the first user message."
        yield from self._intake.notes()


def _human(sample: Sample) -> Participant:
    return Participant(name=HUMAN, stored={sample.index: sample.human})


def _score_dialogue(
    scorer: Scorer, sample: Sample, participant: Participant, count: int, outcomes: Outcomes
) -> Iterator[Score]:
    """Loops and lengths of a dialogue of `count` utterances, and how generated ones ended."""
    lines = participant.lines(sample, count)
    texts = None if participant.lacks(sample) else resolve(lines, outcomes)
    yield from scorer.loop(texts)
    for number in range(SEED + 1, count + 1):
        if participant.seat:
            yield from scorer.utterance(number, outcomes[participant.call_id(number)])
        else:
            yield from scorer.length(number, texts[number - 1] if texts else None)


def _read_key(record: Record) -> str | None:
    """The index of the record's sample; raises `DataError` if it is not a text."""
    index = text(record, INDEX)
    return index if index is not None and index.strip() else None


def _messages(
    prompt: str, lines: Sequence[Line], prompt_role: Literal["system", "user"]
) -> tuple[Message, ...]:
    messages = [
        Message(role=_ROLES[(len(lines) - place - 1) % 2], parts=(line,))
        for place, line in enumerate(lines)
    ]
    if prompt_role == "user":
        return begin_with(prompt, messages)
    return (Message(role="system", parts=(Text(text=prompt),)), *messages)
