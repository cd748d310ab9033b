# SPDX-License-Identifier: Apache-2.0
"""Who may open the page and what it takes from whom: the decisions, then viser's own server behind the guard."""

from __future__ import annotations

import contextlib
import http.client
import math
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("viser", reason="viser is not installed: the page needs the extra viz")

import msgspec
import viser
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from continuum_robot.app.view import guarded_server
from continuum_robot.app.view.admission import (
    Admission,
    Decision,
    Refusal,
    RefusalLog,
    checked_origin,
    checked_origins,
    cookie_name,
)
from continuum_robot.app.view.guarded_server import HOST, serve
from continuum_robot.errors import DeviceError, ParameterError

TOKEN, OLD = "the-token-of-this-start", "the-token-of-an-earlier-one"
OWN, EVIL = "127.0.0.1:8080", "https://evil.example"
COOKIE = ("Cookie", f"other=1; continuum_robot_page_8080={TOKEN}")
LONG_S = 120.0

# The decisions


def admission(*origins: str, view_only: bool = False) -> Admission:
    return Admission("127.0.0.1", 8080, TOKEN, allow_origins=checked_origins(origins), view_only=view_only)


@pytest.mark.parametrize(
    ("headers", "refusal"),
    [
        ([("Host", "evil.example:8080"), COOKIE], Refusal.HOST),  # DNS rebinding
        ([("Host", "127.0.0.1"), COOKIE], Refusal.HOST),
        ([("Host", "127.0.0.1:8081"), COOKIE], Refusal.HOST),
        ([("Host", "127.0.0.1:8080.evil.example"), COOKIE], Refusal.HOST),
        ([("Host", "localhost.:8080"), COOKIE], Refusal.HOST),
        ([("Host", OWN), ("Host", "evil.example"), COOKIE], Refusal.HOST),
        ([COOKIE], Refusal.HOST),
        ([("Host", OWN), ("Origin", EVIL), COOKIE], Refusal.ORIGIN),
        ([("Host", OWN), ("Origin", "null"), COOKIE], Refusal.ORIGIN),
        ([("Host", OWN), ("Origin", ""), COOKIE], Refusal.ORIGIN),
        ([("Host", OWN), ("Origin", "http://127.0.0.1:3000"), COOKIE], Refusal.ORIGIN),  # the same site, for browsers
        ([("Host", OWN), ("Origin", "https://127.0.0.1:8080"), COOKIE], Refusal.ORIGIN),
        ([("Host", OWN), ("Origin", f"http://{OWN}"), ("Origin", EVIL), COOKIE], Refusal.ORIGIN),
        ([("Host", OWN)], Refusal.NO_TOKEN),
        ([("Host", OWN), ("Cookie", f"continuum_robot_page_8081={TOKEN}")], Refusal.NO_TOKEN),
        ([("Host", OWN), ("Cookie", f"continuum_robot_page_8080={OLD}")], Refusal.WRONG_TOKEN),
        ([("Host", OWN), ("Cookie", f"continuum_robot_page_8080={TOKEN[:-1]}")], Refusal.WRONG_TOKEN),
        ([("Host", OWN), ("Cookie", "continuum_robot_page_8080=")], Refusal.WRONG_TOKEN),
        ([("Host", OWN), COOKIE], None),
        ([("host", "LOCALHOST:8080"), COOKIE], None),
        ([("Host", "[::1]:8080"), ("Origin", "http://[::1]:8080"), COOKIE], None),
        ([("Host", OWN), ("Origin", "http://localhost:8080"), ("Cookie", "a=b"), COOKIE], None),
        ([("Host", OWN), ("Cookie", f"continuum_robot_page_8080={OLD}"), COOKIE], None),
    ],
)
def test_host_origin_and_cookie_decide(headers: list[tuple[str, str]], refusal: Refusal | None) -> None:
    assert admission().decide("/", headers).refusal is refusal


