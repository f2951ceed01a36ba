"""Reading a dataset: its records, fields and images, and what is wrong with them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from images import ImageStore
from mmconv.benchmarks.base import (
    Benchmark,
    Fields,
    ImageFile,
    ImageFiles,
    ImageOptions,
    Results,
    Sample,
)
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.keys import hash_bytes, hash_file
from mmconv.core.turns import Turn, chain
from mmconv.core.types import UNASKED, Call, Image, Sampling, Score, Skipped, Text
from tests.example_benchmark import Riddles
from tests.mmconv.benchmarks.base.own import build, write
from tests.mmconv.processes import typed
from tests.pictures import picture


def riddles(data: Path, **options: Any) -> Any:
    return build(data.parent, Riddles, options={"data": str(data), **options})


def refusal(data: Path, **options: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        riddles(data, **options)
    return caught.value


def test_records_become_samples(tmp_path: Path) -> None:
    """Ids are text or numbers; fields that nothing reads do no harm."""
    first = {"id": 1, "riddle": "What has keys?"}
    second = {"id": "two", "riddle": "What has hands?", "source": "folklore"}
    data = write(tmp_path / "riddles.jsonl", first, second, {"id": 2.5, "riddle": "Who?"})
    benchmark = riddles(data)
    assert benchmark.size == 3
    assert [sample.id for sample in benchmark.load()] == ["1", "two", "2.5"]
    assert next(benchmark.load()).model_dump() == {"id": "1", "riddle": "What has keys?"}
    assert [*benchmark.load()] == [*benchmark.load()]
    assert benchmark.provenance["data"] == {"riddles.jsonl": hash_file(data)}
    assert benchmark.provenance["left_out"] == []


def test_all_problems_are_in_one_message(tmp_path: Path) -> None:
    error = refusal(
        write(
            tmp_path / "bad.jsonl",
            {"id": 1, "riddle": ""},
            {"id": 2, "riddle": "Who?", "riddel": "Who?"},
            {"riddle": True},
            {"id": 2, "riddle": "Where?"},
            ["no object"],
        )
    )
    assert error.problems == (
        "bad.jsonl line 1 (id 1): riddle is empty",
        "bad.jsonl line 3: id is missing",
        "bad.jsonl line 3: riddle holds True, which is not text",
        "bad.jsonl line 4 (id 2): id is that of bad.jsonl line 2",
        "bad.jsonl line 5: holds a list, not an object: {...}",
    )
    advice = "Every record needs id, riddle.\nColumns that nothing reads: riddel."
    assert advice in str(error)
    assert "--skip-bad-records continues with the 1 good records." in str(error)


@pytest.mark.parametrize("column", ["Riddle", "riddl", " riddle_"])
def test_a_column_that_looks_like_a_missing_one_is_named(tmp_path: Path, column: str) -> None:
    error = refusal(write(tmp_path / "a.jsonl", {"id": 1, column: "Who?"}))
    assert error.problems == (
        f"a.jsonl: nothing reads the column {column!r}; rename it to 'riddle'",
        "a.jsonl line 1 (id 1): riddle is missing",
    )


def test_a_problem_of_many_records_takes_few_lines(tmp_path: Path) -> None:
    error = refusal(write(tmp_path / "wrong.jsonl", *({"id": number} for number in range(50))))
    assert len(error.problems) == 50
    assert "... and 45 more of this kind" in str(error)


def test_a_file_without_records_is_refused(tmp_path: Path) -> None:
    assert "holds no record" in str(refusal(write(tmp_path / "empty.jsonl")))
    assert "file does not exist" in str(refusal(tmp_path / "gone.jsonl"))


def test_bad_records_can_be_left_out_and_all_tables_say_so(tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.jsonl", {"id": 1}, {"id": 2, "riddle": "Who?"})
    benchmark = riddles(bad, skip_bad_records=True)
    assert [sample.id for sample in benchmark.load()] == ["2"]
    score = Score(sample="2", condition="free", metric="fit", value=1.0)
    table, left_out = benchmark.tables([score])
    assert "1 of 2 records is left out" in table.notes[0]
    assert left_out.rows["bad.jsonl line 1 (id 1)"]["what is wrong"].value == "riddle is missing"
    assert not left_out.detail
    with pytest.raises(DataError, match="riddle is missing"):
        riddles(write(bad, {"id": 1}), skip_bad_records=True)


def test_a_long_list_of_bad_records_is_written_and_not_printed(tmp_path: Path) -> None:
    records = [{"id": 0, "riddle": "Who?"}, *({"id": number} for number in range(1, 42))]
    benchmark = riddles(write(tmp_path / "bad.jsonl", *records), skip_bad_records=True)
    assert any("41 of 42 records are left out as bad" in note for note in benchmark.notes)
    [left_out] = benchmark.tables([])
    assert (left_out.detail, len(left_out.rows)) == (True, 41)


class Album(Sample):
    question: str
    picture: ImageFiles
    more: ImageFiles = ()


class Albums(Benchmark[Album, ImageOptions]):
    """Two turns: the images of both fields, and the first of them again."""

    name = "album"

    def plan(self, sample: Album, condition: str) -> tuple[Call, ...]:
        question, again = Text(text=sample.question), Text(text="And here?")
        shown = Turn(user=(*sample.picture, *sample.more, question))
        turns = shown, Turn(user=(again, sample.picture[0]))
        return chain(turns, model="candidate", sampling=Sampling())

    def score(self, sample: Album, results: Results) -> tuple[Score, ...]:
        return (results.score("length", 1.0),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A file of records, a folder of images, and commands over them."""

    data: Path
    images: Path

    def write(self, *records: dict[str, Any]) -> None:
        write(self.data, *records)

    def build(
        self, limit: int | None = None, library: ImageStore | None = None, **given: Any
    ) -> Any:
        options = {"data": str(self.data), "images": str(self.images), **given}
        return build(
            self.data.parent, Albums, "candidate", library=library, options=options, limit=limit
        )

    def refusal(self, limit: int | None = None, **options: Any) -> DataError:
        with pytest.raises(DataError) as caught:
            self.build(limit, **options)
        return caught.value

    def type(self, command: str, *more: str) -> str:
        result = typed(
            *(command, f"{__name__}:Albums", "--data", str(self.data)),
            *("--images", str(self.images), "--candidate", "fake/echo"),
            *("--out", str(self.data.parent / "runs"), *more),
        )
        if result.exception is not None:
            raise result.exception
        return result.output


