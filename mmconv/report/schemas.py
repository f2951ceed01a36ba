"""The columns of the Parquet files; the JSON Lines beside them have the same fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow


def score_schema() -> pyarrow.Schema:
    """The fields of `mmconv.report.transcripts.score_record`."""
    import pyarrow as pa

    return pa.schema(
        [
            ("sample", pa.string()),
            ("condition", pa.string()),
            ("metric", pa.string()),
            ("turn", pa.int64()),
            ("value", pa.float64()),
            ("why", pa.string()),
            ("tags", pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))),
        ]
    )


def transcript_schema() -> pyarrow.Schema:
    """The fields of `mmconv.report.transcripts.call_records`."""
    import pyarrow as pa

    part = pa.struct(
        [
            ("text", pa.string()),
            ("ref", pa.string()),
            ("image", pa.string()),
            ("width", pa.int64()),
            ("height", pa.int64()),
        ]
    )
    message = pa.struct([("role", pa.string()), ("parts", pa.list_(part))])
    seen = pa.struct([("image", pa.string()), ("width", pa.int64()), ("height", pa.int64())])
    named = pa.struct([("name", pa.string()), ("value", pa.float64())])
    return pa.schema(
        [
            ("sample", pa.string()),
            ("condition", pa.string()),
            ("call", pa.string()),
            ("seat", pa.string()),
            ("prompt", pa.string()),
            ("key", pa.string()),
            ("stored", pa.bool_()),
            ("messages", pa.list_(message)),
            ("state", pa.string()),
            ("text", pa.string()),
            ("reasoning", pa.string()),
            ("finish", pa.string()),
            ("input_tokens", pa.int64()),
            ("output_tokens", pa.int64()),
            ("seconds", pa.float64()),
            ("dropped", pa.int64()),
            ("seen", pa.list_(seen)),
            ("problem", pa.string()),
            ("parse", pa.string()),
            ("label", pa.string()),
            ("scores", pa.list_(named)),
            ("rationale", pa.string()),
        ]
    )
