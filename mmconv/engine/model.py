"""Models and their roles in a run: retries, system prompts, sampling overrides.

A retry does not hold a slot while it waits. A model is opened at its first request.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from mmconv.core.errors import ImageError, Refused, Transient
from mmconv.core.protocols import Backend, Channel, Listen
from mmconv.core.run_stats import ModelStats
from mmconv.core.turns import without_oldest
from mmconv.core.types import Failure, Message, Reply, Sampling, Text
from mmconv.engine.limiter import LONGEST_WAIT, ConcurrencyLimiter, Slot, Stopped, longest_delay

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleModel:
    """A model in a role, with the settings that it adds to the benchmark's calls.

    - `system`: the model's system prompt, sent if the benchmark sends none;
    - `sampling` overrides the benchmark's, field by field;
    - `seed` is sent with sampled calls (temperature not 0) that set none; 0 sends no seed;
    - `label`: the model's name in tables.

    Two roles may share one model, and its limits.
    """

    model: Model
    label: str = ""
    system: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    def prompt(
        self, messages: tuple[Message, ...], sampling: Sampling
    ) -> tuple[tuple[Message, ...], Sampling]:
        """The messages and sampling to send, with system prompt, overrides and seed."""
        if self.system is not None and (not messages or messages[0].role != "system"):
            own = Message(role="system", parts=(Text(text=self.system),))
            messages = (own, *messages)
        if self.sampling:
            sampling = replace(sampling, **self.sampling)
        if self.seed and sampling.temperature != 0 and sampling.seed is None:
            sampling = replace(sampling, seed=self.sampling.get("seed", self.seed))
        return messages, sampling


@dataclass(slots=True)
class TokenEstimate:
    """Estimates the tokens of calls by their characters, as the usage of others shows.

    Images count as if they were spread over the characters.
    """

    characters: int = 0
    tokens: int = 0

    def estimate(self, messages: tuple[Message, ...]) -> float:
        """The tokens of a call and its reply; four characters a token before the first reply."""
        ratio = self.tokens / self.characters if self.characters else 0.25
        return ratio * _characters(messages)

    def count(self, messages: tuple[Message, ...], reply: Reply) -> None:
        """Count the usage of an answered call."""
        if reply.input_tokens is not None:
            self.characters += _characters(messages)
            self.tokens += reply.input_tokens + (reply.output_tokens or 0)


def _characters(messages: tuple[Message, ...]) -> int:
    return sum(
        [len(part.text) for message in messages for part in message.parts if isinstance(part, Text)]
    )


class _Answering:
    """Sends requests, streamed to `listen` if both can; `is_heard`: a piece has come."""

    def __init__(self, backend: Any, listen: Listen | None) -> None:
        self.backend = backend
        self._listen = listen
        self.is_heard = False

    def __call__(
        self, messages: tuple[Message, ...], sampling: Sampling, affinity: str
    ) -> Awaitable[Reply]:
        if self._listen is None or not hasattr(self.backend, "stream"):
            answer: Callable[..., Awaitable[Reply]] = self.backend.generate
        else:
            answer = partial(self.backend.stream, listen=self._hear)
        return answer(messages, sampling, affinity=affinity)

    def _hear(self, channel: Channel, piece: str) -> None:
        self.is_heard = True
        if self._listen is not None:
            self._listen(channel, piece)


class Model:
    """A model with its slots and retries, opened at the first call that is really asked.

    `fingerprint` names it in content keys; `open_backend` loads or connects it, once. `attempts`
    bounds the attempts of a call. Refusals of an overloaded server count only if it answers no
    other call either (see `ConcurrencyLimiter.is_given_up`). With `shared`, other models use the
    backend too: each request takes one of these slots as well, first come, first served, and the
    model does not close the backend.
    """

    def __init__(
        self,
        fingerprint: str,
        open_backend: Callable[[], Awaitable[Backend]],
        attempts: int = 8,
        shared: ConcurrencyLimiter | None = None,
    ) -> None:
        self.fingerprint = fingerprint
        self._open_backend = open_backend
        self._attempts = attempts
        self._shared = shared
        self._backend: Backend | None = None
        self._opening = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._limiter = ConcurrencyLimiter()
        self._tokens = TokenEstimate()
        # Jitter spreads retries over time; it decides no result, so it needs no seed.
        self._random = random.Random()

    def guest(self) -> Model:
        """This model for one caller, who may stop it: only the caller's own calls end then."""
        return _Guest(self)

    async def open(self) -> int:
        """Load or connect the model; returns its maximum concurrency. Raises `Stopped`."""
        return (await self._ready()).max_concurrency

    async def ask(  # noqa: PLR0913 - a call, its place in the queue, and its counters
        self,
        messages: tuple[Message, ...],
        sampling: Sampling,
        *,
        priority: int,
        affinity: str,
        pinned: str | None,
        stats: ModelStats,
        claim: Callable[[], Awaitable[None]] | None = None,
        listen: Listen | None = None,
    ) -> Reply | Failure:
        """Request a reply until there is one, a refusal, or no attempt left.

        The smallest `priority` goes first. With `pinned`, a prompt that overflows the context loses
        its oldest messages, but not the system prompt and `pinned`. The first slot calls `claim`.
        `listen` gets the reply as it is written, if the backend streams; a failure after that is
        not retried.
        """
        backend = await self._ready()
        stats.describe_wait = getattr(backend, "describe_wait", None)
        answer = _Answering(backend, listen)
        attempt = dropped = refused = 0
        while True:
            attempt += 1
            slot, claim = await self._slot(priority, messages, claim), None
            try:
                reply = await self._send(answer, slot, messages, sampling, affinity)
            except ImageError as error:
                return Failure(kind="image", message=str(error), attempts=attempt)
            except Refused as error:
                stats.count_unanswered(error)
                shorter = None if pinned is None else without_oldest(messages, pinned)
                if error.kind != "context" or shorter is None:
                    return Failure(kind=error.kind, message=str(error), attempts=attempt)
                messages, dropped, attempt = shorter, dropped + 1, attempt - 1
            except Transient as error:
                stats.count_unanswered(error)
                refused += error.overloaded
                if failure := self._last(error, attempt, refused, answer.is_heard):
                    return failure
                stats.count_retry(error.kind, str(error))
                await self._wait(self._delay(error, attempt, refused))
            else:
                return replace(reply, dropped=dropped) if dropped else reply

    async def _slot(
        self,
        priority: int,
        messages: tuple[Message, ...],
        claim: Callable[[], Awaitable[None]] | None,
    ) -> Slot:
        if self._stopping.is_set():
            raise Stopped
        estimate = partial(self._tokens.estimate, messages)
        slot = await self._limiter.acquire(priority, self, estimate)
        if claim is not None:
            try:
                await claim()
            except BaseException:
                self._limiter.release()
                raise
        return slot

    async def _send(
        self,
        answer: _Answering,
        slot: Slot,
        messages: tuple[Message, ...],
        sampling: Sampling,
        affinity: str,
    ) -> Reply:
        """Send one request in this slot, release it, and note what it shows of the limits."""
        try:
            reply = await self._generate(answer, messages, sampling, affinity)
            self._limiter.answered(slot)
            self._limiter.report(slot, getattr(answer.backend, "limits", ()))
            self._tokens.count(messages, reply)
            return reply
        except Transient as error:
            # before the slot is released, or another call would be refused too
            self._limiter.report(slot, getattr(answer.backend, "limits", ()))
            if error.overloaded and (error.retry_after or 0.0) <= LONGEST_WAIT:
                self._limiter.refused(slot, error)
            raise
        finally:
            self._limiter.release()

    async def _generate(
        self,
        answer: _Answering,
        messages: tuple[Message, ...],
        sampling: Sampling,
        affinity: str,
    ) -> Reply:
        if hasattr(answer.backend, "describe_wait"):
            # it may take a day, so a run that stops does not wait for it
            return await self._until_stopped(answer(messages, sampling, affinity))
        if self._shared is None:
            return await answer(messages, sampling, affinity)
        await self._shared.acquire(0, self)
        try:
            if self._stopping.is_set():
                raise Stopped
            return await answer(messages, sampling, affinity)
        finally:
            self._shared.release()

    async def _until_stopped(self, request: Awaitable[Result]) -> Result:
        answering = asyncio.ensure_future(request)
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((answering, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise Stopped
            return answering.result()
        finally:
            answering.cancel()
            stopping.cancel()

    def stop(self) -> None:
        """Start no more requests: calls under way finish, calls that wait raise `Stopped`."""
        self._stopping.set()
        self._limiter.close()
        if self._shared is not None:
            self._shared.turn_away(self)

    async def aclose(self) -> None:
        """Close the model, if it was opened and is not shared."""
        backend, self._backend = self._backend, None
        if backend is not None:
            await self._close(backend)

    async def _close(self, backend: Backend) -> None:
        if self._shared is None:
            await backend.aclose()

    async def _ready(self) -> Backend:
        if self._backend is None:
            async with self._opening:
                if self._stopping.is_set():
                    raise Stopped
                if self._backend is None:
                    backend = await self._opened()
                    self._limiter.open(backend.max_concurrency)
                    self._backend = backend
        return self._backend

    async def _opened(self) -> Backend:
        opening = asyncio.ensure_future(self._open_backend())
        try:
            return await self._until_stopped(opening)
        except BaseException:
            await asyncio.wait((opening,))
            # it may have been loaded in this very moment
            if not opening.cancelled() and opening.exception() is None:
                await self._close(opening.result())
            raise

    async def _wait(self, seconds: float) -> None:
        """Wait without a slot; raises `Stopped` as soon as the run is stopped."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
            raise Stopped

    def _last(self, error: Transient, attempt: int, refused: int, is_heard: bool) -> Failure | None:
        """The failure of a call that is not retried; None if it is."""
        message = str(error)
        if is_heard:
            return Failure(kind=error.kind, message=message, attempts=attempt)
        if (wait := error.retry_after or 0.0) > LONGEST_WAIT:
            message = f"{error} (it asks to wait for {wait:,.0f} s)"
        elif error.overloaded:
            if not self._limiter.is_given_up(spent=attempt >= self._attempts):
                return None
        elif attempt - refused < self._attempts:
            return None
        return Failure(kind=error.kind, message=message, attempts=attempt)

    def _delay(self, error: Transient, attempt: int, refused: int) -> float:
        """Exponential backoff with full jitter, at least as long as the server asked for."""
        spent = refused if error.overloaded else attempt - refused
        backoff = self._random.uniform(0, longest_delay(spent))
        return backoff if error.retry_after is None else error.retry_after + min(backoff, 1.0)


class _Guest(Model):
    def __init__(self, host: Model) -> None:
        super().__init__(host.fingerprint, host._ready, host._attempts, host._shared)
        self._host = host
        self._limiter = host._limiter

    def stop(self) -> None:
        self._stopping.set()
        for limiter in (self._limiter, self._shared):
            if limiter is not None:
                limiter.turn_away(self)

    async def _ready(self) -> Backend:
        return await self._host._ready()
