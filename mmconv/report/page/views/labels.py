"""What the page calls the conditions and metrics of benchmarks whose own names are short."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mmconv.benchmarks.botchat.dialogues import CON, UNCON
from mmconv.benchmarks.fbbench.benchmark import CONDITION as PRESET
from mmconv.benchmarks.fbbench.metrics import ODDITIES
from mmconv.benchmarks.mtbench101 import GOLDEN, SELF

NO_LABELS: Mapping[str, str] = MappingProxyType({})

_AUTHORS = "the authors' reading"

BOTCHAT = MappingProxyType(
    {
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

CMTEVAL = MappingProxyType(
    {
        "IS": "IS, synthesis (1-5)",
        "Adp": "Adp, adaptability (1-5)",
        "TLS": "TLS, mean of IS and Adp",
        "DLS": "DLS, mean of the turns",
        "DLS_min": "DLS, lowest turn",
        "merged": "turn judged with others",
        "surplus": "scores for turns that are not there",
        "authors_IS": f"IS, {_AUTHORS}",
        "authors_Adp": f"Adp, {_AUTHORS}",
    }
)

FBBENCH = MappingProxyType(
    {
        PRESET: "preset first answer",
        "score": "score (0 to 1)",
        "authors": f"score, {_AUTHORS}",
        **ODDITIES,
    }
)

MTBENCH101 = MappingProxyType(
    {
        GOLDEN: "golden history",
        SELF: "self history",
        "rating": "rating of a turn",
        "authors": f"rating, {_AUTHORS}",
        "dialogue": "score of the dialogue",
    }
)
