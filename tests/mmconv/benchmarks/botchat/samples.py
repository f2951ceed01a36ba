"""Dialogues of our own making in BotChat's layouts, and the authors' file where it lies."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from images import ImageStore
from mmconv.benchmarks.botchat.benchmark import BotChat
from mmconv.core.config import ModelSpec, RunSpec

MUTUAL = Path(__file__).parents[5] / "shared" / "data" / "botchat" / "MuTual_test.xlsx"

needs_mutual = pytest.mark.skipif(not MUTUAL.is_file(), reason="the authors' data is not there")

SPEAKER = ModelSpec(provider="tests.mmconv.benchmarks.botchat.speaker", model="first")
OTHER = SPEAKER.model_copy(update={"model": "second"})
JUDGE = ModelSpec(provider="fake", model="judge")


def dialogue(name: str, count: int) -> list[str]:
    """So many utterances that do not repeat each other."""
    return [f"{name} {'abcdefghijklmnopqrstuvwxyz'[place] * 12}." for place in range(count)]


def lay_out(utterances: Sequence[str]) -> str:
    """A dialogue as the authors write it for a judge."""
    said = (f"{'AB'[place % 2]}: {each}<chat_end>" for place, each in enumerate(utterances))
    return "\n".join(said)


def record(number: int, count: int = 5, **fields: Any) -> dict[str, Any]:
    """A human dialogue of `count` utterances."""
    return {
        "index": f"MT-{number}",
        "conv-GT": orjson.dumps(dialogue(f"Human {number}", count)).decode(),
        "nround": count,
        **fields,
    }


def write(path: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    """Write a data file: .jsonl or .tsv."""
    rows = list(records)
    if path.suffix == ".jsonl":
        path.write_bytes(b"\n".join(map(orjson.dumps, rows)))
        return path
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
    return path


def opponents(path: Path, dialogues: Mapping[str, Sequence[Sequence[str]]]) -> Path:
    """Dialogues as in MuTualTest-convs.tsv: a column per model, a row per index from MT-1 on."""
    count = max(map(len, dialogues.values()))
    return write(
        path,
        [
            {
                "index": f"MT-{place + 1}",
                "nround": 16,
                **{
                    model: orjson.dumps(list(own[place])).decode()
                    for model, own in dialogues.items()
                },
            }
            for place in range(count)
        ],
    )


def compared(
    index: str, left: str, right: str, texts: tuple[Sequence[str], Sequence[str]], reply: str
) -> dict[str, str]:
    """A row of GTEval.tsv."""
    return {
        "cmp_index": f"{index};{left};{right}",
        "A": left,
        "B": right,
        "conversation1": lay_out(texts[0]),
        "conversation2": lay_out(texts[1]),
        "gpt4": reply,
    }


def spec(data: Path, **fields: Any) -> RunSpec:
    """A run over `data`; fields that are not the run's own are options."""
    known = ("models", "conditions", "limit", "samples", "prompts", "trials")
    own = {name: fields.pop(name) for name in known if name in fields}
    roles = {"candidate": SPEAKER, "judge": JUDGE}
    return RunSpec(
        benchmark="botchat", options={"data": str(data), **fields}, **{"models": roles, **own}
    )


def built(data: Path, **fields: Any) -> BotChat:
    """The benchmark of such a run."""
    benchmark = BotChat(spec(data, **fields))
    benchmark.load_data(ImageStore())
    return benchmark
