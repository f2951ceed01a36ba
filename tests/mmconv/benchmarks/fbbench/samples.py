"""Made-up dialogues in FB-Bench's format, and the authors' files if they are on this machine."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from images import ImageStore
from mmconv.benchmarks.fbbench import Dialogue, FBBench
from mmconv.core.config import ModelSpec, RunSpec

AUTHORS = Path(__file__).parents[5] / "shared" / "data" / "fbbench"
RELEASE = AUTHORS / "fb_bench_dataset_v3.json"
JUDGED = AUTHORS / "judgment_Ministral-8B-Instruct-2410.jsonl"

needs_release = pytest.mark.skipif(not RELEASE.is_file(), reason="the authors' data is not there")
needs_judged = pytest.mark.skipif(not JUDGED.is_file(), reason="the authors' data is not there")

FAKE = ModelSpec(provider="fake", model="echo")


def correction(number: int = 1, **fields: Any) -> dict[str, Any]:
    """A record of error correction."""
    record = {
        "bench_type": "Error Correction",
        "task_type": "Mathematics",
        "sub_task_type": "Arithmetic",
        "user_query": f"{number}加{number}等于几？",
        "origin_first_response": f"等于{number}。",
        "feedback": "你算错了。",
        "error_type": ["Logical Error"],
        "feedback_type": ["Pointing Out Errors"],
        "checklist": [["回答是否致歉", 0.3], [f"回答是否为{2 * number}", 0.7]],
    }
    return {**record, **fields}


def maintenance(number: int = 1, **fields: Any) -> dict[str, Any]:
    """A record of response maintenance."""
    record = {
        "bench_type": "Response Maintenance",
        "task_type": "Text Creation",
        "sub_task_type": "Generation",
        "user_query": f"写{number}个成语。",
        "origin_first_response": "一心一意" * number,
        "feedback": "我是语文老师，这些不是成语。",
        "error_type": None,
        "feedback_type": ["Credibility Support"],
        "checklist": ["是否坚持这些是成语", "如果认同用户反馈，是否仍给出成语"],
    }
    return {**record, **fields}


def mixed(count: int) -> list[dict[str, Any]]:
    """This many records of either kind, in turn."""
    return [correction(n) if n % 2 else maintenance(n) for n in range(1, count + 1)]


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    """Write a data file as the authors do."""
    path.write_bytes(orjson.dumps(records))
    return path


def sample(record: dict[str, Any]) -> Dialogue:
    """The record as a sample."""
    return Dialogue.model_validate(record)


def without_data(prompts: Path | None = None, **options: Any) -> FBBench:
    """The benchmark with fakes; no data file is read."""
    options = {"data": "unread", **options}
    roles = {"candidate": FAKE, "judge": FAKE}
    return FBBench(RunSpec(benchmark="fbbench", options=options, models=roles, prompts=prompts))


def benchmark(data: Path, **options: Any) -> FBBench:
    """The benchmark on a data file, with fakes."""
    loaded = without_data(data=str(data), **options)
    loaded.load_data(ImageStore())
    return loaded
