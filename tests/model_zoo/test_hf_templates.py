"""A checkpoint without a chat template: refused before it is loaded, or asked in plain turns."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from mmconv.core.errors import ConfigError, Refused
from model_zoo.chat_templates import default_template, find_template
from model_zoo.hf import check_ready, metadata, open_backend
from model_zoo.hf.prompts import render
from tests.messages import user
from tests.model_zoo.hf_support import (
    PICTURES,
    ask,
    backend,
    checkpoint,
    loaded,
    named,
    opened,
    said,
    spec,
)
from tests.tiny_checkpoints import FAMILIES

PLAIN = tuple(name for name, family in FAMILIES.items() if not family.template)
OWN = "{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}Well:"


DATED = "\n{% set today = strftime_now('%d %b %Y, %Y-%m-%d, day %-d') %}\n{{ today }}" + OWN
CHOOSING = "{{ 'Think. ' if thinking else 'Quick. ' }}" + OWN


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A Llama that was saved without its template."""
    shutil.copytree(checkpoint("llama"), tmp_path / "bare")
    (tmp_path / "bare" / "chat_template.jinja").unlink()
    return tmp_path / "bare"


async def test_it_is_refused_before_its_weights_are_read(bare: Path) -> None:
    (bare / "model.safetensors").unlink()
    refusal = rf"^model {bare}: has no chat template, .*options\.chat_template=plain$"
    with pytest.raises(ConfigError, match=refusal):
        await open_backend(named(bare), PICTURES)
    with pytest.raises(ConfigError, match=refusal):
        check_ready(named(bare))


@pytest.mark.parametrize("given", ["plain", OWN])
async def test_it_answers_where_an_option_says_how(bare: Path, given: str) -> None:
    check_ready(named(bare, chat_template=given))
    async with opened(bare, chat_template=given) as model:
        assert (await ask(model, user("What?"), said("That."), user("Why?"))).output_tokens


@pytest.mark.parametrize("family", PLAIN)
async def test_some_architectures_are_asked_in_plain_turns(family: str) -> None:
    check_ready(spec(family))
    assert metadata(spec(family)) == {"chat_template": "plain transcript"}
    shown = [] if family == "t5" else [PICTURES.draw(0)]
    async with backend(family) as model:
        assert (await ask(model, user(*shown, "What?"))).output_tokens


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in PLAIN])
async def test_what_is_recorded_is_what_is_used(family: str) -> None:
    check_ready(spec(family))
    async with backend(family) as model:
        held = loaded(model)
        used = default_template(getattr(held.processor or held.tokenizer, "chat_template", None))
    assert used
    assert find_template(str(checkpoint(family))) == used


async def written(family: str = "llama", **options: Any) -> str:
    async with backend(family, **options) as model:
        return render(loaded(model), [user("What?")], model.options).text


async def test_a_template_that_asks_the_date_is_told_the_same_every_day() -> None:
    by_default = await written(chat_template=DATED)
    assert by_default.startswith("\n26 Jul 2024, 2024-07-26, day 26user: What?")
    on_another = await written(chat_template=DATED, date="2025-01-02")
    assert on_another.startswith("\n02 Jan 2025, 2025-01-02, day 2user: What?")
    assert metadata(spec("llama", chat_template=DATED, date="2025-01-02"))["date"] == "2025-01-02"
    assert "date" not in metadata(spec("llama", chat_template=OWN))


@pytest.mark.parametrize("family", ["llama", "llava"])
async def test_variables_reach_the_template(family: str) -> None:
    options = {"chat_template": CHOOSING, "template_kwargs": {"thinking": True}}
    assert (await written(family, **options)).startswith("Think. ")


async def test_a_variable_that_the_template_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no variable thinks; .*options\.template_kwargs"):
        await written(chat_template=OWN, template_kwargs={"thinks": True, "messages": []})


async def test_a_calls_own_variables_reach_the_template() -> None:
    async with backend("llama", chat_template=CHOOSING) as model:
        plain = await ask(model, user("What?"))
        thinking = await ask(
            model, user("What?"), extra={"chat_template_kwargs": {"thinking": True}}
        )
        with pytest.raises(Refused, match="no variable thinks"):
            await ask(model, user("What?"), extra={"chat_template_kwargs": {"thinks": 1}})
    assert thinking.input_tokens != plain.input_tokens


async def test_of_several_templates_the_default_is_used(tmp_path: Path) -> None:
    shutil.copytree(checkpoint("llama"), tmp_path / "several")
    (tmp_path / "several" / "additional_chat_templates").mkdir()
    (tmp_path / "several" / "additional_chat_templates" / "tool_use.jinja").write_text("{{ no }}")
    async with backend("llama") as model:
        expected = await ask(model, user("What?"))
    async with opened(tmp_path / "several") as model:
        assert isinstance(loaded(model).tokenizer.chat_template, dict)
        assert (await ask(model, user("What?"))).text == expected.text
