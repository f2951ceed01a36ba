"""Which folders take part where several are named: unfinished runs and shards are left out."""

from pathlib import Path

import orjson
import pytest

from mmconv.core.errors import ConfigError, DataError
from mmconv.engine.run import open_saved, read_run
from mmconv.report.comparison.differences import compare
from mmconv.report.comparison.leaderboard import make_leaderboard
from mmconv.report.comparison.runs import finished_among
from mmconv.report.writing import RunFolder
from mmconv.run_folder.layout import Shard
from mmconv.run_folder.saved_run import read_tables
from tests.mmconv.report.runs import ALPHA, BETA, make_run


def lose(folder: Path, *names: str) -> Path:
    """Make the folder that of a run that never came to its end."""
    for name in (*names, "summary.json"):
        (folder / name).unlink()
    return folder


async def test_unfinished_runs_are_left_out_with_what_finishes_them(tmp_path: Path) -> None:
    first, second = [await make_run("fbbench", tmp_path, each) for each in (ALPHA, BETA)]
    killed = lose(await make_run("fbbench", tmp_path, ALPHA, limit=3), "manifest.json")
    assert finished_among([first, second]) == ((first, second), ())
    kept, [line] = finished_among([first, killed, second])
    assert kept == (first, second)
    assert line.startswith(
        f"{killed} is left out: the run is not finished, it has no manifest.json"
    )
    assert "Run its command again with the same --out" in line
    assert "\n" not in line
    stopped = await make_run("fbbench", tmp_path, ALPHA, limit=4)
    summary = orjson.loads((stopped / "summary.json").read_bytes())
    (stopped / "summary.json").write_bytes(orjson.dumps(summary | {"complete": False}))
    (stopped / "tables" / "index.json").unlink()
    kept, lines = finished_among([first, killed, second, stopped])
    assert kept == (first, second)
    assert [line.split()[0] for line in lines] == [str(killed), str(stopped)]
    assert "it has no index.json" in lines[1]
    with RunFolder(second).records():
        pass  # it is resumed, and has no tables of its new scores yet
    kept, lines = finished_among([first, second, await make_run("fbbench", tmp_path, limit=2)])
    assert kept[0] == first
    assert [line.split()[0] for line in lines] == [str(second)]


async def test_no_run_is_left_out_that_is_needed(tmp_path: Path) -> None:
    first, second = [await make_run("fbbench", tmp_path, each) for each in (ALPHA, BETA)]
    killed = lose(await make_run("fbbench", tmp_path, ALPHA, limit=3), "scores.jsonl")
    for folders, needed in (([first, killed], None), ([killed, first, second], killed)):
        with pytest.raises(DataError, match=r"not finished: it has no scores\.jsonl"):
            finished_among(folders, needed=needed)


async def test_a_spoilt_run_is_not_left_out(tmp_path: Path) -> None:
    """Its summary says that it came to its end."""
    runs = [await make_run("fbbench", tmp_path, each) for each in (ALPHA, BETA)]
    spoilt = await make_run("fbbench", tmp_path, ALPHA, limit=3)
    (spoilt / "scores.jsonl").unlink()
    assert finished_among([*runs, spoilt]) == ((*runs, spoilt), ())
    (spoilt / "manifest.json").write_text("{")
    assert finished_among([*runs, spoilt]) == ((*runs, spoilt), ())
    nowhere = tmp_path / "nowhere"
    assert finished_among([*runs, nowhere]) == ((*runs, nowhere), ())


async def score(folder: Path) -> None:
    spec, place, _, _ = read_run(folder)
    async with open_saved(folder, spec, place) as evaluation:
        await evaluation.run(evaluation.runner(offline=True), page=False)


async def test_an_unfinished_run_stays_one_where_it_was_scored(tmp_path: Path) -> None:
    runs = [await make_run("fbbench", tmp_path, each) for each in (ALPHA, BETA)]
    stopped = await make_run("fbbench", tmp_path, ALPHA, seed=1)
    summary = orjson.loads((stopped / "summary.json").read_bytes())
    for path in stopped.glob("*.json*"):
        if path.name not in {"spec.json", "manifest.json"}:
            path.unlink()
    (stopped / "summary.json").write_bytes(orjson.dumps(summary | {"complete": False}))
    await score(stopped)
    kept, [line] = finished_among([*runs, stopped])
    assert kept == tuple(runs)
    assert "the run is not finished, it was stopped, says its summary.json. " in line
    with pytest.raises(DataError, match="it was stopped"):
        finished_among([runs[0], stopped])
    # killed, it has no summary: what it lacks is told by its calls
    (stopped / "summary.json").unlink()
    assert finished_among([*runs, stopped]) == ((*runs, stopped), ())
    transcripts = stopped / "transcripts.jsonl"
    [first, *others] = transcripts.read_bytes().splitlines()
    unasked = orjson.loads(first) | {"state": "skipped", "problem": "not asked yet"}
    transcripts.write_bytes(b"\n".join([orjson.dumps(unasked), *others]))
    _, [line] = finished_among([*runs, stopped])
    assert "not finished, it was scored before all was asked. " in line


async def test_shards_are_left_out_beside_whole_runs(tmp_path: Path) -> None:
    runs = [await make_run("fbbench", tmp_path, each) for each in (ALPHA, BETA)]
    parts = [
        await make_run("fbbench", tmp_path, each, shard=Shard(index=index, count=2))
        for each in (ALPHA, BETA)
        for index in (0, 1)
    ]
    kept, lines = finished_among([*runs, *parts])
    assert kept == tuple(runs)
    assert lines[1].startswith(
        f"{parts[1]} is left out: it is shard 2 of 2 of a run. `mmconv merge`"
    )
    assert len(lines) == len(parts)
    # a whole run beside its own shards stands alone
    kept, lines = finished_among([runs[0], *parts[:2]])
    assert (kept, len(lines)) == ((runs[0],), 2)
    # the same shard of two models, and a shard that is needed
    assert finished_among([parts[0], parts[2]]) == ((parts[0], parts[2]), ())
    compare([parts[0], parts[2]])
    some = (parts[0], *runs)
    assert finished_among(some, needed=parts[0]) == (some, ())
    for folders in (some, [runs[0], parts[0]]):
        for make in (compare, make_leaderboard):
            with pytest.raises(ConfigError, match=r"the samples differ: .*shard 1 of 2") as error:
                make(folders)
            assert "`mmconv merge` joins the stores" in str(error.value)


async def test_a_shard_s_tables_and_report_say_of_what_it_is_a_part(tmp_path: Path) -> None:
    part = await make_run("fbbench", tmp_path, page=True, limit=7, shard=Shard(index=1, count=2))
    message = "Shard 2 of 2 (--shard): 3 of 7 samples. `mmconv merge` joins the stores"
    tables = read_tables(part / "tables")
    assert tables
    for table in tables:
        assert sum(note.startswith(message) for note in table.notes) == 1
    assert message.split("`")[0] in (part / "report.md").read_text("utf-8")
    assert message.split("`")[0] in (part / "report.html").read_text("utf-8")
    whole = await make_run("fbbench", tmp_path)
    assert not any(
        "--shard" in note for table in read_tables(whole / "tables") for note in table.notes
    )
