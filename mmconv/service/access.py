"""The caller of a request: bearer tokens, what they may do, and how often.

Tokens are stored as SHA-256 and compared in constant time. Without tokens in the settings, the
server is for this machine only: requests must name it as their host, and pages of other origins are
refused, so that a web site open in a browser here cannot use it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.datastructures import Headers

from mmconv.service.errors import Problem
from mmconv.service.requests import check_query
from mmconv.service.settings import SCOPES, Allowance, Scope, Settings
from mmconv.service.state import Readable, Service
from mmconv.store.jobs import Job

LOCAL = "local"
"""The caller's name if no tokens are configured."""

INCLUDED_IN: Mapping[Scope, tuple[Scope, ...]] = {
    "read": ("run", "admin"),
    "chat": ("admin",),
    "run": ("admin",),
    "admin": (),
}
"""Scope -> the scopes that include it."""

_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
"""A `Host` header that names this machine and nothing else. A URL parser would also accept a user
name before the host, and ignore what follows a `#`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The token's name, which owns what is uploaded and run, its scopes and limits."""

    name: str
    scopes: frozenset[Scope]
    limits: Allowance

    def may(self, *scopes: Scope) -> bool:
        """Whether the token has one of these scopes, or another that includes it."""
        return any(has in self.scopes for scope in scopes for has in (scope, *INCLUDED_IN[scope]))

    @property
    def as_owner(self) -> str | None:
        """The owner of what the token may read: itself, for an admin anyone."""
        return None if self.may("admin") else self.name

    def owns(self, job: Job) -> bool:
        """Whether the job is the token's own, or the token an admin's."""
        return job.owner == self.name or self.may("admin")


def identify(settings: Settings, headers: Headers) -> Caller:
    """The caller that a request's headers prove. Raises `Problem` 401 or 403."""
    if not settings.tokens:
        _check_local(headers)
        return Caller(name=LOCAL, scopes=frozenset(SCOPES), limits=settings.limits)
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Problem(401, "a bearer token is needed (Authorization: Bearer ...)")
    digest = hashlib.sha256(token.strip().encode("latin-1", "replace")).hexdigest()
    # All are compared, so that the time does not reveal which token is close.
    matches = [spec for spec in settings.tokens if hmac.compare_digest(spec.sha256, digest)]
    if not matches:
        raise Problem(401, "this token is not known", code="invalid_api_key")
    spec = matches[0]
    limits = spec.limits or settings.limits
    return Caller(name=spec.name, scopes=frozenset(spec.scopes), limits=limits)


def _check_local(headers: Headers) -> None:
    """Refuse what a page of another site could make a browser on this machine send."""
    hosts = headers.getlist("host")
    host = hosts[0] if len(hosts) == 1 else ""
    if _LOOPBACK.fullmatch(host) is None:
        raise Problem(403, "this server has no tokens and answers to localhost only", param="Host")
    if any(origin.partition("://")[2] != host for origin in headers.getlist("origin")):
        raise Problem(403, "pages of other origins may not use this server", param="Origin")


async def shared_of(request: Request) -> Any:
    """What requests share. A coroutine, because FastAPI calls plain functions in a thread."""
    return request.app.state.service


@dataclass(frozen=True, slots=True)
class Authorised:
    """A dependency: the caller, who must have one of the scopes. The documentation shows them.

    Raises `Problem` 401 or 403, 429 above the token's requests per minute, and 400 for an unknown
    query parameter.
    """

    scopes: tuple[Scope, ...]

    async def __call__(self, request: Request) -> Caller:
        """The caller of a request."""
        shared: Readable = request.app.state.service
        caller: Caller = request.scope["caller"]  # which the gate has identified
        if not caller.may(*self.scopes):
            scopes = " or ".join(map(repr, self.scopes))
            raise Problem(403, f"this token does not have the scope {scopes}", code="missing_scope")
        shared.meters[caller.name].count_request(caller.limits)
        check_query(request)
        return caller


Shared = Annotated[Service, Depends(shared_of)]
"""A parameter: what requests share."""

SharedRuns = Annotated[Readable, Depends(shared_of)]
"""A parameter: what requests that read runs share."""

Reader = Annotated[Caller, Depends(Authorised(("read",)))]
"""A parameter: a caller who may read runs."""

Asker = Annotated[Caller, Depends(Authorised(("chat", "read")))]
"""A parameter: a caller who may read runs or call models, and so may list what there is."""

Chatter = Annotated[Caller, Depends(Authorised(("chat",)))]
"""A parameter: a caller who may call models."""

RunStarter = Annotated[Caller, Depends(Authorised(("run",)))]
"""A parameter: a caller who may start and stop runs."""
