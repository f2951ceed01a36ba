"""The run that is exported, and the interpreters that have the other tools."""

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import orjson
import pytest
from click.testing import CliRunner

from mmconv.cli import commands
from tests.doc_pages import ROOT
from tests.mmconv.report.runs import FAILING, make_run

Python: TypeAlias = Callable[..., str]
"""Calls an interpreter with these arguments in the folder of the test; returns what it prints."""

if "MMCONV_TEST_TRACKERS_PYTHON" not in os.environ:  # CI has none of the packages
    collect_ignore_glob = ["test_*"]

MMCONV = ("-c", "from mmconv.cli import main; main()")
"""The command line in an environment where mmconv is not installed."""


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of ConvBench in which some calls fail, with its page."""
    return asyncio.run(make_run("convbench", tmp_path_factory.mktemp("run"), FAILING, page=True))


def interpreter(variable: str, folder: Path) -> Python:
    python = os.environ.get(variable)
    if not python:
        pytest.skip(f"{variable} names no interpreter (make interop sets it)")

    def call(*arguments: object, **environment: str) -> str:
        done = subprocess.run(
            [python, *map(str, arguments)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return call


@pytest.fixture
def trackers(tmp_path: Path) -> Python:
    return interpreter("MMCONV_TEST_TRACKERS_PYTHON", tmp_path)


@pytest.fixture
def every_eval_ever(tmp_path: Path) -> Python:
    return interpreter("MMCONV_TEST_EEE_PYTHON", tmp_path)


@pytest.fixture
def lmms(tmp_path: Path) -> Python:
    return interpreter("MMCONV_TEST_LMMS_PYTHON", tmp_path)


@pytest.fixture
def vlmevalkit(tmp_path: Path) -> Python:
    return interpreter("MMCONV_TEST_VLMEVALKIT_PYTHON", tmp_path)


@pytest.fixture
def inspect(tmp_path: Path) -> Python:
    return interpreter("MMCONV_TEST_INSPECT_PYTHON", tmp_path)


def export(run: Path, tool: str, out: Path) -> Path:
    result = CliRunner().invoke(
        commands, ["export", str(run), "--to", tool, "--out", str(out)], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return out


def replayed_texts(run: Path) -> list[Any]:
    """The candidate's texts in a run, in its order."""
    lines = map(orjson.loads, (run / "transcripts.jsonl").read_bytes().splitlines())
    return [call["text"] for call in lines if call["model"] == "candidate"]
