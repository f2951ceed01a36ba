"""Records of calls as a run's transcripts have them, for tests of what is made from these."""

from typing import Any

from mmconv.report.data_quality import Record


def said(role: str, text: str) -> Record:
    return {"role": role, "parts": [{"text": text}]}


def asked(call: str, messages: list[Record] | None, text: str | None, **fields: Any) -> Record:
    return {
        "condition": "free",
        "call": call,
        "model": "candidate",
        "prompt": None,
        "messages": messages,
        "state": "reply",
        "text": text,
        "reasoning": None,
        "finish": "stop",
        "output_tokens": 3,
        "seconds": 0.5,
        "dropped": 0,
        "seen": [],
        "problem": None,
        "parse": None,
        "label": None,
        "scores": None,
        "rationale": None,
        **fields,
    }


def judged(call: str, text: str, **fields: Any) -> Record:
    defaults = {
        "model": "judge",
        "prompt": "file@1",
        "parse": "parsed",
        "rationale": "since",
        **fields,
    }
    return asked(call, None, text, **defaults)
