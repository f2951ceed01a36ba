"""Names that stand for no provider or benchmark are told, whatever signs they hold."""

import pytest

from mmconv.core.errors import ConfigError
from mmconv.core.imports import find_named

KNOWN = {"hf": "model_zoo.hf", "fake": "model_zoo.simulated.fake"}


@pytest.mark.parametrize("name", ["..", ".", "..foo", "a..b", "my-own.thing", "", ":build"])
def test_what_is_no_name_of_a_module_is_not_known(name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"provider '.*' is not known; there are: fake, hf, and modules"
    ):
        find_named(name, "provider", KNOWN)


def test_what_a_module_has_not_is_told_with_the_nearest_that_it_has() -> None:
    assert find_named("os.path:join", "benchmark", KNOWN) is not None
    with pytest.raises(ConfigError, match=r"os\.path has no jion; did you mean join\?"):
        find_named("os.path:jion", "benchmark", KNOWN)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("os.path.jion", r"module 'os\.path\.jion' is not on Python's path"),
        ("./mine/quiz.py:Quiz", r"is not known; .* package\.module:attribute$"),
        ("my-own.quiz:Quiz", r"is not known; .* package\.module:attribute$"),
    ],
)
def test_a_class_that_is_named_otherwise_is_told_as_it_is_named(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_named(name, "benchmark", KNOWN)
