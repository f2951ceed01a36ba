"""A judge of drawn scenes that knows the truth: it asks the program that checks replies."""

from __future__ import annotations

import re

from images.drawn import Turn, draw_sample
from mmconv.benchmarks.scenes.benchmark import ScenesOptions, list_scenes
from mmconv.core.config import ModelSpec
from mmconv.core.keys import hash_json
from mmconv.core.protocols import ImageSource
from mmconv.core.types import Reply, Sampling
from model_zoo.simulated.common import Offline
from tests.messages import Messages

MARKED = re.compile(r"⟦(instruction|truth|answer)⟧\n(.*?)\n⟦end of \1⟧", re.DOTALL)
CONTENT = {"facts", "answer"}


def fingerprint(spec: ModelSpec) -> str:
    return hash_json(["exact judge", dict(spec.options)])


async def open_backend(spec: ModelSpec, images: ImageSource) -> ExactJudge:
    return ExactJudge(ScenesOptions.model_validate(spec.options))


class ExactJudge(Offline):
    """Its options are those of the run."""

    max_concurrency = 64

    def __init__(self, options: ScenesOptions) -> None:
        self.turns: dict[tuple[str, str], Turn] = {}
        for fields in list_scenes(options, 0):
            for turn in draw_sample(**fields).turns:
                self.turns.setdefault((turn.instruction, turn.truth), turn)

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        texts = dict(MARKED.findall(messages[-1].text))
        turn = self.turns[texts["instruction"], texts["truth"]]
        failed = {*turn.check(texts["answer"]).missed}
        if turn.task == "note":
            failed &= CONTENT
        return Reply(text=f"Rating: {1 if failed else 10}")
