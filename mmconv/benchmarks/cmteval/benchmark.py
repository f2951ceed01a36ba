"""CMT-Eval: a Chinese dialogue of 5 to 11 turns, and one judgement that scores every turn.

Source: Tian et al., CMT-Eval (paper and authors' repository); `CMTEvalOptions` has every switch on
which they disagree.

Scores by turn: `IS` and `Adp` (1 to 5), `TLS` (their mean), `merged` (1 if the judge scored the
turn together with others). By dialogue (turn 0): `DLS` and `DLS_min`, the mean and the lowest TLS
of its turns, and `surplus`, how many turns were scored that the dialogue does not have. A dialogue
with an unscored turn has no DLS and no DLS_min: the turns that are left out are not like the
others, and the lowest of the rest could only flatter the model. `authors_IS` and `authors_Adp`
follow the authors' script: it takes any number, and 3 if there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from judges import Judge, Slot
from judges.parsers.cmteval import DIMENSIONS, HIGHEST, LOWEST, TurnsParser, is_on_scale
from mmconv.benchmarks.base.benchmark import Benchmark
from mmconv.benchmarks.base.dataset import Dataset, choose_samples
from mmconv.benchmarks.base.judges import CANDIDATE_AND_JUDGE
from mmconv.benchmarks.base.layouts import Build, Layout
from mmconv.benchmarks.base.metrics import Metric
from mmconv.benchmarks.base.results import Result, Results, reduce_scores
from mmconv.benchmarks.cmteval.data import (
    IDS,
    PATTERN,
    PATTERNS,
    PERSONA,
    PERSONAS,
    REFERENCES,
    STRATEGIES,
    SUBSETS,
    TURNS,
    Dialogue,
    Subset,
    add_subset,
    find_files,
    read_dialogue,
    read_references,
)
from mmconv.benchmarks.cmteval.metrics import (
    AUTHORS_DEFAULT,
    DEFAULTED,
    MAIN,
    MISSING,
    OVERALL,
    act_tag,
    layouts,
    metrics,
)
from mmconv.benchmarks.data_files.records import Record, scan_records
from mmconv.benchmarks.options import ChatOptions, Condition, Display, Ratings, Several
from mmconv.core.config import CANDIDATE
from mmconv.core.errors import ConfigError, PlanError
from mmconv.core.keys import hash_file
from mmconv.core.protocols import ImageSink
from mmconv.core.turns import Turn, chain
from mmconv.core.types import Call, Ref, Sampling, Score, Text

FREE = "free"

JUDGEMENT = "judge"
"""The id of the call that judges a dialogue."""

TEMPERATURE = 0.2
"""The candidate's, from the authors' script; the paper says that it is the same for all models."""

AUTHORS_LIMIT = 20_000
"""The tokens that the authors' scripts let the judge write."""

# Measured over the 63 judgements (432 turns) of the authors' eval_long-text_llama3.1-8b.json, put
# together again as the judge was asked for them, in the tokens of `mmconv.report.costs`.
JUDGEMENT_TOKENS = 62
"""How many tokens a judgement has for each turn; forecasts use it."""

OFF_SCALE = f"not a whole number from {LOWEST} to {HIGHEST}"


class CMTEvalOptions(ChatOptions):
    """Options under `options:` of a run file; `max_tokens` is the authors'.

    `judge_settings`: temperature 0 and top_p 0.1 throughout (paper), or as in the authors' scripts,
    which add seed 12 and give Long-Text temperature 0.1 alone (code). Their limit of 20000 tokens
    is more than their judge can write, so `judge_max_tokens` is less; `code-exact` sends it anyway.
    """

    data: Path | Mapping[Subset, Path]  # type: ignore[assignment]
    """The folder with the authors' files, one dialogue file, or a file for each subset."""
    references: Path | None = None
    """The long texts' summaries and QA pairs; in a folder they are found by the authors' name."""
    subsets: Several[Subset] | None = Field(default=None, min_length=1)
    """The subsets that are run; by default all that the data have."""
    judge_settings: Literal["paper", "code", "code-exact"] = "paper"
    """How the judge draws: by the paper, or by the scripts (code-exact: even their token limit)."""
    judge_max_tokens: int = Field(default=8192, gt=0)
    """The judge's longest reply, in tokens; 20000 with judge_settings=code-exact."""
    max_tokens: int = Field(default=8000, gt=0)
    """The candidate's longest reply, in tokens."""


