# SPDX-License-Identifier: Apache-2.0
"""Fuzz targets: who is admitted to the page, and which messages of a websocket reach it."""

from __future__ import annotations

from typing import Any

import msgspec
import viser._messages
from websockets.datastructures import Headers

from continuum_robot.app.view import guarded_server
from continuum_robot.app.view.admission import Admission, RefusalLog, checked_origin, checked_origins
from continuum_robot.errors import ParameterError

TOKEN = "3e9c5c3ed2b54f0fb0b3f1d6a5d0c7e1"
WRONG = TOKEN.replace("3", "4")
NAMES = ("Host", "Origin", "Cookie", "Upgrade", "host", "X")
# What a byte below 16 stands for in a header or the target, so that the fuzzer need not find it letter by letter.
WORDS = (
    "127.0.0.1:8080", "localhost:8080", "[::1]:8080", "http://", "https://", "evil.example",
    "continuum_robot_page_8080=", "token=", WRONG, "?", "robot.example", ":443", "%", "; ",
    "continuum_robot_page_=", "&",
)  # fmt: skip


def page_request(data: bytes) -> None:
    """A request of any target and headers: decided, never admitted without the token, logged in bounded lines."""
    target, *lines = _worded(data).split("\n")
    headers = [(NAMES[ord(line[0]) % len(NAMES)] if line else "X", line[1:]) for line in lines[:12]]
    lines_told: list[str] = []
    refusals = RefusalLog(lines_told.append)
    for view_only in (False, True):
        page = Admission(
            "127.0.0.1", 8080, TOKEN, allow_origins=checked_origins(["https://robot.example"]), view_only=view_only
        )
        decision = page.decide(target, headers)
        if not (TOKEN in target or any(TOKEN in value for _, value in headers)):
            assert decision.refusal is not None, (target, headers)
            assert not decision.cookie
        if decision.refusal is not None:
            refusals.note(decision.refusal, decision.who)
            assert lines_told
    assert all(line.isprintable() and len(line) < 1000 for line in lines_told)
    try:
        origin = checked_origin(target)
    except ParameterError:
        return
    assert checked_origin(origin) == origin
    Headers({"Origin": origin})  # what goes into a header has no line's end


def _worded(data: bytes) -> str:
    parts = (WORDS[byte] if byte < len(WORDS) and byte != 10 else chr(byte) for byte in data)
    return "".join(parts)


KINDS = (
    "ViewerCameraMessage", "GuiUpdateMessage", "GuiButtonHoldMessage", "ShareUrlRequest", "ShareUrlDisconnect",
    "TransformControlsUpdateMessage", "SceneNodeClickMessage", "FileTransferStartUpload", "", "type",
)  # fmt: skip


def page_message(data: bytes) -> None:
    """A message of a websocket, text or bytes: of what is let through, viser reads the kind that was admitted."""
    look = Admission("127.0.0.1", 8080, TOKEN, view_only=True)
    steer = Admission("127.0.0.1", 8080, TOKEN)
    messages: list[Any] = [data, data.decode("utf-8", "replace")]
    if data:
        kind = msgspec.msgpack.encode(KINDS[data[0] % len(KINDS)])
        # A map with the kind first, the kind last, and the kind twice.
        messages += [
            b"\x82" + _TYPE + kind + data[1:],
            b"\x82" + data[1:] + _TYPE + kind,
            b"\x82" + _TYPE + kind + _TYPE + data[1:],
        ]
    for message in messages:
        kind_seen, sound = guarded_server._read(message)
        assert isinstance(kind_seen, str)
        RefusalLog(_check_line).note(guarded_server.Refusal.MESSAGE, kind_seen)
        if sound and (look.takes(kind_seen) or steer.takes(kind_seen)):
            read, updates = _as_viser_reads(message)
            assert read is None or read == kind_seen, (read, kind_seen)
            assert read != "GuiUpdateMessage" or set(updates) == {"value"}
            assert not look.takes(kind_seen) or read in (None, "ViewerCameraMessage")


_TYPE = msgspec.msgpack.encode("type")


def _check_line(line: str) -> None:
    assert line.isprintable()
    assert len(line) < 1000


def _as_viser_reads(message: Any) -> tuple[str | None, Any]:
    """The class of message that viser makes of it, as its loop does, and its updates; None: it ends the connection."""
    if not isinstance(message, bytes):
        return None, None
    try:
        read = viser._messages.Message.deserialize(message)
    except Exception:  # it ends this one connection
        return None, None
    return type(read).__name__, getattr(read, "updates", None)
