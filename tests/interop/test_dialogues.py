"""lmms-eval, FastChat, VLMEvalKit, Inspect and Every Eval Ever."""

import asyncio
import base64
import csv
import io
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from PIL import Image

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.run_folder.saved_run import read_tables
from tests.interop.conftest import Python, export, replayed_texts
from tests.mmconv.report.runs import JUDGE, evaluate

TASKS = Path(__file__).with_name("lmms_tasks")

LOG_SAMPLES = """
import json, sys
from lmms_eval.loggers.evaluation_tracker import EvaluationTracker
path, out = sys.argv[1:]
tracker = EvaluationTracker(output_path=out)
tracker.general_config_tracker.model_name_sanitized = "alpha"
tracker.date_id = "20260101_000000"
samples = []
for line in open(path, encoding="utf-8"):
    logged = json.loads(line)
    texts = tuple(logged["filtered_resps"])
    # as lmms-eval holds them: a request of several rounds has a tuple of texts
    samples.append({
        "doc_id": logged["doc_id"], "doc": {}, "target": "", "arguments": [logged["input"], {}],
        "resps": [texts], "filtered_resps": [texts], "token_counts": logged["token_counts"],
        "doc_hash": logged["doc_hash"], "id": logged["mmconv"]["sample"],
    })
tracker.save_results_samples("task", samples)
"""

SCORE_SHEETS = """
import json, pathlib, sys
from vlmeval.dataset.utils.mmdu import mmdu_score
from vlmeval.smp import load
asked = []
class Judge:
    def generate(self, prompt):
        asked.append(prompt)
        return "{'Overall Score': 7}"
rows = {}
for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    data = load(str(path))
    data["answer"] = data["question"]
    for _, line in data.iterrows():
        judged = mmdu_score(Judge(), line)["res"]
        assert (judged["Overall Score"] == 7).all(), judged
        # what it asked about: question, reference and answer of each turn
        rows.setdefault(path.stem, []).append(asked)
        asked = []
print(json.dumps(rows))
"""

PREDICT = """
from vlmeval.dataset.image_mt import MMDUDataset
from vlmeval.inference_mt import infer_data_job_mt
class Model:
    is_api = True
    def chat_inner(self, messages, dataset=None): ...
    def chat(self, messages, dataset=None):
        asked = messages[-1]["content"][-1]["value"]
        if asked == "Ask 1.1?":
            raise RuntimeError("away")
        return f"To {asked!r}: no, \\"yes\\"\\nafter {len(messages) - 1} messages."
infer_data_job_mt(Model(), "work", "gamma", MMDUDataset("Asked"))
"""

INSPECT = """
import inspect_ai, sys
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate, user_message
outputs = [ModelOutput.from_content("mockllm/model", f"reply {n}") for n in range(4)]
for output in outputs:  # or else it counts tokens with a file that it downloads
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
task = inspect_ai.Task(
    dataset=[Sample(id=n, input="Ask 1?") for n in (1, 2)],
    solver=[generate(), user_message("Ask 2?"), generate()],
)
model = get_model("mockllm/model", custom_outputs=outputs)
log, = inspect_ai.eval(task, model=model, log_dir=sys.argv[1], display="none", max_samples=1)
assert log.status == "success"
"""

REPLAY = """
import asyncio, sys
from pathlib import Path
from mmconv.core.config import ModelSpec, RunSpec
from tests.mmconv.report.runs import JUDGE, evaluate
data, log, out = sys.argv[1:]
spec = RunSpec(benchmark="dialogue", options={"data": data}, conditions=("free",),
    models={"candidate": ModelSpec(provider="replay", model=log), "judge": JUDGE})
print(asyncio.run(evaluate(spec, Path(out))).folder)
"""


def write_dialogues(path: Path, turns: int) -> Path:
    rows = [
        {"id": f"s{n}", "turns": [{"instruction": f"Ask {n}.{t}?"} for t in range(turns)]}
        for n in range(3)
    ]
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def replay(file: Path, benchmark: str, options: dict[str, Any], out: Path) -> Path:
    spec = RunSpec(
        benchmark=benchmark,
        options=options,
        conditions=("free",),
        models={
            "candidate": ModelSpec(provider="replay", model=str(file), name="gamma"),
            "judge": JUDGE,
        },
    )
    return asyncio.run(evaluate(spec, out)).folder


def test_lmms_eval_logs_are_replayed(run: Path, lmms: Python, tmp_path: Path) -> None:
    """Its own logger writes the dialogues of an export again; they are replayed by position."""
    [ours] = export(run, "lmms-eval", tmp_path / "out").rglob("*_free.jsonl")
    lmms("-W", "ignore", "-c", LOG_SAMPLES, ours, tmp_path / "theirs")
    [theirs] = (tmp_path / "theirs").rglob("*.jsonl")
    first, second = (
        [orjson.loads(line) for line in path.read_bytes().splitlines()] for path in (ours, theirs)
    )
    for own, logged in zip(first, second, strict=True):
        shared = {name: own[name] for name in logged.keys() - {"id", "filtered_resps"}}
        assert shared.items() <= logged.items()
        # lmms-eval has no missing reply: its logger writes the text "None"
        assert [str(text) for text in own["filtered_resps"]] == logged["filtered_resps"]
    data = run.parent.parent / "data"
    options = {"data": str(data / "data.jsonl"), "images": str(data / "images")}
    again = replay(theirs, "convbench", options, tmp_path / "runs")
    texts = [text for line in first for text in line["filtered_resps"]]
    assert replayed_texts(again) == [str(text) for text in texts]


