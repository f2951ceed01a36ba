"""Imports providers and benchmarks by name.

Shipped ones have short names; others are named by `package.module` or `package.module:attribute`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from mmconv.core.documents import nearest
from mmconv.core.errors import ConfigError
from mmconv.core.user_code import RAISED


def find_named(name: str, what: str, known: Mapping[str, str]) -> object:
    """Import the module or attribute of a name; `known` maps short names to import paths.

    Raises `ConfigError` if there is none; `what` is it called there (provider, benchmark). What
    its code raises gets a note.
    """
    path = known.get(name, name)
    module, _, attribute = path.partition(":")
    is_path = not {".", ":"}.isdisjoint(name) and all(map(str.isidentifier, module.split(".")))
    if name not in known and not is_path:
        raise ConfigError(
            f"{what} {name!r} is not known; there are: {', '.join(sorted(known))}, and modules of "
            "yours as package.module or package.module:attribute"
        )
    try:
        imported = import_module(module)
    except ImportError as error:
        raise ConfigError(_describe(f"{what} {name!r}", module, error)) from error
    except Exception as error:
        error.add_note(f"{RAISED} {what} {name!r}")
        raise
    if attribute and not hasattr(imported, attribute):
        names = [public for public in vars(imported) if not public.startswith("_")]
        raise ConfigError(
            f"{what} {name!r}: {module} has no {attribute}{nearest(attribute, names)}"
        )
    return getattr(imported, attribute) if attribute else imported


def _describe(named: str, module: str, error: ImportError) -> str:
    """Describe which module was not found: this one, or one that it imports."""
    if not isinstance(error, ModuleNotFoundError):
        return f"{named}: importing {module} fails: {error}"
    missing = error.name or module
    if f"{module}.".startswith(f"{missing}."):
        return f"{named}: module {missing!r} is not on Python's path; check PYTHONPATH"
    return f"{named}: {module} imports {missing!r}, which is not installed, or misspelt there"
