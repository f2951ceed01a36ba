"""The facts of a run on its page: who was on which seat, and with which options."""

from __future__ import annotations

import re
from pathlib import Path

from mmconv.config import RunSpec
from mmconv.evaluation import Place, open_evaluation
from mmconv.report.page import write_page
from tests.mmconv.report.runs import ALPHA, BETA, JUDGE, write_data


async def test_an_opponent_is_no_judge(tmp_path: Path) -> None:
    spec = RunSpec(
        benchmark="botchat",
        options=write_data("botchat", tmp_path / "data") | {"protocols": ["unieval", "gteval"]},
        seats={"candidate": ALPHA, "judge": JUDGE, "bee": BETA},
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
