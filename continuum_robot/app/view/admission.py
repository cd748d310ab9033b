# SPDX-License-Identifier: Apache-2.0
"""Who is admitted to the page, and which messages it takes: decides by host, origin and token, and serves nothing."""

from __future__ import annotations

import enum
import hmac
import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl

from continuum_robot.errors import ParameterError

TOKEN = "token"
"""Name of the query's parameter."""
COOKIE = "continuum_robot_page_"
"""Name of the cookie without the port, of which cookies by themselves know nothing."""

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_ORIGIN = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(?::([0-9]{1,5}))?")
_PORT = {"http": 80, "https": 443}
# Where a browser looks from; it changes nothing but what the page draws for it.
_OF_ONLOOKERS = frozenset({"ViewerCameraMessage"})
# Viser would join the page to a server on the internet, for everybody who knows its address there.
_OF_NOBODY = frozenset({"", "ShareUrlRequest", "ShareUrlDisconnect"})
_LINES_A_KIND = 8
_SHOWN = 80


class Refusal(enum.Enum):
    """Why something is refused."""

    HOST = "host"
    ORIGIN = "origin"
    QUERY = "query"
    NO_TOKEN = "no token"
    WRONG_TOKEN = "wrong token"
    MESSAGE = "message"
    SIZE = "size"
    WAITING = "waiting"


_LOG = {
    Refusal.HOST: "it asked for the host {who}, under which this page is not served (--allow-origin allows more)",
    Refusal.ORIGIN: "it came from a web page of {who} (--allow-origin allows more)",
    Refusal.QUERY: "its address had more than the token behind the question mark (origin: {who})",
    Refusal.NO_TOKEN: "it came without the token of the printed address (origin: {who})",
    Refusal.WRONG_TOKEN: "its token is not the one of this start (origin: {who})",
    Refusal.MESSAGE: "this page takes no message of the kind {who}",
    Refusal.SIZE: "a message was longer than a browser's can be, and its connection was closed",
    Refusal.WAITING: "too many connections without the token were open, and the oldest was closed",
}
SENTENCES = {
    Refusal.HOST: "This page is not served under this host name.",
    Refusal.ORIGIN: "This page takes no requests of other web pages.",
    Refusal.QUERY: "Only the token may stand behind the question mark of this page's address.",
    Refusal.NO_TOKEN: "Open the address that continuum-robot printed when it started: it ends with a token.",
    Refusal.WRONG_TOKEN: "This token is of an earlier start. Open the address that continuum-robot printed last.",
}
"""What a browser that is refused shows."""


@dataclass(frozen=True)
class Decision:
    """What becomes of a request."""

    refusal: Refusal | None = None
    who: str = ""
    cookie: str = ""


def checked_origin(text: str) -> str:
    """An origin as browsers write it: lower case, without the scheme's own port."""
    expected = "an origin: http or https, ://, a host, and where it is not the scheme's own a port; nothing behind it"
    match = _ORIGIN.fullmatch(text.lower()) if text.isascii() else None
    if match is None:
        raise ParameterError("--allow-origin", text, expected)
    scheme, host, port = match[1], match[2], int(match[3] or _PORT[match[1]])
    if not 1 <= port <= 65535:
        raise ParameterError("--allow-origin", text, "a port from 1 to 65535")
    if host.startswith("["):
        try:
            host = f"[{ipaddress.IPv6Address(host[1:-1])}]"
        except ValueError:
            raise ParameterError("--allow-origin", text, expected) from None
    return f"{scheme}://{host}" if port == _PORT[scheme] else f"{scheme}://{host}:{port}"


def checked_origins(texts: Iterable[str] | None) -> tuple[str, ...]:
    """Several origins, each as :func:`checked_origin` writes it."""
    return tuple(checked_origin(text) for text in texts or ())


class Admission:
    """Decides on requests and messages of one page."""

    def __init__(
        self, host: str, port: int, token: str, *, allow_origins: Sequence[str] = (), view_only: bool = False
    ) -> None:
        names = _LOOPBACK if host in _LOOPBACK else (host,)
        self._origins = frozenset(checked_origins([*(f"http://{name}:{port}" for name in names), *allow_origins]))
        self._hosts = frozenset(host for origin in self._origins for host in _hosts_of(origin))
        self._token = token.encode()
        self._view_only = view_only

    def decide(self, target: str, headers: Sequence[tuple[str, str]]) -> Decision:
        """What becomes of a request, of HTTP or for a websocket."""
        hosts, origins = _values(headers, "host"), _values(headers, "origin")
        host = hosts[0].lower() if len(hosts) == 1 else ""
        if host not in self._hosts or not target.startswith("/"):
            return Decision(Refusal.HOST, ", ".join(hosts))
        who = ", ".join(origins)
        # A browser names the page that opens a websocket, and cannot be kept from it; a program need not.
        if origins and who not in self._origins:
            return Decision(Refusal.ORIGIN, who)
        # Others of the page's parameters would have it listen to another server.
        query = parse_qsl(target.partition("?")[2], keep_blank_values=True)
        if any(name != TOKEN for name, _ in query):
            return Decision(Refusal.QUERY, who)
        name = cookie_name(host)
        kept = [value for text in _values(headers, "cookie") for key, value in _cookies(text) if key == name]
        given = [value for _, value in query]
        if self._knows([*given, *kept]):
            cookie = f"{name}={self._token.decode()}; Path=/; HttpOnly; SameSite=Strict"
            return Decision(cookie=cookie if given else "")
        return Decision(Refusal.WRONG_TOKEN if given or kept else Refusal.NO_TOKEN, who)

    def takes(self, kind: str) -> bool:
        """Whether a message of this kind reaches the page."""
        return kind in _OF_ONLOOKERS if self._view_only else kind not in _OF_NOBODY

    def _knows(self, candidates: list[str]) -> bool:
        """Whether one of them is the token; how long it takes reports nothing of how much of it is right."""
        same = [hmac.compare_digest(text.encode("utf-8", "surrogateescape"), self._token) for text in candidates]
        return any(same)


class RefusalLog:
    """Reports each kind of refusal once for each who was refused, and of so many at most; counts them all."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._logged: dict[Refusal, set[str]] = {}
        self.count = 0

    def note(self, kind: Refusal, who: str) -> None:
        """One refusal."""
        self.count += 1
        logged = self._logged.setdefault(kind, set())
        shown = ascii(who[:_SHOWN]) if who else "none"
        if shown in logged or len(logged) > _LINES_A_KIND:
            return
        logged.add(shown)
        if len(logged) > _LINES_A_KIND:
            self._tell(f"Refused again and again: {kind.value}. Further ones are counted, not logged.")
        else:
            self._tell(f"Refused: {_LOG[kind].format(who=shown)}.")


def cookie_name(host: str) -> str:
    """Name of the cookie under which the browser keeps the token: pages on other ports have their own."""
    port = host.rpartition(":")[2]
    return COOKIE + (port if port.isdecimal() else "")


def _hosts_of(origin: str) -> tuple[str, ...]:
    """What the header Host may be for an origin: the scheme's own port need not be reported."""
    scheme, _, host = origin.partition("://")
    return (host,) if re.search(r":[0-9]+$", host) else (host, f"{host}:{_PORT[scheme]}")


def _values(headers: Sequence[tuple[str, str]], desired: str) -> list[str]:
    return [value.strip() for name, value in headers if name.lower() == desired]


def _cookies(text: str) -> list[tuple[str, str]]:
    pairs = (part.partition("=") for part in text.split(";"))
    return [(name.strip(), value.strip()) for name, _, value in pairs]
