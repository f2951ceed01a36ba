"""The replicas of a model as one backend: which of them answers, and what happens if one is lost.

A conversation stays on its replica, which has its prefix in a cache, and moves when that is full
or lost. A call on a lost replica is `Transient`, and the runner alone retries it. Ray starts the
actor again, and it takes part as soon as its model is open.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import ray
from ray.exceptions import RayError, RayTaskError

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, EngineDied, ImageError, MmconvError, Transient
from mmconv.core.protocols import Backend, ImageSource
from mmconv.core.types import Message, Reply, Sampling
from model_zoo.providers import provider_of
from model_zoo.ray import cluster
from model_zoo.ray.cluster import Place, disconnect

RETRY_SECONDS = 0.5
CLOSING_SECONDS = 30.0
"""How long the replicas may take to close: longer than vLLM's server gets to end."""

MOST_CRASHES = 3
"""How often in a row a replica may end while it loads its model."""

LEFT_SECONDS = 60.0
"""How long a detached replica waits for a process that needs it."""

CALLS = 100_000
"""The bound on an actor's calls; those under way are bounded here."""

REMEMBERED = 65_536
"""Conversations that keep their replica; those that were idle longest are placed again."""

LENT_IMAGES = 256
"""Images that stay in Ray's object store for further calls, the last ones that were shown."""

References: TypeAlias = "Mapping[str, ray.ObjectRef[bytes]]"


class ReceivedImages:
    """The images of an actor's calls under way."""

    def __init__(self) -> None:
        self._images: dict[str, bytes] = {}
        self._uses: Counter[str] = Counter()

    def read(self, sha256: str) -> bytes:
        """The bytes, which the driver has checked."""
        try:
            return self._images[sha256]
        except KeyError:
            raise ImageError(f"image {sha256}: no call under way has it") from None

    @contextmanager
    def hold(self, images: Mapping[str, bytes]) -> Iterator[None]:
        """Keep the images until no call needs them."""
        self._images.update(images)
        self._uses.update(images.keys())
        try:
            yield
        finally:
            self._uses.subtract(images.keys())
            for sha256 in images:
                if not self._uses[sha256]:
                    del self._uses[sha256], self._images[sha256]


class Replica:
    """An actor: one copy of the model. It returns mmconv's errors, which Ray would wrap.

    `folder` and `path` are the driver's working directory and Python path. A detached one ends
    itself once no driver has called `start` for `patience` seconds.
    """

    def __init__(self, spec: ModelSpec, folder: str, path: Sequence[str], patience: float) -> None:
        if Path(folder).is_dir():
            os.chdir(folder)
        sys.path += [place for place in path if place not in sys.path]
        self._spec = spec
        self._images = ReceivedImages()
        self._opening = asyncio.Lock()
        self._backend: Backend | None = None
        self._needed = time.monotonic()
        if spec.detached:
            threading.Thread(target=self._end_when_left, args=(patience,), daemon=True).start()

    async def start(self) -> None:
        """Show that the actor runs, and that it is needed."""
        self._needed = time.monotonic()

    async def open(self) -> int | MmconvError:
        """Load the model if it is not loaded; returns its maximum concurrency."""
        try:
            async with self._opening:
                if self._backend is None:
                    provider = provider_of(self._spec)
                    self._backend = await provider.open_backend(self._spec, self._images)
                return self._backend.max_concurrency
        except MmconvError as error:
            return error

    async def generate(
        self,
        messages: Sequence[Message],
        sampling: Sampling,
        affinity: str,
        references: References,
    ) -> Reply | MmconvError:
        """Answer once; `references` are the images of the messages."""
        if self._backend is None:
            return Transient("connection", "the replica was started again")
        try:
            images = {sha256: await reference for sha256, reference in references.items()}
            with self._images.hold(images):
                return await self._backend.generate(messages, sampling, affinity=affinity)
        except MmconvError as error:
            return error

    async def close(self) -> None:
        """Close the model, and end what it started."""
        if self._backend is not None:
            await self._backend.aclose()

    def _end_when_left(self, patience: float) -> None:
        while (left := self._needed + patience - time.monotonic()) > 0:
            time.sleep(left)
        # what the model started ends with the actor's process
        ray.kill(ray.get_runtime_context().current_actor)


@dataclass(slots=True, eq=False)
class _Life:
    """A replica from when its model is open until it is lost."""

    actor: Any
    capacity: int
    under_way: int = 0
    lost: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def load(self) -> float:
        return self.under_way / self.capacity


