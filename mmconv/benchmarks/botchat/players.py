"""Who is compared with whom: the candidate, models that speak in the run, and stored dialogues.

A player gives the lines of its dialogue for a sample; a duel is one comparison of two players'
lines, in one of its two orders. Nothing is asked or scored here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from mmconv.benchmarks.botchat.chains import Line, Speaker, written
from mmconv.benchmarks.botchat.data import Sample
from mmconv.benchmarks.botchat.dialogue_files import HUMAN, StoredDialogue
from mmconv.benchmarks.botchat.options import BotChatOptions
from mmconv.benchmarks.botchat.stored_dialogues import stored_dialogues
from mmconv.benchmarks.data_files.bad_records import name_few
from mmconv.benchmarks.shared.scoring import Outcomes
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.keys import hash_json
from mmconv.core.types import Ref, Reply

GTEVAL = "GTEval"
PAIREVAL = "PairEval"
ORDERS = ("1", "2")
"""Which conversation of the prompt is the model's; both are judged, and both count."""

_DIGITS = 16
"""How many digits of a dialogue's hash are kept: manifests have one for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """A model with its dialogues: those that `speaker` makes in the run, or `stored` ones by index.

    The candidate's dialogue is made for every sample, another speaker's where it is compared. A
    stored player may lack some.
    """

    name: str
    speaker: Speaker | None = None
    stored: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def digests(self) -> dict[str, str]:
        """A short hash of every stored dialogue by its sample's index."""
        return {index: hash_json(said)[:_DIGITS] for index, said in sorted(self.stored.items())}

    def lacks(self, sample: Sample) -> bool:
        """Whether it has no dialogue of the sample, and makes none."""
        return self.speaker is None and sample.index not in self.stored

    def lines(self, sample: Sample, count: int) -> tuple[Line, ...]:
        """The first `count` utterances of its dialogue; none where it lacks the dialogue."""
        if self.speaker is not None:
            return self.speaker.lines(sample.seed, count)
        return written(self.stored.get(sample.index, ())[:count])


@dataclass(frozen=True, slots=True, kw_only=True)
class Duel:
    """One comparison: `model`'s lines with those of `opponent`, which may be the human dialogue.

    `order` says which conversation of the prompt is the model's; `searched` are the model's and
    the opponent's lines that DupDetect looks at. `lacking` is who lacks a dialogue, None if nobody.
    """

    protocol: str
    model: str
    opponent: str
    length: int
    order: str
    own: tuple[Line, ...]
    other: tuple[Line, ...]
    searched: tuple[tuple[Line, ...], tuple[Line, ...]]
    lacking: str | None = None

    @property
    def call_id(self) -> str:
        """The id of the call that judges it."""
        if self.protocol == GTEVAL:
            return f"gteval/{self.order}"
        return f"paireval/{self.model}/{self.opponent}/{self.length}/{self.order}"

    @property
    def is_void(self) -> bool:
        """Whether nothing is asked: a dialogue is lacking, or both are the same text for sure."""
        return self.lacking is not None or self.own == self.other


def human_duels(sample: Sample, candidate: Player, options: BotChatOptions) -> Iterator[Duel]:
    """GTEval's two duels: the candidate's dialogue cut to the length of the human one.

    A human dialogue that is longer than the generated ones is cut to their length.
    """
    human = Player(name=HUMAN, stored={sample.index: sample.human})
    length = min(len(sample.human), options.utterances)
    yield from _duels(GTEVAL, sample, (candidate, human), length, options)


def player_duels(
    sample: Sample, pairs: Sequence[tuple[Player, Player]], options: BotChatOptions
) -> Iterator[Duel]:
    """PairEval's duels: each pair at each length, in both orders."""
    for length in options.cuts:
        for pair in pairs:
            yield from _duels(PAIREVAL, sample, pair, length, options)


