"""A run over a file of riddles, scored and shown again by typed commands."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from mmconv.cli import commands
from mmconv.core.errors import DataError

ROWS = 4
JUDGING = "# user\n{{riddle}}\n{{answer}}\nRate from 1 to 10: 'Rating: n'\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A file of riddles, a prompt of one's own, and where runs lie."""

    here: Path
    shard: str = "1/1"

    @property
    def data(self) -> Path:
        return self.here / "riddles.jsonl"

    @property
    def prompt(self) -> Path:
        return self.here / "prompts" / "fit.md"

    @property
    def store(self) -> Path:
        return self.here / "runs" / "store.sqlite"

    @property
    def folder(self) -> Path:
        mark = "*" if self.shard == "1/1" else f"*{self.shard.replace('/', 'of')}"
        [folder] = (self.here / "runs").glob(f"riddles-{mark}/")
        return folder

    def write(self, *records: dict[str, Any]) -> None:
        self.data.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))

    def run(self, *more: str) -> str:
        """What is told on standard error."""
        spec = self.here / "riddles.yaml"
        spec.write_text("benchmark: tests.example_benchmark:Riddles\n", encoding="utf-8")
        return typed(
            *("run", str(spec), "--data", str(self.data), "--prompts", str(self.prompt.parent)),
            *("--candidate", "fake/echo", "--judge", "fake/judge", "--skip-bad-records"),
            *("--out", str(self.here / "runs"), "--shard", self.shard, "--no-page", *more),
        )

    def listed(self) -> list[str]:
        """The lines of `mmconv show`."""
        return CliRunner().invoke(commands, ["show", str(self.folder)]).output.splitlines()

    def score(self) -> str:
        """What is told on standard error."""
        return typed("score", str(self.folder))

    def files(self) -> dict[str, bytes]:
        found = [path for path in self.folder.rglob("*") if path.is_file()]
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in found}

    def refused(self) -> DataError:
        """What scoring is refused with; nothing in the folder is touched."""
        before = self.files()
        with pytest.raises(DataError) as caught:
            self.score()
        assert self.files() == before
        assert str(caught.value).startswith(f"{self.folder}: ")
        assert "Nothing was written." in str(caught.value)
        return caught.value

    def forget(self) -> None:
        """Remove an answer from the store, which its judgement needs."""
        with sqlite3.connect(self.store) as database:
            database.execute("delete from replies where key = ?", (self.key("answer"),))

    def key(self, call: str) -> str:
        lines = map(orjson.loads, (self.folder / "transcripts.jsonl").read_bytes().splitlines())
        return str(next(line["key"] for line in lines if line["call"] == call))

    def change(self, name: str, **fields: Any) -> None:
        path = self.folder / name
        path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | fields))


def typed(*arguments: str) -> str:
    result = CliRunner().invoke(commands, arguments)
    if result.exception is not None:
        raise result.exception
    return result.stderr


def riddles() -> list[dict[str, Any]]:
    return [{"id": number, "riddle": f"What is {number}?"} for number in range(1, ROWS + 1)]


def riddle_desk(folder: Path) -> Desk:
    """A desk with all riddles and the prompt."""
    desk = Desk(here=folder)
    desk.write(*riddles())
    desk.prompt.parent.mkdir()
    desk.prompt.write_text(JUDGING, encoding="utf-8")
    return desk
