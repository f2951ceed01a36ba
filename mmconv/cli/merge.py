"""`mmconv merge`: join the stores of shards."""

from __future__ import annotations

import click

from mmconv.store.address import require_folder, without_password
from mmconv.store.merging import merge


@click.command(name="merge")
@click.argument("target", metavar="INTO")
@click.argument("sources", nargs=-1, required=True, metavar="FROM...")
def command(target: str, sources: tuple[str, ...]) -> None:
    """Copy all replies of the stores FROM into the store INTO; what INTO holds stands.

    Stores are paths or database URLs. Afterwards run the whole benchmark with --store INTO: it
    finds every reply and writes the tables.
    """
    require_folder(target, target)
    report = merge(target, sources)
    click.echo(f"{report.added} replies added, {report.present} were there already")
    for source in report.damaged:
        click.echo(
            f"{source} is damaged: what could be read was copied; the next run requests the rest",
            err=True,
        )
    if report.changed:
        message = f"{report.changed} replies were changed after they were written: not copied"
        click.echo(message, err=True)
    if report.conflicts:
        click.echo(
            f"{report.conflicts} keys hold other texts; those of {without_password(target)} stand",
            err=True,
        )