def _duels(
    protocol: str,
    sample: Sample,
    pair: tuple[Player, Player],
    length: int,
    options: BotChatOptions,
) -> Iterator[Duel]:
    model, opponent = pair
    searched = length if options.dup_detect.scope == "compared" else options.utterances
    for order in ORDERS:
        yield Duel(
            protocol=protocol,
            model=model.name,
            opponent=opponent.name,
            length=length,
            order=order,
            own=model.lines(sample, length),
            other=opponent.lines(sample, length),
            searched=(model.lines(sample, searched), opponent.lines(sample, searched)),
            lacking=next((player.name for player in pair if player.lacks(sample)), None),
        )


def pair_up(players: Sequence[Player], how: str) -> tuple[tuple[Player, Player], ...]:
    """The pairs that are compared: the first player with each other one, or `all`."""
    pairs = combinations(players, 2)
    return tuple(pair for pair in pairs if how == "all" or pair[0] is players[0])


def spoken(lines: Sequence[Line], outcomes: Outcomes) -> tuple[str, ...] | None:
    """The lines as texts; None if one of them was never said."""
    texts = [_said(line, outcomes) for line in lines]
    said = tuple(text for text in texts if text is not None)
    return said if len(said) == len(texts) else None


def stored_players(options: BotChatOptions, indexes: frozenset[str]) -> Iterator[Player]:
    """The models in the files of opponents, with their dialogues of these indexes.

    A run's folder may lack dialogues, as calls of the run failed. Raises `DataError` for a model
    without any that is long enough, and for what is missing or too short in a file, all in one
    message.
    """
    length = max(options.cuts)
    for path in options.opponents:
        stored: dict[str, dict[str, StoredDialogue]] = {}
        for dialogue in stored_dialogues(path):
            if dialogue.model != HUMAN and dialogue.index in indexes:
                stored.setdefault(dialogue.model, {})[dialogue.index] = dialogue
        _check_stored(path, stored, indexes, length)
        for model, dialogues in stored.items():
            texts = {index: each.utterances for index, each in dialogues.items()}
            whole = {index: said for index, said in texts.items() if len(said) >= length}
            yield Player(name=model, stored=whole)


def check_names(players: Sequence[Player]) -> None:
    """Raise `ConfigError` unless all players, and the human, have names of their own."""
    names = [HUMAN, *(player.name for player in players)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(
            f"several players are named {', '.join(twice)}: set `name` in a model's file, or "
            "rename a column of the opponents' file"
        )


def _said(line: Line, outcomes: Outcomes) -> str | None:
    if not isinstance(line, Ref):
        return line.text
    outcome = outcomes.get(line.call)
    return outcome.text if isinstance(outcome, Reply) else None


def _check_stored(
    path: Path,
    stored: Mapping[str, Mapping[str, StoredDialogue]],
    indexes: frozenset[str],
    length: int,
) -> None:
    if not stored:
        raise DataError(
            str(path),
            ["holds no dialogue of any sample that is compared"],
            "Name the folder of a BotChat run over the same data, or a file of dialogues in the "
            "authors' way: an index, and a column for each model.",
        )
    short = {
        model: [each for each in dialogues.values() if len(each.utterances) < length]
        for model, dialogues in stored.items()
    }
    if path.is_dir():
        needed = f"a dialogue of {length} utterances for a sample with a long human part"
        problems = [
            f"{model}: none of {len(each)} dialogues has {length} utterances"
            for model, each in short.items()
            if len(each) == len(stored[model])
        ]
    else:
        needed = f"{length} utterances for each sample with a long human part"
        problems = [
            f"{model}: no dialogue of {name_few(missing)}"
            for model, dialogues in stored.items()
            if (missing := sorted(indexes - dialogues.keys()))
        ] + [
            f"{each.where}: {model} has {len(each.utterances)} utterances, not {length}"
            for model, dialogues in short.items()
            for each in dialogues
        ]
    if problems:
        raise DataError(str(path), problems, f"Every model needs {needed}.")
