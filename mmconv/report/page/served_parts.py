"""The page in parts, for a server that gives them out one at a time.

`page.json` holds the findings as HTML and the index of the samples; the samples' texts lie in
blocks beside it, which a browser fetches when it needs one. Pictures are named by their whole hash
and are not among the parts.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from mmconv.report.page.content import Content
from mmconv.report.page.rendering import render_findings
from mmconv.report.page.samples.gathering import Gathering

BLOCK = 64
"""Samples in a block."""

HEAD = "page.json.gz"
"""Title, findings and index, as gzipped JSON."""

WHOLE_NAME = 64


def block_name(number: int) -> str:
    """The file of a block: `{"samples": [...]}` as gzipped JSON."""
    return f"{number}.json.gz"


def write_parts(folder: Path, content: Content) -> None:
    """Write the parts into a folder that is not there yet.

    Several may do so at once; it is there whole, or not at all.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    gathering = Gathering(content=content, names=WHOLE_NAME)
    shown = (sample for sample, _ in gathering.samples())
    number = 0
    while samples := list(islice(shown, BLOCK)):
        _write(draft / block_name(number), {"samples": samples})
        number += 1
    findings = render_findings(gathering)
    index = gathering.document(BLOCK)
    _write(draft / HEAD, {"title": content.title, "html": findings, "index": index})
    try:
        draft.rename(folder)
    except OSError:
        # Another was faster, with the same content.
        shutil.rmtree(draft)


def _write(path: Path, document: Any) -> None:
    path.write_bytes(gzip.compress(orjson.dumps(document), 6, mtime=0))