class CMTEval(Benchmark[Dialogue, CMTEvalOptions]):
    """The benchmark; the module lists its scores."""

    name, title = "cmteval", "CMT-Eval"
    conditions = (Condition(FREE, "Every turn of the history is the model's own."),)
    roles = CANDIDATE_AND_JUDGE
    prompts = "cmteval"
    judging = frozenset({"judge_settings", "judge_retries", "judge_max_tokens"})
    scale = dict.fromkeys(("IS", "Adp", "TLS", "DLS", "DLS_min"), (float(LOWEST), float(HIGHEST)))
    display = Display(
        labels={
            "IS": "IS, synthesis (1-5)",
            "Adp": "Adp, adaptability (1-5)",
            "TLS": "TLS, mean of IS and Adp",
            "DLS": "DLS, mean of the turns",
            "DLS_min": "DLS, lowest turn",
            "merged": "turn judged with others",
            "surplus": "scores for missing turns",
            "authors_IS": "IS, the authors' reading",
            "authors_Adp": "Adp, the authors' reading",
        },
        ratings=tuple(Ratings(metric=name, lowest=LOWEST, highest=HIGHEST) for name in DIMENSIONS),
    )

    # --- data ----------------------------------------------------------------------------------

    @cached_property
    def _files(self) -> dict[Subset, Path]:
        return find_files(self.options.data, self.options.subsets)

    @cached_property
    def _references(self) -> Path | None:
        """The references; without a judge they are read if they decide which records are bad."""
        data, path = self.options.data, self.options.references
        if "long-text" not in self._files:
            return None
        if path is None and isinstance(data, Path):
            neighbour = (data if data.is_dir() else data.parent) / REFERENCES
            path = neighbour if neighbour.is_file() else None
        if self.options.generate_only:
            return path if self.options.skip_bad_records else None
        if path is None:
            raise ConfigError(
                "options of cmteval: judging Long-Text needs the summaries and QA pairs of its "
                f"texts; give references: the path of {REFERENCES}, or leave long-text out of "
                "subsets"
            )
        return path

    @property
    def data_files(self) -> tuple[Path, ...]:
        """The dialogue files and the references."""
        return (*self._files.values(), *filter(None, (self._references,)))

    @property
    def provenance(self) -> dict[str, Any]:
        """The hashes of the data by subset, whatever the files are called."""
        names = (*self._files, "references")
        hashes = dict(zip(names, map(hash_file, self.data_files), strict=False))
        return {**super().provenance, "data": hashes}

    def read_data(self, images: ImageSink) -> Dataset[Dialogue]:
        """The dialogues of all subsets; those of Long-Text with their references."""
        references = None if self._references is None else read_references(self._references)
        records: list[Record] = []
        for subset, path in self._files.items():
            for record in scan_records(path, self.options.sheet):
                dialogue = add_subset(record, subset)
                if references is not None and subset == "long-text":
                    identifier = dialogue.fields["id"].partition("/")[2]
                    dialogue.fields["reference"] = references.get(identifier, {})
                records.append(dialogue)

        def advice() -> Iterator[str]:
            yield f"Every dialogue needs {' or '.join(IDS)}, {PATTERN}, {PERSONA} and {TURNS}."
            if self._references is not None:
                yield f"Those of Long-Text need a reference of the same ID in {self._references}."

        return choose_samples(
            records,
            read_dialogue,
            self.spec,
            ", ".join(map(str, self._files.values())),
            advice=advice,
            skip_bad=self.options.skip_bad_records,
        )

    def metadata(self, sample: Dialogue) -> dict[str, str]:
        """The persona and the pattern of speech acts."""
        return {"persona": sample.persona, "pattern": sample.pattern}

    # --- calls ---------------------------------------------------------------------------------

    def plan(self, sample: Dialogue, condition: str) -> Iterator[Call]:
        """A call per turn, and the judgement; the authors use no system prompt (section 4.1)."""
        turns = [Turn(user=(Text(text=turn.query),)) for turn in sample.turns]
        sampling = Sampling(temperature=TEMPERATURE, max_tokens=self.options.max_tokens)
        system = self.options.candidate_system
        yield from chain(turns, model=CANDIDATE, sampling=sampling, system=system)
        if not self.options.generate_only:
            yield self._judgement(sample)

    def _judgement(self, sample: Dialogue) -> Call:
        """The judge reads the whole dialogue with the speech acts, and scores every turn.

        Long-Text has a prompt of its own, with the text's summary and QA pairs in place of the text
        (Appendix D).
        """
        judge = Judge(
            parser=TurnsParser(turns=len(sample.turns)),
            sampling=self._judge_sampling(sample.subset),
            verdict_last=False,
            retries=self.options.judge_retries,
        )
        slots: dict[str, Slot] = {"conversation": tuple(_conversation(sample))}
        prompt = "judge_dialogue"
        if sample.subset == "long-text":
            if sample.reference is None:
                raise PlanError(f"{sample.id} has no reference, and its judge reads no text")
            slots |= {"summary": sample.reference.summary, "qa_pairs": sample.reference.qa_pairs}
            prompt = "judge_long_text"
        call = judge.call(JUDGEMENT, self.prompt(prompt), slots)
        return replace(call, expected_tokens=JUDGEMENT_TOKENS * len(sample.turns))

    def _judge_sampling(self, subset: Subset) -> Sampling:
        settings, limit = self.options.judge_settings, self.options.judge_max_tokens
        if settings == "paper":
            return Sampling(temperature=0.0, top_p=0.1, max_tokens=limit)
        if settings == "code-exact":
            limit = AUTHORS_LIMIT
        if subset == "long-text":
            return Sampling(temperature=0.1, max_tokens=limit)
        return Sampling(temperature=0.0, top_p=0.1, seed=12, max_tokens=limit)

    # --- scores --------------------------------------------------------------------------------

    def tags(self, sample: Dialogue, turn: int | None) -> dict[str, str]:
        """The model, what the dialogue is, and the speech acts and the strategy of the turn."""
        tags = {
            "model": self._model,
            "subset": sample.subset,
            "pattern": PATTERNS[sample.pattern],
            "persona": PERSONAS.get(sample.persona, sample.persona),
        }
        if turn:
            said = sample.turns[turn - 1]
            tags |= {act_tag(act): str(said.acts.count(act)) for act in said.acts}
            if sample.subset == "hard":
                tags["strategy"] = STRATEGIES[said.strategy] if said.strategy else "none"
        return tags

    def score(self, sample: Dialogue, results: Results) -> Iterator[Score]:
        """Each turn by our reading and the authors', then the dialogue."""
        judgement = results[JUDGEMENT]
        averages = []
        for turn in range(1, len(sample.turns) + 1):
            theirs = [_read(judgement, turn, name) for name in DIMENSIONS]
            ours = [_on_scale(score) for score in theirs]
            averages.append(reduce_scores(results, "TLS", ours, "mean", turn=turn))
            yield from (*ours, averages[-1], *map(_as_authors, theirs))
            yield _read(judgement, turn, "merged")
        yield reduce_scores(results, "DLS", averages, "mean")
        yield reduce_scores(results, "DLS_min", averages, "min")
        surplus = None
        if judgement.verdict is not None:
            judged = {int(name.partition("/")[0]) for name in judgement.verdict.scores}
            surplus = len(judged - {*range(1, len(sample.turns) + 1)})
        yield results.score("surplus", surplus, judgement.reason, turn=0)

    # --- tables --------------------------------------------------------------------------------

    @property
    def _model(self) -> str:
        """What tables are split by; those of published files have several models."""
        return self.spec.models[CANDIDATE].label

    def metrics(self) -> Iterator[Metric]:
        """Scores by subset, breakdowns, the paper's Tables 8 and 11, endings."""
        return metrics([self._model])

    def layouts(self) -> Iterator[Layout | Build]:
        """The tables in their order."""
        return layouts([self._model])

    def leaderboard(self) -> Iterator[Layout]:
        """All subsets together, then each."""
        for subset in (OVERALL, *SUBSETS):
            yield Layout(
                subset,
                f"CMT-Eval, {subset}",
                of="scores",
                names=(subset,),
                groups=tuple(MAIN),
                rows="candidate",
                row_label="{candidate}, {name}",
                rank="DLS",
            )


