"""Files of published judgements with a bad record among good ones, as `mmconv rescore` meets them.

Such a file is refused with all that is wrong; with --skip-bad-records rescoring goes on, and every
table says so, as those of a run do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from mmconv.benchmarks.readers.botchat import rescore as rescore_botchat
from mmconv.benchmarks.readers.cmteval import rescore as rescore_cmteval
from mmconv.benchmarks.readers.fbbench import rescore as rescore_fbbench
from mmconv.benchmarks.readers.mtbench101 import rescore as rescore_mtbench101
from mmconv.cli.judging import rescore_command as command
from mmconv.core.errors import DataError
from mmconv.core.types import Table
from tests.mmconv.benchmarks.botchat import samples as botchat
from tests.mmconv.benchmarks.cmteval import dialogues as cmteval
from tests.mmconv.benchmarks.fbbench import samples as fbbench

RESCORERS: Mapping[str, Callable[..., tuple[Table, ...]]] = {
    "botchat": rescore_botchat,
    "cmteval": rescore_cmteval,
    "fbbench": rescore_fbbench,
    "mtbench101": rescore_mtbench101,
}
NOTE = "1 of 3 records is left out as bad (--skip-bad-records): see the table left_out."


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """A benchmark's good judgements, a bad one that stands between them, and what is said of it."""

    benchmark: str
    file: str
    good: tuple[Any, Any]
    bad: Any
    message: str

    def write(self, folder: Path, *, without: bool = False) -> Path:
        """The file, or the same without the bad record."""
        folder.mkdir(exist_ok=True)
        records = [*self.good] if without else [self.good[0], self.bad, self.good[1]]
        path = folder / self.file
        if path.suffix == ".json":
            path.write_bytes(orjson.dumps(records))
        else:
            lines = [each if isinstance(each, bytes) else orjson.dumps(each) for each in records]
            path.write_bytes(b"\n".join(lines))
        return path


def alone(number: int, **fields: Any) -> dict[str, Any]:
    said = botchat.lay_out(botchat.dialogue("own", 16))
    row = {"model": "m", "qidx": number, "index": f"MT-{number}", "conversation": said}
    return {**row, "gpt4": "Choice: No\nIndex: None", **fields}


def talk(number: int, **fields: Any) -> dict[str, Any]:
    said = orjson.dumps(botchat.dialogue(f"own {number}", 16)).decode()
    return {"index": f"MT-{number}", "gpt": said, "vic": said, **fields}


def checked(number: int, **fields: Any) -> dict[str, Any]:
    sample = fbbench.correction(number)
    judgement = {
        text: {"评判理由": "有。", "评判结果": "是", "weight": weight}
        for text, weight in sample["checklist"]
    }
    who = {"infer_model": "m", "judge_model": "j", "second_response": "好的。"}
    return {**sample, **who, "judgement": judgement, "score": 1.0, **fields}


def turn(number: int, **fields: Any) -> dict[str, Any]:
    return {"task": "SI", "id": number, "turn": 1, "judgement": "Rating: [[8]]", **fields}


def scored(number: int, **fields: Any) -> list[dict[str, Any]]:
    return cmteval.published({**cmteval.record(str(number)), **fields}, (4, 5), (3, 3), (5, 5))


def hard(number: int) -> list[dict[str, Any]]:
    return cmteval.published(cmteval.hard_record(str(number)), (4, 5), (3, 3), (5, 5))


UNIEVAL = Bad(
    benchmark="botchat",
    file="UniEval.jsonl",
    good=(alone(1), alone(2)),
    bad=alone(3, model=""),
    message="UniEval.jsonl line 2: model is missing",
)
CHECKED = Bad(
    benchmark="fbbench",
    file="judged.jsonl",
    good=(checked(1), checked(2)),
    bad=checked(3, judge_model=None),
    message="judged.jsonl line 2: judge_model is empty",
)
TURNS = Bad(
    benchmark="mtbench101",
    file="judged.jsonl",
    good=(turn(1), turn(2)),
    bad=turn(3, task="XX"),
    message="judged.jsonl line 2: task 'XX' must be one of",
)
SCORED = Bad(
    benchmark="cmteval",
    file="eval_standard_m.json",
    good=(scored(1), scored(2)),
    bad={"origin_id": "3"},
    message="eval_standard_m.json item 2: 评测能力 is missing",
)

