"""Samples: the records of a dataset, as pydantic models.

A benchmark declares a `Sample` with the fields that it needs. Reading files, error messages that
name file, row and field, and the schema of HTTP requests are derived from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypeAlias, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import PydanticCustomError

from mmconv.benchmarks.data_files.parquet import EmbeddedImage
from mmconv.benchmarks.data_files.records import as_text
from mmconv.core.documents import Place, name_place
from mmconv.core.errors import ImageError
from mmconv.core.score_rows import CLUSTER
from mmconv.core.types import Image

OpenImage: TypeAlias = Callable[[Any], Image]
"""Opens an image: a record's text that names it, or an `EmbeddedImage`; raises `ImageError`."""

IMAGES = "images"
"""The key of the validation context that holds the `OpenImage`."""


SHARED_IMAGES = (
    "Samples that show the same images, in any order, are one cluster. Those that share only some "
    "of several images count as independent, so intervals are too narrow if there are many. Set "
    "the tag `cluster` of their scores to change that."
)


class Fields(BaseModel):
    """The fields of a record, or of an object inside one. Fields without a name here are ignored.

    A `str` takes numbers as a spreadsheet shows them, and is never blank. Declare a field that may
    be missing as `str | None = None`.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _read_text(cls, value: Any, info: ValidationInfo) -> Any:
        annotation = cls.model_fields[info.field_name or ""].annotation
        if annotation is str:
            return read_text(value)
        if {*get_args(annotation)} == {str, type(None)}:
            is_blank = value is None or (isinstance(value, str) and not value.strip())
            return None if is_blank else read_text(value)
        return value


class Sample(Fields):
    """One record of a dataset; `id` is unique within the dataset."""

    id: str


def read_text(value: Any) -> str:
    """A cell or JSON value as text that is not blank; raises `PydanticCustomError`."""
    if value is None or (isinstance(value, str) and not value.strip()):
        raise PydanticCustomError("text", "is empty")
    try:
        return as_text(value)
    except ValueError as error:
        raise PydanticCustomError("text", "{problem}", {"problem": str(error)}) from error


def _open_image(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, Image):
        return value
    open_image: OpenImage | None = (info.context or {}).get(IMAGES)
    if open_image is None:
        raise PydanticCustomError("image", "names an image, but no images folder is given")
    try:
        return open_image(value if isinstance(value, EmbeddedImage) else read_text(value))
    except ImageError as error:
        raise PydanticCustomError("image", "{message}", {"message": str(error)}) from error


def _open_images(names: Any, info: ValidationInfo) -> Any:
    images, problems = [], []
    for name in names if isinstance(names, list | tuple) else [names]:
        try:
            images.append(_open_image(name, info))
        except PydanticCustomError as error:
            if error.type != "image":
                raise
            problems.append(error.message())
    if problems:
        raise PydanticCustomError("image", "{message}", {"message": "; ".join(problems)})
    return tuple(images)


_NAME = {
    "type": "string",
    "description": "An image: a file in the images folder; over HTTP image:<id> or a data URI.",
}

ImageFile: TypeAlias = Annotated[Image, BeforeValidator(_open_image), WithJsonSchema(_NAME)]
"""A field with an image: a file name, or bytes in a .parquet file. The sample holds an `Image`."""

ImageFiles: TypeAlias = Annotated[
    tuple[Image, ...],
    BeforeValidator(_open_images),
    WithJsonSchema({"anyOf": [_NAME, {"type": "array", "items": _NAME}]}),
]
"""A field with one image or a list of images; [] means no image."""


def has_images(kind: Any) -> bool:
    """Whether a type is that of images, or contains it, such as a model with a field of images."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return any(has_images(field.annotation) for field in kind.model_fields.values())
    return kind is Image or any(map(has_images, get_args(kind)))


def images_of(value: object) -> Iterator[Image]:
    """All images of a sample, in the order of its fields."""
    if isinstance(value, Image):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from images_of(each)
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from images_of(getattr(value, name))


def cluster_of(sample: Sample) -> dict[str, str]:
    """Samples with the same images are one cluster: their scores are not independent."""
    hashes = {image.sha256 for image in images_of(sample)}
    return {CLUSTER: "+".join(sorted(hashes))} if hashes else {}


def problems_of(error: ValidationError) -> tuple[str, ...]:
    """What is wrong with a record, one line for each field: `history[2].user is empty`."""
    errors = error.errors()
    within = {each["loc"][:depth] for each in errors for depth in range(len(each["loc"]))}
    return tuple(
        _problem(each["loc"], each["type"], each["msg"])
        for each in errors
        # pydantic counts good items only: if one of them is wrong, the list is not short
        if each["type"] != "too_short" or each["loc"] not in within
    )


def _problem(place: Place, kind: str, message: str) -> str:
    name = name_place(place, first=1)
    if kind == "missing":
        return f"{name} is missing"
    if kind in ("empty", "text"):
        return f"{name} {message}"
    message = message.removeprefix("Value error, ")
    return f"{name}: {message}" if name and kind != "image" else message
