"""CMT-Eval: a Chinese dialogue of 5 to 11 turns, and one judgement that scores every turn.

Source: Tian et al., CMT-Eval (paper and authors' repository); `CMTEvalOptions` has every switch on
which they disagree.

Scores by turn: `IS` and `Adp` (1 to 5), `TLS` (their mean), `merged` (1 if the judge scored the
turn together with others). By dialogue (turn 0): `DLS` and `DLS_min`, the mean and the lowest TLS
of its turns, and `surplus`, how many turns were scored that the dialogue does not have. A dialogue
with an unscored turn has no DLS and no DLS_min: the turns that are left out are not like the
others, and the lowest of the rest could only flatter the model. `authors_IS` and `authors_Adp`
follow the authors' script: it takes any number, and 3 if there is none. `truncated`, `filtered`,
`empty` and `tokens` describe each reply.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import Field, StrictInt

from judges import Judge, PromptSet, Reading, Slot, read_verdict
from judges.parsers.cmteval import DIMENSIONS, HIGHEST, LOWEST, TurnsParser, is_on_scale
from mmconv.benchmarks.choosing import choose
from mmconv.benchmarks.cmteval.data import (
    ACTS,
    AUTHORS_DEFAULT,
    DEFAULTED,
    MISSING,
    PATTERNS,
    PERSONAS,
    REFERENCES,
    STRATEGIES,
    Dialogue,
    Reference,
    Subset,
    UserTurn,
    act_tag,
    dialogue_keys,
    find_dialogues,
    find_files,
    find_references,
    split_long_text,
)
from mmconv.benchmarks.data_files.bad_records import bad_records_list, bad_records_table
from mmconv.benchmarks.data_files.intake import Found, Intake
from mmconv.benchmarks.shared.endings import endings
from mmconv.benchmarks.shared.judgements import (
    SAMPLE,
    ByField,
    Fault,
    FinishedTurn,
    JudgementRequest,
    Supplies,
    Words,
    with_answers,
)
from mmconv.benchmarks.shared.options import (
    CANDIDATE,
    JUDGE,
    BenchmarkOptions,
    Description,
    Display,
    Ratings,
    Several,
    named_conditions,
    read_options,
    require_judge,
)
from mmconv.benchmarks.shared.scoring import Calls, Outcomes, Scores
from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError, PlanError
from mmconv.core.keys import hash_file
from mmconv.core.protocols import ImageSink
from mmconv.core.turns import Turn, chain
from mmconv.core.types import Call, Ref, Sampling, Score, Table, Text

CONDITION = "free"
"""The one condition: every turn of the history is the model's own (paper, section 4.1)."""

JUDGEMENT = "judge"
"""The id of the call that judges a dialogue."""

LONG_TEXT = "judge_long_text"
"""The prompt whose judge reads a summary and QA pairs in place of the long text."""

NO_REFERENCES = (
    "options of cmteval: judging Long-Text needs the summaries and QA pairs of its texts; give "
    f"references: the path of {REFERENCES}, or leave long-text out of subsets"
)

TEMPERATURE = 0.2
"""The candidate's, from the authors' script; the paper says that it is the same for all models."""

AUTHORS_LIMIT = 20_000
"""The tokens that the authors' scripts let the judge write."""

# Measured over the 63 judgements (432 turns) of the authors' eval_long-text_llama3.1-8b.json, put
# together again as the judge was asked for them, in the tokens of `mmconv.report.costs`.
JUDGEMENT_TOKENS = 62
"""How many tokens a judgement has for each turn; forecasts use it."""

OFF_SCALE = f"not a whole number from {LOWEST} to {HIGHEST}"

JudgeSettings: TypeAlias = Literal["paper", "code", "code-exact"]

Result: TypeAlias = tuple[float | None, str | None]
"""A number, or None with the reason."""


class GradingOptions(BenchmarkOptions):
    """How a dialogue is judged, whatever file it comes from.

    `judge_settings`: temperature 0 and top_p 0.1 throughout (paper), or as in the authors' scripts,
    which add seed 12 and give Long-Text temperature 0.1 alone (code). Their limit of 20000 tokens
    is more than their judge can write, so `judge_max_tokens` is less; `code-exact` sends it anyway.
    """

    judge_settings: JudgeSettings = "paper"
    """How the judge draws: by the paper, or by the scripts (code-exact: even their token limit)."""
    judge_retries: int = Field(default=1, ge=0, le=5)
    """How often a judgement that is unreadable or incomplete is retried."""
    judge_max_tokens: int = Field(default=8192, gt=0)
    """The judge's longest reply, in tokens; 20000 with judge_settings=code-exact."""


