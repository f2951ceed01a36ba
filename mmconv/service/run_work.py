"""A run of a benchmark as the worker carries it out: its request, its evaluation, its progress."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import orjson

from mmconv.answers import Progress
from mmconv.errors import ConfigError
from mmconv.evaluation import Evaluation
from mmconv.runner import Runner
from mmconv.service.benchmarks import Benchmarks
from mmconv.service.metrics import Metrics, RunnerMetrics
from mmconv.service.model_failures import words_of_halt
from mmconv.service.problems import Problem
from mmconv.service.run_requests import RunRequest, name_run, resolve
from mmconv.service.settings import Settings
from mmconv.store.jobs import Ending, Job
from mmconv.tally import Tally

WINDOW_SECONDS = 30.0
"""The time over which the rate is measured: what came from the store at once tells nothing."""


@dataclass(slots=True)
class Pace:
    """How fast a run gets on, from what was counted within the last seconds."""

    _marks: deque[tuple[float, int, int]] = field(default_factory=deque)

    def mark(self, now: float, conversations: int, asked: int) -> None:
        """Note what has been counted at a time in seconds."""
        self._marks.append((now, conversations, asked))
        while len(self._marks) > 2 and self._marks[1][0] <= now - WINDOW_SECONDS:
            self._marks.popleft()

    @property
    def rates(self) -> tuple[float, float]:
        """Conversations and answered calls per second."""
        (then, ended, asked), (now, more_ended, more_asked) = self._marks[0], self._marks[-1]
        passed = now - then
        if passed <= 0:
            return 0.0, 0.0
        return (more_ended - ended) / passed, (more_asked - asked) / passed


class RunWork:
    """See `mmconv.service.worker.Work`. The report as a page is made when it is asked for."""

    def __init__(
        self, settings: Settings, metrics: Metrics, benchmarks: Benchmarks, job: Job
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._benchmarks = benchmarks
        self._job = job
        self._evaluation: Evaluation | None = None
        self._runner: Runner | None = None
        self._counted: RunnerMetrics | None = None
        self._stopped = False
        self._started = time.monotonic()
        self._pace = Pace()

    def progress(self) -> dict[str, Any]:
        """The fields of `Progress`, and the name of the run's folder as soon as it is known."""
        if self._runner is None or self._evaluation is None or self._counted is None:
            return asdict(Progress())
        now = time.monotonic()
        self._counted.tell(self._runner.tally)
        tally, total = self._runner.tally, self._evaluation.plan_count
        self._pace.mark(now, tally.finished, tally.asked)
        told = _progress(tally, total, self._pace, now - self._started)
        return asdict(told) | {"folder": self._evaluation.run_id}

    def stop(self) -> None:
        """Ask nothing more."""
        self._stopped = True
        if self._runner is not None:
            self._runner.stop()

    async def run(self) -> Ending | None:
        """Run to the end; the result names the run's folder."""
        self._evaluation = await open_run(self._settings, self._benchmarks, self._job)
        names = RunRequest.model_validate_json(self._job.spec).seats
        self._counted = RunnerMetrics(self._metrics, "run", names)
        self._runner = self._evaluation.runner()
        if self._stopped:
            return None
        result = await self._evaluation.run(self._runner, page=False)
        if not result.complete:
            return stopped_by_itself(self._runner.tally, self.progress())
        told = {
            "folder": result.folder.name,
            "scores": result.scores,
            "unscored": dict(result.unscored),
        }
        return Ending(
            state="done",
            progress=self.progress() | {"rate": 0.0, "seconds_left": 0.0},
            lost=result.tally.lost,
            result=orjson.dumps(told).decode(),
        )


async def open_run(settings: Settings, benchmarks: Benchmarks, job: Job) -> Evaluation:
    """The evaluation that a job stands for.

    Raises `ConfigError` where the operator has configured otherwise by now what it names,
    `InputError` where the data cannot be read.
    """
    request = RunRequest.model_validate_json(job.spec)
    try:
        spec = resolve(settings, request)
    except Problem as problem:
        raise ConfigError(problem.message) from problem
    if name_run(request, spec) != job.id:
        raise ConfigError("what this run names is configured otherwise by now; post it again")
    return await benchmarks.evaluation(spec)


def stopped_by_itself(tally: Tally, progress: dict[str, Any]) -> Ending | None:
    """The end of a job whose runner stopped before its own, where nobody else had it stopped."""
    if tally.halt is None:
        return None
    return Ending(state="failed", progress=progress, error=words_of_halt(tally.halt))


def counted(tally: Tally, total: int, seconds: float) -> Progress:
    """What a runner has counted so far, without how fast it was."""
    seats = tally.seats.values()
    return Progress(
        conversations=tally.finished,
        total=total,
        replies=tally.replies,
        asked=tally.asked,
        stored=sum(seat.stored for seat in seats),
        failed=sum(seat.failed for seat in seats),
        skipped=sum(seat.skipped for seat in seats),
        retried=sum(seat.retried for seat in seats),
        input_tokens=sum(seat.input_tokens for seat in seats),
        output_tokens=sum(seat.output_tokens for seat in seats),
        seconds=round(seconds, 1),
    )


def _progress(tally: Tally, total: int, pace: Pace, seconds: float) -> Progress:
    ending, rate = pace.rates
    return replace(
        counted(tally, total, seconds),
        rate=round(rate, 2),
        seconds_left=round((total - tally.finished) / ending, 1) if ending else None,
    )