BAD: Mapping[str, Bad] = {
    "botchat, UniEval": UNIEVAL,
    "botchat, not JSON": replace(UNIEVAL, bad=b"{", message="UniEval.jsonl line 2: not JSON"),
    "botchat, dialogues": replace(
        UNIEVAL,
        file="convs.jsonl",
        good=(talk(1), talk(2)),
        bad=talk(3, vic="hello"),
        message="convs.jsonl line 2: vic: not a JSON list of utterances",
    ),
    "fbbench": CHECKED,
    "mtbench101": TURNS,
    "cmteval": SCORED,
    "cmteval, another subset": replace(
        SCORED,
        bad=hard(3),
        message="item 2: has the fields of hard, but the file is taken for standard",
    ),
}


def run(bad: Bad, file: Path, *more: str) -> Result:
    return CliRunner().invoke(command, [bad.benchmark, "--judgements", str(file), *more])


def rescored(bad: Bad, files: Sequence[Path]) -> tuple[Table, ...]:
    return RESCORERS[bad.benchmark](files, skip_bad=True)


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_record_refuses_its_file(bad: Bad, tmp_path: Path) -> None:
    result = run(bad, bad.write(tmp_path))
    assert isinstance(result.exception, DataError)
    assert bad.message in str(result.exception)
    assert "--skip-bad-records continues with the 2 good records." in str(result.exception)


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_rescoring_goes_on_without_it_and_every_table_says_so(bad: Bad, tmp_path: Path) -> None:
    *found, left_out = rescored(bad, [bad.write(tmp_path / "bad")])
    clean = rescored(bad, [bad.write(tmp_path / "clean", without=True)])
    assert [(table.name, table.rows) for table in found] == [
        (table.name, table.rows) for table in clean
    ]
    assert all(table.notes[-1] == NOTE for table in found)
    assert not any(NOTE in table.notes for table in clean)
    assert left_out.name == "left_out"
    [(where, row)] = left_out.rows.items()
    assert bad.message in f"{where}: {row['what is wrong'].value}"


def test_the_command_takes_the_option(tmp_path: Path) -> None:
    result = run(CHECKED, CHECKED.write(tmp_path), "--skip-bad-records")
    assert result.exit_code == 0, result.output
    assert NOTE.partition(":")[0] in " ".join(result.stdout.split())
    assert "Records left out as bad" in result.stdout


def test_files_of_one_name_both_tell_their_bad_records(tmp_path: Path) -> None:
    first, second = (
        replace(TURNS, good=(turn(number), turn(number + 1))).write(tmp_path / str(number))
        for number in (1, 5)
    )
    *found, left_out = rescored(TURNS, [first, second])
    assert "2 of 6 records are left out" in found[0].notes[-1]
    assert [*left_out.rows] == ["judged.jsonl line 2", f"{tmp_path / '5'}: judged.jsonl line 2"]


@pytest.mark.parametrize("bad", [UNIEVAL, CHECKED, TURNS, SCORED], ids=lambda bad: bad.benchmark)
def test_a_file_without_good_records_is_refused_all_the_same(bad: Bad, tmp_path: Path) -> None:
    path = replace(bad, good=(bad.bad, bad.bad)).write(tmp_path)
    with pytest.raises(DataError):
        rescored(bad, [path])


def test_a_file_of_another_benchmark_is_told_in_few_lines(tmp_path: Path) -> None:
    path = tmp_path / "judged.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps(checked(number)) for number in range(30)))
    result = run(SCORED, path)
    assert isinstance(result.exception, DataError)
    assert "line 1: origin_id or ID must be a text" in str(result.exception)
    assert len(str(result.exception).splitlines()) < 40
    assert "eval_<subset>_<model>.json" in str(result.exception)
    assert "--skip-bad-records" not in str(result.exception)
