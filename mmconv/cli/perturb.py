"""`mmconv perturb`: typing errors and pinyin in what the users of a dialogue file say."""

from __future__ import annotations

from pathlib import Path

import click
import orjson

from mmconv.benchmarks.cmteval.confusables import read_confusables
from mmconv.benchmarks.cmteval.perturbation import VARIANTS, Perturbation
from mmconv.cli.shared.option_values import FILE
from mmconv.core.atomic_writes import whole
from mmconv.core.errors import ConfigError


@click.command(name="perturb")
@click.argument("file", type=FILE)
@click.option("--out", type=FILE, required=True, help="The .json or .jsonl file to write; new.")
@click.option(
    "--confusables",
    type=FILE,
    required=True,
    help="Look-alike and sound-alike characters, as in the authors' char_confuse.data.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of what is drawn.")
@click.option(
    "--variant",
    type=click.Choice(list(VARIANTS)),
    default="paper",
    show_default=True,
    help="Rates, wrong characters and punctuation marks of the paper, or of the authors' script.",
)
@click.option(
    "--field",
    "fields",
    metavar="NAME",
    multiple=True,
    help="What holds a user's text, anywhere in a record.  [default: CMT-Eval's layout]",
)
def command(
    file: Path, out: Path, confusables: Path, seed: int, variant: str, fields: tuple[str, ...]
) -> None:
    """Write FILE, dialogues with Chinese users, with typing errors in what the users say.

    Run the benchmark over both files to see what the errors cost a model. CMT-Eval's released
    queries are perturbed already; this puts more errors into them. Other files need --field, as
    in --field feedback for FB-Bench.
    """
    if out.exists():
        raise ConfigError(f"--out {out}: something is there already; name a new file")
    if out.suffix.lower() not in (".json", ".jsonl"):
        raise ConfigError(f"--out {out}: name a .json or .jsonl file, so that it can be read again")
    perturbation = Perturbation(
        variant=VARIANTS[variant], confusables=read_confusables(confusables), seed=seed
    )
    records, changes = (
        perturbation.perturb_fields(file, fields) if fields else perturbation.perturb_file(file)
    )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with whole(out) as part:
            if out.suffix.lower() == ".json":
                part.write_bytes(orjson.dumps(records, option=orjson.OPT_INDENT_2) + b"\n")
            else:
                part.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    except OSError as error:
        raise ConfigError(f"--out {out}: {error.strerror or error}") from error
    click.echo(
        f"{changes.dialogues} dialogues, {changes.changed_queries} of {changes.queries} queries "
        f"changed: {changes.characters} wrong characters, {changes.pinyin} in pinyin"
    )
    if not changes.changed_queries:
        click.echo(
            f"WARNING: {out} is no other than {file}. Only Chinese texts are changed; does "
            f"{' or '.join(fields) or 'a query'} hold any?",
            err=True,
        )