class RayBackend:
    """Replicas in actors as one `Backend`; Ray must be connected, and is left at the end."""

    def __init__(self, spec: ModelSpec, places: Sequence[Place], images: ImageSource) -> None:
        waits = "wait_for_server" in spec.model_fields_set
        self._patience = spec.wait_for_server if waits else cluster.placing_seconds
        self._label = spec.label
        self._images = images
        self._lent: OrderedDict[str, ray.ObjectRef[bytes]] = OrderedDict()
        self._conversations: OrderedDict[str, _Life] = OrderedDict()
        # a permit for each free place; there may be more, left by replicas that were lost
        self._room = asyncio.Semaphore(0)
        self._capacity = 1
        remote: Any = ray.remote
        kind = remote(max_restarts=-1, max_task_retries=0, max_concurrency=CALLS)(Replica)
        arguments = (spec, str(Path.cwd()), tuple(sys.path), LEFT_SECONDS)
        self._is_detached = spec.detached
        self._actors = [kind.options(**place).remote(*arguments) for place in places]
        self._placed: set[Any] = set()
        self._lives: list[_Life] = []
        self._failures: list[Exception] = []
        self._attending = [asyncio.create_task(self._attend(actor)) for actor in self._actors]
        if spec.detached:
            self._attending.append(asyncio.create_task(self._need()))

    @property
    def max_concurrency(self) -> int:
        """The sum over all replicas; those that are not ready yet count too."""
        return self._capacity * len(self._actors)

    async def wait_until_ready(self) -> None:
        """Return when one replica is ready; raises as `generate` does if there will be none."""
        self._give_back(await self._take(""))

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Answer once, on the conversation's replica; raises `Transient` if it is lost."""
        references = {
            image.sha256: await self._lend(image.sha256)
            for message in messages
            for image in message.images
        }
        life = await self._take(affinity)
        try:
            answer = await life.actor.generate.remote(
                tuple(messages), sampling, affinity, references
            )
        except RayTaskError:
            raise
        except RayError as error:
            self._lose(life)
            # Ray's messages may have dozens of lines
            [reason, *_] = str(error).splitlines() or [""]
            raise Transient("connection", f"a replica was lost: {reason}") from error
        finally:
            self._give_back(life)
        if isinstance(answer, EngineDied):
            if not life.lost.is_set():
                ray.kill(life.actor, no_restart=False)
            self._lose(life)
            raise Transient("connection", f"a replica is started again: {answer}")
        if isinstance(answer, MmconvError):
            raise answer
        reply: Reply = answer
        return reply

    async def _lend(self, sha256: str) -> ray.ObjectRef[bytes]:
        """The image in Ray's object store, from which each node fetches it once.

        Ray drops it when it is neither here nor in a call under way.
        """
        if sha256 not in self._lent:
            data = await asyncio.to_thread(self._images.read, sha256)
            self._lent[sha256] = ray.put(data)
        self._lent.move_to_end(sha256)
        reference = self._lent[sha256]
        while len(self._lent) > LENT_IMAGES:
            self._lent.popitem(last=False)
        return reference

    async def aclose(self) -> None:
        """Close the replicas unless they are detached, and leave Ray. Safe to call twice."""
        for task in self._attending:
            task.cancel()
        actors, self._actors = self._actors, []
        if not actors:
            return
        if not self._is_detached:
            closing = [actor.close.remote() for actor in actors if actor in self._placed]
            if closing:
                # a replica that is being lost never closes
                await asyncio.to_thread(
                    ray.wait, closing, num_returns=len(closing), timeout=CLOSING_SECONDS
                )
            for actor in actors:
                ray.kill(actor)
        self._lent.clear()  # a reference must not outlive the connection
        await asyncio.to_thread(disconnect)

    async def _need(self) -> None:
        while True:
            await asyncio.sleep(LEFT_SECONDS / 4)
            for actor in self._actors:
                actor.start.remote()

    async def _attend(self, actor: Any) -> None:
        crashes = 0
        while True:
            try:
                await actor.start.remote()
                self._placed.add(actor)
                opened = await actor.open.remote()
            except RayTaskError as error:
                opened = error
            except RayError as error:
                crashes += actor in self._placed
                self._placed.discard(actor)
                if crashes < MOST_CRASHES:
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                opened = ConfigError(
                    f"model {self._label}: a replica ended {MOST_CRASHES} times while it loaded "
                    f"its model: {error}"
                )
            if not isinstance(opened, int):
                self._failures.append(opened)
                self._room.release()
                return
            crashes, self._capacity = 0, opened
            life = _Life(actor, opened)
            self._lives.append(life)
            for _ in range(opened):
                self._room.release()
            await life.lost.wait()

    async def _take(self, affinity: str) -> _Life:
        while True:
            try:
                async with asyncio.timeout(self._patience):
                    await self._room.acquire()
            except TimeoutError:
                self._check_placed()
                continue
            if len(self._failures) == len(self._actors):
                self._room.release()  # for the next one that waits
                raise self._failures[0]
            if (life := self._choose(affinity)) is not None:
                life.under_way += 1
                return life

    def _choose(self, affinity: str) -> _Life | None:
        life = self._conversations.pop(affinity, None)
        if life is None or life.lost.is_set() or life.load >= 1:
            life = min(self._lives, key=lambda each: each.load, default=None)
        if life is None or life.load >= 1:
            return None
        self._conversations[affinity] = life
        if len(self._conversations) > REMEMBERED:
            self._conversations.popitem(last=False)
        return life

    def _give_back(self, life: _Life) -> None:
        if not life.lost.is_set():
            life.under_way -= 1
            self._room.release()

    def _lose(self, life: _Life) -> None:
        if not life.lost.is_set():
            life.lost.set()
            self._lives.remove(life)
            self._placed.discard(life.actor)

    def _check_placed(self) -> None:
        if not self._placed:
            raise ConfigError(
                f"model {self._label}: no node of Ray's cluster took a replica within "
                f"{self._patience:g} s; look at `ray status`, free or add nodes, and run again"
            )
