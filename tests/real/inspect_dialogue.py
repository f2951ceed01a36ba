"""Three turns about an image through Inspect, in its own environment: see `test_service_clients`.

    python inspect_dialogue.py IMAGE LOG_FOLDER TURN TURN ...

The model's address and key are in the environment, as Inspect wants them.
"""

import sys

import inspect_ai
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText
from inspect_ai.solver import generate, user_message


def main(image: str, folder: str, first: str, *others: str) -> None:
    """Evaluate one sample whose solver goes through the turns; its log goes into the folder."""
    opening = ChatMessageUser(content=[ContentImage(image=image), ContentText(text=first)])
    steps = [generate()]
    for turn in others:
        steps += [user_message(turn), generate()]
    [log] = inspect_ai.eval(
        inspect_ai.Task(dataset=[Sample(input=[opening])], solver=steps),
        model="openai-api/mmconv/tiny",
        temperature=0,
        max_tokens=8,
        max_retries=0,
        log_dir=folder,
        log_format="json",
        log_model_api=True,
        display="none",
    )
    if log.status != "success":
        sys.exit(str(log.error))


if __name__ == "__main__":
    main(*sys.argv[1:])