class CMTEvalOptions(GradingOptions):
    """Options under `options:` of a run file; `max_tokens` is the authors'."""

    data: Path | Mapping[Subset, Path]
    """The folder with the authors' files, one dialogue file, or a file for each subset."""
    references: Path | None = None
    """The long texts' summaries and QA pairs; in a folder they are found by the authors' name."""
    subsets: Several[Subset] | None = Field(default=None, min_length=1)
    """The subsets that are run; by default all that the data have."""
    generate_only: bool = False
    """Ask the candidate only, and no judge."""
    skip_bad_records: bool = False
    """Go on without incomplete or unreadable records; the report lists them."""
    max_tokens: int = Field(default=8000, gt=0)
    """The candidate's longest reply, in tokens."""


DESCRIPTION = Description(
    options=CMTEvalOptions,
    conditions={CONDITION: "Every turn of the history is the model's own."},
    unnamed=CONDITION,
    seats={"candidate": CANDIDATE, "judge": JUDGE},
    judging=frozenset(GradingOptions.model_fields),
    scale=dict.fromkeys(("IS", "Adp", "TLS", "DLS", "DLS_min"), (1.0, 5.0)),
    display=Display(
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
        ratings=tuple(Ratings(metric=name, lowest=1, highest=5) for name in ("IS", "Adp")),
    ),
)
"""What `mmconv options cmteval` prints."""


def build(spec: RunSpec, images: ImageSink) -> CMTEval:
    """Check options and data; raises `ConfigError` or `DataError` before anything is paid."""
    return CMTEval(spec, read_options(CMTEvalOptions, spec.options, "cmteval"))


class CMTEval:
    """The benchmark; see `Benchmark`."""

    name = "cmteval"
    conditions = (CONDITION,)

    def __init__(self, spec: RunSpec, options: CMTEvalOptions) -> None:
        named_conditions(self.name, spec.conditions, self.conditions)
        if not options.generate_only:
            require_judge(spec)
        self._spec = spec
        self._options = options
        # A user's prompts are checked even in a run without a judge.
        self._prompts = PromptSet(self.name, spec.prompts)
        self._files = find_files(options.data, options.subsets)
        self._references = None
        # Without a judge they decide which records are bad, so that a judge can come later.
        if "long-text" in self._files and (not options.generate_only or options.skip_bad_records):
            self._references = find_references(options.data, options.references)
            if self._references is None and not options.generate_only:
                raise ConfigError(NO_REFERENCES)
        self._intake = Intake(
            choice=choose(spec, dialogue_keys(self._files)), skip_bad=options.skip_bad_records
        )
        for _ in self._intake.take(self._find()):
            pass
        self._intake.check(", ".join(map(str, self._files.values())))

    @property
    def size(self) -> int:
        """How many dialogues will be run."""
        return self._intake.good

    @property
    def notes(self) -> tuple[str, ...]:
        """How the dialogues were chosen, and records left out."""
        return tuple(self._intake.notes())

    @property
    def facts(self) -> Mapping[str, Any]:
        """Hashes of the data files and prompts, and the records left out."""
        files: dict[str, Path] = {str(subset): path for subset, path in self._files.items()}
        if self._references is not None:
            files["references"] = self._references
        return {
            "data": {name: hash_file(path) for name, path in files.items()},
            "prompts": {} if self._options.generate_only else self._prompts.digests(),
            "dialogues": self._intake.good,
            "left_out": bad_records_list(self._intake.bad),
        }

    def load(self) -> Iterator[Dialogue]:
        """Stream the good dialogues; raises `DataError` for one that has gone bad since."""
        return self._intake.stream(self._find())

    def key(self, sample: Dialogue) -> str:
        """Subset and identifier."""
        return sample.key

    def about(self, sample: Dialogue) -> Mapping[str, str]:
        """The persona and the pattern of speech acts."""
        return {"persona": sample.persona, "pattern": sample.pattern}

    def plan(self, sample: Dialogue, condition: str) -> tuple[Call, ...]:
        """A call per turn, without a system prompt (paper, section 4.1), and the judgement."""
        turns = [Turn(user=(Text(text=turn.query),)) for turn in sample.turns]
        sampling = Sampling(temperature=TEMPERATURE, max_tokens=self._options.max_tokens)
        calls = chain(turns, seat="candidate", sampling=sampling)
        if self._options.generate_only:
            return calls
        return (*calls, judge_call(sample, self._prompts, self._options))

    def score(
        self, sample: Dialogue, condition: str, calls: Calls, outcomes: Outcomes
    ) -> Iterator[Score]:
        """The scores of the replies, then of the judgement."""
        return score_dialogue(sample, calls, outcomes, self._spec.seats["candidate"].label)

    def tables(self, scores: Scores) -> list[Table]:
        """The paper's tables and ours."""
        # numpy comes with them, and only the end of a run needs it
        from mmconv.benchmarks.cmteval.metrics import build_tables
        from mmconv.benchmarks.layouts import Context

        labels = {seat: model.label for seat, model in self._spec.seats.items()}
        context = Context(
            candidate=labels["candidate"], judge=labels.get("judge", ""), notes=self.notes
        )
        return [*build_tables(scores, context), *bad_records_table(self._intake.bad)]

    def _find(self) -> Iterator[Found[Dialogue]]:
        return find_dialogues(self._files, self._intake.choice, self._references)


