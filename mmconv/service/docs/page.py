"""`/docs`: the OpenAPI document as a page to read, without scripts or remote assets.

Contents, operations with their parameters, bodies and examples, then all types, each linked from
where it is used. It shows what the document says and adds nothing; tools read the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import orjson
from fastapi import APIRouter, Request
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, Response

from mmconv.report.page.rendering import STYLE, read_part, templates
from mmconv.service.docs.schema_words import bounds_of, kind_of

Document: TypeAlias = Mapping[str, Any]

router = APIRouter(include_in_schema=False)

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
}

FOLDER = Path(__file__).parents[1] / "web" / "assets"

_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A parameter, a body, an answer or a field of a type: what it is and what it may be."""

    name: str
    kind: Markup
    words: Markup
    needed: bool = False
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A method of a path; `examples` are titles with bodies as text."""

    id: str
    method: str
    path: str
    words: Markup
    parameters: tuple[Field, ...]
    bodies: tuple[Field, ...]
    answers: tuple[Field, ...]
    errors: tuple[str, ...]
    examples: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A type: an object that is sent or answered."""

    name: str
    words: Markup
    fields: tuple[Field, ...]


@router.get("/docs")
async def show_docs(request: Request) -> Response:
    """Give out the page."""
    return HTMLResponse(page(request.app.openapi()), headers=HEADERS)


def page(document: Document) -> str:
    """The document as HTML."""
    info = document["info"]
    return (
        templates(FOLDER)
        .get_template("docs.html.j2")
        .render(
            title=info["title"],
            version=info["version"],
            about=paragraphs(info["description"]),
            groups=_groups(document),
            shapes=tuple(_shapes(document)),
            style=_style(),
        )
    )


@cache
def _style() -> Markup:
    """The style of all pages, and what this one has beside it."""
    return Markup(read_part(STYLE) + (FOLDER / "docs.css").read_text(encoding="utf-8"))


def paragraphs(text: str) -> Markup:
    """A description: paragraphs, and code where it stands in backticks."""
    paragraphs = (
        Markup("<p>{}</p>").format(Markup(_CODE.sub(r"<code>\1</code>", str(escape(part)))))
        for part in text.split("\n\n")
        if part.strip()
    )
    return Markup("").join(paragraphs)


def _groups(document: Document) -> dict[str, list[Operation]]:
    """The operations under the heading of their first tag."""
    groups: dict[str, list[Operation]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            group = groups.setdefault(operation.get("tags", ["other"])[0], [])
            group.append(_operation(path, method, operation))
    return groups


def _operation(path: str, method: str, operation: Document) -> Operation:
    content = operation.get("requestBody", {}).get("content", {})
    return Operation(
        id=re.sub(r"[^A-Za-z0-9]+", "-", f"{method}{path}").strip("-"),
        method=method.upper(),
        path=path,
        words=paragraphs(operation.get("description", "")),
        parameters=tuple(_parameter(each) for each in operation.get("parameters", ())),
        bodies=tuple(
            Field(name=kind, kind=kind_of(each.get("schema", {})), words=Markup(""))
            for kind, each in content.items()
        ),
        answers=tuple(_answers(operation["responses"])),
        errors=tuple(_errors(operation["responses"])),
        examples=tuple(
            (title, orjson.dumps(example["value"], option=orjson.OPT_INDENT_2).decode())
            for each in content.values()
            for title, example in each.get("examples", {}).items()
        ),
    )


def _parameter(parameter: Document) -> Field:
    schema = parameter.get("schema", {})
    return Field(
        name=parameter["name"],
        kind=kind_of(schema),
        words=paragraphs(parameter.get("description", "")) + bounds_of(schema),
        needed=parameter.get("required", False),
        where=parameter["in"],
    )


def _answers(responses: Document) -> Iterator[Field]:
    for status, response in responses.items():
        if status[0] in "23":
            kinds = [
                Markup("{} <span class='media'>{}</span>").format(
                    kind_of(each.get("schema", {})), media
                )
                for media, each in response.get("content", {}).items()
            ]
            words = response.get("description", "")
            told = [] if words == "Successful Response" else [words]
            told += [
                f"Header `{name}`: {header['description']}"
                for name, header in response.get("headers", {}).items()
            ]
            yield Field(
                name=status,
                kind=Markup("<br>").join(kinds) if kinds else Markup("no body"),
                words=paragraphs("\n\n".join(told)),
            )


def _errors(responses: Document) -> Iterator[str]:
    """The statuses of errors, with their headers."""
    for status, response in responses.items():
        if status[0] in "45":
            headers = " and ".join(response.get("headers", ()))
            yield f"{status} (with {headers})" if headers else status


def _shapes(document: Document) -> Iterator[Shape]:
    """The objects that are sent or answered, by name."""
    for name, schema in sorted(document["components"]["schemas"].items()):
        needed = schema.get("required", ())
        yield Shape(
            name=name,
            words=paragraphs(schema.get("description", "")),
            fields=tuple(
                Field(
                    name=field,
                    kind=kind_of(each),
                    words=paragraphs(each.get("description", "")) + bounds_of(each),
                    needed=field in needed,
                )
                for field, each in schema.get("properties", {}).items()
            ),
        )
