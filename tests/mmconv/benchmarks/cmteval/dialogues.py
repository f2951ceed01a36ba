"""Made-up dialogues in the layout of CMT-Eval's files, a benchmark of them, the authors' files."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from mmconv.benchmarks.cmteval.benchmark import CMTEval
from mmconv.core.config import ModelSpec, RunSpec

REAL = Path(__file__).parents[5] / "shared" / "data" / "cmteval"

ACTS = ("初始问题", "追问", "建议+反馈", "话题转移", "建议+建议")


def turn(number: int, key: str = "1") -> dict[str, Any]:
    return {
        "轮次": number,
        "用户query": f"{key}号的第{number}个问题，你怎么看？",
        "言语行为": ACTS[number - 1],
        "预设回复": "不给任何人看",
    }


def record(key: str = "1", turns: int = 3, **fields: Any) -> dict[str, Any]:
    return {
        "origin_id": key,
        "评测能力": "上文记忆保持",
        "用户角色": "齐业",
        "会话内容": [turn(number, key) for number in range(1, turns + 1)],
        **fields,
    }


def long_record(key: str = "1", turns: int = 3) -> dict[str, Any]:
    made = record(key, turns)
    del made["origin_id"]
    made["会话内容"][0]["用户query"] = "很长的文章\n文章讲了什么？"
    return {"ID": key, **made}


def hard_record(key: str = "1", turns: int = 3) -> dict[str, Any]:
    made = record(key, turns)
    for each, strategy in zip(made["会话内容"], "ABD", strict=False):
        each["难度设计方法"] = strategy
        each["用户query"] = f"更难的：{each['用户query']}"
    return made


def reference(key: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "ID": key,
        "role": "齐业",
        "text": "很长的文章",
        "summary": "一篇文章的摘要",
        "initial_question": "文章讲了什么？",
        "qa_pairs": '[{"question": "文章讲了什么？", "answer": "风筝。"}]',
        **fields,
    }


def write(path: Path, records: Iterable[Any]) -> Path:
    """As the authors write: JSON, here with a byte order mark."""
    path.write_bytes(b"\xef\xbb\xbf" + orjson.dumps(list(records)))
    return path


def write_folder(folder: Path, dialogues: int = 2) -> Path:
    """All three subsets and the references, under the authors' names."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = [str(number) for number in range(1, dialogues + 1)]
    write(folder / "standard_data.json", map(record, keys))
    write(folder / "hard_data.json", map(hard_record, keys))
    write(folder / "long-text_data.json", map(long_record, keys))
    write(folder / "long-text_summary_QA_data.json", [reference(int(key)) for key in keys])
    return folder


def published(made: Mapping[str, Any], *scores: tuple[int, int]) -> list[dict[str, Any]]:
    """A record with scores as the authors publish it, in a list of its own."""
    turns = []
    for each, (synthesis, adaptability) in zip(made["会话内容"], scores, strict=True):
        turns.append(
            {
                **each,
                "模型回复": "好的。",
                "统筹能力": synthesis,
                "适应能力": adaptability,
                "评分理由": f"第{each['轮次']}轮的理由",
                "本轮评分": (synthesis + adaptability) / 2,
            }
        )
    mean = sum(each["本轮评分"] for each in turns) / len(turns)
    return [{**made, "会话内容": turns, "整体评分": round(mean, 2)}]


class NoImages:
    def add_file(self, path: str) -> Any:
        raise AssertionError(f"no image belongs here: {path}")

    def add_bytes(self, data: bytes, where: str) -> Any:
        raise AssertionError(f"no image belongs here: {where}")


def spec(data: Path | Mapping[str, Path], **options: Any) -> RunSpec:
    model = ModelSpec(provider="fake", model="echo")
    return RunSpec(
        benchmark="cmteval",
        options={"data": data, **options},
        models={"candidate": model, "judge": model},
    )


def built(data: Path | Mapping[str, Path], **options: Any) -> CMTEval:
    return loaded(spec(data, **options))


def loaded(run: RunSpec) -> CMTEval:
    benchmark = CMTEval(run)
    benchmark.load_data(NoImages())
    return benchmark
