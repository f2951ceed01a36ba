"""A client for scripts: images, chat, dialogues, judgements and runs of a served mmconv.

    with Client("http://localhost:8080") as client:
        found = client.dialogue("llava", ["What is it?", "Why?"], images=[Path("kite.png")])
        print(found.conditions[0].turns[1].text)

It blocks; nothing here is async, and no model library or web framework is loaded.
"""

from mmconv.answers import (
    BenchmarkName,
    ComparedTables,
    DataSet,
    DialogueInfo,
    OptionInfo,
    OwnImage,
    Progress,
    PromptInfo,
    QueuedDialogue,
    RunInfo,
    SampleInfo,
    SampleTranscript,
    StoredImage,
)
from mmconv.benchmarks.shared.judgements import Judgement
from mmconv.client.client import Client
from mmconv.client.dialogues import Dialogue
from mmconv.client.errors import ServiceError
from mmconv.client.results import ChatReply
from mmconv.client.runs import Run
from mmconv.core.types import Score, Table
from mmconv.dialogues.results import DialogueResult

__all__ = [
    "BenchmarkName",
    "ChatReply",
    "Client",
    "ComparedTables",
    "DataSet",
    "Dialogue",
    "DialogueInfo",
    "DialogueResult",
    "Judgement",
    "OptionInfo",
    "OwnImage",
    "Progress",
    "PromptInfo",
    "QueuedDialogue",
    "Run",
    "RunInfo",
    "SampleInfo",
    "SampleTranscript",
    "Score",
    "ServiceError",
    "StoredImage",
    "Table",
]
