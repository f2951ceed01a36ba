"""Dialogues of a run in the files of lmms-eval, VLMEvalKit and MT-Bench.

Checked against the sources of lmms-eval 0.7.3 (`loggers/evaluation_tracker.py`), VLMEvalKit e8e78f0
(`inference_mt.py`, `smp/file.py`) and FastChat 0.2.36 (`llm_judge/`). Each condition is a dataset
or a model of its own there, so that no mean goes over several conditions. Given turns are left out:
a tool would score them as the model's own.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from mmconv.benchmarks.base.endings import METRICS
from mmconv.core.atomic_writes import atomic_write, write_file
from mmconv.core.config import CANDIDATE
from mmconv.core.judges import JUDGE, split_call
from mmconv.core.keys import hash_json
from mmconv.core.plans import read_trial
from mmconv.core.types import Score
from mmconv.report.exports.names import file_name, finished_at, score_names
from mmconv.run_folder.saved_run import FinishedRun, read_calls
from mmconv.run_folder.transcripts import PARSED, CallRecord

FAILED = {"vlmevalkit": "Failed to obtain answer via API.", "mt-bench": "$ERROR$"}

IMAGE = "<ImageHere>"

LONGEST_CELL = 32_767
"""How many characters a cell of an .xlsx file can have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """A sample under a condition; a second trial of sample `14` is the sample `14#2`.

    `turns` are the candidate's calls, failed ones too; `judgements` are all other calls. `scores`
    are by `score_names`.
    """

    sample: str
    condition: str
    turns: tuple[CallRecord, ...]
    judgements: tuple[CallRecord, ...]
    scores: Mapping[str, Score]

    def origin(self) -> dict[str, Any]:
        """What other formats have no field for; `model_zoo.replay` reads it in a field `mmconv`."""
        fields = {"call", "finish", "input_tokens", "output_tokens", "reasoning", "problem"}
        calls = [call.model_dump(include=fields, exclude_none=True) for call in self.turns]
        return {"sample": self.sample, "condition": self.condition, "calls": calls}


def read_dialogues(run: FinishedRun) -> Iterator[Dialogue]:
    """Stream the dialogues of a run in its order."""
    scores: defaultdict[tuple[str, str], list[Score]] = defaultdict(list)
    for score in run.scores():
        if score.metric not in METRICS:
            scores[score.sample, score.condition].append(score)
    calls = read_calls(run.folder)
    for (sample, condition), group in groupby(calls, lambda call: (call.sample, call.condition)):
        records = tuple(group)
        own = scores[sample, condition]
        yield Dialogue(
            sample=sample,
            condition=condition,
            turns=tuple(call for call in records if call.model == CANDIDATE),
            judgements=tuple(call for call in records if call.model != CANDIDATE),
            scores=dict(zip(score_names(own), own, strict=True)),
        )


def write_lmms_eval(run: FinishedRun, out: Path) -> list[Path]:
    """Samples as lmms-eval logs them: `MODEL/TIME_samples_TASK.jsonl`, a line for each dialogue.

    A failed call has null in `filtered_resps`, an unscored metric null.
    """
    lines: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for dialogue in read_dialogues(run):
        texts = [call.text for call in dialogue.turns]
        counts = [
            {"input_tokens": call.input_tokens, "output_tokens": call.output_tokens}
            for call in dialogue.turns
        ]
        of_condition = lines[dialogue.condition]
        of_condition.append(
            {
                "doc_id": len(of_condition),
                "target": "",
                "filtered_resps": texts[0] if len(texts) == 1 else texts,
                "token_counts": counts,
                "doc_hash": hash_json([run.spec.benchmark, read_trial(dialogue.sample).key]),
                **_values(dialogue.scores),
                "input": _question(dialogue.turns[0]) if dialogue.turns else "",
                "mmconv": dialogue.origin(),
            }
        )
    time = finished_at(run).strftime("%Y%m%d_%H%M%S")
    folder = out / file_name(run.candidate)
    return [
        _write_lines(folder / f"{time}_samples_{_dataset(run, condition)}.jsonl", records)
        for condition, records in lines.items()
    ]


def write_vlmevalkit(run: FinishedRun, out: Path) -> list[Path]:
    """Prediction files of multi-turn datasets, `MODEL_DATASET.xlsx`, a row for each dialogue.

    They are .tsv files if a text is too long for a cell. `question` and `prediction` are lists in
    Python's notation, with an entry for each call. An unscored metric is an empty cell.
    """
    rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for dialogue in read_dialogues(run):
        rows[dialogue.condition].append(
            {
                "index": dialogue.sample,
                "question": repr([_question(call, IMAGE) for call in dialogue.turns]),
                "prediction": repr([_answer(call, "vlmevalkit") for call in dialogue.turns]),
                **_values(dialogue.scores),
                "mmconv": orjson.dumps(dialogue.origin()).decode(),
            }
        )
    return [
        _write_sheet(out / file_name(run.candidate, _dataset(run, condition)), records)
        for condition, records in rows.items()
    ]


