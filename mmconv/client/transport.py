"""Requests to one server: the token, retries while it is busy, errors as `ServiceError`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from functools import cache
from typing import Any, TypeVar

import httpx2
from pydantic import TypeAdapter

from mmconv.core.errors import MmconvError

Kind = TypeVar("Kind")

BUSY = (429, 503)
"""Retried after the server's `Retry-After`."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
"""Seconds between attempts if the server does not say."""


class ServiceError(MmconvError):
    """The server refused or failed, or could not be reached.

    `status` is HTTP's, None if no response came or an awaited job failed. `param` is the field of
    the request that is wrong, `code` is for programs, `request_id` is the request's id in the
    server's log.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        param: str | None = None,
        code: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.request_id = request_id


class Transport:
    """A connection to a server through a client of httpx2, which blocks or not.

    See `mmconv.client.Client`. Over a client that blocks, coroutines end at their first step.
    """

    def __init__(self, http: httpx2.Client | httpx2.AsyncClient, patience: float) -> None:
        self._http = http
        self._patience = patience

    async def _send(self, method: str, path: str, **fields: Any) -> httpx2.Response:
        if isinstance(self._http, httpx2.Client):
            return self._http.request(method, path, **fields)
        return await self._http.request(method, path, **fields)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        if isinstance(self._http, httpx2.Client):
            time.sleep(seconds)  # noqa: ASYNC251  # it blocks by design
        else:
            await asyncio.sleep(seconds)

    async def aclose(self) -> None:
        """Close the connections."""
        if isinstance(self._http, httpx2.Client):
            self._http.close()
        else:
            await self._http.aclose()

    async def request(self, method: str, path: str, **fields: Any) -> httpx2.Response:
        """Send a request until the server accepts it or `patience` ends. Raises `ServiceError`.

        `fields` are those of `httpx2.Client.request`: json, content, params, headers.
        """
        deadline = time.monotonic() + self._patience
        pause = FIRST_PAUSE
        while True:
            try:
                response = await self._send(method, path, **fields)
            except httpx2.TransportError as error:
                reason = str(error) or type(error).__name__
                url = error.request.url
                problem = ServiceError(f"{url}: no answer ({reason}); is it served there?")
                wait = pause
                if not _may_repeat(method, error):
                    raise problem from error
            else:
                if response.is_success:
                    return response
                problem = _refusal(response)
                if response.status_code not in BUSY:
                    raise problem
                wait = _retry_after(response.headers, pause)
            if time.monotonic() + wait > deadline:
                raise problem
            await self.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def json(self, method: str, path: str, **fields: Any) -> Any:
        """The JSON of the response. Raises `ServiceError`, also if it is not JSON."""
        response = await self.request(method, path, **fields)
        try:
            return response.json()
        except ValueError as error:
            kind = response.headers.get("content-type", "of no type")
            raise ServiceError(
                f"{response.url}: the response is not JSON ({kind}); check the address, and "
                "request no stream",
                status=response.status_code,
            ) from error

    async def get(self, kind: type[Kind], path: str, **fields: Any) -> Kind:
        """The resource at the path, as one of these values."""
        return read(kind, await self.json("GET", path, **fields))

    async def pages(
        self, kind: type[Kind], path: str, chosen: Mapping[str, Any]
    ) -> AsyncIterator[Kind]:
        """The items of a list, from all its pages."""
        params = dict(chosen)
        while True:
            page = await self.json("GET", path, params=params)
            for item in page["data"]:
                yield read(kind, item)
            if page["next"] is None:
                return
            params["after"] = page["next"]


def settings(url: str, token: str | None, timeout: float) -> dict[str, Any]:
    """The fields of either client of httpx2."""
    return {
        "base_url": url,
        "headers": {} if token is None else {"Authorization": f"Bearer {token}"},
        "timeout": httpx2.Timeout(timeout, connect=min(timeout, 10.0)),
    }


def read(kind: type[Kind], value: Any) -> Kind:
    """The JSON value as one of these. Ignores fields that a newer server adds.

    Raises `pydantic.ValidationError`.
    """
    adapter: TypeAdapter[Kind] = _adapter(kind)  # type: ignore[arg-type]  # a type is hashable
    result: Kind = adapter.validate_python(value)
    return result


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _may_repeat(method: str, error: httpx2.TransportError) -> bool:
    """Whether repeating is safe: nothing was sent, or the request only reads."""
    if method == "GET":
        return isinstance(error, httpx2.NetworkError | httpx2.RemoteProtocolError)
    return isinstance(error, httpx2.ConnectError)


def _refusal(response: httpx2.Response) -> ServiceError:
    """The error in the body; for another body (a proxy's page) the status."""
    try:
        detail = response.json()["error"]
        message = str(detail["message"])
    except (ValueError, KeyError, TypeError):
        detail, message = {}, response.reason_phrase
    return ServiceError(
        f"{message} (status {response.status_code})",
        status=response.status_code,
        param=detail.get("param"),
        code=detail.get("code"),
        request_id=response.headers.get("x-request-id"),
    )


def _retry_after(headers: Mapping[str, str], default: float) -> float:
    seconds = headers.get("retry-after", "")  # proxies may send a date
    return float(seconds) if seconds.isdecimal() else default
