"""Wrong characters and pinyin: how many, where, and always the same by seed."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from mmconv.benchmarks.cmteval.perturbation import (
    VARIANTS,
    Confusable,
    Perturbation,
    Rates,
    Variant,
    read_confusables,
)
from mmconv.benchmarks.data_files.records import read_records
from mmconv.cli.datasets import perturb_command as command
from mmconv.core.errors import ConfigError, DataError
from tests.mmconv.benchmarks.cmteval.dialogues import REAL, long_record, record, write

pytest.importorskip("pypinyin")

LAYOUT = {
    "问": {
        "同音": ["文", "闻", "吻", "纹", "温"],
        "形近": {"间", "闷", "四个字词"},
        "freq": 1,
        "level": 1,
    },
    "题": {"同音": ["提"], "形近": set(), "freq": 1, "level": 1},
    "的": {"同音": [], "形近": set(), "freq": 1, "level": 1},
}
QUERIES = ["第一个问题，怎么看？", "这个问题呢,问问你的看法", "没有了。", "再问问。"]


def confusables() -> dict[str, Confusable]:
    return {
        "问": Confusable(sounds=("文", "闻", "吻", "纹", "温"), shapes=("间", "闷")),
        "题": Confusable(sounds=("提",), shapes=()),
    }


def with_rates(variant: Variant, characters: float, pinyin: float) -> Perturbation:
    rates = Rates(characters=characters, pinyin=pinyin)
    return Perturbation(
        variant=replace(variant, rates=rates, personas={}), confusables=confusables()
    )


def texts(perturbation: Perturbation, queries: list[str], persona: str = "张梅") -> list[str]:
    return [query.text for query in perturbation.perturb("1", persona, queries)]


class TestConfusables:
    def test_the_layout_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "char_confuse.data"
        path.write_bytes(pickle.dumps(LAYOUT))
        found = read_confusables(path)
        assert found["问"] == confusables()["问"]
        assert found["的"] == Confusable(sounds=(), shapes=())

    def test_a_set_has_no_order_that_a_seed_could_draw_by(self, tmp_path: Path) -> None:
        path = tmp_path / "char_confuse.data"
        sounds = {"纹", "蚊", "吻", "稳", 7}
        path.write_bytes(pickle.dumps({"问": {"同音": sounds, "形近": sounds}}, protocol=4))
        ordered = tuple(sorted("纹蚊吻稳"))
        assert read_confusables(path)["问"] == Confusable(sounds=ordered, shapes=ordered)

    def test_code_is_never_run(self, tmp_path: Path) -> None:
        path = tmp_path / "evil.data"
        path.write_bytes(b"cos\nsystem\n(S'touch was-here'\ntR.")
        with pytest.raises(DataError, match=r"it names os\.system, which is never loaded"):
            read_confusables(path)

    @pytest.mark.parametrize(
        "document",
        [
            b"",
            b"[]",
            pickle.dumps([1]),
            pickle.dumps({}),
            pickle.dumps({"问": []}),
            pickle.dumps({"问题": LAYOUT["问"]}),
            pickle.dumps(LAYOUT)[:40],
        ],
    )
    def test_other_files_are_refused(self, tmp_path: Path, document: bytes) -> None:
        path = tmp_path / "other.data"
        path.write_bytes(document)
        with pytest.raises(DataError):
            read_confusables(path)

    def test_a_missing_file_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="Check the path"):
            read_confusables(tmp_path / "none.data")


class TestWrongCharacters:
    @pytest.mark.parametrize(("rate", "expected"), [(0, 1), (0.25, 1), (0.5, 2), (0.99, 3)])
    def test_a_share_of_the_queries_gets_one_each(self, rate: float, expected: int) -> None:
        queries = ["问题一", "问题二", "问题三", "问题四"]
        done = with_rates(VARIANTS["paper"], rate, 0).perturb("1", "张梅", queries)
        changed = [
            sum(left != right for left, right in zip(before, after.text, strict=True))
            for before, after in zip(queries, done, strict=True)
        ]
        assert sorted(changed) == [0] * (4 - expected) + [1] * expected
        assert [query.characters for query in done] == changed

    def test_a_repeated_mistake_is_the_same_one(self) -> None:
        found = texts(with_rates(VARIANTS["paper"], 1, 0), ["问"] * 8)
        assert len(set(found)) == 1
        assert found[0] != "问"

    @pytest.mark.parametrize("query", ["没有了。", ""])
    def test_a_query_without_confusable_characters_stays(self, query: str) -> None:
        assert texts(with_rates(VARIANTS["paper"], 1, 0), [query]) == [query]

    @pytest.mark.parametrize(
        ("variant", "known"), [("paper", set("文闻吻纹温间闷")), ("code", set("文闻吻"))]
    )
    def test_candidates_are_the_variants(self, variant: str, known: set[str]) -> None:
        base = with_rates(VARIANTS[variant], 1, 0)
        seen = {texts(replace(base, seed=seed), ["问"])[0] for seed in range(100)}
        assert seen == known


class TestPinyin:
    def test_characters_before_punctuation_become_pinyin(self) -> None:
        found = with_rates(VARIANTS["code"], 0, 1).perturb("1", "张梅", ["好吧，啊！没有, 对"])
        assert [query.text for query in found] == ["好ba，a！没有, 对"]
        assert found[0].pinyin == 2

    def test_the_paper_takes_every_mark_and_the_script_six(self) -> None:
        query = "好,吧、呢。A！"
        assert texts(with_rates(VARIANTS["paper"], 0, 1), [query]) == ["hao,ba、ne。A！"]
        assert texts(with_rates(VARIANTS["code"], 0, 1), [query]) == ["好,吧、ne。A！"]

    def test_without_rate_there_is_none(self) -> None:
        assert texts(with_rates(VARIANTS["paper"], 0, 0), ["好吧。"]) == ["好吧。"]


def test_rates_are_the_papers_or_the_scripts() -> None:
    def rates(variant: str, persona: str) -> tuple[float, float]:
        return VARIANTS[variant].personas.get(persona, VARIANTS[variant].rates)

    assert rates("paper", "齐业") == (1 / 4, 1 / 6)
    assert rates("paper", "张梅") == (1 / 7, 1 / 7)
    assert rates("code", "齐业") == (1 / 4, 1 / 7)
    assert rates("code", "张梅") == (1 / 6, 1 / 7)


def test_the_seed_and_the_dialogue_decide() -> None:
    made = Perturbation(variant=VARIANTS["paper"], confusables=confusables())
    many = QUERIES * 5
    assert made.perturb("1", "齐业", many) == made.perturb("1", "齐业", many)
    assert made.perturb("1", "齐业", many) != made.perturb("2", "齐业", many)
    assert made.perturb("1", "齐业", many) != replace(made, seed=1).perturb("1", "齐业", many)


class TestCommand:
    @pytest.fixture
    def look_alikes(self, tmp_path: Path) -> Path:
        path = tmp_path / "char_confuse.data"
        path.write_bytes(pickle.dumps(LAYOUT))
        return path

    def run(self, file: Path, out: Path, look_alikes: Path, *more: str) -> Result:
        arguments = [str(file), "--out", str(out), "--confusables", str(look_alikes), *more]
        return CliRunner().invoke(command, arguments)

    def test_a_file_of_another_layout_is_refused_in_short(
        self, tmp_path: Path, look_alikes: Path
    ) -> None:
        file = write(tmp_path / "standard_data.json", [{"user": "你好"} for _ in range(50)])
        result = self.run(file, tmp_path / "out.json", look_alikes)
        assert isinstance(result.exception, DataError)
        assert "name the fields that hold the users' texts (--field)" in str(result.exception)
        assert len(result.exception.problems) == 1

    def test_it_is_written_as_its_name_says(self, tmp_path: Path, look_alikes: Path) -> None:
        file = write(tmp_path / "mine.json", [{"user": "你好"}, {"user": "好"}])
        for name in ("out.json", "out.jsonl"):
            result = self.run(file, tmp_path / name, look_alikes, "--field", "user")
            assert result.exit_code == 0
            assert len(list(read_records(tmp_path / name))) == 2
        assert len((tmp_path / "out.jsonl").read_bytes().splitlines()) == 2
        result = self.run(file, tmp_path / "out.csv", look_alikes, "--field", "user")
        assert "must end with .json or .jsonl" in str(result.exception)

    def test_a_file_that_is_there_is_not_overwritten(
        self, tmp_path: Path, look_alikes: Path
    ) -> None:
        """Neither another one, nor one that is read."""
        file = write(tmp_path / "standard_data.json", [record("你好")])
        other = tmp_path / "other.json"
        other.write_text("[]", encoding="utf-8")
        for out in (other, file):
            before = out.read_bytes()
            result = self.run(file, out, look_alikes)
            assert isinstance(result.exception, ConfigError)
            assert "the file exists; name a new one" in str(result.exception)
            assert out.read_bytes() == before

    def test_of_a_file_that_could_not_be_written_nothing_is_left(
        self, tmp_path: Path, look_alikes: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def half(path: Path, data: bytes) -> int:
            with path.open("wb") as file:
                file.write(data[: len(data) // 2])
            raise OSError(28, "No space left on device")

        file = write(tmp_path / "standard_data.json", [record("你好")])
        monkeypatch.setattr(Path, "write_bytes", half)
        result = self.run(file, tmp_path / "new" / "out.json", look_alikes)
        assert "No space left on device" in str(result.exception)
        assert [*(tmp_path / "new").iterdir()] == []

    def test_it_warns_if_nothing_was_changed(self, tmp_path: Path, look_alikes: Path) -> None:
        file = write(tmp_path / "english.json", [{"user": "Hello, you."}])
        result = self.run(file, tmp_path / "out.json", look_alikes, "--field", "user")
        assert result.exit_code == 0
        assert "0 of 1 queries changed" in result.stdout
        assert "WARNING" in result.stderr
        assert "does user contain any?" in result.stderr
        assert (
            "WARNING"
            not in self.run(
                write(tmp_path / "standard_data.json", [record("1", 5)]),
                tmp_path / "more.json",
                look_alikes,
            ).stderr
        )

    def test_only_queries_change(self, tmp_path: Path, look_alikes: Path) -> None:
        before = record("1", 5)
        file = write(tmp_path / "standard_data.json", [[before], record("2", 5, 备注="留着")])
        result = self.run(file, tmp_path / "new" / "out.json", look_alikes)
        assert result.exit_code == 0, result.output
        assert result.output.startswith("2 dialogues, ")
        first, second = orjson.loads((tmp_path / "new" / "out.json").read_bytes())
        assert second["备注"] == "留着"
        assert first["会话内容"] != before["会话内容"]
        assert blank(first) == blank(before)

    def test_the_same_seed_writes_the_same_file(self, tmp_path: Path, look_alikes: Path) -> None:
        file = write(tmp_path / "standard_data.json", [record(str(n), 5) for n in range(20)])
        written = []
        for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
            self.run(file, tmp_path / f"{name}.json", look_alikes, "--seed", seed)
            written.append((tmp_path / f"{name}.json").read_bytes())
        assert written[0] == written[1] != written[2]

    def test_a_long_text_stays_as_it_is(self, tmp_path: Path, look_alikes: Path) -> None:
        made = long_record("1")
        text = "问题，" * 50
        made["会话内容"][0]["用户query"] = f"{text}\n问题，问题，问题？"
        file = write(tmp_path / "long-text_data.json", [made])
        asked = set()
        for seed in range(10):
            out = tmp_path / f"{seed}.json"
            self.run(file, out, look_alikes, "--seed", str(seed))
            [found] = orjson.loads(out.read_bytes())
            kept, question = found["会话内容"][0]["用户query"].split("\n")
            assert kept == text
            asked.add(question)
        assert len(asked) > 1

    def test_texts_of_any_file_are_named(self, tmp_path: Path, look_alikes: Path) -> None:
        records = [
            {"id": number, "said": [{"user": "问题", "bot": "问题"}], "用户角色": persona}
            for number, persona in enumerate(("齐业", "张梅") * 300)
        ]
        before = write(tmp_path / "mine.json", records)
        after = tmp_path / "after.json"
        result = self.run(before, after, look_alikes, "--field", "user")
        assert result.exit_code == 0, result.output
        changed: Counter[str] = Counter()
        for old, new in zip(records, orjson.loads(after.read_bytes()), strict=True):
            assert {**new, "said": 0} == {**old, "said": 0}
            assert new["said"][0]["bot"] == "问题"
            changed[new["用户角色"]] += new["said"][0]["user"] != "问题"
        # rates of 1/4 and 1/7, of 300 each
        assert 55 < changed["齐业"] < 95
        assert 28 < changed["张梅"] < 60
        nowhere = self.run(before, tmp_path / "other.json", look_alikes, "--field", "users")
        assert isinstance(nowhere.exception, DataError)
        assert "no record has a text named users" in str(nowhere.exception)

    def test_bad_dialogues_are_refused(self, tmp_path: Path, look_alikes: Path) -> None:
        file = write(tmp_path / "standard_data.json", [record("1"), record("2", 用户角色="")])
        result = self.run(file, tmp_path / "out.json", look_alikes)
        assert isinstance(result.exception, DataError)
        assert "item 2: 用户角色 is empty" in str(result.exception)
        assert not (tmp_path / "out.json").exists()


@pytest.mark.skipif(not REAL.is_dir(), reason="the authors' data are not here")
def test_the_authors_characters_are_read() -> None:
    found = read_confusables(REAL / "char_confuse.data")
    assert len(found) == 5947
    assert found["维"].sounds[:3] == ("围", "唯", "违")
    assert "惟" in found["维"].shapes


def blank(made: dict[str, Any]) -> dict[str, Any]:
    return {**made, "会话内容": [{**turn, "用户query": ""} for turn in made["会话内容"]]}
