"""BotChat as a benchmark: options, data, dialogues, judgements and tables put together.

Source: Duan et al., BotChat (2024), and open-compass/BotChat; every switch is in `options`.
Published judgements are rescored in `rescore`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from judges import PromptSet
from mmconv.benchmarks.botchat.chains import Speaker, dialogue_calls, instructions
from mmconv.benchmarks.botchat.data import Sample, load_samples, source_keys, survey
from mmconv.benchmarks.botchat.dialogue_files import HUMAN
from mmconv.benchmarks.botchat.grading import UNIEVAL, Grader
from mmconv.benchmarks.botchat.options import (
    CON,
    CONDITIONS,
    SEED,
    SHORTEST_HUMAN,
    UNCON,
    UTTERANCES,
    BotChatOptions,
)
from mmconv.benchmarks.botchat.players import (
    Duel,
    Player,
    check_names,
    human_duels,
    pair_up,
    player_duels,
    spoken,
    stored_players,
)
from mmconv.benchmarks.botchat.scoring import (
    Scored,
    score_alone,
    score_duel,
    score_length,
    score_loop,
    score_utterance,
)
from mmconv.benchmarks.choosing import choose
from mmconv.benchmarks.data_files.bad_records import bad_records_list, bad_records_table
from mmconv.benchmarks.shared.options import named_conditions, read_options, require_judge
from mmconv.benchmarks.shared.scoring import Calls, Outcomes, Scores
from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_files
from mmconv.core.protocols import ImageSink
from mmconv.core.types import Call, Sampling, Score, Table

_SEATS = ("candidate", "judge")


def build(spec: RunSpec, images: ImageSink) -> BotChat:
    """Check options and data; raises `ConfigError` or `DataError` before anything is paid."""
    return BotChat(spec, read_options(BotChatOptions, spec.options, "botchat"))


class BotChat:
    """The benchmark; see `Benchmark`."""

    name = "botchat"

    def __init__(self, spec: RunSpec, options: BotChatOptions) -> None:
        self._spec = spec
        self._options = options
        wanted = named_conditions(self.name, spec.conditions, CONDITIONS)
        if options.judged:
            require_judge(spec)
        self._survey = survey(
            options.data,
            documents=CON in wanted,
            skip_bad=options.skip_bad_records,
            choice=choose(spec, source_keys(options.data)),
        )
        self.conditions = wanted or (CONDITIONS if self._survey.documented else (UNCON,))
        self._prompts = PromptSet("botchat", spec.prompts)
        self._check_prompts()
        self._grader = Grader(
            prompts=self._prompts,
            sampling=Sampling(max_tokens=options.judge_max_tokens),
            retries=options.judge_retries,
        )
        self._candidate = Player(
            name=spec.seats["candidate"].label, speaker=Speaker(seat="candidate")
        )
        self._opponents = self._find_opponents()
        self._pairs = pair_up((self._candidate, *self._opponents), options.pairs)

    @property
    def size(self) -> int:
        """How many dialogues will be generated under each condition."""
        return self._survey.intake.good

    @property
    def notes(self) -> tuple[str, ...]:
        """Lengths and prompts that are not the paper's, and records left out."""
        return tuple(self._notes())

    @property
    def facts(self) -> Mapping[str, Any]:
        """Hashes of data and prompts, conventions in force, and what the survey left out.

        `opponents` are those with stored dialogues, each with a hash of its dialogue by sample.
        """
        return {
            "data": hash_files([self._options.data]),
            "prompts": self._prompts.digests(),
            "samples": self._survey.intake.good,
            "compared": len(self._survey.paired),
            "opponents": {
                player.name: player.digests()
                for player in self._opponents
                if player.speaker is None
            },
            "dup_detect": self._options.dup_detect.model_dump(),
            "left_out": bad_records_list(self._survey.intake.bad),
        }

    def load(self) -> Iterator[Sample]:
        """Stream the samples that the survey found good."""
        return load_samples(self._options.data, self._survey.intake)

    def key(self, sample: Sample) -> str:
        """The sample's index."""
        return sample.index

    def about(self, sample: Sample) -> Mapping[str, str]:
        """The human dialogue."""
        return {"human dialogue": "\n".join(sample.human)}

    def plan(self, sample: Sample, condition: str) -> tuple[Call, ...]:
        """The dialogues that are generated in the run, and their judgements."""
        calls = [
            call
            for player in self._speaking(sample)
            if player.speaker is not None
            for call in dialogue_calls(
                sample, condition, player.speaker, self._prompts, self._options
            )
        ]
        if "unieval" in self._options.judged:
            lines = self._candidate.lines(sample, self._options.utterances)
            calls.append(self._grader.alone(lines))
        calls += [self._grader.compared(duel) for duel in self._duels(sample) if not duel.is_void]
        return tuple(calls)

    def score(
        self, sample: Sample, condition: str, calls: Calls, outcomes: Outcomes
    ) -> Iterator[Score]:
        """Lengths and loops of all dialogues, and what the judgements say."""
        for player in self._present(sample):
            yield from self._score_dialogue(sample, condition, player, outcomes)
        yield from self._score_human(sample, condition)
        if UNIEVAL in calls:
            yield from score_alone(
                self._scored(sample, condition, self._candidate.name),
                calls[UNIEVAL],
                outcomes,
                self._options.checkpoints,
                min(len(sample.human), self._options.utterances) if sample.paired else None,
            )
        for duel in self._duels(sample):
            scored = self._scored(sample, condition, duel.model)
            call = calls.get(duel.call_id)
            yield from score_duel(scored, duel, call, outcomes, self._options.dup_detect)

    def tables(self, scores: Scores) -> list[Table]:
        """The paper's tables and ours."""
        # numpy comes with them, and only the end of a run needs it
        from mmconv.benchmarks.botchat.table_rows import TableContext
        from mmconv.benchmarks.botchat.tables import build_tables
        from mmconv.stats import ScoreFrame

        judge = self._spec.seats["judge"].label if self._options.judged else "nobody"
        most = self._options.utterances
        context = TableContext(
            judge=f"judged by {judge}",
            dup_detect=self._options.dup_detect,
            notes=self.notes,
            compared=self._compared,
            cut=most if self._survey.longer(most) else None,
        )
        tables = build_tables(ScoreFrame.of(scores), context)
        return [*tables, *bad_records_table(self._survey.intake.bad)]

    @property
    def _compared(self) -> str:
        """How many of which samples are compared."""
        whose = "run" if self._survey.intake.is_part else "data"
        return f"{len(self._survey.paired)} of the {self.size} of the {whose}"

    def _find_opponents(self) -> tuple[Player, ...]:
        """The models that PairEval compares the candidate with."""
        if "paireval" not in self._options.judged:
            return ()
        speaking = [
            Player(name=model.label, speaker=Speaker(seat=seat))
            for seat, model in self._spec.seats.items()
            if seat not in _SEATS
        ]
        compared = self._survey.paired
        if self._options.opponents and not compared:
            raise ConfigError(
                f"none of the {self.size} samples is compared, for their human dialogues "
                f"are too short (under {SHORTEST_HUMAN} utterances): take more, or leave out "
                "options.opponents"
            )
        players = (*speaking, *stored_players(self._options, compared))
        if not players and "protocols" in self._options.model_fields_set:
            raise ConfigError(
                "PairEval needs opponents: name runs or files in options.opponents, or give models "
                "on seats of their own (--set seats.gpt4=gpt-4.1)"
            )
        check_names((self._candidate, *players))
        return players

    def _present(self, sample: Sample) -> tuple[Player, ...]:
        """The players that have a dialogue of the sample."""
        return (self._candidate, *(self._opponents if sample.paired else ()))

    def _speaking(self, sample: Sample) -> Iterator[Player]:
        return (player for player in self._present(sample) if player.speaker is not None)

    def _duels(self, sample: Sample) -> Iterator[Duel]:
        if not sample.paired:
            return
        if "gteval" in self._options.judged:
            yield from human_duels(sample, self._candidate, self._options)
        if "paireval" in self._options.judged:
            yield from player_duels(sample, self._pairs, self._options)

    def _score_dialogue(
        self, sample: Sample, condition: str, player: Player, outcomes: Outcomes
    ) -> Iterator[Score]:
        scored = self._scored(sample, condition, player.name)
        count = self._options.utterances if player.speaker else max(self._options.cuts)
        lines = player.lines(sample, count)
        said = None if player.lacks(sample) else spoken(lines, outcomes)
        yield from score_loop(scored, said, self._options.dup_detect)
        for number in range(SEED + 1, count + 1):
            if player.speaker is not None:
                outcome = outcomes[player.speaker.call_id(number)]
                yield from score_utterance(scored, number, outcome)
            else:
                yield from score_length(scored, number, said[number - 1] if said else None)

    def _score_human(self, sample: Sample, condition: str) -> Iterator[Score]:
        """The same of the human dialogue, as far as it is compared."""
        if not sample.paired:
            return
        scored = self._scored(sample, condition, HUMAN)
        human = sample.human[: self._options.utterances]
        yield from score_loop(scored, human, self._options.dup_detect)
        for number, utterance in enumerate(human[SEED:], start=SEED + 1):
            yield from score_length(scored, number, utterance)

    def _scored(self, sample: Sample, condition: str, model: str) -> Scored:
        return Scored(sample=sample.index, condition=condition, model=model)

    def _check_prompts(self) -> None:
        """Fill the prompts for utterances once, so that a user's own are found wrong in time."""
        sample = next(self.load())
        for condition in self.conditions:
            if condition == UNCON or sample.document is not None:
                instructions(sample, condition, self._prompts)

    def _notes(self) -> Iterator[str]:
        if len(self.conditions) > 1:
            yield f"Where no condition is named, it is {UNCON}."
        if self._options.utterances != UTTERANCES:
            yield f"Dialogues have {self._options.utterances} utterances (paper: {UTTERANCES})."
        if longer := self._survey.longer(self._options.utterances):
            yield (
                f"Of human dialogues with more utterances ({longer} of {self.size}), the first "
                f"{self._options.utterances} count."
            )
        if "paireval" in self._options.judged and not self._opponents:
            yield (
                "PairEval is left out, since it needs opponents: name runs or files in "
                "options.opponents, or give models on seats of their own."
            )
        for player in self._opponents:
            if lacking := 0 if player.speaker else len(self._survey.paired - player.stored.keys()):
                yield (
                    f"{player.name} lacks a whole dialogue of {lacking} of the "
                    f"{len(self._survey.paired)} compared samples: its pairs of them are missing."
                )
        if self._options.prompt_role == "user":
            yield "The system prompt stands in the first user message."
        yield from self._survey.intake.notes()
