"""The samples that fill the shipped prompts, and how a filled prompt is printed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from judges.parsers.fbbench import Criterion, draw_form, list_criteria
from judges.template import Prompt, PromptSet, Slot
from mmconv.benchmarks.botchat.dialogues import HumanDialogue, Participant, as_lines, conversation
from mmconv.core.types import Image, Message, Part, Ref, Text

GOLDEN = Path(__file__).parent / "golden"
IMAGE = Image(sha256="ab" * 32, media_type="image/png", width=640, height=480)

HUMAN = (
    "Have you seen my umbrella? It was by the door.",
    "The green one? Anna took it this morning.",
    "Great. And it's pouring.",
    "Take mine. I'm staying in anyway.",
)
GENERATED = Participant(name="", role="candidate").lines(HumanDialogue(id="1", human=HUMAN), 4)
BOTCHAT: dict[str, Slot] = {
    "title": "Umbrellas left behind",
    "text": "About 80,000 umbrellas are handed in as lost property every year.",
    "conversation": conversation(GENERATED),
    "conversation_1": conversation(GENERATED),
    "conversation_2": conversation(as_lines(HUMAN)),
}

CMTEVAL: dict[str, Slot] = {
    "summary": "文章介绍了一座海边小城如何用旧渔网做成风筝，并因此有了风筝节。",
    "qa_pairs": '[{"question": "风筝是用什么做的？", "answer": "旧渔网和竹条。"}]',
    "conversation": (
        "轮次 1 - 用户: 风筝是用什么zuo的？\n模型: ",
        Ref(call="turn_1"),
        "\n言语行为: 初始问题",
        "\n轮次 2 - 用户: 说得太长了，能短一点吗？再说说风筝节什么时候办。\n模型: ",
        Ref(call="turn_2"),
        "\n言语行为: 建议+追问",
    ),
}

CONVBENCH: dict[str, Slot] = {
    "image": IMAGE,
    "caption": "Three red kites and one blue kite fly over a beach. A sign reads “NO DOGS”.",
    "description": "Some kites fly over a beach. There is a sign.",
    "instruction_1": "How many kites are there, and what does the sign say?",
    "instruction_2": "Why might the beach be a good place for kites?",
    "instruction_3": "Write a two-line slogan for a kite festival on this beach.",
    "a_1": "Four kites, three red and one blue. The sign says NO DOGS.",
    "a_2": "Wind off the sea meets nothing that slows it down.",
    "a_3": "Four kites, one wind, no leash:\ncome and hold on to the sky.",
    "b_1": Ref(call="turn_1"),
    "b_2": Ref(call="turn_2"),
    "b_3": Ref(call="turn_3"),
    "answer_1": Ref(call="turn_1"),
    "answer_2": Ref(call="turn_2"),
    "answer_3": Ref(call="turn_3"),
    "reference_1": "Four kites, three red and one blue. The sign says NO DOGS.",
    "reference_2": "Wind off the sea meets nothing that slows it down.",
    "reference_3": "Four kites, one wind, no leash:\ncome and hold on to the sky.",
    "focus_points": "1. Does the slogan mention kites?\n2. Does it have two lines?",
    "judgement_1": "(not judged: in this setting the turn is the human reference)",
    "judgement_2": Ref(call="judge_2"),
    "judgement_3": Ref(call="judge_3"),
    "judgement": Ref(call="judge_1"),
    "human": "A",
    "categories_1": "Counting\nOCR",
    "categories_2": "Weather\nPhysics",
    "categories_3": "Slogan\nPoem",
}

DIALOGUE: dict[str, Slot] = {
    "material": ("\n⟦instruction 1⟧\nHow many kites?\n⟦end of instruction 1⟧",),
    "before": (IMAGE, "\n⟦image description⟧\nKites over a beach.\n⟦end of image description⟧"),
    "caption": "Three red kites and one blue kite fly over a beach.",
    "number": "2",
    "instruction": "Why might the beach be a good place for kites?",
    "answer": Ref(call="turn_2"),
    "side": "A",
    "turns": ("\n⟦answer 1⟧\n", Ref(call="turn_1"), "\n⟦end of answer 1⟧"),
    "reference": "Wind off the sea meets nothing that slows it down.",
    "focus_points": "1. Does it name the wind?",
}

CHECKLIST = (
    Criterion(text="回答是否承认第一轮回答的结果有误", weight=0.2),
    Criterion(text="回答是否给出正确结果 $\\frac{3}{4}$", weight=0.5),
    Criterion(text="回答是否写出通分的步骤", weight=0.3),
)

FBBENCH: dict[str, Slot] = {
    "query": "一块蛋糕，小明吃了二分之一，小红吃了四分之一，两人一共吃了多少？",
    "first_answer": "$\\frac{1}{2}+\\frac{1}{4}=\\frac{2}{6}$，所以一共吃了三分之一。",
    "feedback": "不对吧，两个人加起来怎么比小明一个人还少？",
    "answer": Ref(call="turn_2"),
    "reference": (
        "您说得对，我不该把分母直接相加。先通分：$\\frac{1}{2}=\\frac{2}{4}$，"
        "再相加：$\\frac{2}{4}+\\frac{1}{4}=\\frac{3}{4}$。两人一共吃了四分之三。"
    ),
    "checklist": list_criteria(CHECKLIST),
    "form": draw_form(CHECKLIST),
}

MTBENCH101: dict[str, Slot] = {
    "criteria": "1. Count: every animal that was named is counted.\n2. Reason: the count is shown.",
    "guidelines": "- 1-3: Miscounted.\n- 4-6: Nearly.\n- 7-9: Counted.\n- 10: Counted and shown.",
    "history": "\n⟦user⟧\nI have two cats and a goose.\n⟦assistant⟧\nA lively home!",
    "user": "How many legs is that?",
    "question": "How many legs is that?",
    "answer": Ref(call="turn_2"),
    "reference": "2 x 4 + 2 = 10 legs.",
}

AUDIT: dict[str, Slot] = {"text": "A red circle lies left of two crosses.\n\nThe crosses are blue."}
SCENES: dict[str, Slot] = {
    "instruction": "Which piece stands on which square?",
    "truth": "red square: A2\nblue cross: B2",
    "answer": "The red square is on **A2**.\n\nThe blue cross is on B3.",
}

VALUES: Mapping[str, Mapping[str, Slot]] = {
    "audit": AUDIT,
    "botchat": BOTCHAT,
    "cmteval": CMTEVAL,
    "convbench": CONVBENCH,
    "convbench_reference": CONVBENCH,
    "dialogue": DIALOGUE,
    "fbbench": FBBENCH,
    "mtbench101": MTBENCH101,
    "scenes": SCENES,
}
"""By the folder of the prompts, what fills their slots."""


def prompts() -> list[tuple[str, Prompt]]:
    """Every shipped prompt with its folder's name."""
    sets = {folder: PromptSet(folder) for folder in VALUES}
    return [(folder, shipped[name]) for folder, shipped in sets.items() for name in shipped.names]


def rendered(folder: str, prompt: Prompt) -> str:
    """The filled prompt as text, one block per message."""
    return printed(prompt.fill({name: VALUES[folder][name] for name in prompt.slots}))


def printed(messages: Sequence[Message]) -> str:
    """Messages as text: their roles between rules, a picture or a reply to come in brackets."""
    blocks = (
        f"======== {message.role}\n{''.join(_shown(part) for part in message.parts)}"
        for message in messages
    )
    return "\n".join(blocks) + "\n"


def _shown(part: Part) -> str:
    if isinstance(part, Text):
        return part.text
    return f"[image {part.sha256[:8]}]" if isinstance(part, Image) else f"[reply of {part.call}]"