@pytest.mark.parametrize(
    ("target", "refusal"),
    [
        (f"/?token={TOKEN}", None),
        (f"/?token={OLD}", Refusal.WRONG_TOKEN),
        ("/?token=", Refusal.WRONG_TOKEN),
        (f"/{TOKEN}", Refusal.NO_TOKEN),
        (f"/?Token={TOKEN}", Refusal.QUERY),
        (f"/?token={TOKEN}&websocket=wss://evil.example", Refusal.QUERY),  # the page would listen to another server
        (f"/?token={TOKEN}&playbackPath=https://evil.example/x", Refusal.QUERY),
        (f"http://evil.example/?token={TOKEN}", Refusal.HOST),
    ],
)
def test_the_address_with_the_token_decides(target: str, refusal: Refusal | None) -> None:
    decision = admission().decide(target, [("Host", OWN)])
    assert decision.refusal is refusal
    if refusal is None:
        assert decision.cookie == f"continuum_robot_page_8080={TOKEN}; Path=/; HttpOnly; SameSite=Strict"


def test_an_allowed_origin_may_ask_under_its_host_and_needs_the_token_too() -> None:
    page = admission("HTTPS://Robot.Example", "http://127.0.0.1:9000")
    kept = ("Cookie", f"{cookie_name('robot.example')}={TOKEN}")
    for host in ("robot.example", "robot.example:443"):
        asked = [("Host", host), ("Origin", "https://robot.example")]
        assert page.decide("/", asked).refusal is Refusal.NO_TOKEN
        named = ("Cookie", f"{cookie_name(host)}={TOKEN}")
        assert page.decide("/", [*asked, named]) == Decision()
    assert page.decide("/", [("Host", "robot.example:80"), kept]).refusal is Refusal.HOST
    assert page.decide("/", [("Host", OWN), ("Origin", "http://robot.example"), COOKIE]).refusal is Refusal.ORIGIN
    assert page.decide("/", [("Host", "127.0.0.1:9000"), ("Cookie", f"{cookie_name(':9000')}={TOKEN}")]) == Decision()


TEXT = st.text("aZ0-_=;,:/.?&%[]\\ \t\r\n\x00é٣\udcff", max_size=30)
NAMES = st.sampled_from(["Host", "Origin", "Cookie", "cookie", "Upgrade"]) | TEXT
VALUES = st.sampled_from([OWN, EVIL, f"http://{OWN}", f"continuum_robot_page_8080={OLD}", "=;=;"]) | st.text(
    max_size=30
)


@settings(max_examples=4 * settings().max_examples)
@given(target=TEXT | TEXT.map("/?{}".format), headers=st.lists(st.tuples(NAMES, VALUES), max_size=6))
@example(target="/?token=%FF%zz\udcff", headers=[("Host", OWN), ("Cookie", "continuum_robot_page_8080=\udcff")])
def test_whatever_is_sent_nobody_gets_in_without_the_token(target: str, headers: list[tuple[str, str]]) -> None:
    assert admission().decide(target, headers).refusal is not None


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
        ("https://Robot.Example", "https://robot.example"),
        ("https://robot.example:443", "https://robot.example"),
        ("http://[0:0::1]:8080", "http://[::1]:8080"),
    ],
)
def test_origins_are_written_as_browsers_do(text: str, origin: str) -> None:
    assert checked_origin(text) == origin


@pytest.mark.parametrize(
    "text",
    [
        "", "*", "null", "robot.example", "ws://robot.example", "http://", "http://robot.example/", "http://a b",
        "http://u:p@robot.example", "http://robot.example:0", "http://robot.example:65536", "http://robot.example:٣",
        "http://[::g]", "http://[1:2]", "http://robot.example?x", "http://*.example", "http://\u212aobot.example",
    ],
)  # fmt: skip
def test_what_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="--allow-origin"):
        checked_origin(text)