def write_mt_bench(run: FinishedRun, out: Path) -> list[Path]:
    """The folder of a benchmark of FastChat's llm_judge: questions, answers and judgements.

    A trial is a choice. With several conditions, each one is a model `MODEL-CONDITION`. A failed
    answer is `$ERROR$`. A judgement that is not one number has the score -1, which FastChat leaves
    out of its means; `scores`, `label` and `problem` say what it is. `judge` has model and prompt.
    """
    questions: dict[str, dict[str, Any]] = {}
    answers: defaultdict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    judgements: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    time = finished_at(run).timestamp()
    for dialogue in read_dialogues(run):
        several = len(run.manifest.conditions) > 1
        model = file_name(run.candidate) + (f"-{dialogue.condition}" if several else "")
        key, trial = read_trial(dialogue.sample)
        question_id = int(key) if key.isdecimal() else key
        question = {"question_id": question_id, "category": run.spec.benchmark}
        turns = [_question(call) for call in dialogue.turns]
        if len(turns) > len(questions.get(key, {"turns": ()})["turns"]):
            questions[key] = {**question, "turns": turns}
        answer = answers[model].setdefault(
            key,
            {
                "question_id": question_id,
                "answer_id": hash_json([run.folder.name, model, key])[:22],
                "model_id": model,
                "choices": [],
                "tstamp": time,
            },
        )
        replies = [_answer(call, "mt-bench") for call in dialogue.turns]
        answer["choices"].append({"index": trial - 1, "turns": replies})
        for name, judgement in _judgements(run, dialogue):
            shared = {**judgement, "model": model, "tstamp": time}
            judgements[name].append({"question_id": question_id, **shared})
    return [
        _write_lines(out / "question.jsonl", questions.values()),
        *(
            _write_lines(out / "model_answer" / f"{model}.jsonl", lines.values())
            for model, lines in answers.items()
        ),
        *(
            _write_lines(out / "model_judgment" / f"{name}.jsonl", lines)
            for name, lines in judgements.items()
        ),
    ]


def _judgements(run: FinishedRun, dialogue: Dialogue) -> Iterator[tuple[str, dict[str, Any]]]:
    """The judgements with the names of their files, one for each kind: FastChat averages a file."""
    models = run.spec.models
    for call in dialogue.judgements:
        name, further = split_call(call.call)
        model = models.get(further or JUDGE)
        judge = run.judge if model is None else model.label
        turn = re.search(r"turn_(\d+)", name)
        kind = re.sub(r"/?turn_\d+", "", name)
        numbers = {number.name: number.value for number in call.scores or ()}
        yield (
            file_name(judge, file_name(kind, "single") if kind else "single"),
            {
                "judge": [judge, call.prompt or name],
                "judgment": call.text,
                "score": next(iter(numbers.values())) if len(numbers) == 1 else -1,
                "turn": int(turn[1]) if turn else 0,
                "call": call.call,
                "scores": numbers,
                "label": call.label,
                "problem": call.problem or (None if call.parse == PARSED else call.parse),
            },
        )


def _question(call: CallRecord, image: str = "") -> str:
    if not call.messages:  # a prompt file made them, or the call was not requested
        return ""
    parts = call.messages[-1].parts
    return "\n".join(part.text or "" if part.image is None else image for part in parts).strip()


def _answer(call: CallRecord, tool: str) -> str:
    return f"{FAILED[tool]} {call.problem}" if call.text is None else call.text


def _values(scores: Mapping[str, Score]) -> dict[str, float | None]:
    return {name: score.value for name, score in scores.items()}


def _dataset(run: FinishedRun, condition: str) -> str:
    """The name of a condition as a task of another tool: `mmconv_convbench_free`."""
    return re.sub(r"\W+", "_", f"mmconv_{run.spec.benchmark}_{condition}")


def _write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    write_file(path, b"".join(orjson.dumps(record) + b"\n" for record in records))
    return path


def _write_sheet(stem: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    from openpyxl import Workbook

    columns = list(dict.fromkeys(name for row in rows for name in row))
    table: list[list[Any]] = [columns, *([row.get(name) for name in columns] for row in rows)]
    is_long = any(
        isinstance(cell, str) and len(cell) > LONGEST_CELL for row in table for cell in row
    )
    path = stem.with_name(f"{stem.name}.{'tsv' if is_long else 'xlsx'}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as part:
        if is_long:
            with part.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, delimiter="\t", quoting=csv.QUOTE_ALL).writerows(table)
        else:
            book = Workbook(write_only=True)
            sheet = book.create_sheet()
            for row in table:
                sheet.append(row)
            book.save(part)
    return path
