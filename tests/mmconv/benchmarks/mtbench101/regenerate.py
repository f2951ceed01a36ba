"""What the judge of each task reads, whole; run this module to write the golden files again.

`python -m tests.mmconv.benchmarks.mtbench101.regenerate`, then read the diff.
"""

from pathlib import Path

from mmconv.benchmarks.mtbench101 import TASKS, MTBench101
from tests.judges.samples import printed
from tests.mmconv.benchmarks.mtbench101.dialogues import dialogue, spec

GOLDEN = Path(__file__).parent / "golden"


def last_judgement(task: str) -> str:
    """The request that judges the last turn of the task's sample dialogue, as text."""
    *_, last = MTBench101(spec(Path("unread.jsonl"))).plan(dialogue(task), "golden")
    return printed(last.messages)


def main() -> None:
    """Write a file for each task."""
    GOLDEN.mkdir(exist_ok=True)
    for task in TASKS:
        (GOLDEN / f"{task}.txt").write_text(last_judgement(task), encoding="utf-8")


if __name__ == "__main__":
    main()
