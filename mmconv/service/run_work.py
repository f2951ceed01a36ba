"""A run in execution: what the worker does with a job of the kind `run`."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from mmconv.service.jobs import Work
from mmconv.service.run_requests import RunRequest
from mmconv.service.runs import RUN, run_info
from mmconv.service.webhooks import send_webhook
from mmconv.store.jobs import Ending


class RunWork(Work):
    """A queued run. Its report page is made on first request."""

    kind = RUN
    _folder: str | None = None

    def progress(self) -> dict[str, Any]:
        """The fields of `Progress`, and the name of the run's folder once it is known."""
        progress = super().progress()
        return progress if self._folder is None else progress | {"folder": self._folder}

    async def run(self) -> Ending | None:
        """Run to the end. The result names the run's folder."""
        evaluation = await self._shared.open_run(self._job)
        names = RunRequest.model_validate_json(self._job.spec).models
        runner = evaluation.runner()
        self._folder = evaluation.run_id
        if not self.begin(runner, evaluation.plan_count, names):
            return None
        result = await evaluation.run(runner, page=False)
        if not result.complete:
            return self.halted(runner.stats.stop_reason)
        summary = {
            "folder": result.folder.name,
            "scores": result.scores,
            "unscored": dict(result.unscored),
        }
        return self.done(result.stats.lost, summary)

    async def announce(self) -> None:
        """Post the run's state to its webhook, if it has one."""
        url = RunRequest.model_validate_json(self._job.spec).webhook
        job = await self._shared.queue.get(self._job.id)
        if url is None or job is None or job.ended is None:
            return
        body = orjson.dumps(await asyncio.to_thread(run_info, self._shared, job))
        message_id = f"{job.id}-{int(job.ended.timestamp())}"
        await send_webhook(self._shared.settings, url, message_id, body)