def test_samples_of_a_run_of_lmms_eval_are_judged(lmms: Python, tmp_path: Path) -> None:
    data = write_dialogues(tmp_path / "records.jsonl", turns=1)
    lmms(
        *("-W", "ignore", "-m", "lmms_eval", "--model", "dummy", "--tasks", "mmconv_words"),
        *("--model_args", "response=Certainly.", "--batch_size", "1", "--include_path", TASKS),
        *("--log_samples", "--output_path", "results"),
        HF_HUB_OFFLINE="1",
        HF_HOME=str(tmp_path / "home"),
    )
    [samples] = (tmp_path / "results").rglob("*_samples_mmconv_words.jsonl")
    again = replay(samples, "dialogue", {"data": str(data)}, tmp_path / "runs")
    assert replayed_texts(again) == ["Certainly."] * 3


def test_fastchat_shows_the_means_of_the_run(run: Path, trackers: Python, tmp_path: Path) -> None:
    out = export(run, "mt-bench", tmp_path / "out")
    file = out / "model_judgment" / "arbiter_direct_single.jsonl"
    shown = trackers("-m", "fastchat.llm_judge.show_result", "--input-file", file)
    rows = [line.split() for line in shown.partition("Second turn")[2].splitlines()]
    means = {row[0]: float(row[-1]) for row in rows if len(row) == 3 and row[1] == "2"}
    scores = next(table for table in read_tables(run / "tables") if table.name == "scores")
    for model, row in (("gamma-free", "S2"), ("gamma-perception", "S2_hat")):
        assert means[model] == pytest.approx(scores.rows[row]["direct (1-10)"].value, abs=1e-5)


def test_vlmevalkit_scores_the_sheets(run: Path, vlmevalkit: Python, tmp_path: Path) -> None:
    out = export(run, "vlmevalkit", tmp_path / "out")
    sheets = orjson.loads(vlmevalkit("-c", SCORE_SHEETS, out).splitlines()[-1])
    assert len(sheets) == 3
    texts = replayed_texts(run)
    free = sheets["gamma_mmconv_convbench_free"]
    assert all(len(prompts) == 3 for prompts in free)
    assert all("<ImageHere>" in prompts[0] for prompts in free)
    prompts = "".join(prompt for sheet in sheets.values() for row in sheet for prompt in row)
    assert prompts.count("Failed to obtain answer via API.") == texts.count(None) > 0
    assert all(text in prompts for text in texts if text is not None)


@pytest.mark.parametrize("form", ["xlsx", "tsv"])
def test_predictions_of_vlmevalkit_are_judged(
    vlmevalkit: Python, tmp_path: Path, form: str
) -> None:
    """Its own inference asks three turns of three dialogues; one answer fails, so none follows."""
    data = write_dialogues(tmp_path / "records.jsonl", turns=3)
    picture = io.BytesIO()
    Image.effect_noise((32, 32), 50).save(picture, "PNG")
    image = base64.b64encode(picture.getvalue()).decode()
    with (tmp_path / "Asked.tsv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t")
        table.writerow(["index", "image", "question"])
        for n in range(3):
            asked = [f"{'<ImageHere>' * (t == 0)}Ask {n}.{t}?" for t in range(3)]
            table.writerow([f"s{n}", image, repr(asked)])
    (tmp_path / "work").mkdir()
    vlmevalkit("-c", PREDICT, LMUData=str(tmp_path), PRED_FORMAT=form)
    again = replay(
        tmp_path / "work" / f"gamma_Asked.{form}",
        "dialogue",
        {"data": str(data)},
        tmp_path / "runs",
    )
    assert replayed_texts(again) == [
        None if n == 1 and t > 0 else f"To 'Ask {n}.{t}?': no, \"yes\"\nafter {2 * t} messages."
        for n in range(3)
        for t in range(3)
    ]


def test_a_log_of_a_multi_turn_task_of_inspect_is_judged(inspect: Python, tmp_path: Path) -> None:
    rows = [
        {"id": str(n), "turns": [{"instruction": "Ask 1?"}, {"instruction": "Ask 2?"}]}
        for n in (1, 2)
    ]
    data = tmp_path / "data.jsonl"
    data.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    inspect("-c", INSPECT, "logs", XDG_DATA_HOME=str(tmp_path / "home"))
    [log] = (tmp_path / "logs").glob("*.eval")
    again = inspect("-c", REPLAY, data, log, tmp_path / "runs", XDG_DATA_HOME=str(tmp_path))
    assert sorted(replayed_texts(Path(again.split()[-1]))) == [f"reply {n}" for n in range(4)]


def test_every_eval_ever_accepts_the_record(
    run: Path, every_eval_ever: Python, tmp_path: Path
) -> None:
    copy = shutil.copytree(run, tmp_path / run.name)
    spec = orjson.loads((copy / "spec.json").read_bytes())
    # its validator wants to know who made a model
    spec["spec"]["models"]["candidate"]["model"] = "acme/gamma-7b"
    (copy / "spec.json").write_bytes(orjson.dumps(spec))
    export(copy, "every-eval-ever", tmp_path)
    [path] = tmp_path.glob("data/mmconv-convbench/acme/gamma-7b/*.json")
    output = every_eval_ever("-m", "every_eval_ever", "validate", path.relative_to(tmp_path))
    assert "1 passed, 0 warning-only, 0 failed" in output
