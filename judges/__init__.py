"""Judges: prompt files, the template reader, the parsers, and how a judge is put into a plan.

No model is called here, and no benchmark's scores are computed.
"""

from judges.judging import Extraction, Judge, Reading, is_settled, read_reply, read_verdict
from judges.template import Data, Prompt, PromptSet, Slot, parse_prompt

__all__ = [
    "Data",
    "Extraction",
    "Judge",
    "Prompt",
    "PromptSet",
    "Reading",
    "Slot",
    "is_settled",
    "parse_prompt",
    "read_reply",
    "read_verdict",
]