def test_only_the_place_of_the_camera_is_taken_from_onlookers() -> None:
    kinds = {kind.__name__ for kind in viser._messages.Message.get_subclasses()}
    assert {"GuiUpdateMessage", "TransformControlsUpdateMessage", "ShareUrlRequest"} <= kinds
    onlookers, users = admission(view_only=True), admission()
    assert {kind for kind in kinds if onlookers.takes(kind)} == {"ViewerCameraMessage"}
    assert {kind for kind in kinds if not users.takes(kind)} == {"ShareUrlRequest", "ShareUrlDisconnect"}
    assert not onlookers.takes("")


def test_each_refusal_is_told_once_and_so_many_at_most() -> None:
    lines: list[str] = []
    log = RefusalLog(lines.append)
    for _ in range(100):
        log.note(Refusal.ORIGIN, EVIL)
    assert len(lines) == 1
    assert "'https://evil.example'" in lines[0]
    log.note(Refusal.HOST, "a\x1b[31m\nforged line" + 9000 * "x")
    assert len(lines) == 2
    assert lines[1].isprintable()
    assert len(lines[1]) < 300
    for number in range(1000):
        log.note(Refusal.NO_TOKEN, f"https://{number}.example")
    assert len(lines) < 15
    assert log.count == 1101


# viser's server behind the guard


class Served:
    """A page with one button, and everything that became of it."""

    def __init__(self, *, view_only: bool = False, token: str = TOKEN) -> None:
        self.lines: list[str] = []
        self.connections: list[Any] = []
        self.pressed: list[Any] = []
        self.shared: list[Any] = []
        self.token = token
        self.server = serve(0, "test", token, RefusalLog(self.lines.append), view_only=view_only)
        self.port = self.server.get_port()
        self.server._websock_server.on_client_connect(self.connections.append)
        self.server.request_share_url = lambda *_arguments: self.shared.append(1)
        self.button = self.server.gui.add_button("move the robot")
        self.button.on_click(self.pressed.append)

    def cookie(self, token: str = "") -> dict[str, str]:
        return {"Cookie": f"{cookie_name(f':{self.port}')}={token or self.token}"}

    def get(self, path: str = "/", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=LONG_S)
        connection.request("GET", path, headers=headers)
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        return reply, body

    def join(self, path: str = "/", host: str = "", **headers: str) -> ClientConnection:
        """A websocket, with headers as they like."""
        host = host or f"{HOST}:{self.port}"
        return connect(
            f"ws://{host}{path}", sock=socket.create_connection((HOST, self.port)), additional_headers=headers,
            subprotocols=[f"viser-v{viser.__version__}"], max_size=None, compression=None,
            max_queue=None, open_timeout=LONG_S,
        )  # fmt: skip

    def press(self, page: ClientConnection) -> None:
        uuid = self.button._impl.uuid
        send(page, type="GuiUpdateMessage", uuid=uuid, updates={"value": True})


def send(page: ClientConnection, **message: Any) -> None:
    page.send(msgspec.msgpack.encode(message))


def look(page: ClientConnection) -> None:
    """Where it looks from: with it viser counts a browser as one."""
    send(
        page, type="ViewerCameraMessage", wxyz=(1.0, 0.0, 0.0, 0.0), position=(1.0, 1.0, 1.0), fov=1.0, near=0.01,
        far=100.0, image_height=800, image_width=1280, look_at=(0.0, 0.0, 0.0), up_direction=(0.0, 0.0, 1.0),
    )  # fmt: skip


def wait(condition: Callable[[], Any], what: str) -> None:
    end_s = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < end_s, what
        time.sleep(0.01)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    page = Served()
    yield page
    page.server.stop()


@pytest.fixture(scope="module")
def looked_at() -> Iterator[Served]:
    page = Served(view_only=True)
    yield page
    page.server.stop()


