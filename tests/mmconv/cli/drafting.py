"""A desk on which drafts are made: rows, pictures, a model that answers by a script."""

import json
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result
from PIL import Image as Picture

from mmconv.benchmarks.convbench.commands import annotate_command as command
from mmconv.benchmarks.convbench.data import CAPTION, CATEGORIES, FOCUS_POINTS, REFERENCES, Row
from tests.mmconv.benchmarks.convbench.data_files import Source, load, write_lines

SCRIPT = {
    "Describe this image": "A plain description.",
    "turn it into a caption": "A caption.",
    "Choose one category": "First: OCR\nSecond: Age Reasoning\nThird: Poem Writing",
    "focus points": "1. Does it rhyme?",
    "What is it": "A square.",
    "Why": "Because.",
    "poem": "Roses are red.",
}
DRAFTED = {
    CAPTION: "A caption.",
    REFERENCES[0]: "A square.",
    REFERENCES[1]: "Because.",
    REFERENCES[2]: "Roses are red.",
    FOCUS_POINTS: "1. Does it rhyme?",
    CATEGORIES[0]: "OCR",
    CATEGORIES[1]: "Age Reasoning",
    CATEGORIES[2]: "Poem Writing",
}
HUMAN = {column: f"By hand: {column}" for column in DRAFTED}


class Desk:
    """A folder with three rows, their images, and a model file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.out = path / "drafts.jsonl"
        self.images = path / "pictures"
        self.images.mkdir()
        self.rows(*({} for _ in range(3)))
        self.model(SCRIPT)

    def rows(self, *given: dict[str, str]) -> None:
        """Write one row for each mapping of columns that the data file has already."""
        records = []
        for number, columns in enumerate(given, start=1):
            image = self.images / f"{number}.png"
            Picture.new("RGB", (10, 10), (number, 0, 0)).save(image)
            records.append(
                {
                    "ID": number,
                    "image_id": image.name,
                    "The_first_turn_instruction": f"What is it? {number}",
                    "The_second_turn_instruction": "Why?",
                    "The_third_turn_instruction": "Write a poem.",
                    **columns,
                }
            )
        self.data = write_lines(self.path / "rows.jsonl", records)

    def model(self, script: dict[str, str], slots: int = 1, **options: Any) -> None:
        """The fake model that answers by this script, so many calls at a time."""
        spec = {
            "provider": "fake",
            "model": "scripted",
            "max_concurrency": slots,
            "options": {"script": script, **options},
        }
        # The first pattern that is found answers, so their order counts.
        text = yaml.safe_dump(spec, sort_keys=False)
        (self.path / "model.yaml").write_text(text, encoding="utf-8")

    def arguments(self, *more: str) -> list[str]:
        return [
            "convbench",
            f"--data={self.data}",
            f"--images={self.images}",
            f"--annotator={self.path / 'model.yaml'}",
            f"--out={self.out}",
            f"--store={self.path / 'store.sqlite'}",
            *more,
        ]

    def annotate(self, *more: str) -> Result:
        return CliRunner().invoke(command, self.arguments(*more), catch_exceptions=False)

    def lines(self) -> dict[int, dict[str, Any]]:
        found = [json.loads(line) for line in self.out.read_text("utf-8").splitlines()]
        assert len({line["ID"] for line in found}) == len(found)
        return {line.pop("ID"): line for line in found}

    def load(self, **options: Any) -> list[Row]:
        """The rows as a run with a judge reads them."""
        source = Source(
            data=self.data,
            images=self.images,
            annotations=self.out,
            needs=(CAPTION, *REFERENCES),
            **options,
        )
        return load(source)
