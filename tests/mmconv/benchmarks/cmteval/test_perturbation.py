"""Wrong characters and pinyin: how many, where, and always the same by seed."""

import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from mmconv.benchmarks.cmteval.commands import perturb_command as command
from mmconv.benchmarks.cmteval.perturbation import (
    VARIANTS,
    Confusable,
    Perturbation,
    Rates,
    read_confusables,
)
from mmconv.benchmarks.data_files.records import read_records
from mmconv.core.errors import ConfigError, DataError
from tests.mmconv.benchmarks.cmteval.dialogues import REAL, long_record, record, write

pytest.importorskip("pypinyin")

LAYOUT = {
    "问": {"同音": ["文", "闻", "吻", "纹", "温"], "形近": {"间", "闷", "四个字词"}, "freq": 1},
    "题": {"同音": ["提"], "形近": set(), "freq": 1},
    "的": {"同音": [], "形近": set(), "freq": 1},
}
CONFUSABLES = {
    "问": Confusable(sounds=("文", "闻", "吻", "纹", "温"), shapes=("间", "闷")),
    "题": Confusable(sounds=("提",), shapes=()),
}
QUERIES = ["第一个问题，怎么看？", "这个问题呢,问问你的看法", "没有了。", "再问问。"]


def with_rates(variant: str, characters: float, pinyin: float) -> Perturbation:
    rates = Rates(characters=characters, pinyin=pinyin)
    changed = replace(VARIANTS[variant], rates=rates, personas={})
    return Perturbation(variant=changed, confusables=CONFUSABLES)


def texts(perturbation: Perturbation, queries: list[str], persona: str = "张梅") -> list[str]:
    return [query.text for query in perturbation.perturb("1", persona, queries)]


@pytest.fixture
def look_alikes(tmp_path: Path) -> Path:
    path = tmp_path / "char_confuse.data"
    path.write_bytes(pickle.dumps(LAYOUT))
    return path


def test_the_confusables_are_read(look_alikes: Path) -> None:
    found = read_confusables(look_alikes)
    assert found["问"] == CONFUSABLES["问"]
    assert found["的"] == Confusable(sounds=(), shapes=())


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"", "not a pickle of plain lists"),
        (b"[]", "not a pickle of plain lists"),
        (pickle.dumps(LAYOUT)[:40], "not a pickle of plain lists"),
        # code is never run
        (b"cos\nsystem\n(S'touch was-here'\ntR.", r"names os\.system, which is never loaded"),
        (pickle.dumps([1]), "not a dictionary of characters"),
        (pickle.dumps({"问": []}), "not a dictionary of characters"),
        (None, "Check the path"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, document: bytes | None, message: str) -> None:
    path = tmp_path / "other.data"
    if document is not None:
        path.write_bytes(document)
    with pytest.raises(DataError, match=message):
        read_confusables(path)


@pytest.mark.parametrize(("rate", "expected"), [(0, 1), (0.25, 1), (0.5, 2), (0.99, 3)])
def test_a_share_of_the_queries_gets_one_wrong_character_each(rate: float, expected: int) -> None:
    queries = ["问题一", "问题二", "问题三", "问题四"]
    done = with_rates("paper", rate, 0).perturb("1", "张梅", queries)
    changed = [
        sum(left != right for left, right in zip(before, after.text, strict=True))
        for before, after in zip(queries, done, strict=True)
    ]
    assert sorted(changed) == [0] * (4 - expected) + [1] * expected
    assert [query.characters for query in done] == changed


def test_a_repeated_mistake_is_the_same_one() -> None:
    [found] = {*texts(with_rates("paper", 1, 0), ["问"] * 8)}
    assert found != "问"
    for query in ("没有了。", ""):  # nothing to mistake
        assert texts(with_rates("paper", 1, 0), [query]) == [query]


@pytest.mark.parametrize(("variant", "known"), [("paper", "文闻吻纹温间闷"), ("code", "文闻吻")])
def test_candidates_are_the_variants(variant: str, known: str) -> None:
    base = with_rates(variant, 1, 0)
    assert {texts(replace(base, seed=seed), ["问"])[0] for seed in range(100)} == set(known)


@pytest.mark.parametrize(
    ("variant", "rate", "query", "expected"),
    [
        ("code", 1, "好吧，啊！没有, 对", "好ba，a！没有, 对"),
        # the paper takes every mark, the script six
        ("paper", 1, "好,吧、呢。A！", "hao,ba、ne。A！"),
        ("code", 1, "好,吧、呢。A！", "好,吧、ne。A！"),
        ("paper", 0, "好吧。", "好吧。"),
    ],
)
def test_characters_before_punctuation_become_pinyin(
    variant: str, rate: float, query: str, expected: str
) -> None:
    [found] = with_rates(variant, 0, rate).perturb("1", "张梅", [query])
    assert found.text == expected
    assert found.pinyin == sum(sign not in expected for sign in query)


def test_rates_are_the_papers_or_the_scripts_and_the_seed_and_the_dialogue_decide() -> None:
    rates = {
        (name, persona): variant.personas.get(persona, variant.rates)
        for name, variant in VARIANTS.items()
        for persona in ("齐业", "张梅")
    }
    assert rates == {
        ("paper", "齐业"): (1 / 4, 1 / 6),
        ("paper", "张梅"): (1 / 7, 1 / 7),
        ("code", "齐业"): (1 / 4, 1 / 7),
        ("code", "张梅"): (1 / 6, 1 / 7),
    }
    made = Perturbation(variant=VARIANTS["paper"], confusables=CONFUSABLES)
    many = QUERIES * 5
    first = made.perturb("1", "齐业", many)
    assert first == made.perturb("1", "齐业", many)
    assert first != made.perturb("2", "齐业", many)
    assert first != replace(made, seed=1).perturb("1", "齐业", many)


