"""What a server is started with, and which of its options change the name of its model."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from model_zoo import vllm_server
from model_zoo.vllm_options import VllmOptions
from model_zoo.vllm_server import command, device_groups, facts, fingerprint
from tests.model_zoo.vllm_support import model


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A folder that passes for a checkpoint where nobody loads it."""
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "qwen2_vl"}')
    (folder / "model.bin").write_bytes(b"\0" * 64)
    return folder


def test_a_chat_template_counts_by_its_text(checkpoint: Path) -> None:
    file = checkpoint.parent / "own.jinja"
    file.write_text("{{ messages }}")
    options = {"chat_template": str(file)}
    before = fingerprint(model(checkpoint, **options)), facts(model(checkpoint, **options))
    assert before[0] != fingerprint(model(checkpoint))
    file.write_text("{{ messages }} ")
    assert fingerprint(model(checkpoint, **options)) != before[0]
    assert facts(model(checkpoint, **options)) != before[1]
    assert facts(ModelSpec(provider="vllm", model="m", base_url="http://node:8000/v1")) == {}


FLAGS = {
    "--model": "org/name",
    "--served-model-name": "name",
    "--host": "127.0.0.1",
    "--port": "8000",
    "--tensor-parallel-size": "2",
    "--dtype": "bfloat16",
    "--max-model-len": "4096",
    "--limit-mm-per-prompt": '{"image":3}',
    "--mm-processor-kwargs": '{"max_pixels":1003520}',
    "--revision": "0123abc",
}


def test_options_become_flags() -> None:
    options = {
        "tensor_parallel_size": 2,
        "dtype": "bfloat16",
        "max_model_len": 4096,
        "limit_images": 3,
        "max_pixels": 1003520,
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "revision": "0123abc",
        "trust_remote_code": True,
        "extra_args": ["--swap-space", "2"],
        "python": "/opt/vllm/bin/python",
    }
    spec = model("org/name", **options)
    line = command(spec, VllmOptions(**options), 8000, "mmconv-0", None)
    assert line[:3] == ["/opt/vllm/bin/python", "-m", "vllm.entrypoints.openai.api_server"]
    assert dict(pairwise(line)).items() >= FLAGS.items()
    assert line[line.index("--served-model-name") :][1:3] == ["name", "mmconv-0"]
    assert {"--no-enable-prefix-caching", "--enforce-eager", "--trust-remote-code"} <= set(line)
    assert line[-2:] == ["--swap-space", "2"]


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ({"max_pixels": 50176}, (3136, 50176)),
        ({"min_pixels": 784}, (784, 12845056)),
        ({"min_pixels": 784, "max_pixels": 50176}, (784, 50176)),
        ({"max_pixels": 784}, (784, 784)),
        ({"min_pixels": 20_000_000}, (20_000_000, 20_000_000)),
    ],
)
def test_a_processor_of_areas_gets_both_bounds_by_its_own_names(
    checkpoint: Path, given: dict[str, int], size: tuple[int, int]
) -> None:
    own = {"min_pixels": 3136, "max_pixels": 12845056, "merge_size": 2}
    (checkpoint / "preprocessor_config.json").write_text(json.dumps(own))
    line = command(model(checkpoint, **given), VllmOptions(**given), 8000, "mmconv-0", None)
    told = json.loads(dict(pairwise(line))["--mm-processor-kwargs"])
    assert told == {"size": {"shortest_edge": size[0], "longest_edge": size[1]}}
    assert "--mm-processor-kwargs" not in command(
        model(checkpoint), VllmOptions(), 8000, "mmconv-0", None
    )


def test_what_is_not_said_is_left_to_vllm() -> None:
    line = command(model("org/name"), VllmOptions(), 8000, "mmconv-0", None)
    flags = {word for word in line if word.startswith("--")}
    assert flags == {
        "--model",
        "--served-model-name",
        "--host",
        "--port",
        "--tensor-parallel-size",
        "--data-parallel-size",
        "--enable-prefix-caching",
        "--disable-uvicorn-access-log",
    }


def test_gpus_are_shared_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(vllm_server, "_DEVICE_FILES", tmp_path)
    assert device_groups(VllmOptions()) == [{}]
    groups = device_groups(VllmOptions(replicas=2, tensor_parallel_size=2, data_parallel_size=2))
    assert [group["CUDA_VISIBLE_DEVICES"] for group in groups] == ["0,1,2,3", "4,5,6,7"]
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert len(device_groups(VllmOptions(replicas=2))) == 2
    with pytest.raises(ConfigError, match="replicas=3 needs 3 GPUs, but this machine has 2"):
        device_groups(VllmOptions(replicas=3))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b,GPU-c")
    groups = device_groups(VllmOptions(replicas=3))
    assert [group["CUDA_VISIBLE_DEVICES"] for group in groups] == ["GPU-a", "GPU-b", "GPU-c"]


def test_the_fingerprint_names_what_changes_replies(checkpoint: Path) -> None:
    plain = fingerprint(model(checkpoint))
    assert plain == fingerprint(model(checkpoint))
    same: list[dict[str, Any]] = [
        {"replicas": 4, "tensor_parallel_size": 2, "gpu_memory_utilization": 0.5},
        {"python": "/elsewhere/python", "env": {"A": "b"}, "log_folder": "logs"},
        {"enforce_eager": True, "enable_prefix_caching": False, "limit_images": 9},
    ]
    assert {fingerprint(model(checkpoint, **each)) for each in same} == {plain}
    different: list[dict[str, Any]] = [
        {"dtype": "float16"},
        {"max_model_len": 4096},
        {"max_pixels": 50176},
        {"quantization": "fp8"},
        {"extra_args": ["--kv-cache-dtype", "fp8"]},
        {"extra_body": {"top_k": 1}},
        {"guided_json": False},
    ]
    assert len({plain, *(fingerprint(model(checkpoint, **each)) for each in different)}) == 8
    (checkpoint / "config.json").write_text('{"model_type": "other"}')
    assert fingerprint(model(checkpoint)) != plain
