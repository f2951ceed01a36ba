"""Requests to one server: the token, patience with a busy one, errors as `ServiceError`."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import httpx2

from mmconv.client.errors import ServiceError

BUSY = (429, 503)
"""Asked again after the server's `Retry-After`: it takes no more just now."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
"""Seconds between attempts where the server does not say."""


class Transport:
    """A connection to the server at `url`; see `mmconv.client.Client`."""

    def __init__(
        self,
        url: str,
        token: str | None,
        timeout: float,
        patience: float,
        transport: httpx2.BaseTransport | None,
    ) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx2.Client(
            base_url=url,
            headers=headers,
            timeout=httpx2.Timeout(timeout, connect=min(timeout, 10.0)),
            transport=transport,
        )
        self._patience = patience

    def request(self, method: str, path: str, **fields: Any) -> httpx2.Response:
        """Send a request until the server takes it or patience ends; raises `ServiceError`.

        `fields` are those of `httpx2.Client.request`: json, content, params, headers.
        """
        deadline = time.monotonic() + self._patience
        pause = FIRST_PAUSE
        while True:
            try:
                answer = self._http.request(method, path, **fields)
            except httpx2.TransportError as error:
                problem, wait = _unreachable(self._http.base_url, error), pause
                if not _may_repeat(method, error):
                    raise problem from error
            else:
                if answer.is_success:
                    return answer
                problem = _refusal(answer)
                if answer.status_code not in BUSY:
                    raise problem
                wait = _retry_after(answer.headers, pause)
            if time.monotonic() + wait > deadline:
                raise problem
            time.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    def json(self, method: str, path: str, **fields: Any) -> Any:
        """The JSON that the server answers; raises `ServiceError`, also where it answers other."""
        answer = self.request(method, path, **fields)
        try:
            return answer.json()
        except ValueError as error:
            kind = answer.headers.get("content-type", "of no type")
            raise ServiceError(
                f"{answer.url}: the answer is no JSON ({kind}); check the address, and ask for no "
                "stream",
                status=answer.status_code,
            ) from error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def _may_repeat(method: str, error: httpx2.TransportError) -> bool:
    """Whether nothing is done twice: nothing was sent, or what broke off was only to be read."""
    if method == "GET":
        return isinstance(error, httpx2.NetworkError | httpx2.RemoteProtocolError)
    return isinstance(error, httpx2.ConnectError)


def _refusal(answer: httpx2.Response) -> ServiceError:
    """The error in the body; what is not ours (a proxy's page) is told by its status."""
    try:
        told = answer.json()["error"]
        message = str(told["message"])
    except (ValueError, KeyError, TypeError):
        told, message = {}, answer.reason_phrase
    return ServiceError(
        f"{message} (status {answer.status_code})",
        status=answer.status_code,
        param=told.get("param"),
        code=told.get("code"),
        request_id=answer.headers.get("x-request-id"),
    )


def _unreachable(url: httpx2.URL, error: httpx2.TransportError) -> ServiceError:
    return ServiceError(f"{url}: no answer ({error or type(error).__name__}); is it served there?")


def _retry_after(headers: Mapping[str, str], otherwise: float) -> float:
    try:
        seconds = float(headers["retry-after"])
    except (KeyError, ValueError):
        return otherwise
    return max(0.0, seconds) if math.isfinite(seconds) else otherwise
