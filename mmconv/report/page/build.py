"""Writes the page: one HTML file for a run, or for several runs that are compared.

The page holds everything (style, script, plots, texts, small pictures) and asks nothing of a
network; its policy forbids it. Samples that exceed `BLOCK_BYTES` lie in a folder beside it, and the
page says which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mmconv.benchmarks.answers import METRICS as ENDINGS
from mmconv.protocols import ImageSource
from mmconv.report.output import PAGE
from mmconv.report.page import convbench, generic
from mmconv.report.page.blocks import BLOCK, Blocks, packed
from mmconv.report.page.closing import closing_sections, say_once
from mmconv.report.page.content import NOTHING, About, Content, View
from mmconv.report.page.dialogues import Record, dialogue
from mmconv.report.page.index import Index
from mmconv.report.page.losses import Losses
from mmconv.report.page.reading import Group, Run, aligned, read_run_folder
from mmconv.report.page.rendering import render
from mmconv.report.records import whole
from mmconv.values import Table

BLOCK_BYTES = 4_300_000
"""What texts and pictures may take inside the page, which stays below 5 MB with them."""

NAMES = {
    "convbench": "ConvBench",
    "fbbench": "FB-Bench",
    "cmteval": "CMT-Eval",
    "mtbench101": "MT-Bench-101",
    "botchat": "BotChat",
}


def write_page(
    folder: Path,
    images: ImageSource | None = None,
    about: About = NOTHING,
    *,
    block_bytes: int = BLOCK_BYTES,
) -> Path:
    """Write `report.html` into a run's folder and return its path.

    `images` gives the pictures; what it does not have, the page names. Raises `ConfigError` where
    the folder holds no finished run.
    """
    run = read_run_folder(folder)
    view = _view(run, run.tables)
    title = f"{run.label} on {NAMES.get(run.spec.benchmark, run.spec.benchmark)}"
    content = Content(title=title, runs=(run,), view=view, tables=run.tables, about=about)
    return _write(folder / PAGE, content, images, block_bytes)


def write_comparison(
    page: Path,
    folders: Mapping[str, Path],
    tables: Sequence[Table],
    images: ImageSource | None = None,
    about: About = NOTHING,
    *,
    block_bytes: int = BLOCK_BYTES,
) -> Path:
    """Write a page that sets runs of one benchmark side by side, under tables that compare them.

    `folders` are the runs' by label; the others are held against the first. Raises as `write_page`
    does.
    """
    runs = tuple(read_run_folder(folder, label) for label, folder in folders.items())
    own = _view(runs[0], ())
    sections = generic.view(tables).sections
    view = View(
        lead=(),
        sections=sections,
        words=own.words,
        levels=own.levels,
        labels=own.labels,
        scale=own.scale,
        given=own.given,
    )
    name = NAMES.get(runs[0].spec.benchmark, runs[0].spec.benchmark)
    title = f"{len(runs)} runs of {name} compared"
    content = Content(title=title, runs=runs, view=view, tables=tables, about=about)
    return _write(page, content, images, block_bytes)


def _view(run: Run, tables: Sequence[Table]) -> View:
    if run.spec.benchmark == "convbench":
        return convbench.view(tables)
    return generic.view(tables)


def _write(page: Path, content: Content, images: ImageSource | None, budget: int) -> Path:
    index = Index(marks=content.view.marks)
    losses = Losses()
    apart = page.with_suffix(".samples")
    with Blocks(images=images, folder=apart, budget=budget) as blocks:
        for sample, groups in aligned([run.folder for run in content.runs]):
            shown, pictures = _sample(sample, groups, content)
            blocks.add(shown, pictures)
            index.add(sample, groups, shown)
            for run, group in zip(content.runs, groups, strict=True):
                losses.add(sample, group.calls if group else (), content.prefix(run))
    sections = say_once(
        [*content.view.sections, *closing_sections(content, losses)], content.warnings
    )
    document = index.document() | _settings(content, apart.name)
    html = render(content, sections, blocks, packed(document))
    with whole(page) as part:
        part.write_text(html, encoding="utf-8")
    return page


def _sample(
    sample: str, groups: Sequence[Group | None], content: Content
) -> tuple[Record, dict[str, None]]:
    """A sample as the page shows it, and the hashes of its pictures in their order."""
    columns = []
    pictures: dict[str, None] = {}
    for run, group in enumerate(groups):
        conditions: dict[str, list[Record]] = {}
        for call in group.calls if group else ():
            conditions.setdefault(call["condition"], []).append(call)
            pictures |= dict.fromkeys(_pictures(call))
        for condition, calls in conditions.items():
            columns.append(
                {"run": run, "condition": condition, **dialogue(calls, content.view.words)}
            )
    names = [sha256[:16] for sha256 in pictures]
    about = [{"name": name, "text": text} for name, text in _about(content, sample).items()]
    return {"id": sample, "pictures": names, "about": about, "columns": columns}, pictures


def _about(content: Content, sample: str) -> Mapping[str, str]:
    """What is told of a sample; its repetitions (`14#2`) are told the same."""
    return content.about.get(sample) or content.about.get(sample.partition("#")[0], {})


def _pictures(call: Record) -> list[str]:
    messages = call["messages"] or ()
    return [part["image"] for each in messages for part in each["parts"] if part.get("image")]


def _settings(content: Content, folder: str) -> Record:
    """What the page's script needs to know beside the samples."""
    conditions = [name for run in content.runs for name in run.manifest["conditions"]]
    view = content.view
    return {
        "block": BLOCK,
        "folder": folder,
        "runs": [run.label for run in content.runs],
        "conditions": list(dict.fromkeys(conditions)),
        "levels": {str(turn): name for turn, name in view.levels.items()},
        "labels": dict(view.labels),
        "scale": view.scale,
        "given": view.given,
        "endings": list(ENDINGS),
    }
