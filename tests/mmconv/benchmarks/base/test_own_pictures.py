"""Pictures of a benchmark of one's own: checked ahead, shown at any turn, left out if bad."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openpyxl
import orjson
import pytest
from click.testing import CliRunner

from images import ImageStore, Limits
from mmconv.benchmarks.base import Calls, Fields, FileBenchmark, Outcomes, Scores
from mmconv.cli import commands
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.keys import hash_bytes
from mmconv.core.turns import Turn, chain
from mmconv.core.types import UNASKED, Call, Image, Sampling, Score, Skipped, Text
from mmconv.engine.setup import build_benchmark
from tests.pictures import picture


class Album(FileBenchmark):
    """Two turns: the pictures of both fields, and once more the first of them."""

    name = "album"
    fields = ("question",)
    image_fields = ("picture", "more")

    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        question, again = Text(text=sample["question"]), Text(text="And here?")
        first, *_ = sample.images["picture"]
        shown = Turn(user=(*sample.images["picture"], *sample.images["more"], question))
        turns = shown, Turn(user=(again, first))
        return chain(turns, seat="candidate", sampling=Sampling())

    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        yield Score(
            sample=self.key(sample), condition=condition, metric="length", turn=None, value=1.0
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A file of records beside a folder of pictures, and commands over them."""

    data: Path
    images: Path

    def write(self, *records: dict[str, Any]) -> None:
        self.data.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))

    def spec(self, limit: int | None = None, **options: Any) -> RunSpec:
        given = {"data": str(self.data), "images": str(self.images), **options}
        return RunSpec(
            benchmark="tests.mmconv.benchmarks.base.test_own_pictures:Album",
            options=given,
            seats={"candidate": ModelSpec(provider="fake", model="echo")},
            limit=limit,
        )

    def build(self, limit: int | None = None, **options: Any) -> Any:
        return build_benchmark(self.spec(limit, **options), ImageStore())

    def refused(self, limit: int | None = None, **options: Any) -> DataError:
        with pytest.raises(DataError) as caught:
            self.build(limit, **options)
        return caught.value

    def type(self, command: str, *more: str) -> str:
        run = self.data.with_name("album.yaml")
        run.write_text(f"benchmark: {self.spec().benchmark}\n", encoding="utf-8")
        result = CliRunner().invoke(
            commands,
            [
                *(command, str(run), "--data", str(self.data), "--images", str(self.images)),
                *("--candidate", "fake/echo", "--out", str(self.data.parent / "runs"), *more),
            ],
        )
        if result.exception is not None:
            raise result.exception
        return result.output


