"""Models that cannot be asked here since the server has no key for them, told beforehand."""

from __future__ import annotations

import logging

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from mmconv.engine.setup import check_key
from mmconv.service.errors.problems import Problem

log = logging.getLogger(__name__)


def has_key(spec: ModelSpec) -> bool:
    """Whether the key that the model needs is set, if it needs one."""
    try:
        check_key(spec)
    except ConfigError:
        return False
    return True


def require_key(spec: ModelSpec, name: str, param: str) -> None:
    """Raise `Problem` 409 for a model whose key is not set here; what is missing is logged.

    `name` is its public name, `param` the field of the request that names it.
    """
    try:
        check_key(spec)
    except ConfigError as error:
        log.warning("the model %s is refused: %s", name, error)
        raise Problem(
            409,
            f"{param}: the model {name!r} cannot be asked here, since the server has no key for "
            "it; name another, or have whoever runs the server set it",
            param=param,
            code="model_unusable",
        ) from error
