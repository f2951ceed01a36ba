"""A small ConvBench of drawn pictures, and run files over it, for tests of whole runs."""

from pathlib import Path

import yaml

from tests.drawn_data import write_scenes
from tests.mmconv.processes import mock_model

CALLS_PER_ROW = 33
"""Six generations, nine ratings, and nine pairs in two orders."""


def write_run(folder: Path, url: str, *, rows: int, **fields: object) -> Path:
    """Draw `rows` rows and write a run file whose both roles are the server at `url`."""
    data, images = write_scenes(folder / "data", rows)
    model = mock_model(url)
    spec = {
        "benchmark": "convbench",
        "options": {"data": str(data), "images": str(images)},
        "models": {"candidate": model, "judge": model},
        **fields,
    }
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(spec), encoding="utf-8")
    return path
