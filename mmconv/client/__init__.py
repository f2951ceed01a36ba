"""A client for scripts: images, chat, dialogues, judgements and runs of a served mmconv.

    with Client("http://localhost:8080") as client:
        found = client.dialogue("llava", ["What is it?", "Why?"], images=[Path("kite.png")])

It blocks; nothing here is async, and no model library or web framework is loaded.
"""

from mmconv.client.client import Client
from mmconv.client.errors import ServiceError
from mmconv.client.results import (
    ChatReply,
    Comparison,
    DataSet,
    JudgePrompt,
    OwnImage,
    Progress,
    RunInfo,
    SampleInfo,
    SampleTranscript,
    StoredImage,
)
from mmconv.client.runs import Run

__all__ = [
    "ChatReply",
    "Client",
    "Comparison",
    "DataSet",
    "JudgePrompt",
    "OwnImage",
    "Progress",
    "Run",
    "RunInfo",
    "SampleInfo",
    "SampleTranscript",
    "ServiceError",
    "StoredImage",
]
