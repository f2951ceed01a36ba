"""Content keys: equal requests have one key, and whatever can change a reply changes it."""

from dataclasses import replace
from pathlib import Path

import pytest

from mmconv.core.keys import content_key, hash_file, hash_files, hash_json
from mmconv.core.types import Image, Ref, Sampling, Text
from tests.messages import user

PICTURE = Image(sha256="cd" * 32, media_type="image/png", width=2, height=3)
MESSAGES = (user(PICTURE, "What is it?"),)
KEY = content_key("model", MESSAGES, Sampling())


def test_a_key_is_stable() -> None:
    """Replies that were paid for are found under it: it may change only with KEY_VERSION."""
    assert KEY == "1dcb076c7f6c9945694c8873e33b98fb1f97816ebec6bef9538b0b0a7920b21e"


@pytest.mark.parametrize(
    "other",
    [
        content_key("model two", MESSAGES, Sampling()),
        content_key("model", (replace(MESSAGES[0], role="system"),), Sampling()),
        content_key(
            "model",
            (replace(MESSAGES[0], parts=(replace(PICTURE, sha256="ef" * 32), Text(text="x"))),),
            Sampling(),
        ),
        content_key("model", MESSAGES, Sampling(temperature=None)),
        content_key("model", MESSAGES, Sampling(top_p=0.5)),
        content_key("model", MESSAGES, Sampling(max_tokens=7)),
        content_key("model", MESSAGES, Sampling(seed=1)),
        content_key("model", MESSAGES, Sampling(stop=("x",))),
        content_key("model", MESSAGES, Sampling(trial=1)),
        content_key("model", MESSAGES, Sampling(schema="{}")),
        content_key("model", MESSAGES, Sampling(extra={"top_k": 3})),
        content_key("model", (replace(MESSAGES[0], name="ada"),), Sampling()),
        content_key("model", MESSAGES, Sampling(), pinned=""),
        content_key("model", MESSAGES, Sampling(), pinned="Hello"),
    ],
)
def test_whatever_can_change_a_reply_changes_the_key(other: str) -> None:
    assert other != KEY


def test_a_reference_that_is_left_is_refused() -> None:
    with pytest.raises(ValueError, match="'turn_1' is still a Ref"):
        content_key("m", (user(Ref(call="turn_1")),), Sampling())


def test_json_is_hashed_whatever_the_order_of_its_keys() -> None:
    assert hash_json({"a": 1, "b": 2}) == hash_json({"b": 2, "a": 1}) != hash_json({"a": 1})


def test_files_of_one_name_have_hashes_of_their_own(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("data.jsonl", "drafts/data.jsonl", "positions.npy")]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text(str(path))
    found = hash_files(paths)
    assert list(found) == [str(paths[0]), str(paths[1]), "positions.npy"]
    assert list(found.values()) == [hash_file(path) for path in paths]
