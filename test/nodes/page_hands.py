# SPDX-License-Identifier: Apache-2.0
"""Two hands for the page: one sends the messages of a browser, the other moves a mouse in Chromium."""

from __future__ import annotations

import json
import math
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec
import numpy as np
import pytest
import viser
from pages.browser import Browser
from viser import TransformControlsHandle
from viser.transforms import SO3
from websockets.sync.client import ClientConnection, connect

from continuum_robot.app.view.guarded_server import HOST
from continuum_robot.app.view.page import Page
from continuum_robot.app.view.steering_range import on_step
from continuum_robot.nodes.base.spinning import wait_for

LONG_S = 120.0
AGAIN_S = 15.0
OF_VISER = {"", "Collapse panel area", "What you see"}
"""Its icons, and the handles of its panels."""
TABS = ("Steer", "Tune", "Push", "Record")

def joined(page: Page, **headers: str) -> ClientConnection:
    """A websocket to a page as a program opens it, with the token where no header states otherwise."""
    address = urlsplit(page.address)
    host = headers.pop("Host", address.netloc)
    query = headers.pop("query", address.query)
    return connect(
        f"ws://{host}/?{query}", sock=socket.create_connection((HOST, address.port)), additional_headers=headers,
        subprotocols=[f"viser-v{viser.__version__}"], max_size=None, compression=None,
        max_queue=None, open_timeout=LONG_S,
    )  # fmt: skip


def send_value(handle: Any, value: Any, connection: ClientConnection) -> None:
    message = {"type": "GuiUpdateMessage", "uuid": handle._impl.uuid, "updates": {"value": value}}
    connection.send(msgspec.msgpack.encode(message))


def look(connection: ClientConnection) -> None:
    """Where it looks from: with it viser counts a browser as one."""
    place = {"wxyz": (1.0, 0.0, 0.0, 0.0), "position": (1.0, 1.0, 1.0), "look_at": (0.0, 0.0, 0.0)}
    lens = {"fov": 1.0, "near": 0.01, "far": 100.0, "image_height": 800, "image_width": 1280}
    camera = {"type": "ViewerCameraMessage", **place, **lens, "up_direction": (0.0, 0.0, 1.0)}
    connection.send(msgspec.msgpack.encode(camera))


def controls(page: Page) -> dict[str, Any]:
    """All controls of the page by label, as its server lists them."""
    found = list(page._server.gui._gui_input_handle_from_uuid.values())
    labels = {str(handle.label): handle for handle in found}
    assert len(labels) == len(found), "two controls have one label"
    return labels


def gizmos(page: Page) -> set[str]:
    """What a mouse can drag in the scene."""
    handles = page._server.scene._handle_from_node_name.items()
    return {name for name, handle in handles if isinstance(handle, TransformControlsHandle)}


class Hand:
    """Moves controls until they have the effect that is waited for, and notes which.

    Every method but ``open`` gets ``done``, the effect.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.moved: set[str] = set()

    def handle(self, label: str) -> Any:
        return controls(self.page)[label]

    def assert_all_moved(self) -> None:
        """A control that the page has and that was not moved fails the test."""
        assert set(controls(self.page)) | set(TABS) | gizmos(self.page) == self.moved


class MessageHand(Hand):
    """Sends what a browser sends when a hand moves a control."""

    def __init__(self, page: Page, connection: ClientConnection) -> None:
        super().__init__(page)
        self._connection = connection
        look(connection)

    def open(self, tab: str) -> None:
        self.moved.add(tab)

    def press(self, label: str, done: Callable[[], Any]) -> None:
        self._set(label, True, done)

    def tick(self, label: str, done: Callable[[], Any]) -> None:
        self._set(label, not self.handle(label).value, done)

    def choose(self, label: str, word: str, done: Callable[[], Any]) -> None:
        assert word in self.handle(label).options
        self._set(label, word, done)

    def slide(self, label: str, part: float, done: Callable[[float], Any]) -> float:
        """To a part of a slider's length; gives the value that the page then has."""
        slider = self.handle(label)
        value = on_step(slider.min + part * (slider.max - slider.min), slider.step)
        # Until the message has come the slider follows the reference, to where it may look like done.
        self._set(label, value, lambda: slider.value == value and done(value))
        return float(value)

    def type(self, label: str, value: float, done: Callable[[], Any]) -> None:
        self._set(label, value, done)

    def drag(self, name: str, axis: tuple[float, float, float], by: float, done: Callable[[], Any]) -> None:
        handles = self.page._server.scene._handle_from_node_name
        handle, around = handles[name], handles.get(name.rpartition("/")[0])
        assert wait_for(lambda: handle.visible and (around is None or around.visible), LONG_S), f"{name} is not shown"
        place = np.asarray(handle.position) + by * np.array(axis)
        pose = {"name": name, "owner": "", "wxyz": (1.0, 0.0, 0.0, 0.0), "position": tuple(map(float, place))}
        self._send({"type": "TransformControlsUpdateMessage", **pose})
        self._send({"type": "TransformControlsDragEndMessage", "name": name, "owner": ""})
        self._wait(name, done)

    def _set(self, label: str, value: Any, done: Callable[[], Any]) -> None:
        send_value(self.handle(label), value, self._connection)
        self._wait(label, done)

    def _wait(self, label: str, done: Callable[[], Any]) -> None:
        assert wait_for(done, LONG_S), f"{label} has no effect: {self.page.snapshot}"
        self.moved.add(label)

    def _send(self, message: dict[str, Any]) -> None:
        self._connection.send(msgspec.msgpack.encode(message))


