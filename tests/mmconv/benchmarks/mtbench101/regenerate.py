"""What the judge of each task reads, whole; write the golden files anew by running this module.

`python -m tests.mmconv.benchmarks.mtbench101.regenerate`, then read the diff.
"""

from __future__ import annotations

from pathlib import Path

from mmconv.benchmarks.mtbench101.grading import Grader
from mmconv.benchmarks.mtbench101.options import MTBench101Options
from mmconv.benchmarks.mtbench101.taxonomy import TASKS

from judges import PromptSet
from tests.judges.samples import printed
from tests.mmconv.benchmarks.mtbench101.dialogues import dialogue

GOLDEN = Path(__file__).parent / "golden"


def last_judgement(task: str) -> str:
    """The request that judges the last turn of the task's sample dialogue, as text."""
    grader = Grader(
        options=MTBench101Options(data=Path("unread.jsonl")),
        prompts=PromptSet("mtbench101"),
    )
    *_, last = grader.calls(dialogue(task), "golden")
    return printed(last.messages)


def main() -> None:
    """Write a file for each task."""
    GOLDEN.mkdir(exist_ok=True)
    for task in TASKS:
        (GOLDEN / f"{task}.txt").write_text(last_judgement(task), encoding="utf-8")


if __name__ == "__main__":
    main()
