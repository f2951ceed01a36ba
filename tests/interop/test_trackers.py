"""trackio, W&B and MLflow read back what was exported to them."""

from pathlib import Path
from typing import Any

import orjson

from mmconv.run_folder.saved_run import read_tables
from tests.interop.conftest import MMCONV, Python

TRACKIO = """
import json, sqlite3, sys, trackio
project, = sys.argv[1:]
run, = trackio.Api().runs(project)
database = sqlite3.connect(f"{trackio.utils.TRACKIO_DIR}/{project}.db")
(metrics,), = database.execute("select metrics from metrics")
files = [name for name, in database.execute("select name from artifacts")]
print(json.dumps([run.name, run.config, json.loads(metrics), files]))
"""

MLFLOW = """
import json, mlflow, sys
mlflow.set_tracking_uri(f"sqlite:///{sys.argv[1]}/mlflow.db")
run, = mlflow.search_runs(search_all_experiments=True, output_format="list")
files = [file.path for file in mlflow.MlflowClient().list_artifacts(run.info.run_id)]
print(json.dumps([run.info.run_name, run.data.params, run.data.metrics, files]))
"""

# W&B has no reader of its files in Python. They are logs of LevelDB with its own first 7 bytes:
# blocks of 32 KiB, and in them chunks with a header of 7 bytes (checksum, length, type).
WANDB = """
import json, pathlib, struct, sys
from wandb.proto.wandb_internal_pb2 import Record
path, = pathlib.Path(sys.argv[1]).glob("wandb/offline-run-*/*.wandb")
data, place, part, config, metrics, files, name = path.read_bytes(), 7, b"", {}, {}, [], ""
while place < len(data):
    if 32768 - place % 32768 < 7:
        place += 32768 - place % 32768
        continue
    _, length, kind = struct.unpack("<IHB", data[place:place + 7])
    part += data[place + 7:place + 7 + length]
    place += 7 + length
    if kind not in (1, 4):
        continue
    record = Record.FromString(part)
    part = b""
    if record.WhichOneof("record_type") == "run":
        name = record.run.display_name
        for item in record.run.config.update:
            config[item.key or ".".join(item.nested_key)] = json.loads(item.value_json)
    for item in record.history.item:
        metrics[item.key or ".".join(item.nested_key)] = json.loads(item.value_json)
    for item in record.artifact.manifest.contents:
        assert pathlib.Path(item.local_path).is_relative_to(pathlib.Path(sys.argv[1]).absolute())
        files.append(item.path.partition("/")[0])
print(json.dumps([name, config, metrics, sorted(set(files))]))
"""


def test_trackio(run: Path, trackers: Python, tmp_path: Path) -> None:
    trackers(*MMCONV, "export", run, "--to", "trackio", "--out", "out")
    output = trackers("-c", TRACKIO, "mmconv-convbench", TRACKIO_DIR=str(tmp_path / "out"))
    name, config, metrics, files = orjson.loads(output.splitlines()[-1])
    check(run, name, config, metrics)
    assert {f"{run.name}_tables", f"{run.name}_report.html"} <= {*files}


def test_wandb(run: Path, trackers: Python) -> None:
    trackers(*MMCONV, "export", run, "--to", "wandb", "--out", "out")
    output = trackers("-c", WANDB, "out")
    name, config, metrics, files = orjson.loads(output.splitlines()[-1])
    check(run, name, config, metrics)
    assert {"tables", "report.html", "manifest.json"} <= {*files}


def test_mlflow(run: Path, trackers: Python) -> None:
    trackers(*MMCONV, "export", run, "--to", "mlflow", "--out", "out")
    output = trackers("-c", MLFLOW, "out")
    name, config, metrics, files = orjson.loads(output.splitlines()[-1])
    check(run, name, config, metrics)
    assert {"tables", "report.html", "manifest.json"} <= {*files}


def check(run: Path, name: str, config: dict[str, Any], metrics: dict[str, float]) -> None:
    """The numbers are those of the run's tables."""
    assert name == run.name
    assert config["models.candidate.model"] == "failing"
    tables = {table.name: table for table in read_tables(run / "tables")}
    for key, table, row in (
        ("direct/S1", "scores", "S1"),
        ("direct_deltas/S3_hat - S3", "deltas", "S3_hat - S3"),
    ):
        cell = tables[table].rows[row]["direct (1-10)"]
        assert metrics[key] == cell.value
        assert metrics[f"{key}.n"] == cell.n
        assert metrics[f"{key}.missing"] == sum(cell.missing.values()) > 0
        assert metrics.get(f"{key}.low") == cell.low
