"""How a checkpoint wants conversations written: its chat template, by its files or by an option.

Nothing is loaded, rendered or downloaded here: the providers `hf` and `vllm` do that. What is told
serves to refuse a checkpoint that has none before it is loaded, and to say in a run's manifest by
which template its model was asked.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_bytes
from model_zoo.checkpoints import file_at_hand, is_local

PLAIN = "plain"
"""What an option says in a template's place: turns are written as a plain transcript."""

TRANSCRIPT = "plain transcript"
"""What a manifest says of it."""

ASKED_PLAINLY = frozenset({"blip-2", "instructblip", "mt5", "t5"})
"""Architectures, as `model_type` names them, that come without a template and are asked so."""

_TEMPLATE = "chat_template"
_JINJA = "chat_template.jinja"
_PLACES = ("processor_config.json", "chat_template.json", _JINJA, "tokenizer_config.json")
"""Where transformers looks, in this order."""

_CLOCK = "strftime_now"
_CLOCK_SIGNS = (*"aAbBcdeFHIjmMpSTuwxXyYZ", "-d", "-m")
"""The clock is a function of a format; these are what strftime knows, behind a per cent sign."""

_FROM_CODE = frozenset({"smolvlm"})
"""Architectures whose processor has a template where the checkpoint brings none."""


def _is_template(given: str) -> str:
    if given != PLAIN and not given.endswith(".jinja") and "{" not in given:
        raise ValueError(f"{given!r} is no file named *.jinja and no Jinja text")
    return given


Template = Annotated[str, AfterValidator(_is_template)]
"""A chat template as an option gives it: `PLAIN`, a file named *.jinja, or a Jinja text."""


def read_template(given: str | None) -> str | None:
    """The text of a `Template`, read from its file if it is one; `PLAIN` and None as they are.

    Raises `ConfigError` for a file that cannot be read.
    """
    if given is None or not given.endswith(".jinja"):
        return given
    try:
        return Path(given).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"{_TEMPLATE} {given}: {why}") from error


def default_template(found: Any) -> str | None:
    """The one template, or that named `default` among several, as libraries hold or save them."""
    if isinstance(found, list):
        found = {each["name"]: each["template"] for each in found}
    if isinstance(found, Mapping):
        found = found.get("default")
    return found or None


def find_template(model: str, revision: str | None = None) -> str | None:
    """The chat template in a checkpoint's files, a hub name's among what was downloaded before."""
    for name in _PLACES:
        file = file_at_hand(model, name, revision)
        if file is not None and file.is_file() and (found := _template_in(file)):
            return found
    return None


def name_template(model: str, revision: str | None, given: str | None) -> str:
    """What a manifest says of a checkpoint's template: its SHA-256, `TRANSCRIPT`, or `not known`.

    `given` is what an option says. Raises as `read_template` does.
    """
    text = read_template(given) or find_template(model, revision)
    if text == PLAIN or (text is None and model_type(model, revision) in ASKED_PLAINLY):
        return TRANSCRIPT
    return "not known" if text is None else hash_bytes(text.encode())


def asks_the_date(template: str | None) -> bool:
    """Whether a template may write what day it is, by the function that transformers gives it."""
    return template is not None and _CLOCK in template


def on_day(template: str, day: datetime.date) -> str:
    """The template with a clock of its own, which says midnight of `day` whenever it is read."""
    if not asks_the_date(template):
        return template
    midnight = datetime.datetime.combine(day, datetime.time())
    written = "".join(
        f"|replace('%{sign}', '{midnight.strftime(f'%{sign}')}')" for sign in _CLOCK_SIGNS
    )
    # a plus sign keeps the line break that the template may begin with
    return f"{{% macro {_CLOCK}(format) %}}{{{{ format{written} }}}}{{% endmacro +%}}{template}"


def lacks_template(model: str) -> bool:
    """Whether a checkpoint's folder surely brings none, nor code that may have one.

    Of a hub name that is not known before it is loaded.
    """
    folder = Path(model).expanduser()
    if not is_local(model) or not (folder / "tokenizer_config.json").is_file():
        return False
    if (folder / "tekken.json").exists() or model_type(model) in _FROM_CODE:
        return False
    own_code = any("auto_map" in _read(folder / name) for name in ("config.json", *_PLACES))
    return not own_code and find_template(model) is None


def without_template(model: str, *, plain: bool) -> str:
    """What to say of a checkpoint that has none; `plain`: its provider can do without."""
    accepting = f", or accept a plain transcript by options.{_TEMPLATE}={PLAIN}" if plain else ""
    return (
        f"model {model}: has no chat template, so that nobody knows how it wants a conversation "
        f"written; copy {_JINJA} from the checkpoint that it was made from, or name such a file in "
        f"options.{_TEMPLATE}{accepting}"
    )


def model_type(model: str, revision: str | None = None) -> str | None:
    """The architecture, as a checkpoint's configuration names it, where that is at hand."""
    file = file_at_hand(model, "config.json", revision)
    return None if file is None else _read(file).get("model_type")


def _template_in(file: Path) -> str | None:
    if file.name == _JINJA:
        return file.read_text(encoding="utf-8")
    return default_template(_read(file).get(_TEMPLATE))


def _read(file: Path) -> Mapping[str, Any]:
    """A JSON file's mapping; empty where there is none, which whoever loads it will tell."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
