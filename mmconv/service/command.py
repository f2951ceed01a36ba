"""`mmconv serve`: offer models, judges and benchmarks over HTTP. `mmconv view`: show runs."""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from mmconv.core.config import override
from mmconv.core.documents import read_document, validate
from mmconv.core.errors import ConfigError
from mmconv.service.settings import NAME, Settings

VIEW_PORT = 8090
"""The port of `mmconv view`, so that addresses of its pages can be kept."""


@click.command(name="serve")
@click.argument("settings", required=False, type=click.Path(path_type=Path))
@click.option("--model", "models", multiple=True, metavar="[NAME=]MODEL", help="Serve this model.")
@click.option("--host", help="Host to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="0 picks a free port.  [default: 8080]")
@click.option("--out", help="Folder of runs and uploads.  [default: runs]")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Set any field of the settings, as in sizes.turns=50.",
)
@click.option(
    "--new-token", metavar="NAME", help="Create a token, print it with its entry, and exit."
)
def command(settings: Path | None, models: tuple[str, ...], **chosen: Any) -> None:
    """Serve the models, data and judges of SETTINGS.yaml, or of --model, until Ctrl-C or SIGTERM.

    Without tokens in the settings, the server accepts requests from this machine only.
    """
    new_token, overrides = chosen.pop("new_token"), chosen.pop("overrides")
    if new_token is not None:
        click.echo(make_token(new_token))
        return
    read = read_settings(settings, models, chosen, overrides)
    _log(logging.INFO)
    with _web_libraries():
        from mmconv.service.run_requests import check_settings
        from mmconv.service.server import run

    for missing in check_settings(read):
        click.echo(f"Warning: {missing}", err=True)

    def announce(host: str, port: int) -> None:
        place = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        click.echo(f"Serving {', '.join(read.models)} at {place} (documentation: {place}/docs)")
        if not read.tokens:
            click.echo("No tokens are configured: only this machine is served.")

    run(read, announce)


@click.command(name="view")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("runs"))
@click.option("--port", type=int, help="0 picks a free port.  [default: 8090 if it is free]")
def view_command(folder: Path, port: int | None) -> None:
    """Browse the runs in FOLDER, finished or not, in a web page, until Ctrl-C.

    The page lists, filters and sorts the runs, shows the progress of those that go on, compares and
    ranks them, and shows samples of several runs side by side. It reads the folder and changes
    nothing. Only this machine is served.
    """
    _log(logging.WARNING)
    with _web_libraries():
        from mmconv.service.server import run
        from mmconv.service.web.folder import open_view

    if port is None:
        port = VIEW_PORT if _is_free(VIEW_PORT) else 0
    # nothing is served but the folder, so most settings have no meaning
    settings = Settings.model_construct(models={}, out=folder, port=port, drain_seconds=1.0)

    def announce(host: str, port: int) -> None:
        click.echo(f"The runs in {folder} are at http://{host}:{port} (Ctrl-C ends this)")

    run(settings, announce, open_view)


def _log(level: int) -> None:
    # uvicorn's general logger has this name, errors or not.
    logging.getLogger("uvicorn.error").name = "uvicorn"
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s %(message)s")


@contextmanager
def _web_libraries() -> Iterator[None]:
    """Import the web libraries, which are needed only now and may not be installed."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"serving needs libraries that are not installed ({error}); run: "
            "pip install 'mmconv[serve]'"
        ) from error


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def read_settings(
    path: Path | None,
    models: Sequence[str],
    chosen: Mapping[str, Any],
    overrides: Sequence[str],
) -> Settings:
    """The settings of a file, if any, with options and overrides on top.

    `models` are `name=model` or `model`. Raises `ConfigError`.
    """
    document: dict[str, Any] = {} if path is None else read_document(path)
    document.update({field: value for field, value in chosen.items() if value is not None})
    for text in models:
        name, equals, model = text.partition("=")
        # Anything but a mapping is refused below, with all other errors.
        if isinstance(own := document.get("models") or {}, dict):
            document["models"] = {**own, name: model if equals else name}
    document = override(document, overrides)
    if path is None and not document.get("models"):
        raise ConfigError(
            "nothing to serve: name a model, as in `mmconv serve --model pocket`, or a settings "
            "file that does (configs/serve.yaml shows all settings)"
        )
    return validate(Settings, document, "command line" if path is None else str(path))


def make_token(name: str) -> str:
    """A new token with its entry for the settings. Raises `ConfigError` for an invalid name."""
    if re.fullmatch(NAME, name) is None:
        raise ConfigError(
            f"--new-token {name!r}: a name has up to 64 letters, digits, '.', '_' and '-', "
            "and begins with a letter or digit"
        )
    token = f"mmconv-{secrets.token_urlsafe(32)}"
    digest = hashlib.sha256(token.encode()).hexdigest()
    return (
        f"{token}\n\n"
        "Keep it: it is not stored. For the settings:\n"
        "tokens:\n"
        f"  - name: {name}\n"
        f"    sha256: {digest}\n"
        "    scopes: [read, chat, run]"
    )
