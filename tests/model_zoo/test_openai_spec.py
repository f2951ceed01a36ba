"""A model file of the chat-completions provider: its name in keys, and what is wrong with it."""

import subprocess
import sys
from traceback import format_exception
from typing import Any

import pytest

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_bytes
from model_zoo import openai_api
from tests.model_zoo.conftest import NoImages


def spec(**fields: Any) -> ModelSpec:
    return ModelSpec(**{"provider": "openai", "model": "some/model", **fields})


def fingerprint(url: str | None = "http://a/v1", model: str = "m", **options: Any) -> str:
    return openai_api.fingerprint(spec(base_url=url, model=model, options=options))


def test_fingerprint_names_what_changes_replies() -> None:
    distinct = [
        fingerprint(),
        fingerprint(None),
        fingerprint("http://b/v1"),
        fingerprint(model="n"),
        fingerprint(identity="m at revision 1"),
        fingerprint(max_pixels=1000),
        fingerprint(max_bytes=1000),
        fingerprint(media_types=["image/png"]),
        fingerprint(max_tokens_field="max_completion_tokens"),
        fingerprint(guided_json=True),
        fingerprint(extra_body={"top_k": 1}),
        fingerprint(empty_answer="(no answer)"),
    ]
    assert len(set(distinct)) == len(distinct)


def test_models_without_newer_options_have_the_names_that_they_had() -> None:
    expected = (
        b'["openai","m","http://a/v1",{"max_pixels":null,"min_pixels":null,"max_side":9,'
        b'"media_types":["image/jpeg","image/png","image/webp","image/gif"]},"max_tokens",false,{}'
    )
    assert fingerprint(max_side=9) == hash_bytes(expected + b"]")
    assert fingerprint(max_side=9, max_bytes=1000) == hash_bytes(expected + b",1000]")


def test_fingerprint_names_nothing_else() -> None:
    assert fingerprint() == fingerprint("http://a/v1/") == fingerprint(image_cache_mb=1)
    assert fingerprint(identity="x") == fingerprint("http://b/v1", identity="x")


async def test_a_url_is_filled_in_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    named = spec(base_url="${MMCONV_TEST_URL}", options={"identity": "x"})
    monkeypatch.delenv("MMCONV_TEST_URL", raising=False)
    # What only reads replies needs no address of a model that has an identity.
    assert openai_api.fingerprint(named) == fingerprint(model="some/model", identity="x")
    with pytest.raises(ConfigError, match="variable MMCONV_TEST_URL is not set"):
        openai_api.check_key(named)
    with pytest.raises(ConfigError, match="variable MMCONV_TEST_URL is not set"):
        fingerprint("${MMCONV_TEST_URL}")
    monkeypatch.setenv("MMCONV_TEST_URL", "http://a/v1/")
    assert fingerprint("${MMCONV_TEST_URL}") == fingerprint("http://a/v1")
    opened = await openai_api.open_backend(named, NoImages())
    await opened.aclose()
    monkeypatch.setenv("MMCONV_TEST_URL", "http://me:secret@host/v1")
    with pytest.raises(ConfigError, match="not hold a user, password or query") as raised:
        openai_api.check_key(named)
    assert "secret" not in str(raised.value)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no such option": ({"options": {"max_pixel": 1}}, "max_pixel"),
    "no room for a picture": ({"options": {"max_bytes": 999}}, "max_bytes"),
    "our own field": ({"options": {"extra_body": {"stream": True}}}, "stream cannot be set here"),
    "policy": ({"options": {"media_types": ["image/gif"]}}, "must have image/png or image/jpeg"),
    "no scheme": ({"base_url": "host:8000/v1"}, "must be like http"),
    "no port": ({"base_url": "http://host:port/v1"}, "must be like http"),
    "password": ({"base_url": "http://me:secret@host/v1"}, "not hold a user, password or query"),
    "query": (
        {"base_url": "http://host/v1?key=secret"},
        "not hold a user, password or query.*set the query in options",
    ),
}


@pytest.mark.parametrize(("fields", "words"), WRONG.values(), ids=WRONG)
async def test_a_wrong_model_is_told_before_a_run(fields: dict[str, Any], words: str) -> None:
    wrong = spec(**{"base_url": "http://host/v1", **fields})
    with pytest.raises(ConfigError, match=words) as raised:
        openai_api.fingerprint(wrong)
    assert "secret" not in str(raised.value)
    with pytest.raises(ConfigError, match=words):
        await openai_api.open_backend(wrong, NoImages())


@pytest.mark.parametrize(
    ("fields", "variable"),
    [({}, "OPENAI_API_KEY"), ({"base_url": "http://host/v1", "api_key_env": "NO_KEY"}, "NO_KEY")],
    ids=["hosted", "named"],
)
async def test_a_missing_key_is_told(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], variable: str
) -> None:
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigError, match=variable):
        await openai_api.open_backend(spec(**fields), NoImages())


def test_a_key_in_the_place_of_its_variable_is_not_shown() -> None:
    slip = spec(base_url="http://host/v1", api_key_env="sk-proj-REALSECRET")
    with pytest.raises(
        ConfigError, match="api_key_env must name a variable; its value may be the"
    ) as raised:
        openai_api.check_key(slip)
    assert "REALSECRET" not in "".join(format_exception(raised.value))


def test_importing_it_loads_no_client() -> None:
    code = (
        "import sys, model_zoo.openai_api as api; from mmconv.core.config import ModelSpec;"
        "api.fingerprint(ModelSpec(provider='openai', model='m'));"
        "print(sorted({'aiohttp', 'torch'} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert found == "[]\n"
