"""Exports of a run for other tools: one function for each, listed in `TOOLS`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mmconv.report.exports import dialogues, estimates
from mmconv.run_folder.saved_run import FinishedRun


class Tool(NamedTuple):
    """A tool that a run can be exported to.

    `write` takes a run and a folder, and returns the paths that it wrote. `then` is what a user
    does next, with `{out}` for the folder. `package` must be importable.
    """

    write: Callable[[FinishedRun, Path], list[Path]] | None
    then: str
    package: str = ""


TOOLS = {
    # the log needs the run's data and cache: `mmconv.cli.results` replays the run for it
    "inspect": Tool(None, "`inspect view --log-dir {out}` shows it", "inspect_ai"),
    "lmms-eval": Tool(
        dialogues.write_lmms_eval,
        "lines of lmms-eval's `--log_samples`, a file for each condition",
    ),
    "vlmevalkit": Tool(
        dialogues.write_vlmevalkit,
        "prediction files of a multi-turn dataset, one for each condition",
    ),
    "mt-bench": Tool(
        dialogues.write_mt_bench,
        "the folder of a benchmark for FastChat's llm_judge (data/mt_bench)",
    ),
    "every-eval-ever": Tool(
        estimates.write_every_eval_ever,
        "fill in source_metadata; `every_eval_ever validate` (pip install every-eval-ever) checks "
        "it",
    ),
    "trackio": Tool(
        estimates.write_trackio, "`TRACKIO_DIR={out} trackio show` shows it", "trackio"
    ),
    "wandb": Tool(
        estimates.write_wandb, "`wandb sync {out}/wandb/offline-run-*` uploads it", "wandb"
    ),
    "mlflow": Tool(
        estimates.write_mlflow,
        "`mlflow ui --backend-store-uri sqlite:///{out}/mlflow.db` shows it",
        "mlflow",
    ),
}
