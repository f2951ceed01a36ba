"""What a message holds, whatever stands between it."""

from mmconv.core.types import Image, Message, Ref, Text

CAT, DOG = (Image(sha256=letter * 64, media_type="image/png", width=2, height=3) for letter in "cd")


def test_a_message_s_text_is_joined_and_its_images_are_in_order() -> None:
    parts = (CAT, Text(text="Is this "), Ref(call="turn_1"), DOG, Text(text="?\n"))
    message = Message(role="user", parts=parts)
    assert message.text == "Is this ?\n"
    assert message.images == (CAT, DOG)


def test_a_message_may_hold_neither() -> None:
    message = Message(role="user", parts=(Ref(call="turn_1"),))
    assert (message.text, message.images) == ("", ())
