"""A trace in the log of requests that are refused for who asks, or how much: 401, 403 and 429.

And of connections that are refused before they bring a request.
Never of what they sent: a token that is wrong by one letter is nearly one.
"""

from __future__ import annotations

import logging
import time

from starlette.types import Scope

from mmconv.service.http.request_tracing import Trace

log = logging.getLogger(__name__)

MOST_TOLD, WINDOW_SECONDS = 30, 60.0
"""So many are told one by one within so long; of the others, their number."""

REFUSED = (401, 403, 429)
"""The statuses of answers that are told of."""


class RefusalLog:
    """That of one process."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._count = 0

    def tell(self, scope: Scope, trace: Trace, status: int) -> None:
        """Log a request that was refused, with who sent it and what it asked for."""
        now = time.monotonic()
        if now - self._since > WINDOW_SECONDS:
            if (more := self._count - MOST_TOLD) > 0:
                log.warning("%d more requests were refused before", more)
            self._since, self._count = now, 0
        self._count += 1
        if self._count <= MOST_TOLD:
            peer = (scope.get("client") or ("?",))[0]
            log.warning("refused %s: %s (status %d)", peer, trace, status)
