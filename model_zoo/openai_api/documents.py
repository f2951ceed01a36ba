"""JSON as servers send it."""

from __future__ import annotations

import json
from typing import Any

import orjson


def load_json(data: bytes) -> Any:
    """The document; raises `ValueError` where there is none.

    What is paid for is read where it can be: behind a byte order mark, with NaN in it, and with
    half a character pair, as of an emoji that was cut in two, which becomes U+FFFD.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            document = json.loads(data.decode("utf-8-sig"))
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
    text = json.dumps(document, ensure_ascii=False)
    return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
