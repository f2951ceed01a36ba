"""BotChat: a model talks to itself from two human utterances, and a judge looks for the machine.

Source: Duan et al., BotChat (2024), and open-compass/BotChat; every switch is an option. A run
makes one call per utterance, each with all utterances before it. Roles alternate backwards from the
last utterance, which is always the user's (the authors' chat_api/gpt.py): a prompt with an even
number of utterances begins with the assistant's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from judges import Judge
from judges.parsers.botchat import UniEvalParser, comparison
from mmconv.benchmarks.base.benchmark import Benchmark
from mmconv.benchmarks.base.compare import Board, Tables
from mmconv.benchmarks.base.endings import endings
from mmconv.benchmarks.base.judges import CANDIDATE_AND_JUDGE
from mmconv.benchmarks.base.layouts import Build, Layout
from mmconv.benchmarks.base.metrics import Metric
from mmconv.benchmarks.base.results import Results
from mmconv.benchmarks.botchat.dialogues import (
    GTEVAL,
    HUMAN,
    PAIREVAL,
    SEED,
    SHORTEST_HUMAN,
    UTTERANCES,
    Comparison,
    DupDetect,
    HumanDialogue,
    Line,
    Participant,
    conversation,
    load_opponents,
)
from mmconv.benchmarks.botchat.metrics import (
    CON,
    UNCON,
    UNIEVAL,
    checkpoints,
    metrics,
    score_comparison,
    score_dialogue,
    score_unieval,
)
from mmconv.benchmarks.botchat.tables import boards, layouts
from mmconv.benchmarks.options import ANY_ROLE, Condition, Display, Options, Several
from mmconv.core.config import CANDIDATE
from mmconv.core.documents import Place
from mmconv.core.errors import ConfigError, PromptError
from mmconv.core.judges import JUDGE, base_role
from mmconv.core.protocols import ImageSink
from mmconv.core.turns import begin_with
from mmconv.core.types import Call, Message, Parser, Role, Sampling, Score, Text
from mmconv.stats import Quantity, ScoreFrame

Protocol: TypeAlias = Literal["unieval", "gteval", "paireval"]

# The mean of the 14 models' means (paper, Table 5), which go from 20 to 199.
UTTERANCE_TOKENS = 87
"""How many tokens an utterance has; forecasts take it."""

ROLES = {
    **CANDIDATE_AND_JUDGE,
    ANY_ROLE: "An opponent, which talks in the run itself; its role may have any other name.",
}

_SPEAKERS: tuple[Role, Role] = ("user", "assistant")


class BotChatOptions(Options):
    """Options under `options:` of a run file."""

    utterances: int = Field(default=UTTERANCES, gt=SEED, le=1000)
    """How many utterances a generated dialogue has, the two of its seed included."""
    protocols: Several[Protocol] = ("unieval", "gteval", "paireval")
    """What the judge is asked for; PairEval needs opponents."""
    opponents: Several[Path] = ()
    """PairEval's other models: folders of earlier runs, or files like MuTualTest-convs.tsv."""
    pairs: Literal["candidate", "all"] = "candidate"
    """Whether PairEval compares the candidate with each opponent, or all models with each other."""
    pair_lengths: Several[int] = ()
    """The lengths that paired dialogues are cut to; none stands for `utterances`."""
    dup_detect: DupDetect = DupDetect()
    """When a dialogue counts as a loop."""
    prompt_role: Literal["system", "user"] = "system"
    """The role of the prompt; `user` is for chat templates without a system message."""
    judge_retries: int = Field(default=1, ge=0, le=5)
    """How often an unreadable verdict is requested again; at temperature 0 it may be the same."""
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


