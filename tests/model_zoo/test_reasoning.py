"""Splitting reasoning from answers: replies as models send them."""

import pytest

from model_zoo.reasoning import split_reasoning

SPLIT = {
    "tagged": ("<think>It is red.</think>Red.", "It is red.", "Red."),
    "with blank lines": ("<think>\nIt is red.\n</think>\n\nRed.\n", "It is red.", "Red."),
    "after white space": ("\n <think>a</think> b", "a", "b"),
    "thinking": ("<thinking>a</thinking>\nb", "a", "b"),
    "Kimi": ("◁think▷a◁/think▷b", "a", "b"),
    "Mistral": ("[THINK]a[/THINK]b", "a", "b"),
    "Gemini": ("<thought>\na</thought>\nb", "a", "b"),
    "trained to reason": ("<reasoning>a</reasoning>\n<answer>b</answer>", "a", "b"),
    "Seed": ("<seed:think>a</seed:think>b", "a", "b"),
    "gpt-oss": (
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
        "a",
        "b",
    ),
    "gpt-oss, cut short": ("<|channel|>analysis<|message|>It could", "It could", ""),
    "opened by the template": ("It is red.\n</think>\n\nRed.", "It is red.", "Red."),
    "Kimi opened by the template": ("a◁/think▷b", "a", "b"),
    "nothing thought": ("<think>\n\n</think>\n\nRed.", None, "Red."),
    "nothing thought, opened by the template": ("\n</think>\n\nRed.", None, "Red."),
    "cut short": ("<think>It could be red, or", "It could be red, or", ""),
    "cut short at once": ("<think>\n", None, ""),
    "nothing but thought": ("<think>a</think>", "a", ""),
    "another kind of closing tag inside": (
        "<think>a </thinking> b</think>c",
        "a </thinking> b",
        "c",
    ),
    "answer with tags of its own": ("<think>a</think>Use <think>.", "a", "Use <think>."),
    "tagged answer": ("<think>a</think>\n<answer>\nb\nc</answer>\n", "a", "b\nc"),
    "tagged answer cut short": ("<think>a</think><answer>It is", "a", "It is"),
    "two tagged answers": (
        "<think>a</think><answer>b</answer> or <answer>c</answer>",
        "a",
        "<answer>b</answer> or <answer>c</answer>",
    ),
    "second closing tag": ("<think>a</think>b</think>c", "a", "b</think>c"),
}

KEPT = {
    "plain": "I think it is red.",
    "empty": "",
    "tags in the middle": "Wrap it as <think>a</think> before the answer.",
    "opening tag in the middle": "The model starts with <think> and never ends.",
    "closing tag in quotation marks": "It ends with `</think>` and then answers.",
    "tagged answer without a thought": "<answer>b</answer>",
    "white space kept": "\n I think so. \n",
    "another tag": "<thinks>a</thinks>b",
    "other models' tags in the middle": "Magistral writes [THINK]a[/THINK] before it answers.",
    "an element of that name": "In TEI, <thought>a</thought> is what somebody thinks.",
    "channels in the middle": "It is `<|channel|>analysis<|message|>` and then thoughts.",
    "other models' closing tags": "It ends with </thought>, </reasoning> or [/THINK].",
}


@pytest.mark.parametrize(("text", "reasoning", "answer"), SPLIT.values(), ids=SPLIT)
def test_reasoning_is_split_off(text: str, reasoning: str | None, answer: str) -> None:
    assert split_reasoning(text) == (reasoning, answer)


def test_only_an_opening_tag_counts_where_a_server_has_split_reasoning_off() -> None:
    assert split_reasoning("It ends with </think> here.", others=True) == (
        None,
        "It ends with </think> here.",
    )
    assert split_reasoning("<think>a</think>b", others=True) == ("a", "b")


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_an_answer_stays_whole(text: str) -> None:
    assert split_reasoning(text) == (None, text)
