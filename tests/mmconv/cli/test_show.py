"""`mmconv show`: how a message's parts are printed."""

from __future__ import annotations

from mmconv.cli.show import transcript
from mmconv.plans import Asked, Finished, Plan
from mmconv.values import Call, Image, Message, Reply, Sampling, SeenImage

PICTURE = Image(sha256="ab" * 32, media_type="image/png", width=1000, height=750)
CALL = Call(id="turn_1", seat="candidate", messages=(Message(role="user", parts=(PICTURE,)),))


def shown(*seen: SeenImage) -> str:
    finished = Finished(
        plan=Plan(order=0, sample="1", condition="free", calls=(CALL,)),
        outcomes={"turn_1": Reply(text="A star.", seen=seen)},
        asked={"turn_1": Asked(call=CALL, key="", messages=CALL.messages, sampling=Sampling())},
    )
    return "\n".join(transcript(finished))


def test_a_picture_is_told_by_the_size_that_was_sent() -> None:
    """What a model's own processor makes of it afterwards is not known here."""
    sent = SeenImage(sha256=PICTURE.sha256, width=500, height=375)
    assert "<image abababababab, image/png, 1000x750, sent as 500x375>" in shown(sent)
    assert "<image abababababab, image/png, 1000x750>" in shown()