def judge_call(dialogue: Dialogue, prompts: PromptSet, options: GradingOptions) -> Call:
    """The call that scores every turn.

    The judge reads the whole dialogue with the speech acts. Long-Text has a prompt of its own, with
    the text's summary and QA pairs in place of the text (Appendix D).
    """
    judge = Judge(
        parser=TurnsParser(turns=len(dialogue.turns)),
        sampling=judge_sampling(options, dialogue.subset),
        verdict_last=False,
        retries=options.judge_retries,
    )
    slots: dict[str, Slot] = {"conversation": tuple(_conversation(dialogue))}
    prompt = "judge_dialogue"
    if dialogue.subset == "long-text":
        if dialogue.reference is None:
            raise PlanError(f"{dialogue.key} has no reference, and its judge reads no text")
        slots["summary"] = dialogue.reference.summary
        slots["qa_pairs"] = dialogue.reference.qa_pairs
        prompt = LONG_TEXT
    call = judge.call(JUDGEMENT, prompts[prompt], slots)
    return replace(call, expected_tokens=JUDGEMENT_TOKENS * len(dialogue.turns))


def judge_sampling(options: GradingOptions, subset: Subset) -> Sampling:
    """How the judge draws: by the paper, or by the script for this subset."""
    limit = options.judge_max_tokens
    if options.judge_settings == "paper":
        return Sampling(temperature=0.0, top_p=0.1, max_tokens=limit)
    if options.judge_settings == "code-exact":
        limit = AUTHORS_LIMIT
    if subset == "long-text":
        return Sampling(temperature=0.1, max_tokens=limit)
    return Sampling(temperature=0.0, top_p=0.1, seed=12, max_tokens=limit)


def _conversation(dialogue: Dialogue) -> Iterator[str | Ref]:
    """The dialogue in the lines of the authors' script."""
    for turn in dialogue.turns:
        query = turn.query
        if dialogue.subset == "long-text" and turn.number == 1:
            parts = split_long_text(query)
            if parts is None:
                raise PlanError(
                    f"{dialogue.key} does not open with a text, a line break, and a question"
                )
            query = parts[1]
        line_break = "\n" if turn.number > 1 else ""
        yield f"{line_break}轮次 {turn.number} - 用户: {query}\n模型: "
        yield Ref(call=f"turn_{turn.number}")
        yield f"\n言语行为: {turn.label}"


def score_dialogue(
    dialogue: Dialogue, calls: Calls, outcomes: Outcomes, model: str
) -> Iterator[Score]:
    """The scores of a live run's dialogue; without a judgement those of the replies."""
    for turn in dialogue.turns:
        for metric, value, reason in endings(outcomes[f"turn_{turn.number}"]):
            yield _score(dialogue, model, metric, (value, reason), turn)
    if JUDGEMENT in calls:
        yield from score_judgement(dialogue, calls[JUDGEMENT], outcomes, model)


def score_judgement(
    dialogue: Dialogue, call: Call, outcomes: Outcomes, model: str
) -> Iterator[Score]:
    """The scores of a dialogue's judgement, live or published."""
    reading = read_verdict(call, outcomes)
    averages = []
    for turn in dialogue.turns:
        ours = {name: _on_scale(_read(reading, turn, name)) for name in DIMENSIONS}
        averages.append(_reduce(_mean, [*ours.values()]))
        results = {**ours, "TLS": averages[-1]}
        for name in DIMENSIONS:
            value, reason = _read(reading, turn, name)
            is_default = reason in DEFAULTED
            results[f"authors_{name}"] = (AUTHORS_DEFAULT, None) if is_default else (value, reason)
        results["merged"] = _read(reading, turn, "merged")
        for metric, result in results.items():
            yield _score(dialogue, model, metric, result, turn)
    yield _score(dialogue, model, "DLS", _reduce(_mean, averages))
    yield _score(dialogue, model, "DLS_min", _reduce(min, averages))
    yield _score(dialogue, model, "surplus", _surplus(dialogue, reading))


