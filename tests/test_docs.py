"""The pages' links, commands and settings exist. README's examples also run: test_readme.py."""

import re

import click
import pytest
import yaml

from mmconv.cli import commands
from mmconv.core.config import ModelSpec, RunSpec
from tests.doc_pages import README, ROOT, blocks, commands_of, pages

PAGES = {str(page.relative_to(ROOT)): page for page in pages()}
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(#[^)]+)?\)")
OPTION = re.compile(r"(?<=`)--[a-z][a-z-]+")


def options() -> set[str]:
    ctx = click.Context(commands)
    found = [*commands.params]
    for name in commands.list_commands(ctx):
        command = commands.get_command(ctx, name)
        assert command is not None
        found += command.params
    return {text for option in found for text in (*option.opts, *option.secondary_opts)}


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    page = PAGES[name]
    for place, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), f"{name}: {place}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor[1:] in {re.sub(r"\W+", "-", text.lower()) for text in headings}


@pytest.mark.parametrize("name", PAGES)
def test_every_command_takes_the_options_that_a_page_gives_it(name: str) -> None:
    for words in commands_of(PAGES[name]):
        with click.Context(commands) as ctx:
            _, command, rest = commands.resolve_command(ctx, words)
            assert command is not None
            command.make_parser(ctx).parse_args(rest)


def test_every_option_that_pages_name_exists() -> None:
    # the first is vLLM's, the second of the script that trains pocket
    known = options() | {"--reasoning-parser", "--resume"}
    named = {
        (name, option)
        for name, page in PAGES.items()
        for option in OPTION.findall(page.read_text(encoding="utf-8"))
    }
    assert {found for found in named if found[1] not in known} == set()
    assert ("mmconv/engine/README.md", "--max-cost") in named


def test_the_settings_in_yaml_are_valid() -> None:
    examples = [
        yaml.safe_load(code)
        for page in (README, ROOT / "model_zoo" / "README.md")
        for code in blocks(page.read_text(encoding="utf-8"), "yaml")
    ]
    for example in examples:
        (RunSpec if "benchmark" in example else ModelSpec).model_validate(example)
    assert len(examples) >= 3


def test_the_first_screen_has_the_commands_and_a_result() -> None:
    screen = "\n".join(README.read_text(encoding="utf-8").splitlines()[:30])
    assert "make setup" in screen and "mmconv demo" in screen
    assert "S2_hat " in screen and "Most failures" in screen
