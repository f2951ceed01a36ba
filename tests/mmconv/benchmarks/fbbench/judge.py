"""A provider for tests: a judge that fills in the form at the end of FB-Bench's prompts.

Which criteria it finds met hangs on the prompt's hash alone, so that it judges alike every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from mmconv.core.config import ModelSpec
from mmconv.core.keys import content_key
from mmconv.core.protocols import ImageSource
from mmconv.core.types import Message, Reply, Sampling


def fingerprint(spec: ModelSpec) -> str:
    return "form filler 1"


async def open_backend(spec: ModelSpec, images: ImageSource) -> FormFiller:
    return FormFiller()


@dataclass(frozen=True, slots=True, kw_only=True)
class FormFiller:
    max_concurrency: int = 16

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        form = orjson.loads(messages[-1].text.rpartition("```json\n")[2].removesuffix("\n```"))
        drawn = int(content_key("", messages, sampling)[:8], 16)
        for place, entry in enumerate(form.values()):
            entry["评判理由"] = "表格要求填写。"
            entry["评判结果"] = "是" if drawn >> place & 1 else "否"
        return Reply(text=orjson.dumps(form).decode())

    async def aclose(self) -> None:
        pass
