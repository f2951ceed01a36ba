"""`mmconv serve`: models and benchmarks over HTTP. Local pages: `view`, `label`, `review`."""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import click

from mmconv.core.config import override
from mmconv.core.documents import read_document, validate
from mmconv.core.errors import ConfigError
from mmconv.service.settings import NAME, Settings

VIEW_PORT = 8090
"""The port of `mmconv view`, so that addresses of its pages can be kept."""

PEOPLE_PORT = 8091
"""The port of `mmconv label` and `mmconv review`."""

PORT_OPTION = click.option(
    "--port", type=int, help="0 picks a free port.  [default: 8091 if it is free]"
)
RATER_OPTION = click.option("--rater", metavar="NAME", help="Your name; the page asks for it.")


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
def serve_command(settings: Path | None, models: tuple[str, ...], **chosen: Any) -> None:
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
    ranks them, and shows samples of several runs side by side. It changes nothing in the folder
    but notes. Only this machine is served.
    """
    with _web_libraries():
        from mmconv.service.web.folder import open_view

    _serve_page(f"The runs in {folder} are", open_view, folder, port, usual=VIEW_PORT)


@click.command(name="label")
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option(
    "--samples",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Draw N samples.",
    metavar="N",
)
@click.option("--seed", default=1, show_default=True, help="Random seed of the draw.")
@RATER_OPTION
@click.option("--metric", help="The score that people give.  [default: the main one]")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("labels.csv"),
    show_default=True,
    help="The .csv file of labels to add to.",
)
@click.option(
    "--double",
    type=click.FloatRange(0, 100),
    default=20.0,
    show_default=True,
    metavar="PERCENT",
    help="The share of samples that every rater rates.",
)
@click.option(
    "--label-studio",
    type=click.Path(path_type=Path),
    metavar="FILE.json",
    help="Only write tasks that Label Studio imports.",
)
@PORT_OPTION
def label_command(runs: Sequence[Path], rater: str | None, port: int | None, **chosen: Any) -> None:
    """Rate the answers of RUNS (folders of finished runs) in a web page, until Ctrl-C.

    Raters see a dialogue with its images, but neither the model and the condition nor the judge's
    verdict. Samples are drawn by dialogue, and each comes with all runs and conditions. The first
    rater who asks gets a dialogue; those of --double go to every rater.

    Each rating is in the file at once, and the same command continues. `mmconv agree --human`
    reads the file.
    """
    with _web_libraries():
        from images import ImageStore
        from mmconv.service.web.label import open_label, open_task, write_label_studio

    images, out, tasks = ImageStore(), chosen.pop("out"), chosen.pop("label_studio")
    task = open_task(runs, out, images, **chosen)
    if task.left_out:
        click.echo(f"{task.left_out} answers that failed are left out.", err=True)
    samples = len({item.sample for item in task.items})
    ratings = sum(len(item.turns) for item in task.items)
    size = f"{samples} samples, {len(task.items)} dialogues, {ratings} ratings"
    if tasks:
        interface = write_label_studio(task, tasks, images)
        click.echo(f"{size}: tasks in {tasks}, the labelling interface in {interface}")
        return
    click.echo(f"{size}; they go to {out}")
    _serve_page("The page is", partial(open_label, task, images), out, port, rater)


def serve_review(drafts: Any, images: Any, rater: str | None, port: int | None) -> None:
    """Serve the review of a `DraftFile` with its images until Ctrl-C: benchmarks' commands do."""
    with _web_libraries():
        from mmconv.service.web.review import open_review

    _serve_page("The page is", partial(open_review, drafts, images), drafts.path, port, rater)


def _serve_page(
    title: str,
    opener: Callable[[Settings], AbstractAsyncContextManager[Any]],
    out: Path,
    port: int | None,
    rater: str | None = None,
    usual: int = PEOPLE_PORT,
) -> None:
    """Serve an application to this machine, and print its address."""
    from mmconv.service.server import run

    _log(logging.WARNING)
    if port is None:
        port = usual if _is_free(usual) else 0
    # nothing is served but pages and files, so most settings have no meaning
    settings = Settings.model_construct(models={}, out=out, port=port, drain_seconds=1.0)
    query = f"/?{urlencode({'rater': rater})}" if rater else ""

    def announce(host: str, port: int) -> None:
        click.echo(f"{title} at http://{host}:{port}{query} (Ctrl-C ends this)")

    run(settings, announce, opener)


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