class BotChat(Benchmark[HumanDialogue, BotChatOptions]):
    """The benchmark; its scores are those of `mmconv.benchmarks.botchat.metrics`."""

    name, title = "botchat", "BotChat"
    conditions: tuple[str, ...] = (
        Condition(UNCON, "Dialogues go on from two utterances."),
        Condition(CON, "The prompt holds the record's document too, its title and text."),
    )
    unnamed = f"{UNCON}, and {CON} where all records have a document"
    prompts = "botchat"
    roles = ROLES
    judging = frozenset({"dup_detect", "judge_retries", "judge_max_tokens"})
    display = Display(
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
    )

    # --- data ----------------------------------------------------------------------------------

    def faults(self, sample: HumanDialogue) -> Iterator[tuple[Place, str]]:
        """The document, if the condition con is named."""
        if CON in (self.spec.conditions or ()) and sample.text is None:
            yield ("text",), f"needed by the condition {CON}"

    def load_data(self, images: ImageSink) -> None:
        """Read the dialogues of people and opponents, and check the prompts of utterances."""
        super().load_data(images)
        first, *_ = samples = self.dataset.samples
        if not self.spec.conditions and any(each.text is None for each in samples):
            self.conditions = (UNCON,)
        for condition in self.conditions:
            self._instructions(first, condition)
        if self.options.opponents and not self.compared and "paireval" in self.options.judged:
            raise ConfigError(
                f"none of the {self.size} samples is compared, for their human dialogues "
                f"are too short (under {SHORTEST_HUMAN} utterances): take more, or leave out "
                "options.opponents"
            )
        _ = self.opponents

    @cached_property
    def compared(self) -> frozenset[str]:
        """The samples whose human dialogues are long enough to be compared."""
        return frozenset(each.id for each in self.dataset.samples if each.is_compared)

    @cached_property
    def candidate(self) -> Participant:
        """The candidate as one of those that talk."""
        return Participant(name=self.spec.models[CANDIDATE].label, role=CANDIDATE)

    @cached_property
    def opponents(self) -> tuple[Participant, ...]:
        """The models that PairEval compares the candidate with."""
        options = self.options
        if "paireval" not in options.judged:
            return ()
        opponents = [
            Participant(name=model.label, role=role)
            for role, model in self.spec.models.items()
            if base_role(role) not in (CANDIDATE, JUDGE)
        ]
        for path in options.opponents:
            opponents += load_opponents(path, self.compared, max(options.cuts))
        if not opponents and "protocols" in options.model_fields_set:
            raise ConfigError(
                "PairEval needs opponents: name runs or files in options.opponents, or give models "
                "on roles of their own (--set models.gpt4=gpt-4.1)"
            )
        names = [HUMAN, self.candidate.name, *(each.name for each in opponents)]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(
                f"several opponents are named {', '.join(repeated)}: set `name` in a model's file, "
                "or rename a column of the opponents' file"
            )
        return tuple(opponents)

    @property
    def provenance(self) -> dict[str, Any]:
        """Also how many samples are compared, and a hash of each stored dialogue of an opponent."""
        stored = {each.name: each.hashes() for each in self.opponents if not each.role}
        prompts = self.prompt_set.digests()
        return super().provenance | {
            "prompts": prompts,
            "compared": len(self.compared),
            "opponents": stored,
        }

    def tags(self, sample: HumanDialogue, turn: int | None) -> dict[str, str]:
        """The model; scores of opponents and people have their names in its place."""
        return {"model": self.candidate.name}

    def metadata(self, sample: HumanDialogue) -> dict[str, str]:
        """The human dialogue."""
        return {"human dialogue": "\n".join(sample.human)}

    def remarks(self) -> Iterator[str]:
        """Lengths and prompts that are not the paper's, and missing opponents."""
        options = self.options
        if len(self.conditions) > 1:
            yield f"Where no condition is named, it is {UNCON}."
        if options.utterances != UTTERANCES:
            yield f"Dialogues have {options.utterances} utterances (paper: {UTTERANCES})."
        longer = sum(len(each.human) > options.utterances for each in self.dataset.samples)
        if longer:
            yield (
                f"Of human dialogues with more utterances ({longer} of {self.size}), the first "
                f"{options.utterances} count."
            )
        if "paireval" in options.judged and not self.opponents:
            yield (
                "PairEval is left out, since it needs opponents: name runs or files in "
                "options.opponents, or give models on roles of their own."
            )
        for opponent in self.opponents:
            missing = 0 if opponent.role else len(self.compared - opponent.stored.keys())
            if missing:
                yield (
                    f"{opponent.name} has no whole dialogue of {missing} of the "
                    f"{len(self.compared)} compared samples: its pairs of them are missing."
                )
        if options.prompt_role == "user":
            yield "The system prompt is in the first user message."

    # --- plan ----------------------------------------------------------------------------------

    def plan(self, sample: HumanDialogue, condition: str) -> Iterator[Call]:
        """The dialogues that are generated in the run, and their judgements."""
        prompt = self._instructions(sample, condition)
        for participant in self._participants(sample):
            if participant.role is not None:
                yield from self._dialogue(prompt, sample, participant, participant.role)
        if "unieval" in self.options.judged:
            lines = self.candidate.lines(sample, self.options.utterances)
            slots = {"conversation": conversation(lines)}
            judge = self._judge(UniEvalParser(utterances=len(lines)))
            yield judge.call(UNIEVAL, self.prompt("unieval"), slots)
        for compared in self._comparisons(sample):
            if not compared.is_void:
                yield self._judgement(compared)

    def _participants(self, sample: HumanDialogue) -> tuple[Participant, ...]:
        return (self.candidate, *(self.opponents if sample.is_compared else ()))

    def _dialogue(
        self, prompt: str, sample: HumanDialogue, participant: Participant, role: str
    ) -> Iterator[Call]:
        """The calls that continue the seed.

        The oldest utterances are dropped when the context is full (paper, section 4.1), and the
        prompt never is.
        """
        options = self.options
        lines = participant.lines(sample, options.utterances)
        for number in range(SEED + 1, options.utterances + 1):
            yield Call(
                id=participant.call_id(number),
                model=role,
                messages=_messages(prompt, lines[: number - 1], options.prompt_role),
                sampling=Sampling(max_tokens=options.max_tokens),
                overflow="drop_oldest",
                pinned=prompt if options.prompt_role == "user" else "",
                expected_tokens=UTTERANCE_TOKENS,
            )

    def _instructions(self, sample: HumanDialogue, condition: str) -> str:
        if condition != CON:
            messages = self.prompt("generate").fill({})
        else:
            slots = {"title": sample.title or "", "text": sample.text or ""}
            messages = self.prompt("generate_with_document").fill(slots)
        if len(messages) != 1:
            raise PromptError(f"a prompt for utterances holds one message, not {len(messages)}")
        return messages[0].text

    def _comparisons(self, sample: HumanDialogue) -> Iterator[Comparison]:
        """Both orders of each pair; loops are looked for in what is compared or in whole dialogues.

        GTEval cuts to the length of the human dialogue; PairEval has lengths of its own.
        """
        options = self.options
        for protocol, pair, length in self._pairs(sample) if sample.is_compared else ():
            searched = options.utterances if options.dup_detect.scope == "whole" else length
            own, other = (each.lines(sample, length) for each in pair)
            missing = next((each.name for each in pair if not each.lines(sample, length)), None)
            for order in ("1", "2"):
                yield Comparison(
                    protocol=protocol,
                    model=pair[0].name,
                    opponent=pair[1].name,
                    length=length,
                    order=order,
                    own=own,
                    other=other,
                    searched=(pair[0].lines(sample, searched), pair[1].lines(sample, searched)),
                    missing=missing,
                )

    def _pairs(
        self, sample: HumanDialogue
    ) -> Iterator[tuple[str, tuple[Participant, Participant], int]]:
        options = self.options
        if "gteval" in options.judged:
            length = min(len(sample.human), options.utterances)
            yield GTEVAL, (self.candidate, _human(sample)), length
        if "paireval" in options.judged:
            for length in options.cuts:
                for pair in combinations((self.candidate, *self.opponents), 2):
                    if options.pairs == "all" or pair[0] is self.candidate:
                        yield PAIREVAL, pair, length

    def _judgement(self, compared: Comparison) -> Call:
        pair = (compared.own, compared.other)
        slots = {
            f"conversation_{number}": conversation(lines)
            for number, lines in enumerate(pair if compared.order == "1" else pair[::-1], start=1)
        }
        prompt = self.prompt(compared.protocol.lower())
        return replace(self._judge(comparison).call(compared.call_id, prompt, slots), compares=pair)

    def _judge(self, parser: Parser) -> Judge:
        options = self.options
        sampling = Sampling(max_tokens=options.judge_max_tokens)
        return Judge(
            parser=parser, sampling=sampling, verdict_last=False, retries=options.judge_retries
        )

    # --- scores and tables ---------------------------------------------------------------------

    def score(self, sample: HumanDialogue, results: Results) -> Iterator[Score]:
        """Lengths and loops of all dialogues, and the scores of their judgements."""
        options = self.options
        dialogues = [
            (participant, options.utterances if participant.role else max(options.cuts))
            for participant in self._participants(sample)
        ]
        human_length = min(len(sample.human), options.utterances)
        if sample.is_compared:
            dialogues.append((_human(sample), human_length))
        for participant, count in dialogues:
            lines = participant.lines(sample, count)
            yield from score_dialogue(results, participant.name, lines, count, options.dup_detect)
        if "unieval" in options.judged:
            yield from score_unieval(
                results,
                self.candidate.name,
                checkpoints(options.utterances),
                human_length if sample.is_compared else None,
            )
        for compared in self._comparisons(sample):
            yield from score_comparison(results, compared, options.dup_detect)

    def endings(self, results: Results) -> Iterator[Score]:
        """How every generated utterance ended, of opponents too; its number is the turn."""
        for call in results.calls.values():
            if call.model != JUDGE:
                turn, model = int(call.id.rpartition("_")[2]), self.spec.models[call.model].label
                for name, value, reason in endings(results.outcomes[call.id]):
                    yield results.score(name, value, reason, turn=turn, model=model)

    def metrics(self) -> Iterator[Metric]:
        """See `mmconv.benchmarks.botchat.metrics`."""
        return metrics(self.options.utterances)

    def quantities(self, frame: ScoreFrame) -> Iterator[Quantity]:
        """Runs are compared in the candidate's scores only, not in those of opponents."""
        if frame.distinct("model"):
            frame = frame.only(model=self.candidate.name)
        return super().quantities(frame)

    def layouts(self) -> Iterator[Layout | Build]:
        """See `mmconv.benchmarks.botchat.tables`."""
        compared = "of the data"
        if hasattr(self, "dataset"):  # a run is also corrected without its data
            source = "run" if self.dataset.is_part else "data"
            compared = f"{len(self.compared)} of the {self.size} of the {source}"
        judge = "judged by {judge}" if self.options.judged else "not judged"
        return layouts(self.options.dup_detect, compared=compared, judge=judge)

    def boards(self, runs: Sequence[Tables]) -> Iterator[Board]:
        """See `mmconv.benchmarks.botchat.tables`."""
        return boards(runs)


def _human(sample: HumanDialogue) -> Participant:
    return Participant(name=HUMAN, stored={sample.id: sample.human})


def _messages(
    prompt: str, lines: Sequence[Line], prompt_role: Literal["system", "user"]
) -> tuple[Message, ...]:
    messages = [
        Message(role=_SPEAKERS[(len(lines) - place - 1) % 2], parts=(line,))
        for place, line in enumerate(lines)
    ]
    if prompt_role == "user":
        return begin_with(prompt, messages)
    return (Message(role="system", parts=(Text(text=prompt),)), *messages)
