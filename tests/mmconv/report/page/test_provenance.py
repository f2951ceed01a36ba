"""What a page tells of how a run was made, in its head and in its provenance."""

import re
from html import unescape
from pathlib import Path

import orjson

from mmconv.core.config import RunSpec
from mmconv.engine.run import Place, open_evaluation
from mmconv.report.comparison.differences import compare
from mmconv.report.notes import ALIKE
from mmconv.report.page import write_comparison, write_page
from mmconv.report.page.rendering import provenance
from mmconv.run_folder.layout import MANIFEST
from mmconv.run_folder.saved_run import read_finished
from tests.mmconv.report.runs import ALPHA, BETA, JUDGE, make_run, write_data


async def test_who_answered_and_every_option_in_force_is_told(tmp_path: Path) -> None:
    folder = await make_run("fbbench", tmp_path, limit=2)
    manifest = orjson.loads((folder / MANIFEST).read_bytes())
    manifest["answered_by"] = {"candidate": {"alpha-1": 3, "alpha-2": 1}}
    manifest["about_models"] = {"candidate": {"chat_template": "c0ffee"}}
    (folder / MANIFEST).write_bytes(orjson.dumps(manifest))
    lists = {title: dict(entries) for title, entries in provenance(read_finished(folder)).lists}
    models = lists["Models"]
    assert models["candidate: answered by"] == "alpha-1 (3 replies), alpha-2 (1 reply)"
    assert models["candidate: chat template"] == "c0ffee"
    assert not [name for name in models if name.startswith("judge: answered")]
    options = lists["Options"]
    assert options.keys() >= manifest["options"].keys()
    assert options["skip_bad_records"] == "false (default)"
    assert " (default)" not in options["data"]


async def test_an_opponent_is_no_judge(tmp_path: Path) -> None:
    spec = RunSpec(
        benchmark="botchat",
        options=write_data("botchat", tmp_path / "data") | {"protocols": ["unieval", "gteval"]},
        models={"candidate": ALPHA, "judge": JUDGE, "bee": BETA},
        limit=2,
    )
    async with open_evaluation(spec, Place(out=tmp_path / "runs")) as evaluation:
        folder = (await evaluation.run(evaluation.runner())).folder
    text = write_page(folder).read_text(encoding="utf-8")
    head = text.split('<dl class="facts">', 1)[1].split("</dl>", 1)[0]
    facts = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", head))
    assert (facts["model"], facts["judge"], facts["bee"]) == ("alpha", "arbiter", "beta")
    # options are told as they are typed
    assert "<dt>protocols</dt><dd>unieval, gteval</dd>" in text


async def test_the_head_counts_samples_and_not_their_trials(tmp_path: Path) -> None:
    folder = await make_run("fbbench", tmp_path, trials=3, limit=2)
    text = write_page(folder).read_text(encoding="utf-8")
    assert "<dt>samples</dt><dd>2 in 3 trials</dd>" in text
    # the fake answers alike, which all who read the numbers must know
    warnings = text.split('<ul class="warnings"', 1)[1].split("</ul>", 1)[0]
    assert ALIKE in unescape(warnings)
    assert unescape(text.split('id="tables"')[0]).count(ALIKE) == 1


async def test_the_head_of_compared_runs_has_the_conditions_of_all(tmp_path: Path) -> None:
    runs = [
        await make_run("mtbench101", tmp_path, model, conditions=conditions)
        for model, conditions in ((ALPHA, ["golden"]), (BETA, ["golden", "self"]))
    ]
    page = write_comparison(tmp_path / "comparison.html", compare(runs, despite=["conditions"]))
    assert "<dt>conditions</dt><dd>golden, self</dd>" in page.read_text(encoding="utf-8")
