"""`/docs`: the API's own document as a page to read, without scripts or remote assets.

It shows what `/openapi.json` says and is made from it; tools read that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.openapi.utils import get_openapi
from starlette.responses import HTMLResponse, Response

router = APIRouter(include_in_schema=False)

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #8886 }
section { margin: 1.2rem 0 }
code { font: 14px ui-monospace, monospace; overflow-wrap: anywhere }
.method { font-weight: bold; display: inline-block; min-width: 4.5rem }
table { border-collapse: collapse; display: block; overflow-x: auto }
td, th { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0 }
th { font-weight: 600 }
:root { color-scheme: light dark }
"""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
}

Document = Mapping[str, Any]


@router.get("/docs")
async def show_docs(request: Request) -> Response:
    """The page."""
    return HTMLResponse(page(request.app.openapi()), headers=HEADERS)


def describe(title: str, version: str, description: str, routes: Any) -> dict[str, Any]:
    """The OpenAPI document of these routes: with bearer tokens, without FastAPI's own errors."""
    document = get_openapi(title=title, version=version, description=description, routes=routes)
    parts = document["components"]
    parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}, {}]
    for operations in document["paths"].values():
        for operation in operations.values():
            # A request that cannot be read is answered with 400, in the shape of all errors.
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        parts["schemas"].pop(name, None)
    return document


def page(document: Document) -> str:
    """The document as HTML."""
    info = document["info"]
    head = f"<title>{escape(info['title'])}</title><style>{STYLE}</style>"
    body = "".join(_groups(document)) + "".join(_shapes(document))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">{head}'
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>"
        f"<p>{escape(info['description'])} "
        'For tools: <a href="/openapi.json">/openapi.json</a>.</p>'
        f"{body}</html>"
    )


def _groups(document: Document) -> Iterator[str]:
    """Every operation, under the heading of its first tag."""
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            told = _operation(path, method, operation)
            groups.setdefault(operation.get("tags", ["other"])[0], []).append(told)
    for name, sections in groups.items():
        yield f"<h2>{escape(name)}</h2>{''.join(sections)}"


def _operation(path: str, method: str, operation: Document) -> str:
    rows = [
        (parameter["name"], parameter["in"], parameter.get("description", ""))
        for parameter in operation.get("parameters", ())
    ]
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        rows.append(("body", kind, _kind(content.get("schema", {}))))
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            for kind, content in response.get("content", {}).items():
                rows.append((status, kind, _kind(content.get("schema", {}))))
    refusals = ", ".join(status for status in operation["responses"] if status[0] not in "23")
    return (
        f'<section><div><code class="method">{method.upper()}</code><code>{escape(path)}</code>'
        f"</div>{escape(operation.get('description', ''))}{_table(rows)}"
        f"Errors: {refusals}</section>"
    )


def _shapes(document: Document) -> Iterator[str]:
    """The fields of every object that is sent or answered."""
    yield "<h2>Shapes</h2>"
    for name, schema in document["components"]["schemas"].items():
        needed = schema.get("required", ())
        rows = [
            (field, _kind(told) + (" (needed)" if field in needed else ""), _bounds(told))
            for field, told in schema.get("properties", {}).items()
        ]
        yield (
            f'<section id="{escape(name)}"><b>{escape(name)}</b> '
            f"{escape(schema.get('description', ''))}{_table(rows)}</section>"
        )


def _kind(schema: Document) -> str:
    """A schema in a few words."""
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(_kind(each) for each in schema[word])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return repr(schema["const"])
    if "enum" in schema:
        return " | ".join(repr(each) for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))


def _bounds(schema: Document) -> str:
    told = [schema.get("description", "")]
    for word in ("minimum", "maximum", "exclusiveMinimum", "minItems", "maxItems", "default"):
        for each in (schema, *schema.get("anyOf", ())):
            if each.get(word) is not None:
                told.append(f"{word} {each[word]}")
    return " ".join(part for part in told if part)


def _table(rows: list[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    cells = "".join(
        f"<tr><th><code>{escape(name)}</code><td>{escape(kind)}<td>{escape(told)}"
        for name, kind, told in rows
    )
    return f"<table>{cells}</table>"