def record(number: int, *names: str, more: Any = ()) -> dict[str, Any]:
    return {"id": number, "question": "What?", "picture": [*names], "more": more or []}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Four good records of one picture each; the files are 1.png to 4.png."""
    images = tmp_path / "pictures"
    images.mkdir()
    for number in range(1, 5):
        (images / f"{number}.png").write_bytes(picture(number))
    desk = Desk(data=tmp_path / "album.jsonl", images=images)
    desk.write(*(record(number, f"{number}.png") for number in range(1, 5)))
    return desk


def shown(calls: tuple[Call, ...]) -> list[list[str]]:
    """The hashes of the pictures in each message of the last call."""
    return [[image.sha256 for image in message.images] for message in calls[-1].messages]


def test_pictures_stand_at_any_turn_and_several_in_one(desk: Desk) -> None:
    desk.write(record(1, "1.png", "2.png", more="3.png"))
    [sample] = desk.build().load()
    one, two, three = (hash_bytes(picture(number)) for number in (1, 2, 3))
    assert shown(desk.build().plan(sample, "free")) == [[one, two, three], [], [one]]
    assert sample == {"id": "1", "question": "What?"}


def test_scores_of_the_same_pictures_are_a_cluster_in_any_order(desk: Desk) -> None:
    names = (["1.png"], ["1.png", "1.png"], ["1.png", "2.png"], ["2.png", "1.png"], ["2.png"])
    desk.write(*(record(number, *each) for number, each in enumerate(names)))
    album = desk.build()
    lost = Skipped(because=UNASKED, reason="unasked")
    clusters = []
    for sample in album.load():
        calls = {call.id: call for call in album.plan(sample, "free")}
        [score] = album.score(sample, "free", calls, dict.fromkeys(calls, lost))
        clusters.append(score.tags["cluster"])
    assert clusters[0] == clusters[1]
    assert clusters[2] == clusters[3]
    assert len(set(clusters)) == 3


def test_all_that_is_wrong_with_pictures_is_told_with_row_and_id(desk: Desk) -> None:
    (desk.images / "2.png").write_text("no picture")
    (desk.images / "3.png").unlink()
    desk.write(
        record(1, "1.png", more="gone.png"),
        record(2, "2.png"),
        record(3, "3.png", "../album.jsonl"),
        {"id": 4, "question": "What?", "picture": "", "more": ["4.png", None]},
        record(5, "4.png", more=[True]),
    )
    error = desk.refused()
    first, second, third, outside, *fourth, fifth = error.problems
    assert first == "album.jsonl line 1 (id 1): image gone.png is not in pictures"
    assert second.startswith(f"album.jsonl line 2 (id 2): {desk.images / '2.png'}: ")
    assert third == "album.jsonl line 3 (id 3): image 3.png is not in pictures"
    assert outside.endswith("image '../album.jsonl' does not lie inside the images folder")
    assert fourth == [f"album.jsonl line 4 (id 4): no {name}" for name in ("picture", "more")]
    assert fifth == "album.jsonl line 5 (id 5): more holds True, which is not text"
    assert "Every record needs id, question, picture, more." in str(error)
    assert f"Put the images that are missing into {desk.images}." in str(error)


def test_a_picture_that_is_too_large_is_told(desk: Desk) -> None:
    with pytest.raises(DataError, match=r"line 1 \(id 1\): .*1\.png: .* pixels, and at most 100"):
        build_benchmark(desk.spec(), ImageStore(limits=Limits(max_pixels=100)))


def test_the_same_is_told_by_check_and_run_and_nothing_is_asked(desk: Desk) -> None:
    assert "4 samples under free: data in order" in desk.type("check")
    (desk.images / "3.png").unlink()
    for command in ("check", "run"):
        with pytest.raises(DataError, match=r"line 3 \(id 3\): image 3\.png is not in pictures"):
            desk.type(command)
    assert not [*desk.data.parent.glob("runs/*/")]


def test_records_with_bad_pictures_can_be_left_out_and_tables_say_so(desk: Desk) -> None:
    (desk.images / "3.png").unlink()
    (desk.images / "1.png").write_text("no picture")
    said = desk.type("run", "--skip-bad-records", "--no-page")
    assert "2 of 4 records are left out as bad" in said
    [manifest] = desk.data.parent.glob("runs/*/manifest.json")
    left_out = orjson.loads(manifest.read_bytes())["facts"]["left_out"]
    assert [each["where"] for each in left_out] == [
        f"album.jsonl line {number} (id {number})" for number in (1, 3)
    ]
    [table] = desk.data.parent.glob("runs/*/tables/left_out.md")
    assert "image 3.png is not in pictures" in table.read_text(encoding="utf-8")
    limited = desk.type("run", "--skip-bad-records", "--no-page", "--limit", "1")
    assert "1 of the first 2 records is left out as bad" in limited


def test_only_the_first_records_are_looked_at_where_no_more_are_wanted(desk: Desk) -> None:
    for number in (2, 3):
        (desk.images / f"{number}.png").unlink()
    assert [sample["id"] for sample in desk.build(limit=1).load()] == ["1"]
    error = desk.refused(limit=2)
    assert error.problems == ("album.jsonl line 2 (id 2): image 2.png is not in pictures",)
    assert "takes the next good records in their place" in str(error)
    skipping = desk.build(limit=2, skip_bad_records=True)
    assert [sample["id"] for sample in skipping.load()] == ["1", "4"]
    assert skipping.size == 2


def test_few_pictures_are_looked_at_ahead_of_those_that_are_wanted(desk: Desk) -> None:
    names = [f"copy_{number}.png" for number in range(100)]
    for name in names:
        (desk.images / name).write_bytes(picture(1))
    desk.write(*(record(number, name) for number, name in enumerate(names)))
    given: set[str] = set()

    class Counting(ImageStore):
        def add_file(self, path: str) -> Image:
            given.add(path)
            return super().add_file(path)

    build_benchmark(desk.spec(limit=1), Counting())
    assert 1 <= len(given) < 50


def test_a_seat_may_be_one_of_records_that_the_run_does_not_come_to(desk: Desk) -> None:
    whole = desk.spec()
    other = whole.model_copy(update={"seats": {**whole.seats, "other": whole.seats["candidate"]}})
    with pytest.raises(ConfigError, match="album has no seat 'other'"):
        build_benchmark(other, ImageStore())
    build_benchmark(other.model_copy(update={"limit": 3}), ImageStore())


def test_each_picture_is_decoded_once(desk: Desk) -> None:
    desk.write(*(record(number, "1.png", "2.png", more="1.png") for number in range(60)))
    facts: dict[str, Any] = {}
    given: list[str] = []

    class Counting(ImageStore):
        def _examine(self, data: bytes, where: str) -> Any:
            given.append(Path(where).name)
            return super()._examine(data, where)

    benchmark = build_benchmark(desk.spec(), Counting(facts=facts))
    assert len([*benchmark.load()]) == 60
    assert sorted(given) == ["1.png", "2.png"]


def test_a_picture_that_has_gone_since_is_told(desk: Desk) -> None:
    benchmark = desk.build()
    desk.write(record(1, "1.png"), {"id": 2})
    with pytest.raises(DataError, match=r"line 2 \(id 2\).*\n  no question.*(\n.*)*has changed"):
        [*benchmark.load()]


def in_csv(path: Path) -> None:
    path.write_text("id,question,picture,more\n1,What?,1.png,2.png\n", encoding="utf-8")


def in_a_sheet(path: Path) -> None:
    book = openpyxl.Workbook()
    page = book.create_sheet("album", 0)
    page.append(["id", "question", "picture", "more"])
    page.append([1, "What?", "1.png", "2.png"])
    book.save(path)


@pytest.mark.parametrize(("name", "write"), [("a.csv", in_csv), ("a.xlsx", in_a_sheet)])
def test_a_table_names_one_picture_in_a_cell(
    desk: Desk, name: str, write: Callable[[Path], None]
) -> None:
    path = desk.data.with_name(name)
    write(path)
    [sample] = desk.build(data=str(path)).load()
    assert [[*map(type, each)] for each in sample.images.values()] == [[Image], [Image]]


@pytest.mark.parametrize(
    ("images", "told"),
    [
        (None, "images is needed and not set"),
        ("gone", "there is no such folder"),
        ("album.jsonl", "this is a file, not a folder"),
    ],
)
def test_the_folder_of_pictures_must_be_there(desk: Desk, images: str | None, told: str) -> None:
    spec = desk.spec(images=str(desk.images.with_name(str(images))))
    if images is None:
        spec = spec.model_copy(update={"options": {"data": str(desk.data)}})
    with pytest.raises((ConfigError, DataError), match=told):
        build_benchmark(spec, ImageStore())


def test_the_option_is_listed_where_there_are_pictures() -> None:
    listed = CliRunner().invoke(commands, ["options", f"{__name__}:Album"]).output
    assert "[--images; a path; required]" in listed
    assert "records need id, question, picture, more." in " ".join(listed.split())
    other = CliRunner().invoke(commands, ["options", "tests.example_benchmark:Riddles"]).output
    assert "--images" not in other
