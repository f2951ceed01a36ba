"""CMT-Eval's parser over replies as judges write them."""

import pytest

from judges.parsers.cmteval import TurnsParser, turn_scores
from mmconv.core.errors import Unparsed

SOUND = """{"评估结果": [
  {"轮次": "1", "统筹能力": 4, "适应能力": 5, "评分理由": "全面"},
  {"轮次": "2", "统筹能力": 3, "适应能力": 4, "评分理由": "重复"}
]}"""
READ = {"1/merged": 0, "1/IS": 4, "1/Adp": 5, "2/merged": 0, "2/IS": 3, "2/Adp": 4}


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(SOUND, id="as asked for"),
        pytest.param(f"```json\n{SOUND}\n```\n", id="fenced"),
        pytest.param(f"以下是评估：\n{SOUND}\n希望有帮助。", id="with words around it"),
        pytest.param(SOUND[SOUND.index("[") : -1], id="a bare list"),
        pytest.param(SOUND.replace('"1"', "1").replace(" 4,", ' "4",'), id="numbers and texts"),
        pytest.param(SOUND.replace('"1"', "1.0").replace('"2"', '"2.0"'), id="turns as floats"),
        pytest.param(SOUND.replace("4,", '"4分",').replace("3,", '"3/5",'), id="with units"),
        pytest.param(SOUND.replace("全面", '他说"好"，很全面'), id="bare quotation marks"),
        pytest.param(SOUND.replace("全面", "全\n面"), id="a line break in a text"),
        pytest.param(SOUND.replace('":', '"：'), id="full-width colons"),
        pytest.param(
            SOUND.replace("4,", '"4 (满分5)",').replace("3,", '"3（满分：5分）",'), id="of 5"
        ),
        pytest.param(SOUND.replace("统筹能力", "统筹能力（IS）"), id="keys with a remark"),
        pytest.param(SOUND.replace("力", "力 (x)").replace("全面", '"好"'), id="and bare marks"),
        pytest.param(
            SOUND.replace('"1"', '"第一轮"').replace('"2"', '"二"'), id="Chinese numerals"
        ),
        pytest.param(SOUND.replace("]", ', {"轮次": "整体", "统筹能力": 4}]'), id="the whole, too"),
        pytest.param(SOUND[: SOUND.index("重复") + 1], id="cut off within the last reason"),
        pytest.param(SOUND.replace("}\n]}", "},\n]}"), id="a comma too many"),
        pytest.param(SOUND.replace('"评估结果"', '"origin_id": "{7}", "结果"'), id="other names"),
        pytest.param(
            '[{"评分理由": "全面", "统筹能力": 4, "适应能力": 5, "轮次": 1},'
            '{"适应能力": 4, "统筹能力": 3, "轮次": 2}]',
            id="another order",
        ),
    ],
)
def test_two_turns_are_read(reply: str) -> None:
    assert turn_scores(reply).scores == READ


def test_reasons_go_by_turn() -> None:
    assert turn_scores(SOUND).rationale == "1: 全面\n2: 重复"
    broken = SOUND.replace("全面", '他说"好"')
    assert turn_scores(broken).rationale == '1: 他说"好"\n2: 重复'


@pytest.mark.parametrize(
    ("span", "turns"),
    [
        ("5-8", [5, 6, 7, 8]),
        ("5–6", [5, 6]),
        ("5~6", [5, 6]),
        ("第5至7轮", [5, 6, 7]),
        ("5、7", [5, 7]),
        ("1-2,4", [1, 2, 4]),
        ("第三至五轮", [3, 4, 5]),
    ],
)
def test_merged_turns_are_spread_and_marked(span: str, turns: list[int]) -> None:
    reply = SOUND.replace('"2"', f'"{span}"').replace('"1"', '"9"')
    scores = turn_scores(reply).scores
    assert [
        int(name[:-7]) for name, value in scores.items() if name[1:] == "/merged" and value
    ] == (turns)
    assert {scores[f"{turn}/Adp"] for turn in turns} == {4}
    assert scores["9/merged"] == 0