def intruders(page: Served) -> dict[str, dict[str, str]]:
    """Requests of those who may not, by what is known of them: all but what is wrong is right."""
    return {
        "the host 'evil.example:": {"host": f"evil.example:{page.port}", **page.cookie()},
        EVIL: {"Origin": EVIL, **page.cookie()},
        "without the token": {"Origin": f"http://{HOST}:{page.port}"},
        "not the one of this start": page.cookie(OLD),
    }


def test_intruders_are_refused_before_viser_sees_them_and_told_once(served: Served) -> None:
    served.lines.clear()
    before = len(served.connections)
    for headers in intruders(served).values():
        for _ in range(3):
            reply, body = served.get(**headers)
            assert reply.status == 403
            assert b"<html" not in body
            assert reply.getheader("Set-Cookie") is None
            with pytest.raises(InvalidStatus, match="403"):
                served.join(**headers)
    assert len(served.connections) == before
    assert len(served.lines) == 4
    for words in intruders(served):
        assert len([line for line in served.lines if words in line]) == 1
    assert not any(TOKEN in line or OLD in line for line in served.lines)


def test_printed_address_gives_a_cookie_with_which_page_and_websocket_open(served: Served) -> None:
    reply, body = served.get(f"/?token={TOKEN}")
    assert reply.status == 200
    assert TOKEN.encode() not in body
    assert b'url=./"' in body
    kept = str(reply.getheader("Set-Cookie"))
    assert {"HttpOnly", "SameSite=Strict"} <= {part.strip() for part in kept.split(";")}
    cookie = {"Cookie": kept.partition(";")[0]}
    reply, body = served.get("/", **cookie)
    assert reply.status == 200
    assert b"<html" in body
    assert reply.getheader("X-Frame-Options") == "DENY"
    assert reply.getheader("Cache-Control") == "no-store"
    assert reply.getheader("Access-Control-Allow-Origin") is None
    with served.join(**cookie, Origin=f"http://{HOST}:{served.port}") as page:
        look(page)
        served.press(page)
        wait(lambda: served.pressed, "the button does nothing")


def test_program_may_give_the_token_in_the_address_of_the_websocket(served: Served) -> None:
    before = len(served.connections)
    with served.join(f"/?token={TOKEN}") as page:
        look(page)
        wait(lambda: len(served.connections) > before, "it is not admitted")


def test_token_of_an_earlier_start_is_refused(served: Served) -> None:
    later = Served(token=OLD)
    try:
        assert later.get(**later.cookie())[0].status == 200
        assert later.get(**later.cookie(TOKEN))[0].status == 403
    finally:
        later.server.stop()
    assert served.get(**served.cookie(OLD))[0].status == 403


def test_forged_messages_reach_nothing_of_a_page_that_is_only_looked_at(looked_at: Served) -> None:
    with looked_at.join(**looked_at.cookie()) as page:
        for _ in range(3):
            looked_at.press(page)
            send(page, type="ShareUrlRequest")
            send(page, type="TransformControlsUpdateMessage", name="/target", wxyz=(1, 0, 0, 0), position=(9, 9, 9))
            page.send(b"\xc1 no message")
            page.send("text")
        look(page)  # comes last: what was sent before is through
        wait(looked_at.server.get_clients, "who only looks is not seen")
    assert looked_at.pressed == []
    assert looked_at.shared == []
    assert looked_at.button.value is False
    assert len([line for line in looked_at.lines if "'GuiUpdateMessage'" in line]) == 1
    assert len(looked_at.lines) == 4


