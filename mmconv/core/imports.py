"""Names become modules: shipped ones, and those installed beside mmconv. Nothing is checked here.

A shipped one has a short name; any other is named by its path, `package.module`, and what is in it
by `package.module:attribute`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module

from mmconv.core.documents import nearest
from mmconv.core.errors import ConfigError
from mmconv.core.user_code import telling


def find_named(name: str, what: str, known: Mapping[str, str]) -> object:
    """The module, or what is in it, that a name stands for; `known` are the paths of short names.

    Raises `ConfigError` that names `what` is looked for (a provider, a benchmark) where there is
    none, and `UserCodeError` where importing it fails.
    """
    path = known.get(name, name)
    module, _, attribute = path.partition(":")
    is_path = not {".", ":"}.isdisjoint(name) and all(map(str.isidentifier, module.split(".")))
    if name not in known and not is_path:
        advice = f"; there are: {', '.join(sorted(known))}"
        if ".py:" in name:
            advice = f"; did you mean {name.replace('.py:', ':').replace('/', '.').lstrip('.')}?"
        elif "-" in module and ":" in name:
            advice = f"; {module} cannot be imported: the name of a Python module has no '-'"
        raise ConfigError(f"{what} {name!r} is not known{advice}")
    with telling(f"{what} {name!r}: importing {module}"):
        try:
            found = import_module(module)
        except ImportError as error:
            raise ConfigError(_why_not(f"{what} {name!r}", module, error)) from error
    if attribute and not hasattr(found, attribute):
        names = [each for each in vars(found) if not each.startswith("_")]
        raise ConfigError(
            f"{what} {name!r}: {module} has no {attribute}{nearest(attribute, names)}"
        )
    return getattr(found, attribute) if attribute else found


def _why_not(named: str, module: str, error: ImportError) -> str:
    """Whether the module itself is not found, or something that it imports."""
    if not isinstance(error, ModuleNotFoundError):
        return f"{named}: importing {module} fails: {error}"
    lost = error.name or module
    parent, _, last = module.rpartition(".")
    if lost == module and parent in sys.modules and hasattr(sys.modules[parent], last):
        return f"{named}: {last} is no module but stands in one; did you mean {parent}:{last}?"
    if f"{module}.".startswith(f"{lost}."):
        return f"{named}: there is no module {lost!r} on Python's path; is PYTHONPATH right?"
    return f"{named}: {module} imports {lost!r}, which is not installed, or misspelt there"
