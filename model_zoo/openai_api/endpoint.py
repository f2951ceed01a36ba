"""Where a model is served, the proxy on the way, and failure texts without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from typing import Self
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

from mmconv.core.config import ModelSpec, secret
from mmconv.core.errors import ConfigError

_SHORTEST_SECRET = 8
"""Characters; keys of local servers may be shorter, and are then not removed from texts."""

_LONGEST_EXCERPT = 500
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")

_LOCAL_NAMES = frozenset({"localhost", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of a model; `key_env` names the variable that the key was read from.

    `named` is the URL as in the model's file, with variables of the environment in it. `headers`
    and `query` go with every request; `secrets` are the values in them from the environment.
    `ending` is how the URL of such a server usually ends.
    """

    url: str
    model: str
    named: str = ""
    key_env: str | None = None
    key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    ending: str = "/v1"

    @classmethod
    def of(cls, spec: ModelSpec, url: str, variable: str | None) -> Self:
        """The server of a model, at `url` unless its file has one; raises `ConfigError`."""
        return cls(
            url=find_url(spec, url),
            model=spec.model,
            named=spec.base_url or "",
            key_env=variable,
            key=_key(spec, variable).strip() or None,
        )

    @property
    def address(self) -> str:
        """The URL without values from the environment."""
        return self.named or self.url

    @property
    def signed(self) -> dict[str, str]:
        """The headers, with the key if there is one."""
        key = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        return {**self.headers, **key}

    def excerpt(self, text: str | bytes) -> str:
        """The text of a failure, on one line, cut short and without secrets.

        Secrets are the key and all values from the environment. Replies stay as they are.
        """
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        # one may be a part of another
        for value in sorted({self.key or "", *self.secrets}, key=len, reverse=True):
            if len(value) >= _SHORTEST_SECRET:
                pattern = "".join(map(_in_any_form, value))
                text = re.sub(pattern, "[key]", text, flags=re.IGNORECASE)
        for part in self._unnamed():
            # a host may be a short word, so only whole words count
            begins = "" if part.startswith("/") else r"(?<![\w.-])"
            text = re.sub(rf"{begins}{re.escape(part)}(?![\w-])", lambda _: self.named, text)
        return " ".join(text[: 100 * _LONGEST_EXCERPT].split())[:_LONGEST_EXCERPT]

    def _unnamed(self) -> Iterator[str]:
        if self.named:
            parts = urlsplit(self.url)
            for part in (self.url, parts.netloc, parts.hostname, parts.path):
                if part and part not in self.named:
                    yield part


def _in_any_form(sign: str) -> str:
    if sign.isascii() and sign.isalnum():
        return sign
    number = ord(sign)
    encoded = {quote(sign, ""), escape(sign)}
    if sign == " ":
        encoded.add("+")
    forms = [
        # JSON that is quoted in JSON has more backslashes
        rf"\\{{0,3}}{re.escape(sign)}",
        rf"\\{{1,3}}u{number:04x}",
        f"&#(?:0*{number}|x0*{number:x});",
        # a second way to match the same would take time without end
        *(re.escape(form) for form in sorted(encoded - {sign})),
    ]
    return f"(?:{'|'.join(forms)})"


def find_proxy(url: str) -> str | None:
    """The proxy (HTTP_PROXY, HTTPS_PROXY) for a URL; None if NO_PROXY names its host.

    Servers on this machine are never reached through one. Raises `ConfigError` for a proxy that
    does not speak HTTP.
    """
    server = urlsplit(url)
    host = server.hostname or ""
    is_local = host in _LOCAL_NAMES or host.startswith("127.")
    proxy = None if is_local or proxy_bypass(host) else getproxies().get(server.scheme)
    if proxy is None:
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    parts = urlsplit(proxy)
    with suppress(ValueError):  # for a port that is not a number
        parts.port  # noqa: B018
        if parts.scheme in {"http", "https"} and parts.hostname:
            return proxy
    raise ConfigError(
        f"environment variable {server.scheme.upper()}_PROXY: expected the address of an HTTP "
        "proxy, such as http://host:3128"
    )


def _key(spec: ModelSpec, variable: str | None) -> str:
    try:
        return secret(variable) or ""
    except ConfigError:
        if variable is None or _VARIABLE.fullmatch(variable):
            raise
        raise ConfigError(
            f"model {spec.label}: api_key_env must name a variable; its value may be the "
            "key itself and is not shown; name the variable that holds the key"
        ) from None


def find_url(spec: ModelSpec, default: str) -> str:
    """The address of a model's server; raises `ConfigError` for one that no server can have."""
    url = spec.address
    if url is None:
        return default
    wrong = ConfigError(f"model {spec.label}: base_url must be like http://host:8000/v1")
    try:
        address = urlsplit(url)
        if address.scheme not in {"http", "https"} or not address.hostname or address.port == 0:
            raise wrong
    except ValueError as error:
        raise wrong from error
    if address.username or address.password or address.query:
        raise ConfigError(
            f"model {spec.label}: base_url must not hold a user, password or query; name the "
            "key's variable in api_key_env, and set the query in options.query"
        )
    return url.rstrip("/")
