"""`mmconv agree`: how far a judge agrees with people, and people among themselves."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import click

from mmconv.agreement.matching import match
from mmconv.agreement.rating_files import read_ratings
from mmconv.agreement.ratings import FIELDS, choose
from mmconv.agreement.tables import agreement_table
from mmconv.cli.tabling import show_tables, table_options
from mmconv.errors import ConfigError
from mmconv.stats.agreement import Level

LIBRARIES = ("krippendorff", "statsmodels")
"""What the extra `agree` installs."""

_EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(name="agree")
@click.option("--judge", type=_EXISTING, required=True, help="A run's scores.jsonl, or ratings.")
@click.option(
    "--human",
    "people",
    type=_EXISTING,
    multiple=True,
    required=True,
    help="Ratings by people; may be given several times.",
)
@click.option("--metric", help="Only ratings on this metric.")
@click.option("--condition", help="Only ratings under this condition.")
@click.option("--turn", help="Only ratings of this turn; 0 is the whole conversation.")
@click.option(
    "--tag",
    "tags",
    metavar="NAME=VALUE",
    multiple=True,
    help="Only scores with this tag, such as reading=ours; may be given several times.",
)
@click.option(
    "--level",
    type=click.Choice(get_args(Level)),
    help="Level of Krippendorff's alpha.  [default: ordinal, or nominal for labels]",
)
@click.option("--tie", metavar="VALUE", help="The rating that is a tie.  [default: the label tie]")
@click.option(
    "--replicates",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="Bootstrap draws behind each interval.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the draws.")
@table_options
def command(judge: Path, people: Sequence[Path], **chosen: Any) -> None:
    """Compare ratings by a judge with ratings of the same samples by people.

    Files of ratings (.csv, .tsv, .jsonl, .json, .xlsx) have the fields sample and value, a number
    or a label, and where there are several: rater, metric, condition, turn, cluster (the dialogue,
    by default the sample). Intervals come from draws of whole dialogues.
    """
    _require_libraries()
    fields = {name: chosen[name] for name in FIELDS}
    judged = choose(read_ratings(judge, dict(map(_tag, chosen["tags"]))), **fields)
    human = choose((rating for path in people for rating in read_ratings(path)), **fields)
    matches = match(judged, human, tie=chosen["tie"], level=chosen["level"])
    tables = [
        agreement_table(each, human, replicates=chosen["replicates"], seed=chosen["seed"])
        for each in matches
    ]
    show_tables(tables, chosen["form"], chosen["out"], intervals=True)


def _tag(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ConfigError(f"--tag {text!r}: expected NAME=VALUE")
    return name, value


def _require_libraries() -> None:
    missing = " ".join(name for name in LIBRARIES if find_spec(name) is None)
    if missing:
        raise ConfigError(f"agreement needs more libraries: pip install {missing}, and run again")
