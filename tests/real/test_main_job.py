"""The main job on the authors' own file and images: ConvBench, three conditions, both gradings.

Here with a tiny LLaVA in process and the reference judge; in `test_vllm` with a served model, where
that server runs. The models know nothing; the tests check that every number is there, over the
right n.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.real.servers import ROOT
from tests.tiny_checkpoints import make_checkpoint

DATA = ROOT.parent / "shared" / "data" / "convbench"
ROWS = 8
"""Rows of the sample of annotations; the other 570 rows lack references."""

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the authors' data is not beside us")


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
    command = [sys.executable, "-m", "mmconv", "run", str(file), "--out", str(out / "runs")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
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


@needs_data
def test_a_model_in_process_and_the_reference_judge(tmp_path: Path) -> None:
    checkpoint = make_checkpoint("llava", tmp_path / "llava")
    candidate = {"provider": "hf", "model": str(checkpoint), "options": {"dtype": "float32"}}
    judge = {"provider": "reference", "model": "chrf"}
    run(tmp_path, {"candidate": candidate, "judge": judge})
    check_tables(tmp_path)
