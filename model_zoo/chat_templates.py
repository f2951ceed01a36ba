"""How a checkpoint wants conversations written: its chat template, by its files or by an option.

Nothing is loaded, rendered or downloaded here: the providers `hf` and `vllm` do that. It serves to
refuse a checkpoint without a template before it is loaded, and to record the template in a run's
manifest.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from mmconv.core.keys import hash_bytes
from model_zoo.checkpoints import file_at_hand, is_local, read_fields

PLAIN = "plain"
"""The option that replaces a template by a plain transcript of the turns."""

TRANSCRIPT = "plain transcript"
"""How a manifest names it."""

WITHOUT_TEMPLATE = frozenset({"blip-2", "instructblip", "mt5", "t5"})
"""Architectures (`model_type`) that come without a template and get a plain transcript."""

_TEMPLATE = "chat_template"
_JINJA = "chat_template.jinja"
_PLACES = ("processor_config.json", "chat_template.json", _JINJA, "tokenizer_config.json")
"""Where transformers looks, in this order."""

_CLOCK = "strftime_now"
_CLOCK_CODES = (*"aAbBcdeFHIjmMpSTuwxXyYZ", "-d", "-m")
"""The codes of strftime; the template's clock is a function that takes a format of these."""

_FROM_CODE = frozenset({"smolvlm"})
"""Architectures whose processor has a template where the checkpoint brings none."""


def _read_template(option: str) -> str:
    if option.endswith(".jinja"):
        try:
            return Path(option).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(f"{option}: {reason}") from error
    if option != PLAIN and "{" not in option:
        raise ValueError(f"{option!r} is neither a file named *.jinja nor a Jinja text")
    return option


Template = Annotated[str, AfterValidator(_read_template)]
"""A chat template: the text of a file named *.jinja, a Jinja text, or `PLAIN`."""


def default_template(templates: Any) -> str | None:
    """The one template, or that named `default` among several, as libraries hold or save them."""
    if isinstance(templates, list):
        templates = {entry["name"]: entry["template"] for entry in templates}
    if isinstance(templates, Mapping):
        templates = templates.get("default")
    return templates or None


def find_template(model: str, revision: str | None = None) -> str | None:
    """The chat template in a checkpoint's files; of a hub name in those downloaded before."""
    for name in _PLACES:
        file = file_at_hand(model, name, revision)
        if file is None or not file.is_file():
            continue
        if name == _JINJA:
            template: str | None = file.read_text(encoding="utf-8")
        else:
            template = default_template(read_fields(file).get(_TEMPLATE))
        if template:
            return template
    return None


def name_template(model: str, revision: str | None, option: str | None) -> str:
    """How a manifest names a checkpoint's template: its SHA-256, `TRANSCRIPT`, or `not known`.

    `option` replaces the template.
    """
    text = option or find_template(model, revision)
    if text == PLAIN or (text is None and model_type(model, revision) in WITHOUT_TEMPLATE):
        return TRANSCRIPT
    return "not known" if text is None else hash_bytes(text.encode())


def asks_the_date(template: str | None) -> bool:
    """Whether a template may write today's date, by the function that transformers gives it."""
    return template is not None and _CLOCK in template


def on_day(template: str, day: datetime.date) -> str:
    """The template with a fixed clock: midnight of `day`."""
    if not asks_the_date(template):
        return template
    midnight = datetime.datetime.combine(day, datetime.time())
    written = "".join(
        f"|replace('%{code}', '{midnight.strftime(f'%{code}')}')" for code in _CLOCK_CODES
    )
    # a plus sign keeps the line break that the template may begin with
    return f"{{% macro {_CLOCK}(format) %}}{{{{ format{written} }}}}{{% endmacro +%}}{template}"


def lacks_template(model: str) -> bool:
    """Whether a checkpoint's folder surely has none, nor code that may have one.

    False for a hub name, of which nothing is known before it is loaded.
    """
    folder = Path(model).expanduser()
    if not is_local(model) or not (folder / "tokenizer_config.json").is_file():
        return False
    if (folder / "tekken.json").exists() or model_type(model) in _FROM_CODE:
        return False
    has_code = any("auto_map" in read_fields(folder / name) for name in ("config.json", *_PLACES))
    return not has_code and find_template(model) is None


def without_template(model: str, *, plain: bool) -> str:
    """The message for a checkpoint without a template; `plain`: its provider can do without."""
    accepting = f", or accept a plain transcript by options.{_TEMPLATE}={PLAIN}" if plain else ""
    return (
        f"model {model}: has no chat template, which says how a conversation is written; copy "
        f"{_JINJA} from the checkpoint that it was made from, or name such a file in "
        f"options.{_TEMPLATE}{accepting}"
    )


def model_type(model: str, revision: str | None = None) -> str | None:
    """The architecture that a checkpoint's configuration names; None if it was not downloaded."""
    return read_fields(file_at_hand(model, "config.json", revision)).get("model_type")
