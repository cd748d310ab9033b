# SPDX-License-Identifier: Apache-2.0
"""The page's server: viser, with a guard before it that lets nobody and nothing through but what was admitted."""

from __future__ import annotations

import asyncio
import contextlib
import http
import io
import logging
import math
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import msgspec
import viser
import websockets.asyncio.server
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosedError
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from continuum_robot.app.view.admission import SENTENCES, Admission, Refusal, RefusalLog, checked_origins
from continuum_robot.errors import DeviceError

HOST = "127.0.0.1"
FIRST_PORT = 8080
_PORTS = 50
# The browser goes on to the page by itself: the token stays neither in its address nor in the history. A redirect would
# not do, since the cookie of a page that was opened from another one (a chat, a mail) is not sent along with it.
_WELCOME = '<!doctype html><html><head><meta http-equiv="refresh" content="0; url=./"></head><body></body></html>\n'
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # nobody puts the page into his own, under the user's mouse
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
# Of messages of a browser the longest, that of a camera, takes some hundred bytes.
_LONGEST_MESSAGE = 2**16
# Connections that have not shown the token yet; a browser shows it within milliseconds.
_MOST_WAITING = 64
_SERVE_LOCK = threading.Lock()

ProcessRequest = Callable[[ServerConnection, Request], Awaitable[Response | None] | Response | None]


def serve(
    port: int,
    label: str,
    token: str,
    refusals: RefusalLog,
    *,
    allow_origins: Sequence[str] = (),
    view_only: bool = False,
) -> viser.ViserServer:
    """Start the server at 127.0.0.1."""
    guard = _Guard(token, refusals, checked_origins(allow_origins), view_only)
    # viser greets with a box of its own on stdout; the command prints the address.
    with contextlib.redirect_stdout(io.StringIO()), guard.before_viser():
        server = viser.ViserServer(host=HOST, port=port or _free_port(), label=label, verbose=False)
        if not guard.stands:
            server.stop()
            remedy = "Install the version of viser that pyproject.toml names"
            raise DeviceError("view", f"viser {viser.__version__} cannot be guarded", remedy)
    return server


class _Guard:
    """Stands between the sockets and viser, which by itself admits everybody.

    viser leaves no place for a check before its own, so it is handed another function to serve with.
    """

    def __init__(self, token: str, refusals: RefusalLog, allow_origins: Sequence[str], view_only: bool) -> None:
        self._token, self._refusals, self._origins, self._view_only = token, refusals, allow_origins, view_only
        self.stands = False
        self._waiting: dict[ServerConnection, None] = {}  # without the token until now, the oldest first

    @contextlib.contextmanager
    def before_viser(self) -> Iterator[None]:
        """While a server of viser is made."""
        module: Any = websockets.asyncio.server
        with _SERVE_LOCK:
            plain = module.serve

            def guarded(handler: Any, host: str, port: int, **options: Any) -> Any:
                self.stands = True
                admission = Admission(host, port, self._token, allow_origins=self._origins, view_only=self._view_only)
                return plain(
                    handler, host, port,
                    **options | {
                        "process_request": self._requests(admission, options.get("process_request")),
                        "create_connection": self._connections(admission),
                        "logger": _quiet_logger(),
                        "max_size": _LONGEST_MESSAGE,
                    },
                )  # fmt: skip

            module.serve = guarded
            try:
                yield
            finally:
                module.serve = plain

    def _requests(self, admission: Admission, viser_answers: ProcessRequest | None) -> ProcessRequest:
        def answer(connection: ServerConnection, request: Request) -> Any:
            decision = admission.decide(request.path, list(request.headers.raw_items()))
            if decision.refusal is not None:
                self._refusals.note(decision.refusal, decision.who)
                sentence = SENTENCES[decision.refusal]
                return _with_headers(connection.respond(http.HTTPStatus.FORBIDDEN, f"{sentence}\n"))
            self._waiting.pop(connection, None)
            if decision.cookie and "Upgrade" not in request.headers:
                response = connection.respond(http.HTTPStatus.OK, _WELCOME)
                del response.headers["Content-Type"]
                response.headers["Content-Type"] = "text/html; charset=utf-8"
                response.headers["Set-Cookie"] = decision.cookie
                return _with_headers(response)
            answered = None if viser_answers is None else viser_answers(connection, request)
            return _with_headers(answered) if isinstance(answered, Response) else answered

        return answer

    def _connections(self, admission: Admission) -> type[ServerConnection]:
        refusals, waiting = self._refusals, self._waiting

        class GuardedConnection(ServerConnection):
            """Hands on only messages that the page takes; of too many that wait without the token the oldest ends."""

            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                waiting[self] = None
                if len(waiting) > _MOST_WAITING:
                    oldest = next(iter(waiting))
                    del waiting[oldest]
                    oldest.transport.abort()
                    refusals.note(Refusal.WAITING, "")

            def connection_lost(self, exc: Exception | None) -> None:
                waiting.pop(self, None)
                super().connection_lost(exc)

            async def recv(self, decode: bool | None = None) -> Any:
                while True:
                    try:
                        message = await super().recv(decode)
                    except ConnectionClosedError as error:
                        if error.sent is not None and error.sent.code == CloseCode.MESSAGE_TOO_BIG:
                            refusals.note(Refusal.SIZE, "")
                        raise
                    kind, sound = _read(message)
                    if sound and admission.takes(kind):
                        return message
                    refusals.note(Refusal.MESSAGE, kind if sound else f"{kind} with more or other than finite values")

        return GuardedConnection


def _with_headers(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers[name] = value
    return response


def _read(message: Any) -> tuple[str, bool]:
    """Name of viser's message, empty where it is none, and whether it holds what a browser sends.

    Of an element a browser sets the value alone; viser would set whatever is named, also who learns of a press. A
    number that is not finite would become a reference. Where a browser looks from concerns that browser alone.
    """
    try:
        content = msgspec.msgpack.decode(message)
        kind = content["type"]
    except (msgspec.MsgspecError, TypeError, LookupError, ValueError, RecursionError):
        return "", True
    if not isinstance(kind, str):
        return "", True
    if kind == "GuiUpdateMessage":
        updates = content.get("updates")
        if not isinstance(updates, dict) or set(updates) != {"value"}:
            return kind, False
    return kind, kind == "ViewerCameraMessage" or _are_finite(content)


def _are_finite(content: Any) -> bool:
    """Whether all numbers in nested lists and mappings are finite."""
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return False
        if isinstance(value, (dict, list)):
            waiting.extend(value.values() if isinstance(value, dict) else value)
    return True


def _quiet_logger() -> logging.Logger:
    """For websockets, which would write a traceback for everyone who sends no proper request."""
    logger = logging.Logger("continuum_robot.page")
    logger.parent = logging.getLogger()
    logger.addFilter(lambda record: record.getMessage() != "opening handshake failed")
    return logger


def _free_port() -> int:
    for port in range(FIRST_PORT, FIRST_PORT + _PORTS):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise DeviceError("view", f"no port from {FIRST_PORT} on is free", "Name one with --port")
