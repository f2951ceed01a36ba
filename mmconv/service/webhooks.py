"""Webhooks: a run's state as JSON, posted to a URL of the client's when the run has ended.

They are signed as https://www.standardwebhooks.com describes, so its libraries verify them.
Redirects are not followed. One under way is in a file, so that the next process continues it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import os
import time
from ipaddress import ip_address
from pathlib import Path

import orjson
from aiohttp import ClientError

from mmconv.core.atomic_writes import write_file
from mmconv.core.errors import ConfigError
from mmconv.service.addresses import Rules, is_public
from mmconv.service.errors import Problem
from mmconv.service.settings import Settings

log = logging.getLogger(__name__)

SECRET = "MMCONV_WEBHOOK_SECRET"
"""The environment variable with the key of signatures: `whsec_` and base64."""

PAUSES = (1.0, 5.0, 30.0, 120.0)
"""Seconds between the attempts, of which there is one more."""

FOLDER = "webhooks"
"""The folder in `out` of those that are not delivered yet."""

SECONDS = 15.0
"""The total time of an attempt."""


def signing_key() -> bytes | None:
    """The key of signatures, None without one. Raises `ConfigError` if it cannot be read."""
    secret = os.environ.get(SECRET)
    if not secret:
        return None
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        raise ConfigError(
            f"{SECRET}: expected whsec_ and base64 (openssl rand -base64 32)"
        ) from None


def check_webhook(settings: Settings, url: str) -> None:
    """Raise `Problem` 400 if the server sends no webhooks, or none to this URL."""
    if signing_key() is None:
        message = f"webhook: this server sends none; its operator can set {SECRET}"
        raise Problem(400, message, param="webhook", code="webhooks_off")
    try:
        _rules(settings).check(url)
    except (OSError, ValueError) as error:
        raise Problem(400, str(error), param="webhook", code="invalid_webhook") from error


async def send_webhook(settings: Settings, url: str, message_id: str, body: bytes) -> None:
    """Post the body until it is accepted (2xx) or the attempts end. Failures are logged."""
    path = settings.out / FOLDER / f"{message_id}.json"

    await asyncio.to_thread(write_file, path, orjson.dumps([url, body.decode()]))
    await _deliver(settings, path)


async def send_left_behind(settings: Settings) -> None:
    """Send what an earlier process had begun. Receivers know a repeated one by its id."""
    if signing_key() is not None:
        paths = sorted((settings.out / FOLDER).glob("*.json"))
        await asyncio.gather(*(_deliver(settings, path) for path in paths))


async def _deliver(settings: Settings, path: Path) -> None:
    """Send the webhook in a file. The file stays if the process ends meanwhile."""
    url, body = orjson.loads(await asyncio.to_thread(path.read_bytes))
    for pause in (0.0, *PAUSES):
        await asyncio.sleep(pause)
        try:
            status = await _post(settings, url, path.stem, body.encode())
        except (ClientError, OSError, ValueError) as error:
            log.warning("the webhook of %s: %s", path.stem, error.__cause__ or error)
            continue
        if 200 <= status < 300:
            log.info("the webhook of %s: delivered", path.stem)
            break
        log.warning("the webhook of %s: refused with status %d", path.stem, status)
    else:
        log.error("the webhook of %s: not delivered, no attempt is left", path.stem)
    await asyncio.to_thread(path.unlink, missing_ok=True)


async def _post(settings: Settings, url: str, message_id: str, body: bytes) -> int:
    rules = _rules(settings)
    now = str(int(time.time()))
    signed = f"{message_id}.{now}.".encode() + body
    digest = hmac.digest(signing_key() or b"", signed, hashlib.sha256)
    headers = {
        "Content-Type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": now,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
    async with (
        asyncio.timeout(SECONDS),
        rules.open_session() as session,
        session.post(rules.check(url), data=body, headers=headers, allow_redirects=False) as answer,
    ):
        return answer.status


def _rules(settings: Settings) -> Rules:
    networks = settings.webhook_networks

    def allowed(address: str) -> bool:
        return is_public(address) or any(ip_address(address) in network for network in networks)

    schemes = ("https", "http") if networks else ("https",)
    return Rules(what="the webhook", allowed=allowed, schemes=schemes, port=None)
