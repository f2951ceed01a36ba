"""CMT-Eval's command: more typing errors in the users' messages of a dataset."""

from __future__ import annotations

from pathlib import Path

import click
import orjson

from mmconv.benchmarks.cmteval.perturbation import VARIANTS, Perturbation, read_confusables
from mmconv.cli.shared.basics import FILE, writing_option
from mmconv.core.atomic_writes import atomic_write
from mmconv.core.errors import ConfigError


@click.command(name="perturb")
@click.argument("file", type=FILE)
@click.option("--out", type=FILE, required=True, help="The new .json or .jsonl file to write.")
@click.option(
    "--confusables",
    type=FILE,
    required=True,
    help="Look-alike and sound-alike characters, such as the authors' char_confuse.data.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@click.option(
    "--variant",
    type=click.Choice(list(VARIANTS)),
    default="paper",
    show_default=True,
    help="Rates, wrong characters and punctuation of the paper, or of the authors' script.",
)
@click.option(
    "--field",
    "fields",
    metavar="NAME",
    multiple=True,
    help="A field with a user's text, anywhere in a record.  [default: CMT-Eval's layout]",
)
def perturb_command(
    file: Path, out: Path, confusables: Path, seed: int, variant: str, fields: tuple[str, ...]
) -> None:
    """Write FILE, dialogues with Chinese users, with typing errors in the users' messages.

    Run the benchmark over both files to see what the errors cost a model. CMT-Eval's released
    queries already contain errors; this adds more. Other files need --field, such as --field
    feedback for FB-Bench.
    """
    if out.exists():
        raise ConfigError(f"--out {out}: the file exists; name a new one")
    suffix = out.suffix.lower()
    if suffix not in (".json", ".jsonl"):
        raise ConfigError(f"--out {out}: the name must end with .json or .jsonl")
    perturbation = Perturbation(
        variant=VARIANTS[variant], confusables=read_confusables(confusables), seed=seed
    )
    records, queries = perturbation.perturb_file(file, fields)
    if suffix == ".json":
        content = orjson.dumps(records, option=orjson.OPT_INDENT_2) + b"\n"
    else:
        content = b"".join(orjson.dumps(record) + b"\n" for record in records)
    with writing_option("--out", out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(out) as part:
            part.write_bytes(content)
    changed = sum(query.before != query.text for query in queries)
    click.echo(
        f"{len(records)} dialogues, {changed} of {len(queries)} queries changed: "
        f"{sum(query.characters for query in queries)} wrong characters, "
        f"{sum(query.pinyin for query in queries)} in pinyin"
    )
    if not changed:
        click.echo(
            f"WARNING: {out} equals {file}. Only Chinese texts are changed; does "
            f"{' or '.join(fields) or 'a query'} contain any?",
            err=True,
        )
