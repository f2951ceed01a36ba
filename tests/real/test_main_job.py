"""The main job on the authors' own file and images: ConvBench, three conditions, both gradings.

Once with a tiny Qwen2-VL behind a real vLLM as candidate and judge, once with a tiny LLaVA in
process and the reference judge. The models know nothing; what is tested is that every number that
should be there is there, over the right n.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mmconv.cli import commands
from tests.real.servers import ROOT, RealVllm
from tests.tiny_checkpoints import make_checkpoint

DATA = ROOT.parent / "shared" / "data" / "convbench"
ROWS = 8
"""Rows of the sample of annotations; the other 570 rows lack references."""

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the authors' data is not beside us")

BOTH_VERDICTS = r"Rating: [1-9]\nOverall, Response [AB] is better\."
"""What the served model is guided to say: it would never say anything readable by itself."""


def run(out: Path, roles: dict[str, Any], **options: Any) -> None:
    spec = {
        "benchmark": "convbench",
        "options": {
            "data": str(DATA / "ConvBench.xlsx"),
            "images": str(DATA / "visit_bench_images"),
            "annotations": str(DATA / "annotations_sample.jsonl"),
            "positions": str(DATA / "pairwise.npy"),
            "order": "authors",
            "skip_bad_records": True,
            "max_tokens": 16,
            **options,
        },
        "models": roles,
    }
    file = out / "run.yaml"
    file.write_text(yaml.safe_dump(spec), encoding="utf-8")
    done = CliRunner().invoke(commands, ["run", str(file), "--out", str(out / "runs")])
    assert done.exit_code == 0, done.output
    assert "570 of 578 records are left out" in done.stdout


def table(out: Path, name: str) -> dict[str, Any]:
    [path] = out.glob(f"runs/convbench-*/tables/{name}.json")
    rows: dict[str, Any] = json.loads(path.read_text())["rows"]
    return rows


def check_tables(out: Path) -> None:
    for quantity, row in table(out, "scores").items():
        for column in ("direct (1-10)", "pairwise win rate (%)"):
            assert row[column]["n"] == ROWS, (quantity, column, row)
            assert row[column]["missing"] == {}
            assert row[column]["value"] is not None
    assert set(table(out, "deltas")) == {
        "S2_hat - S2",
        "S3_hat - S3",
        "S0_hat - S0",
        "S3_tilde - S3_hat",
        "S0_tilde - S0_hat",
    }
    for row in table(out, "deltas").values():
        assert row["direct (1-10)"]["n"] == ROWS
    [position] = {
        (row["win rate as A (%)"]["n"], row["win rate as B (%)"]["n"])
        for row in table(out, "position").values()
    }
    assert sum(position) == ROWS


@pytest.mark.real
def test_a_served_model_as_candidate_and_judge(tmp_path: Path, real_vllm: RealVllm) -> None:
    served = {
        "provider": "vllm",
        "model": real_vllm.spec.label,
        "base_url": real_vllm.backend.base_url,
        "options": {"max_pixels": 224 * 224},
    }
    guided = {"structured_outputs": {"regex": BOTH_VERDICTS}}
    judge = {**served, "options": {"extra_body": guided}}
    run(tmp_path, {"candidate": served, "judge": judge})
    check_tables(tmp_path)


def test_a_model_in_process_and_the_reference_judge(tmp_path: Path) -> None:
    checkpoint = make_checkpoint("llava", tmp_path / "llava")
    candidate = {"provider": "hf", "model": str(checkpoint), "options": {"dtype": "float32"}}
    judge = {"provider": "reference", "model": "chrf"}
    run(tmp_path, {"candidate": candidate, "judge": judge})
    check_tables(tmp_path)
