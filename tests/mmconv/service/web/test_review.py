"""`mmconv review`: drafts that a person corrects, in a file that others write too."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from images import ImageStore
from mmconv.benchmarks.base.review import held
from mmconv.benchmarks.convbench.data import CAPTION, CATEGORIES, FOCUS_POINTS
from mmconv.benchmarks.convbench.drafts import Drafts, draft_file
from mmconv.core.errors import DataError
from mmconv.service.web.review import open_review
from tests.mmconv.benchmarks.convbench.data_files import Source, load
from tests.mmconv.service.web.people import SETTINGS, client_of, lines, read_rows, write_drafts


@dataclass(frozen=True, slots=True)
class Desk:
    """A file of three drafts, its data, and a client of its page."""

    client: httpx2.AsyncClient
    path: Path
    data: Path
    images: Path

    async def draft(self, name: str = "1") -> Any:
        return (await self.client.get(f"/web/review/drafts/{name}")).json()

    async def save(self, draft: Any, status: str, **texts: str) -> httpx2.Response:
        body = {"rater": "Ann", "version": draft["version"], "texts": texts, "status": status}
        return await self.client.post(f"/web/review/drafts/{draft['id']}", json=body)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    data, images, path = write_drafts(tmp_path, 3)
    library = ImageStore()
    drafts, unknown = draft_file(path, read_rows(data, images, library))
    assert unknown == []
    async with AsyncExitStack() as stack:
        client = await client_of(stack, open_review(drafts, library, SETTINGS))
        yield Desk(client, path, data, images)


async def test_a_draft_is_shown_with_its_image_and_accepted(desk: Desk) -> None:
    before = desk.path.read_bytes().splitlines()
    listed = (await desk.client.get("/web/review")).json()
    assert listed["drafts"] == [{"id": str(n), "status": "draft"} for n in (1, 2, 3)]
    categories = next(f for f in listed["fields"] if f["name"] == CATEGORIES[0])
    assert "OCR" in categories["choices"]
    draft = await desk.draft("2")
    assert (await desk.client.get(f"/v1/images/{draft['images'][0]}")).is_success
    assert draft["shown"][0]["name"] == "turn 1, perception"
    saved = await desk.save(draft, "verified", **{CAPTION: "Better.", FOCUS_POINTS: ""})
    assert (saved.json()["status"], saved.json()["rater"]) == ("verified", "Ann")
    after = desk.path.read_bytes().splitlines()
    assert (after[0], after[2]) == (before[0], before[2])
    line = lines(desk.path)[1]
    assert line[CAPTION] == "Better."
    assert FOCUS_POINTS not in line
    assert (line["status"], line["reviewed_by"]) == ("verified", "Ann")
    assert line["reviewed_at"].endswith("Z")


async def test_a_draft_that_was_changed_meanwhile_is_not_overwritten(desk: Desk) -> None:
    draft, other = await desk.draft("1"), await desk.draft("2")
    content = desk.path.read_bytes().replace(b'"ID":1,', b'"ID":1,"note":"mine",')
    desk.path.write_bytes(content)
    refused = await desk.save(draft, "verified")
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "changed"
    assert desk.path.read_bytes() == content
    # another record's change does not matter, and stays
    assert (await desk.save(other, "rejected")).is_success
    assert lines(desk.path)[0]["note"] == "mine"
    assert (await desk.save(await desk.draft("1"), "verified")).is_success
    assert lines(desk.path)[0]["note"] == "mine"


async def test_nothing_is_written_while_annotate_writes(desk: Desk) -> None:
    draft = await desk.draft()
    with held(desk.path):
        refused = await desk.save(draft, "verified")
    assert refused.status_code == 409
    assert "another `mmconv annotate`" in refused.json()["error"]["message"]
    assert (await desk.save(draft, "verified")).is_success


async def test_what_a_review_says_counts_in_runs_and_later_drafts(desk: Desk) -> None:
    for name, status in (("1", "verified"), ("2", "rejected")):
        await desk.save(await desk.draft(name), status)
    source = Source(data=desk.data, images=desk.images, annotations=desk.path, needs=(CAPTION,))
    with pytest.raises(DataError) as caught:
        load(source)
    text = "\n".join(caught.value.problems)
    assert "was rejected in a review" in text
    assert "is a draft: set status to verified" in text
    assert len(caught.value.problems) == 2
    source = Source(data=desk.data, images=desk.images, annotations=desk.path, allow_drafts=True)
    rows = load(source)
    completed = Drafts(desk.path.with_name("all.jsonl"), desk.path, rows)
    completed.copy_whole()
    assert lines(completed.path) == lines(desk.path)


async def test_what_is_not_a_review_is_refused(desk: Desk) -> None:
    draft = await desk.draft()
    content = desk.path.read_bytes()
    assert (await desk.save(draft, "done")).status_code == 400
    assert (await desk.save(draft, "verified", ID="7")).status_code == 409
    assert (await desk.client.get("/web/review/drafts/9")).status_code == 404
    body = {"rater": "Ann", "version": draft["version"], "texts": {}, "status": "verified"}
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        answer = await desk.client.post("/web/review/drafts/1", json=body, headers=headers)
        assert answer.status_code == 403
    assert desk.path.read_bytes() == content
