"""Exports of a run for other tools: one function for each, listed in `TOOLS`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that a run can be exported to.

    `write` is `MODULE:FUNCTION`: it takes a `FinishedRun` and a folder, and returns the paths that
    it wrote. `package` must be importable and is installed by `pip install PIP`. `then` is what a
    user does next, with `{out}` for the folder.
    """

    write: str
    then: str
    package: str = ""
    pip: str = ""


_DIALOGUES = "mmconv.report.exports.dialogues"
_ESTIMATES = "mmconv.report.exports.estimates"

TOOLS = {
    "inspect": Tool(
        # the log needs the run's data and cache: `mmconv.cli.results` replays the run for it
        write="",
        then="`inspect view --log-dir {out}` shows it",
        package="inspect_ai",
        pip="inspect-ai",
    ),
    "lmms-eval": Tool(
        write=f"{_DIALOGUES}:write_lmms_eval",
        then="lines of lmms-eval's `--log_samples`, a file for each condition",
    ),
    "vlmevalkit": Tool(
        write=f"{_DIALOGUES}:write_vlmevalkit",
        then="prediction files of a multi-turn dataset, one for each condition",
    ),
    "mt-bench": Tool(
        write=f"{_DIALOGUES}:write_mt_bench",
        then="the folder of a benchmark for FastChat's llm_judge (data/mt_bench)",
    ),
    "every-eval-ever": Tool(
        write=f"{_ESTIMATES}:write_every_eval_ever",
        then="fill in source_metadata; `every_eval_ever validate` (pip install every-eval-ever) "
        "checks it",
    ),
    "trackio": Tool(
        write=f"{_ESTIMATES}:write_trackio",
        then="`TRACKIO_DIR={out} trackio show` shows it",
        package="trackio",
        pip="trackio",
    ),
    "wandb": Tool(
        write=f"{_ESTIMATES}:write_wandb",
        then="`wandb sync {out}/wandb/offline-run-*` uploads it",
        package="wandb",
        pip="wandb",
    ),
    "mlflow": Tool(
        write=f"{_ESTIMATES}:write_mlflow",
        then="`mlflow ui --backend-store-uri sqlite:///{out}/mlflow.db` shows it",
        package="mlflow",
        pip="mlflow",
    ),
}
