"""Datasets in one Parquet file, in the layout in which the Hugging Face hub has them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from images import ImageStore, Limits
from mmconv.benchmarks.base import Fields, ImageFile, ImageFiles, ImageOptions, Sample
from mmconv.benchmarks.base.dataset import load_dataset
from mmconv.benchmarks.data_files.records import read_records
from mmconv.cli import commands
from mmconv.core.config import RunSpec
from mmconv.core.errors import DataError
from mmconv.core.keys import hash_bytes
from tests.mmconv.benchmarks.convbench.data_files import record
from tests.pictures import picture

IMAGE = pa.struct({"bytes": pa.binary(), "path": pa.string()})
FEATURES = {"info": {"features": {"image": {"_type": "Image"}}}}


def save(path: Path, rows: list[dict[str, Any]], **types: pa.DataType) -> Path:
    """Write a file as `datasets` does: two rows a group, and its features in the metadata."""
    columns = {name: pa.array([row.get(name) for row in rows], of) for name, of in types.items()}
    metadata = {b"huggingface": json.dumps(FEATURES).encode()}
    table = pa.table(columns).replace_schema_metadata(metadata)
    parquet.write_table(table, path, row_group_size=2)
    return path


def embedded(seed: int, path: str | None = None) -> dict[str, Any]:
    return {"bytes": picture(seed), "path": path}


class Step(Fields):
    text: str
    image: ImageFile | None = None


class Shown(Sample):
    """A struct, a list of structs, plain bytes, and a list of objects with an image."""

    question: str
    image: ImageFile
    more: ImageFiles = ()
    plain: ImageFile | None = None
    steps: tuple[Step, ...] = ()


TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "question": pa.string(),
    "image": IMAGE,
    "more": pa.list_(IMAGE),
    "plain": pa.binary(),
    "steps": pa.list_(pa.struct({"text": pa.string(), "image": IMAGE})),
}


def shown(seed: int, **fields: Any) -> dict[str, Any]:
    return {"id": seed, "question": "What?", "image": embedded(seed, f"{seed}.png"), **fields}


def read(
    path: Path,
    store: ImageStore | None = None,
    *,
    limit: int | None = None,
    folder: Path | None = None,
) -> tuple[Shown, ...]:
    spec = RunSpec(benchmark="shown", models={}, limit=limit)
    options = ImageOptions(data=path, images=folder)
    return load_dataset(Shown, options, spec, store or ImageStore()).samples


def test_images_come_from_structs_lists_plain_bytes_and_objects(tmp_path: Path) -> None:
    rows = [
        shown(1, more=[embedded(2), embedded(3)], plain=picture(4)),
        shown(2, more=[]),
        shown(3, steps=[{"text": "Once"}, {"text": "upon", "image": embedded(5)}]),
    ]
    store = ImageStore()
    first, second, third = read(save(tmp_path / "a.parquet", rows, **TYPES), store)
    assert first.plain is not None
    images = [first.image, *first.more, first.plain, second.image, third.image]
    hashes = [hash_bytes(picture(seed)) for seed in (1, 2, 3, 4, 2, 3)]
    assert [image.sha256 for image in images] == hashes
    assert (second.id, second.more, second.plain) == ("2", (), None)
    assert [bool(step.image) for step in third.steps] == [False, True]
    assert store.read(hashes[0]) == picture(1)


def test_an_image_without_bytes_is_a_file(tmp_path: Path) -> None:
    row = shown(1, image={"bytes": None, "path": "1.png"})
    path = save(tmp_path / "a.parquet", [row], **TYPES)
    (tmp_path / "1.png").write_bytes(picture(1))
    [sample] = read(path, folder=tmp_path)
    assert sample.image.sha256 == hash_bytes(picture(1))
    with pytest.raises(DataError, match=r"'1\.png' is a file name; give the images folder"):
        read(path)


def test_all_problems_name_file_row_and_field(tmp_path: Path) -> None:
    broken = {"bytes": b"no picture", "path": "cat.png"}
    rows = [
        shown(1, image=broken, more=[embedded(2), {"bytes": b"", "path": None}]),
        shown(2),
        shown(3, question=None, steps=[{"text": "Once", "image": broken}]),
        shown(4, image={"bytes": None, "path": None}),
    ]
    with pytest.raises(DataError) as caught:
        read(save(tmp_path / "a.parquet", rows, **TYPES))
    advice = "give a JPEG, PNG, GIF, WebP, BMP or TIFF file"
    kind = f"is of another kind (it starts with b'no pictu'); {advice}"
    assert caught.value.problems == (
        f"a.parquet row 1 (id 1): image (cat.png): {kind}",
        f"a.parquet row 1 (id 1): more[2]: is empty; {advice}",
        "a.parquet row 3 (id 3): question is missing",
        f"a.parquet row 3 (id 3): steps[1].image (cat.png): {kind}",
        "a.parquet row 4 (id 4): image is missing",
    )


def test_limits_hold_and_an_image_is_not_text(tmp_path: Path) -> None:
    path = save(tmp_path / "a.parquet", [shown(1)], **TYPES)
    with pytest.raises(DataError, match=r"row 1 \(id 1\): image \(1\.png\): .* at most 100"):
        read(path, ImageStore(limits=Limits(max_pixels=100)))
    save(path, [shown(1, question=embedded(1))], **{**TYPES, "question": IMAGE})
    with pytest.raises(DataError, match="question holds an image, which is not text"):
        read(path)


def test_a_limited_run_decodes_few_images(tmp_path: Path) -> None:
    seen: list[str] = []

    class Counting(ImageStore):
        def add_bytes(self, data: bytes, where: str = "") -> Any:
            seen.append(where)
            return super().add_bytes(data, where)

    rows = [shown(1, id=number) for number in range(100)]
    path = save(tmp_path / "a.parquet", rows, **TYPES)
    assert len(read(path, Counting(), limit=1)) == 1
    assert 1 <= len(seen) < 50
    assert len(read(path)) == 100


def test_what_is_not_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 but not for long")
    with pytest.raises(DataError, match="not a readable Parquet file"):
        list(read_records(path))
    whole = save(path, [shown(1)], **TYPES).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="not a readable Parquet file"):
        list(read_records(path))


def run(benchmark: str, data: Path, folder: Path, *more: str) -> str:
    arguments = ["run", benchmark, "--data", str(data), "--out", str(folder / "runs"), "--no-page"]
    models = ["--candidate", "fake/echo", "--judge", "fake/judge", *more]
    result = CliRunner().invoke(commands, [*arguments, *models], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_convbench_runs_from_one_file(tmp_path: Path) -> None:
    """Annotations may name the images too."""
    rows = [record(number, image_id=embedded(number, f"{number}.png")) for number in (1, 2, 3)]
    types = dict.fromkeys(rows[0], pa.string()) | {"ID": pa.int64(), "image_id": IMAGE}
    data = save(tmp_path / "convbench.parquet", rows, **types)
    texts = {
        "instruction-conditioned-caption": "A square.",
        **dict.fromkeys(("first_turn_answer", "second_turn_answer", "third_turn_answer"), "One."),
    }
    lines = [{"ID": row["ID"], "image_id": "other.png", **texts} for row in rows]
    annotations = tmp_path / "annotations.jsonl"
    annotations.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    assert "n=3" in run("convbench", data, tmp_path, "--annotations", str(annotations))


def test_dialogues_run_from_one_file(tmp_path: Path) -> None:
    turns = [{"instruction": "What?", "images": [embedded(1)]}, {"instruction": "Why?"}]
    turn = pa.struct({"instruction": pa.string(), "images": pa.list_(IMAGE)})
    rows = [{"id": "a", "turns": turns}]
    data = save(tmp_path / "own.parquet", rows, id=pa.string(), turns=pa.list_(turn))
    assert "n=1" in run("dialogue", data, tmp_path)
