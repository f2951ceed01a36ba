"""How the commands that end in tables hand them over: `--format`, `--out`, a terminal's width.

Which tables there are is the commands' business; the renderings are `mmconv.report.tables`.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import click
import orjson

from mmconv.cli.shared.basics import FILE, Command
from mmconv.core.types import Table
from mmconv.report.tables.cells import shared_notes, without_notes
from mmconv.report.tables.formats import FORMATS, all_to_markdown, as_printed, write_tables
from mmconv.report.tables.text import all_to_text, fold, to_text
from mmconv.run_folder.layout import TABLES

MOST_LINES = 28
"""Lines of a table after a run, so that with findings and paths it fits on a screen of 40."""


form_option = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv", "md", "tex"]),
    default="table",
    show_default=True,
    help="How the tables are printed.",
)


def table_options(command: Command) -> Command:
    """Add `--format` and `--out`, as `show_tables` takes them."""
    out = click.option("--out", type=FILE, help="Write them into this folder too, in all formats.")
    return form_option(out(command))


def show_tables(
    tables: Sequence[Table],
    form: str,
    out: Path | None,
    *,
    printed: Sequence[Table] | None = None,
    said: Collection[str] = (),
    intervals: bool = False,
) -> None:
    """Print the tables, or `printed` in their place, and write them to `out` where that is given.

    Their folder goes to standard error: standard output is left to programs that read there.
    """
    shown = tables if printed is None else printed
    print_tables(shown, form, said=said, intervals=intervals)
    if out is not None:
        write_tables(out, tables)
        click.echo(f"The tables are in {out}", err=True)


def print_tables(
    tables: Sequence[Table], form: str, *, said: Collection[str] = (), intervals: bool = False
) -> None:
    """Print all tables, `detail` ones too; as text without the notes that are `said` already.

    As `json` they are one object, see `as_printed`; in CSV, a line `# name` stands before each.
    """
    if form == "json":
        document = as_printed(tables, intervals=intervals)
        click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2))
    elif form == "table":
        shown = [without_notes(table, said) for table in tables]
        click.echo(all_to_text(shown, terminal_width()), nl=False)
    elif form == "md":
        click.echo(all_to_markdown(tables), nl=False)
    else:
        click.echo("\n".join(_rendered(table, form) for table in tables), nl=False)


def print_result(tables: Sequence[Table], notes: Sequence[str], folder: Path) -> None:
    """Print what a run found: its first table to read, findings, notes, and where the rest is.

    `notes` are what every reader must know of the run, whose `folder` has all tables.
    """
    # numpy comes with them, and commands start faster without it
    from mmconv.report.findings import run_findings, run_warnings
    from mmconv.stats import INTERVALS

    shown = next((table for table in tables if not table.detail), None)
    if shown is not None:
        elsewhere = {*shared_notes(tables), *run_warnings(tables), *notes, INTERVALS}
        lines = to_text(without_notes(shown, elsewhere), terminal_width()).splitlines()
        if len(lines) > MOST_LINES:
            lines[MOST_LINES:] = [
                f"... {len(lines) - MOST_LINES} more lines: {folder / TABLES / shown.name}.txt"
            ]
        click.echo("\n".join(lines))
    for sentences in (run_findings(tables), (*run_warnings(tables), *notes)):
        if sentences:
            click.echo("\n" + "\n".join(map(folded, sentences)))
    click.echo(f"\nAll {len(tables)} tables, with notes: {folder / TABLES}")


def terminal_width() -> float:
    """How many columns standard output shows; infinite if it is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf


def print_warnings(warnings: Iterable[str], form: str) -> None:
    """What must be known before the tables; on stderr where programs read those."""
    for warning in warnings:
        click.echo(f"{folded(warning)}\n", err=form != "table")


def folded(text: str) -> str:
    """A sentence with its lines ended between words where the terminal would end them anywhere."""
    return "\n".join(fold(text, terminal_width()))


def _rendered(table: Table, form: str) -> str:
    name = f"# {table.name}\n" if form == "csv" else ""
    return name + FORMATS[form](table)
