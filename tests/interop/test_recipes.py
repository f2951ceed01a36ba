"""The recipes of sweeps, read by KubeRay's schema and SkyPilot's own parser."""

import os
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.doc_pages import ROOT
from tests.interop.conftest import interpreter

jsonschema = pytest.importorskip("jsonschema")
SWEEPS = ROOT / "configs" / "sweeps"

READ_TASK = """
import json, sys
import sky
task = sky.Task.from_yaml(sys.argv[1])
[resources] = task.resources
print(json.dumps([task.num_nodes, resources.accelerators, resources.use_spot, [*task.envs]]))
"""


def test_kuberay_knows_every_field_of_the_job() -> None:
    path = os.environ.get("MMCONV_TEST_KUBERAY_SCHEMA")
    if path is None:
        pytest.skip("MMCONV_TEST_KUBERAY_SCHEMA names no file (make interop downloads it)")
    definition = yaml.load(Path(path).read_bytes(), yaml.CSafeLoader)
    job = yaml.safe_load((SWEEPS / "rayjob.yaml").read_text(encoding="utf-8"))
    [schema] = [
        version["schema"]["openAPIV3Schema"]
        for version in definition["spec"]["versions"]
        if job["apiVersion"] == f"{definition['spec']['group']}/{version['name']}"
    ]
    close(schema)
    schema["properties"]["metadata"] = {"required": ["name"]}  # Kubernetes itself checks it
    jsonschema.validate(job, schema)
    job["spec"]["rayClusterSpec"]["workerGroups"] = []
    with pytest.raises(jsonschema.ValidationError, match="'workerGroups' was unexpected"):
        jsonschema.validate(job, schema)


def close(node: Any) -> None:
    """Refuse unknown fields, as `kubectl apply` does; the schema is changed in place."""
    if isinstance(node, list):
        for each in node:
            close(each)
    elif isinstance(node, dict):
        if "properties" in node and not node.get("x-kubernetes-preserve-unknown-fields"):
            node.setdefault("additionalProperties", False)
        if node.get("x-kubernetes-int-or-string"):
            node.pop("type", None)
        for each in node.values():
            close(each)


def test_skypilot_reads_the_task(tmp_path: Path) -> None:
    sky = interpreter("MMCONV_TEST_SKYPILOT_PYTHON", ROOT)
    read = sky("-c", READ_TASK, SWEEPS / "skypilot.yaml", HOME=str(tmp_path))
    assert orjson.loads(read.splitlines()[-1]) == [1, {"H100": 8}, True, ["SWEEP", "STORE"]]