@pytest.mark.parametrize(
    "updates",
    [
        {"update_cb": []},  # nobody's press would be heard any more
        {"value": True, "update_cb": []},
        {"disabled": True},
        {},
        5,
        {"value": math.nan},
        {"value": [0.0, math.inf]},
    ],
)
def test_a_browser_sets_values_that_are_finite_and_nothing_else(updates: Any) -> None:
    page_of_robot = Served()
    slider = page_of_robot.server.gui.add_slider("bend", min=0.0, max=1.0, step=0.1, initial_value=0.5)
    try:
        with page_of_robot.join(**page_of_robot.cookie()) as page:
            look(page)
            wait(page_of_robot.server.get_clients, "who looks is not seen")
            for handle in (page_of_robot.button, slider):
                send(page, type="GuiUpdateMessage", uuid=handle._impl.uuid, updates=updates)
            page_of_robot.press(page)
            wait(lambda: page_of_robot.pressed, "the press was not heard")
        assert slider.value == 0.5
        assert not page_of_robot.button.disabled
        (line,) = page_of_robot.lines
        assert "GuiUpdateMessage with more or other than finite values" in line
    finally:
        page_of_robot.server.stop()


@given(data=st.binary(max_size=40) | st.text(max_size=5))
@example(data=msgspec.msgpack.encode({"type": ["GuiUpdateMessage"]}))
@example(data=b"\x81\x90\x01")
@example(data=500 * b"\x91" + b"\x01")
def test_what_is_no_message_of_viser_has_no_kind(data: bytes | str) -> None:
    assert guarded_server._read(data) == ("", True)


def test_page_is_never_shared_through_a_server_on_the_internet(served: Served) -> None:
    served.pressed.clear()
    with served.join(**served.cookie()) as page:
        look(page)
        send(page, type="ShareUrlRequest")
        served.press(page)
        wait(lambda: served.pressed, "the button does nothing")
    assert served.shared == []


def test_bytes_that_are_no_request_end_nothing_and_are_no_traceback(
    served: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    for data in (b"\x00\xff\r\n\r\n", b"GET / HTTP/0.9\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b""):
        with socket.create_connection((HOST, served.port), timeout=LONG_S) as raw:
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(4096):
                pass
    assert served.get(**served.cookie())[0].status == 200
    assert "Traceback" not in capfd.readouterr().err


def test_viser_that_does_not_take_the_guard_serves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[bool] = []

    class Other:
        def __init__(self, **_options: Any) -> None:
            pass

        def stop(self) -> None:
            stopped.append(True)

    monkeypatch.setattr(guarded_server.viser, "ViserServer", Other)
    with pytest.raises(DeviceError, match="cannot be guarded"):
        serve(0, "test", TOKEN, RefusalLog(print))
    assert stopped == [True]


def test_idle_connections_without_the_token_end_the_oldest_first_and_are_told_once(
    served: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    before = len(served.lines)
    idle = [socket.create_connection((HOST, served.port), timeout=LONG_S) for _ in range(200)]
    with contextlib.ExitStack() as open_ones:
        for one in idle:
            open_ones.enter_context(one)
        for one in idle[:100]:  # the server ends them, no time has to run out
            with contextlib.suppress(ConnectionResetError):
                assert one.recv(1) == b""
        assert served.get(**served.cookie())[0].status == 200
        served.pressed.clear()
        with served.join(**served.cookie()) as page:
            look(page)
            served.press(page)
            wait(lambda: served.pressed, "a user does not get in beside them")
    assert [line for line in served.lines[before:] if "without the token" in line] == served.lines[before:]
    assert len(served.lines) == before + 1
    assert "Traceback" not in capfd.readouterr().err


def test_a_message_longer_than_a_browser_sends_ends_its_connection_and_no_other(
    served: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    before = len(served.lines)
    served.pressed.clear()
    with served.join(**served.cookie()) as user, served.join(**served.cookie()) as page:
        look(user)
        with contextlib.suppress(ConnectionClosed):
            page.send(bytes(2**17))
            while True:
                page.recv(timeout=LONG_S)
        assert page.close_code == 1009
        served.press(user)
        wait(lambda: served.pressed, "the other page is ended too")
    assert [line for line in served.lines[before:] if "longer" not in line] == []
    assert "Traceback" not in capfd.readouterr().err
