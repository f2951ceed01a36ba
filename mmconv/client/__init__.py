"""A client for scripts: images, chat, dialogues, judgements and runs of a served mmconv.

    with Client("http://localhost:8080") as client:
        result = client.dialogue("llava", ["What is it?", "Why?"], images=[Path("kite.png")])
        print(result.conditions[0].turns[1].text)

`AsyncClient` has the same methods as coroutines. Both load no model library and no web framework.
"""

from mmconv.api import (
    AgreementTables,
    BatchResult,
    BenchmarkName,
    ComparedTables,
    DataSet,
    DialogueInfo,
    DialogueResult,
    Judgement,
    JudgingInfo,
    NamedScore,
    OptionInfo,
    OwnImage,
    QueuedDialogue,
    RankedTables,
    RunInfo,
    SampleInfo,
    SampleTranscript,
    StoredImage,
)
from mmconv.client.client import AsyncClient, ChatReply, Client
from mmconv.client.jobs import AsyncDialogue, AsyncRun, Dialogue, Run
from mmconv.client.transport import ServiceError
from mmconv.core.run_stats import Progress
from mmconv.core.types import Score, Table

__all__ = [
    "AgreementTables",
    "AsyncClient",
    "AsyncDialogue",
    "AsyncRun",
    "BatchResult",
    "BenchmarkName",
    "ChatReply",
    "Client",
    "ComparedTables",
    "DataSet",
    "Dialogue",
    "DialogueInfo",
    "DialogueResult",
    "Judgement",
    "JudgingInfo",
    "NamedScore",
    "OptionInfo",
    "OwnImage",
    "Progress",
    "QueuedDialogue",
    "RankedTables",
    "Run",
    "RunInfo",
    "SampleInfo",
    "SampleTranscript",
    "Score",
    "ServiceError",
    "StoredImage",
    "Table",
]
