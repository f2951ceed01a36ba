"""Write the golden files anew with `python -m tests.judges.regenerate`; read the diff after."""

from tests.judges.samples import GOLDEN, prompts, rendered


def main() -> None:
    """Fill every shipped prompt with its benchmark's sample and write what is sent."""
    for benchmark, prompt in prompts():
        folder = GOLDEN / benchmark
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{prompt.name}.txt").write_text(rendered(benchmark, prompt), encoding="utf-8")


if __name__ == "__main__":
    main()