def run(file: Path, out: Path, look_alikes: Path, *more: str) -> Result:
    arguments = [str(file), "--out", str(out), "--confusables", str(look_alikes), *more]
    return CliRunner().invoke(command, arguments)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([{"user": "你好"}] * 50, "name the fields that hold the users' texts (--field)"),
        ([record("1"), record("2", 用户角色="")], "item 2: 用户角色 is empty"),
    ],
)
def test_bad_dialogues_are_refused_in_short(
    tmp_path: Path, look_alikes: Path, records: list[Any], message: str
) -> None:
    file = write(tmp_path / "standard_data.json", records)
    result = run(file, tmp_path / "out.json", look_alikes)
    assert isinstance(result.exception, DataError)
    assert message in str(result.exception)
    assert len(str(result.exception).splitlines()) < 40
    assert not (tmp_path / "out.json").exists()


def test_it_is_written_as_its_name_says(tmp_path: Path, look_alikes: Path) -> None:
    file = write(tmp_path / "mine.json", [{"user": "你好"}, {"user": "好"}])
    for name in ("out.json", "out.jsonl"):
        result = run(file, tmp_path / name, look_alikes, "--field", "user")
        assert result.exit_code == 0
        assert len(list(read_records(tmp_path / name))) == 2
    assert len((tmp_path / "out.jsonl").read_bytes().splitlines()) == 2
    result = run(file, tmp_path / "out.csv", look_alikes, "--field", "user")
    assert "must end with .json or .jsonl" in str(result.exception)


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path, look_alikes: Path) -> None:
    """Neither another one, nor one that is read."""
    file = write(tmp_path / "standard_data.json", [record("你好")])
    other = tmp_path / "other.json"
    other.write_text("[]", encoding="utf-8")
    for out in (other, file):
        before = out.read_bytes()
        result = run(file, out, look_alikes)
        assert isinstance(result.exception, ConfigError)
        assert "the file exists; name a new one" in str(result.exception)
        assert out.read_bytes() == before


def test_it_warns_if_nothing_was_changed(tmp_path: Path, look_alikes: Path) -> None:
    file = write(tmp_path / "english.json", [{"user": "Hello, you."}])
    result = run(file, tmp_path / "out.json", look_alikes, "--field", "user")
    assert result.exit_code == 0
    assert "0 of 1 queries changed" in result.stdout
    assert "WARNING" in result.stderr
    assert "does user contain any?" in result.stderr
    chinese = write(tmp_path / "standard_data.json", [record("1", 5)])
    assert "WARNING" not in run(chinese, tmp_path / "more.json", look_alikes).stderr


def test_only_queries_change(tmp_path: Path, look_alikes: Path) -> None:
    before = record("1", 5)
    file = write(tmp_path / "standard_data.json", [[before], record("2", 5, 备注="留着")])
    result = run(file, tmp_path / "new" / "out.json", look_alikes)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("2 dialogues, ")
    first, second = orjson.loads((tmp_path / "new" / "out.json").read_bytes())
    assert second["备注"] == "留着"
    assert first["会话内容"] != before["会话内容"]
    assert blank(first) == blank(before)
    # and the same seed writes the same file
    for name, seed in (("same", "0"), ("other", "4")):
        out = tmp_path / f"{name}.json"
        run(file, out, look_alikes, "--seed", seed)
        assert (orjson.loads(out.read_bytes()) == [first, second]) == (name == "same")


def test_a_long_text_stays_as_it_is(tmp_path: Path, look_alikes: Path) -> None:
    made = long_record("1")
    text = "问题，" * 50
    made["会话内容"][0]["用户query"] = f"{text}\n问题，问题，问题？"
    file = write(tmp_path / "long-text_data.json", [made])
    asked = set()
    for seed in range(10):
        out = tmp_path / f"{seed}.json"
        run(file, out, look_alikes, "--seed", str(seed))
        [found] = orjson.loads(out.read_bytes())
        kept, question = found["会话内容"][0]["用户query"].split("\n")
        assert kept == text
        asked.add(question)
    assert len(asked) > 1


def test_texts_of_any_file_are_named(tmp_path: Path, look_alikes: Path) -> None:
    records = [
        {"id": number, "said": [{"user": "问题", "bot": "问题"}], "用户角色": persona}
        for number, persona in enumerate(("齐业", "张梅") * 300)
    ]
    before = write(tmp_path / "mine.json", records)
    after = tmp_path / "after.json"
    result = run(before, after, look_alikes, "--field", "user")
    assert result.exit_code == 0, result.output
    changed: Counter[str] = Counter()
    for old, new in zip(records, orjson.loads(after.read_bytes()), strict=True):
        assert {**new, "said": 0} == {**old, "said": 0}
        assert new["said"][0]["bot"] == "问题"
        changed[new["用户角色"]] += new["said"][0]["user"] != "问题"
    # rates of 1/4 and 1/7, of 300 each
    assert 55 < changed["齐业"] < 95
    assert 28 < changed["张梅"] < 60
    nowhere = run(before, tmp_path / "other.json", look_alikes, "--field", "users")
    assert isinstance(nowhere.exception, DataError)
    assert "no record has a text named users" in str(nowhere.exception)


@pytest.mark.skipif(not REAL.is_dir(), reason="the authors' data are not here")
def test_the_authors_characters_are_read() -> None:
    found = read_confusables(REAL / "char_confuse.data")
    assert len(found) == 5947
    assert found["维"].sounds[:3] == ("围", "唯", "违")
    assert "惟" in found["维"].shapes


def blank(made: dict[str, Any]) -> dict[str, Any]:
    return {**made, "会话内容": [{**turn, "用户query": ""} for turn in made["会话内容"]]}