# What a mouse can move is found by what it is, and named by the words beside it.
SCRIPT = """
const seen = e => { const r = e.getBoundingClientRect(); return r.width > 0 && r.height > 0 };
const all = query => [...document.querySelectorAll(query)].filter(seen);
const row = e => { for (let n = e.parentElement; n; n = n.parentElement)
    if (n.matches('.mantine-Flex-root') && n.querySelector('label')) return n; return null };
const named = e => e.matches('button, [role=button], [role=tab], a') ? e.innerText.trim() || e.ariaLabel || ''
    : row(e)?.querySelector('label').innerText.trim() ?? `unnamed ${e.tagName}`;
const MOVABLE = 'button, input:not([type=hidden]), select, textarea, a[href], [role=slider], [role=tab], [role=button]';
const part = (label, query) => all(query).find(e => named(e) === label && !e.disabled);
const place = (e, part = 0.5) => { e.scrollIntoView({block: 'nearest'}); const r = e.getBoundingClientRect();
    return [r.x + part * r.width, r.y + r.height / 2] };
"""


def script(expression: str) -> str:
    return f"(() => {{ {SCRIPT} return {expression} }})()"


class MouseHand(Hand):
    """Moves the mouse again and again: a page that changes may move a control away under it."""

    def __init__(self, page: Page, browser: Browser) -> None:
        super().__init__(page)
        self.browser = browser
        self.seen: set[str] = set()

    def look(self) -> None:
        self.seen |= set(self.browser.run(script("all(MOVABLE).map(named)")))

    def place(self, label: str, query: str, part: float = 0.5) -> tuple[float, float]:
        return self.rest(f"place(part({json.dumps(label)}, {json.dumps(query)}), {part})")

    def rest(self, place: str) -> tuple[float, float]:
        """Where something is that no longer moves: what comes and goes beside it moves it."""
        before = None
        while before != (before := self.browser.wait_for(script(place), LONG_S)):
            time.sleep(0.05)
        return before[0], before[1]

    def move(self, label: str, done: Callable[[], Any], move: Callable[[], None]) -> None:
        """Move a control until the page has got it, once then: what is done twice may undo itself."""
        control, got = self.handle(label)._impl, threading.Event()

        def take(event: Any) -> None:
            if event.client is not None:  # else the page's own program moved it
                got.set()

        control.update_cb.append(take)
        self.until(got.is_set, label, move)
        control.update_cb.remove(take)
        assert wait_for(done, LONG_S), f"{label} has no effect: {self.page.snapshot}"
        self.moved.add(label)

    def until(self, done: Callable[[], Any], what: str, move: Callable[[], None]) -> None:
        end_s = time.monotonic() + LONG_S
        while time.monotonic() < end_s:
            move()
            if wait_for(done, AGAIN_S):
                return
        pytest.fail(f"{what} has no effect: {self.browser.run('document.body.innerText')}; {self.page.snapshot}")

    def open(self, tab: str) -> None:
        selected = f"part({json.dumps(tab)}, '[role=tab]').ariaSelected === 'true'"
        click = partial(self._click, tab, "[role=tab]")
        self.until(lambda: self.browser.run(script(selected)), tab, click)
        self.moved.add(tab)
        self.look()

    def press(self, label: str, done: Callable[[], Any]) -> None:
        self.move(label, done, partial(self._click, label, "button"))

    def tick(self, label: str, done: Callable[[], Any]) -> None:
        self.move(label, done, partial(self._click, label, "input[type=checkbox]"))

    def choose(self, label: str, word: str, done: Callable[[], Any]) -> None:
        option = f"all('[role=option]').find(e => e.innerText.trim() === {json.dumps(word)})"

        def move() -> None:
            self._click(label, "[role=combobox]")
            if wait_for(lambda: self.browser.run(script(f"!!{option}")), AGAIN_S):
                self.browser.click(*self.rest(f"place({option})"))

        self.move(label, done, move)
        self.look()

    def slide(self, label: str, part: float, done: Callable[[float], Any]) -> float:
        """Click at a part of a slider's length; gives the value that the page then has."""
        slider, values = self.handle(label), [math.nan]

        def take(event: Any) -> None:
            if event.client is not None:  # else the page's own program moved it: it follows the reference
                values.append(slider.value)

        slider._impl.update_cb.append(take)
        click = partial(self._click, label, ".mantine-Slider-root", part)
        self.until(lambda: done(values[-1]), label, click)
        slider._impl.update_cb.remove(take)
        self.moved.add(label)
        return float(values[-1])

    def type(self, label: str, value: float, done: Callable[[], Any]) -> None:
        """Write a number into the box beside a slider."""

        def move() -> None:
            box = f"part({json.dumps(label)}, 'input.mantine-NumberInput-input')"
            self._click(label, "input.mantine-NumberInput-input")
            self.browser.run(script(f"({box}.select(), true)"))
            self.browser.call("Input.insertText", text=f"{value:g}")
            self.browser.run(script(f"({box}.blur(), true)"))

        self.move(label, done, move)

    def drag(self, name: str, axis: tuple[float, float, float], by: float, done: Callable[[], Any]) -> None:
        """Pull at an arrow of axes in the scene, ``by`` units of the scene along it."""
        handle = self.page._server.scene._handle_from_node_name[name]
        direction, begin = np.array(axis), np.array(handle.position)

        def move() -> None:
            parent = self.page._server.scene._handle_from_node_name.get(name.rpartition("/")[0])
            origin = np.asarray(handle.position) + (0.0 if parent is None else np.asarray(parent.position))
            scale = {"/target": 0.22, "/plane/target": 0.16}[name]
            grip = origin + 0.6 * scale * direction
            self.browser.drag([self.pixel(grip + part * by * direction) for part in (0.0, 0.25, 0.5, 0.75, 1.0)])

        self.until(lambda: (np.asarray(handle.position) - begin) @ direction / by > 0.5, name, move)
        assert wait_for(done, LONG_S), f"{name} has no effect: {self.page.snapshot}"
        self.moved.add(name)

    def pixel(self, point: np.ndarray) -> tuple[float, float]:
        """Where a point of the scene is seen."""
        (client,) = self.page._server.get_clients().values()
        camera = client.camera
        x, y, z = SO3(camera.wxyz).as_matrix().T @ (point - camera.position)
        left, top, width, height = self.browser.run(
            script("(r => [r.x, r.y, r.width, r.height])(all('canvas')[0].getBoundingClientRect())")
        )
        focal = height / 2 / np.tan(camera.fov / 2)
        return left + width / 2 + focal * x / z, top + height / 2 + focal * y / z

    def assert_all_moved(self) -> None:
        super().assert_all_moved()
        self.look()
        seen, moved = self.seen - OF_VISER, self.moved - gizmos(self.page)
        assert seen == moved, seen ^ moved

    def _click(self, label: str, query: str, part: float = 0.5) -> None:
        self.browser.click(*self.place(label, query, part))