def _conversation(sample: Dialogue) -> Iterator[str | Ref]:
    """The dialogue in the lines of the authors' script; of a long text only the question."""
    for turn in sample.turns:
        is_text = sample.subset == "long-text" and turn.number == 1
        query = turn.query.partition("\n")[2] if is_text else turn.query
        line_break = "\n" if turn.number > 1 else ""
        yield f"{line_break}轮次 {turn.number} - 用户: {query}\n模型: "
        yield Ref(call=f"turn_{turn.number}")
        yield f"\n言语行为: {turn.label}"


def _read(judgement: Result, turn: int, name: str) -> Score:
    """What the judge wrote, on the scale or not."""
    verdict = judgement.verdict
    value = None if verdict is None else verdict.scores.get(f"{turn}/{name}")
    reason = (judgement.reason or MISSING) if value is None else None
    return judgement.results.score(name, value, reason, turn=turn)


def _on_scale(score: Score) -> Score:
    if score.value is None or is_on_scale(score.value):
        return score
    return replace(score, value=None, why=OFF_SCALE)


def _as_authors(score: Score) -> Score:
    name = f"authors_{score.metric}"
    if score.why in DEFAULTED:
        return replace(score, metric=name, value=AUTHORS_DEFAULT, why=None)
    return replace(score, metric=name)
