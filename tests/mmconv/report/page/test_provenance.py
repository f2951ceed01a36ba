"""What a page tells of how a run was made."""

from __future__ import annotations

from pathlib import Path

import orjson

from mmconv.report.page.rendering import provenance
from mmconv.run_folder.layout import MANIFEST
from mmconv.run_folder.saved_run import read_finished
from tests.mmconv.report.runs import make_run


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


async def test_an_older_folder_tells_the_options_that_were_given(tmp_path: Path) -> None:
    folder = await make_run("fbbench", tmp_path, limit=2)
    manifest = orjson.loads((folder / MANIFEST).read_bytes())
    del manifest["options"]
    (folder / MANIFEST).write_bytes(orjson.dumps(manifest))
    lists = dict(provenance(read_finished(folder)).lists)
    given = read_finished(folder).spec.options
    assert [name for name, _ in lists["Options"]] == [*given]
