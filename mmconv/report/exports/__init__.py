"""Exports of a run for other tools: one function for each, listed in `TOOLS`."""

from __future__ import annotations

from typing import NamedTuple


class Tool(NamedTuple):
    """A tool that a run can be exported to.

    `write` is `MODULE:FUNCTION`: it takes a `FinishedRun` and a folder, and returns the paths that
    it wrote. `then` is what a user does next, with `{out}` for the folder. `package` must be
    importable.
    """

    write: str
    then: str
    package: str = ""


_DIALOGUES = "mmconv.report.exports.dialogues"
_ESTIMATES = "mmconv.report.exports.estimates"

TOOLS = {
    # the log needs the run's data and cache: `mmconv.cli.results` replays the run for it
    "inspect": Tool("", "`inspect view --log-dir {out}` shows it", "inspect_ai"),
    "lmms-eval": Tool(
        f"{_DIALOGUES}:write_lmms_eval",
        "lines of lmms-eval's `--log_samples`, a file for each condition",
    ),
    "vlmevalkit": Tool(
        f"{_DIALOGUES}:write_vlmevalkit",
        "prediction files of a multi-turn dataset, one for each condition",
    ),
    "mt-bench": Tool(
        f"{_DIALOGUES}:write_mt_bench",
        "the folder of a benchmark for FastChat's llm_judge (data/mt_bench)",
    ),
    "every-eval-ever": Tool(
        f"{_ESTIMATES}:write_every_eval_ever",
        "fill in source_metadata; `every_eval_ever validate` (pip install every-eval-ever) checks "
        "it",
    ),
    "trackio": Tool(
        f"{_ESTIMATES}:write_trackio", "`TRACKIO_DIR={out} trackio show` shows it", "trackio"
    ),
    "wandb": Tool(
        f"{_ESTIMATES}:write_wandb", "`wandb sync {out}/wandb/offline-run-*` uploads it", "wandb"
    ),
    "mlflow": Tool(
        f"{_ESTIMATES}:write_mlflow",
        "`mlflow ui --backend-store-uri sqlite:///{out}/mlflow.db` shows it",
        "mlflow",
    ),
}