def test_numbers_off_the_scale_are_handed_on() -> None:
    reply = SOUND.replace(" 4,", ' "-1",', 1).replace(" 3,", " 4.5,")
    scores = turn_scores(reply).scores
    assert (scores["1/IS"], scores["2/IS"]) == (-1, 4.5)


def test_a_score_that_is_no_number_is_left_out() -> None:
    scores = turn_scores(SOUND.replace(" 4,", ' "良好",', 1)).scores
    assert "1/IS" not in scores
    assert scores["1/Adp"] == 5


def test_a_score_that_a_broken_entry_names_twice_is_left_out() -> None:
    broken = SOUND.replace("全面", '他说"好"').replace(" 4,", ' 4, "统筹能力": 2,', 1)
    scores = turn_scores(broken).scores
    assert "1/IS" not in scores
    assert {name: scores[name] for name in READ if name != "1/IS"} == {
        name: value for name, value in READ.items() if name != "1/IS"
    }


def test_equal_entries_for_one_turn_agree() -> None:
    reply = f"[{SOUND[SOUND.index('[') + 1 : -2]}, " + SOUND[SOUND.index("[") + 1 : -1]
    assert turn_scores(reply).scores == READ


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param("", id="empty"),
        pytest.param("模型回答得很好，统筹能力4分。", id="prose"),
        pytest.param('{"评估结果": []}', id="no entries"),
        pytest.param(SOUND.replace(" 4,", " null,").replace("5,", "[],").split("},")[0], id="none"),
        pytest.param(SOUND.replace('"2"', '"1"'), id="one turn scored twice"),
        pytest.param(SOUND.replace('"2"', '"1-2"'), id="ranges that overlap and differ"),
        pytest.param(SOUND.replace('"2"', '"2-N"'), id="a range without an end"),
        pytest.param(SOUND.replace('"2"', '"8-5"'), id="a range backwards"),
        pytest.param(SOUND.replace('"2"', '"2-202"'), id="a range without measure"),
        pytest.param('{"轮次": "全部", "统筹能力": 4, "适应能力": 5}', id="the whole alone"),
        pytest.param(SOUND.replace('"2"', '"一二"'), id="no numeral"),
        pytest.param(SOUND.replace('"2"', '"0"'), id="counted from 0"),
        pytest.param(SOUND.replace('"2"', '"0-1"'), id="a range from 0"),
        pytest.param(SOUND.replace('"2"', "2.5"), id="half a turn"),
        pytest.param("[" * 5000 + "{" + "}" * 5000, id="deep"),
    ],
)
def test_anything_else_is_unparsed(reply: str) -> None:
    with pytest.raises(Unparsed):
        turn_scores(reply)


@pytest.mark.parametrize(
    ("reply", "lacks"),
    [
        (SOUND, 0),
        (SOUND.replace('"2"', '"3"'), 2),
        (SOUND.replace(" 4,", " 6,", 1), 1),
        (SOUND.replace(" 4,", " 3.5,", 1), 1),
        (SOUND.replace(" 4,", " null,", 1), 1),
        (SOUND[: SOUND.index(', "适应能力": 4')], 1),
        (SOUND[: SOUND.index('"2"')], 2),
    ],
)
def test_scores_that_a_judgement_lacks_are_counted(reply: str, lacks: int) -> None:
    verdict = TurnsParser(turns=2)(reply)
    assert verdict.missing == lacks
    assert verdict.scores == turn_scores(reply).scores
    assert TurnsParser(turns=3)(SOUND).missing == 2


@pytest.mark.parametrize(
    ("written", "turn"), [("十", 10), ("第十二轮", 12), ("二十", 20), ("三十四", 34)]
)
def test_chinese_numerals_name_turns(written: str, turn: int) -> None:
    scores = turn_scores(SOUND.replace('"2"', f'"{written}"')).scores
    assert scores == {
        **{name: READ[name] for name in READ if name[0] == "1"},
        f"{turn}/merged": 0,
        f"{turn}/IS": 3,
        f"{turn}/Adp": 4,
    }