def _read(reading: Reading, turn: UserTurn, name: str) -> Result:
    if reading.verdict is None:
        return None, reading.why
    value = reading.verdict.scores.get(f"{turn.number}/{name}")
    return value, MISSING if value is None else None


def _on_scale(result: Result) -> Result:
    value, _ = result
    return result if value is None or is_on_scale(value) else (None, OFF_SCALE)


def _reduce(reduce: Callable[[Sequence[float]], float], results: Sequence[Result]) -> Result:
    """One number of several, or the first reason if one of them is missing."""
    if reason := next((reason for _, reason in results if reason is not None), None):
        return None, reason
    return reduce([value for value, _ in results if value is not None]), None


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _surplus(dialogue: Dialogue, reading: Reading) -> Result:
    if reading.verdict is None:
        return None, reading.why
    judged = {int(name.partition("/")[0]) for name in reading.verdict.scores}
    return float(len(judged - {turn.number for turn in dialogue.turns})), None


def _score(
    dialogue: Dialogue, model: str, metric: str, result: Result, turn: UserTurn | None = None
) -> Score:
    """A score with the tags that tables group by; without a turn, of the whole dialogue."""
    value, reason = result
    tags = {
        "model": model,
        "subset": dialogue.subset,
        "pattern": PATTERNS.get(dialogue.pattern, dialogue.pattern),
        "persona": PERSONAS.get(dialogue.persona, dialogue.persona),
    }
    if turn is not None:
        tags |= {act_tag(ACTS[act]): str(turn.acts.count(act)) for act in turn.acts}
        if dialogue.subset == "hard":
            tags["strategy"] = STRATEGIES[turn.strategy] if turn.strategy else "none"
    return Score(
        sample=dialogue.key,
        condition=CONDITION,
        metric=metric,
        turn=turn.number if turn else 0,
        tags=tags,
        value=value,
        why=reason,
    )


class SpokenTurn(FinishedTurn):
    """One turn; `act` names the user's speech acts."""

    act: Words = Field(
        description="The user's speech acts as the data name them, several joined by `+`: "
        f"{', '.join(f'`{act}` ({meaning})' for act, meaning in ACTS.items())}."
    )


class CMTEvalJudgement(JudgementRequest):
    """A dialogue whose every turn is scored for synthesis and adaptability, 1 to 5.

    For `judge_long_text` the first user message is the long text, one line break, and the question;
    the judge reads the question only, and `summary` and `qa_pairs` instead of the text.
    """

    needing: ClassVar[ByField] = dict.fromkeys(("summary", "qa_pairs"), (LONG_TEXT,))

    benchmark: Literal["cmteval"]
    prompt: Literal["judge_dialogue", "judge_long_text"]
    turns: tuple[SpokenTurn, ...] = Field(min_length=1)
    summary: Words | None = None
    qa_pairs: Words | None = None
    judge_settings: JudgeSettings = "paper"
    max_tokens: StrictInt = Field(default=8192, gt=0)

    def faults(self) -> Iterator[Fault]:
        """Besides fields that are missing or not read: unknown speech acts, a wrong long text."""
        yield from super().faults()
        for place, turn in enumerate(self.turns):
            for act in turn.act.split("+"):
                if act.strip() not in ACTS:
                    known = ", ".join(ACTS)
                    yield f"turns[{place}].act", f"no speech act {act!r}; known are {known}"
        if self.prompt == LONG_TEXT and split_long_text(self.turns[0].user) is None:
            yield "turns[0].user", "must be the long text, one line break, and the question"

    def call(self, supplies: Supplies) -> Call:
        """The judgement of the dialogue."""
        options = GradingOptions(
            judge_settings=self.judge_settings,
            judge_retries=self.retries,
            judge_max_tokens=self.max_tokens,
        )
        answers = {f"turn_{place}": turn.assistant for place, turn in enumerate(self.turns, 1)}
        return with_answers(judge_call(self._dialogue(), supplies.prompts, options), answers)

    def scores(self, call: Call, outcomes: Outcomes) -> Iterator[Score]:
        """DLS first, then the others."""
        scores = score_judgement(self._dialogue(), call, outcomes, model=SAMPLE)
        yield from sorted(scores, key=lambda score: score.metric != "DLS")

    def _dialogue(self) -> Dialogue:
        reference = None
        if self.summary is not None and self.qa_pairs is not None:
            reference = Reference(summary=self.summary, qa_pairs=self.qa_pairs)
        return Dialogue(
            subset="long-text" if self.prompt == LONG_TEXT else "standard",
            id=SAMPLE,
            turns=tuple(
                UserTurn(number=number, query=turn.user, label=turn.act)
                for number, turn in enumerate(self.turns, start=1)
            ),
            reference=reference,
        )