def record(number: int, *names: str, **more: Any) -> dict[str, Any]:
    return {"id": number, "question": "What?", "picture": [*names], **more}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Four good records of one image each; the files are 1.png to 4.png."""
    images = tmp_path / "pictures"
    images.mkdir()
    for number in range(1, 5):
        (images / f"{number}.png").write_bytes(picture(number))
    desk = Desk(data=tmp_path / "album.jsonl", images=images)
    desk.write(*(record(number, f"{number}.png") for number in range(1, 5)))
    return desk


def test_images_are_shown_at_any_turn(desk: Desk) -> None:
    desk.write(record(1, "1.png", "2.png", more="3.png"))
    [sample] = desk.build().load()
    one, two, three = (hash_bytes(picture(number)) for number in (1, 2, 3))
    last = desk.build().calls(sample, "free")[-1]
    shown = [[image.sha256 for image in message.images] for message in last.messages]
    assert shown == [[one, two, three], [], [one]]


def test_scores_of_the_same_images_are_a_cluster_in_any_order(desk: Desk) -> None:
    names = (["1.png"], ["1.png", "1.png"], ["1.png", "2.png"], ["2.png", "1.png"], ["2.png"])
    desk.write(*(record(number, *each) for number, each in enumerate(names)))
    albums = desk.build()
    skipped = Skipped(because=UNASKED, reason="unrequested")
    clusters = []
    for sample in albums.load():
        calls = {call.id: call for call in albums.calls(sample, "free")}
        scores = albums.scores(sample, "free", calls, dict.fromkeys(calls, skipped))
        [cluster] = {score.tags["cluster"] for score in scores}
        clusters.append(cluster)
    assert clusters[0] == clusters[1]
    assert clusters[2] == clusters[3]
    assert len(set(clusters)) == 3
    shared = "Samples that show the same images, in any order, are one cluster."
    assert any(note.startswith(shared) for note in albums.notes)
    desk.write(record(1, "1.png", more="1.png"))
    assert not desk.build().notes


def test_all_problems_of_images_are_listed_with_row_and_id(desk: Desk) -> None:
    (desk.images / "2.png").write_text("no picture")
    (desk.images / "3.png").unlink()
    desk.write(
        record(1, "1.png", more="gone.png"),
        record(2, "2.png"),
        record(3, "3.png", "../album.jsonl"),
        {"id": 4, "question": "What?", "picture": "", "more": ["4.png", None]},
        record(5, "4.png", more=[True]),
    )
    error = desk.refusal()
    missing, broken, *rest = error.problems
    assert missing == "album.jsonl line 1 (id 1): image gone.png is not in pictures"
    assert broken.startswith(f"album.jsonl line 2 (id 2): {desk.images / '2.png'}: ")
    assert rest == [
        "album.jsonl line 3 (id 3): image 3.png is not in pictures; "
        "image '../album.jsonl' is not inside the images folder",
        "album.jsonl line 4 (id 4): picture is empty",
        "album.jsonl line 4 (id 4): more is empty",
        "album.jsonl line 5 (id 5): more holds True, which is not text",
    ]
    assert "Every record needs id, question, picture." in str(error)


def test_check_and_run_refuse_a_missing_image_before_any_call(desk: Desk) -> None:
    assert "4 samples under free: data in order" in desk.type("check")
    (desk.images / "3.png").unlink()
    for command in ("check", "run"):
        with pytest.raises(DataError, match=r"line 3 \(id 3\): image 3\.png is not in pictures"):
            desk.type(command)
    assert not [*desk.data.parent.glob("runs/*/")]


def test_a_limited_run_checks_only_its_first_records(desk: Desk) -> None:
    for number in (2, 3):
        (desk.images / f"{number}.png").unlink()
    assert [sample.id for sample in desk.build(limit=1).load()] == ["1"]
    error = desk.refusal(limit=2)
    assert error.problems == ("album.jsonl line 2 (id 2): image 2.png is not in pictures",)
    assert "takes the next good records in their place" in str(error)
    assert "continues with the 2 good records." in str(desk.refusal(limit=4))
    skipping = desk.build(limit=2, skip_bad_records=True)
    assert [sample.id for sample in skipping.load()] == ["1", "4"]
    assert skipping.size == 2


def test_a_limited_run_opens_few_images_ahead(desk: Desk) -> None:
    names = [f"copy_{number}.png" for number in range(100)]
    for name in names:
        (desk.images / name).write_bytes(picture(1))
    desk.write(*(record(number, name) for number, name in enumerate(names)))
    opened: set[str] = set()

    class Counting(ImageStore):
        def add_file(self, path: str) -> Image:
            opened.add(path)
            return super().add_file(path)

    desk.build(limit=1, library=Counting())
    assert 1 <= len(opened) < 50


def in_csv(path: Path) -> None:
    path.write_text("id,question,picture,more\n1,What?,1.png,2.png\n", encoding="utf-8")


def in_a_sheet(path: Path) -> None:
    book = openpyxl.Workbook()
    page = book.create_sheet("album", 0)
    page.append(["id", "question", "picture", "more"])
    page.append([1, "What?", "1.png", "2.png"])
    book.save(path)


@pytest.mark.parametrize(("name", "save"), [("a.csv", in_csv), ("a.xlsx", in_a_sheet)])
def test_a_cell_names_one_image(desk: Desk, name: str, save: Callable[[Path], None]) -> None:
    path = desk.data.with_name(name)
    save(path)
    [sample] = desk.build(data=str(path)).load()
    assert [[*map(type, each)] for each in (sample.picture, sample.more)] == [[Image], [Image]]


@pytest.mark.parametrize(
    ("images", "problem"),
    [
        (None, "is a file name; give the images folder"),
        ("gone", "folder does not exist"),
        ("album.jsonl", "this is a file"),
    ],
)
def test_the_folder_of_images_must_exist(desk: Desk, images: str | None, problem: str) -> None:
    options = {} if images is None else {"images": str(desk.images.with_name(images))}
    given = {"data": str(desk.data), **options}
    with pytest.raises((ConfigError, DataError), match=problem):
        build(desk.data.parent, Albums, "candidate", options=given)


def test_options_list_the_folder_of_images_if_samples_have_any() -> None:
    listed = typed("options", f"{__name__}:Albums").output
    assert "The folder of the images; a .parquet file may hold them itself." in " ".join(
        listed.split()
    )
    assert "records need id, question, picture." in " ".join(listed.split())
    other = typed("options", "tests.example_benchmark:Riddles").output
    assert "--images" not in other


class Step(Fields):
    text: str
    image: ImageFile | None = None


class Story(Sample):
    steps: tuple[Step, ...]
    note: str | None = None


class Stories(Benchmark[Story, ImageOptions]):
    name = "stories"

    def plan(self, sample: Story, condition: str) -> tuple[Call, ...]:
        turns = [Turn(user=(*filter(None, [s.image]), Text(text=s.text))) for s in sample.steps]
        return chain(turns, model="candidate", sampling=Sampling())

    def score(self, sample: Story, results: Results) -> tuple[Score, ...]:
        return (results.score("steps", len(sample.steps)),)


def test_objects_inside_records_have_fields_and_images(desk: Desk) -> None:
    options = {"data": str(desk.data), "images": str(desk.images)}

    def stories() -> Any:
        return build(desk.data.parent, Stories, "candidate", options=options)

    desk.write({"id": 1, "steps": [{"text": "Once"}, {"text": 7, "image": "2.png"}], "note": " "})
    [story] = stories().load()
    assert [(step.text, bool(step.image)) for step in story.steps] == [("Once", False), ("7", True)]
    assert story.note is None
    desk.write({"id": 1, "steps": [{"text": "Once"}, {"text": " ", "image": "9.png"}]})
    with pytest.raises(DataError) as caught:
        stories()
    where = "album.jsonl line 1 (id 1): "
    assert caught.value.problems == (
        f"{where}steps[2].text is empty",
        f"{where}image 9.png is not in pictures",
    )
