# SPDX-License-Identifier: Apache-2.0
"""Devices of a person: keys through a pseudo-terminal and a gamepad's events; and what is reported without them."""

from __future__ import annotations

import contextlib
import errno
import os
import pty
import termios
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: teleoperation needs ROS 2")
pytest.importorskip("evdev", reason="evdev is not installed: gamepads need the extra gamepad")

import evdev
from evdev import ecodes

from continuum_robot.app.command_line import main
from continuum_robot.app.teleop.devices import REOPEN_S, REPEAT_S, Command, Gamepad, Keyboard, open_gamepad
from continuum_robot.errors import DeviceError


class _Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock():
    return _Clock()


# Keyboard


@pytest.fixture
def terminal(clock):
    person, side = pty.openpty()
    before = termios.tcgetattr(side)
    keyboard = Keyboard(side, clock)
    yield SimpleNamespace(keyboard=keyboard, person=person, side=side, before=before)
    keyboard.close()
    for descriptor in (person, side):
        with contextlib.suppress(OSError):  # closed by the test
            os.close(descriptor)


@pytest.mark.parametrize("first_repeat_s", [0.25, 0.66])
def test_a_held_key_moves_from_its_first_repeat_on_without_a_break(terminal, clock, first_repeat_s):
    """The robot went, stopped and went on at the beginning of every hold."""
    held = []
    for pause_s in (first_repeat_s, *(9 * [0.04]), REPEAT_S):
        os.write(terminal.person, b"w")
        held.append(terminal.keyboard.read().held)
        clock.now_s += pause_s / 2
        held.append(terminal.keyboard.read().held)
        clock.now_s += pause_s / 2
    assert held == [False, False] + 20 * [True]
    reading = terminal.keyboard.read()
    assert not reading.held
    assert not reading.axes.any()


def test_two_keys_add_up_and_opposite_ones_cancel(terminal):
    os.write(terminal.person, b"wwaa\x1b[A")
    np.testing.assert_array_equal(terminal.keyboard.read().axes, [1, 1, 0])
    os.write(terminal.person, b"\x1b[B\x1b[B")
    np.testing.assert_array_equal(terminal.keyboard.read().axes, [0, 1, 0])


def test_an_arrow_key_that_comes_in_pieces_is_one_key(terminal):
    os.write(terminal.person, b"\x1b")
    assert not terminal.keyboard.read().held
    os.write(terminal.person, b"[")
    assert not terminal.keyboard.read().held
    os.write(terminal.person, b"D\x1b[D")
    np.testing.assert_array_equal(terminal.keyboard.read().axes, [0, 1, 0])


def test_keys_of_commands_come_in_order_and_end_the_motion(terminal):
    os.write(terminal.person, b"ww \tm+\r\x7fq?\xff")
    reading = terminal.keyboard.read()
    steering = (Command.ESTOP, Command.SEGMENT, Command.MODE, Command.FASTER)
    assert reading.commands == (*steering, Command.EPISODE, Command.DISCARD, Command.QUIT)
    assert not reading.held
    assert terminal.keyboard.read().commands == ()


def test_straightening_needs_its_key_held(terminal, clock):
    for held in (False, True):
        os.write(terminal.person, b"0")
        reading = terminal.keyboard.read()
        assert reading.commands == (Command.STRAIGHT,)
        assert reading.held is held
    clock.now_s += REPEAT_S
    assert not terminal.keyboard.read().held


def test_the_terminal_is_left_as_it_was(terminal):
    assert termios.tcgetattr(terminal.side)[3] != terminal.before[3]
    terminal.keyboard.close()
    assert termios.tcgetattr(terminal.side)[3] == terminal.before[3]


def test_a_terminal_that_goes_away_holds_nothing(terminal):
    os.write(terminal.person, b"ww")
    assert terminal.keyboard.read().held
    os.close(terminal.person)
    reading = terminal.keyboard.read()
    assert not reading.held
    assert "gone" in reading.problem


def test_without_a_terminal_it_is_said():
    read, write = os.pipe()
    with pytest.raises(DeviceError, match="no terminal"):
        Keyboard(read)
    os.close(read)
    os.close(write)


# Gamepad


class _SimulatedGamepad:
    """What evdev's InputDevice offers, events through a pipe so that it can be waited for."""

    path = "/dev/input/event7"
    name = "Test Pad"

    def __init__(self, axes=(ecodes.ABS_X, ecodes.ABS_Y, ecodes.ABS_RY, ecodes.ABS_HAT0Y), buttons=(ecodes.BTN_TL,)):
        self.fd, self._write = os.pipe()
        self._axes, self._buttons = axes, buttons
        self._events: list[SimpleNamespace] = []
        self.unplugged = self.closed = False

    def capabilities(self, absinfo=True):
        info = [(code, SimpleNamespace(min=-32768, max=32767, value=0)) for code in self._axes]
        return {ecodes.EV_ABS: info, ecodes.EV_KEY: list(self._buttons)}

    def push(self, kind: int, code: int, value: int) -> None:
        self._events.append(SimpleNamespace(type=kind, code=code, value=value))
        os.write(self._write, b"\0")

    def unplug(self) -> None:
        self.unplugged = True
        os.write(self._write, b"\0")

    def read(self):
        if self.unplugged:
            raise OSError(errno.ENODEV, "No such device")
        os.read(self.fd, 1024)
        events, self._events = self._events, []
        return iter(events)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            os.close(self.fd)
            os.close(self._write)


@pytest.fixture
def pad(clock):
    device = _SimulatedGamepad()
    spares: list[_SimulatedGamepad] = []

    def reopen():
        if not spares:
            raise OSError(errno.ENOENT, "No such file")
        return spares.pop()

    gamepad = Gamepad(device, reopen, clock)
    yield SimpleNamespace(gamepad=gamepad, device=device, spares=spares)
    gamepad.close()


def press(device, code=ecodes.BTN_TL, value=1):
    device.push(ecodes.EV_KEY, code, value)


def test_sticks_point_where_the_robot_goes_and_the_shoulder_button_holds(pad):
    pad.device.push(ecodes.EV_ABS, ecodes.ABS_Y, -32768)
    reading = pad.gamepad.read()
    assert not reading.held
    np.testing.assert_allclose(reading.axes, [1, 0, 0], atol=1e-4)
    press(pad.device)
    pad.device.push(ecodes.EV_ABS, ecodes.ABS_Y, 0)
    pad.device.push(ecodes.EV_ABS, ecodes.ABS_X, -32768)
    pad.device.push(ecodes.EV_ABS, ecodes.ABS_RY, -32768)
    reading = pad.gamepad.read()
    assert reading.held
    np.testing.assert_allclose(reading.axes, [0, 1, 1], atol=1e-4)
    press(pad.device, value=0)
    assert not pad.gamepad.read().held


def test_buttons_command_once(pad):
    press(pad.device, ecodes.BTN_EAST)
    press(pad.device, ecodes.BTN_EAST, 0)
    press(pad.device, ecodes.BTN_TR)
    pad.device.push(ecodes.EV_ABS, ecodes.ABS_HAT0Y, -1)
    press(pad.device, ecodes.BTN_THUMBL)
    press(pad.device, ecodes.BTN_THUMBR)
    press(pad.device, ecodes.BTN_MODE)
    steering = (Command.ESTOP, Command.SEGMENT, Command.FASTER)
    assert pad.gamepad.read().commands == (*steering, Command.EPISODE, Command.DISCARD)
    assert pad.gamepad.read().commands == ()


def test_unplugged_it_holds_nothing_and_back_again_the_switch_has_to_be_pressed_anew(pad, clock):
    press(pad.device)
    assert pad.gamepad.read().held
    pad.device.unplug()
    reading = pad.gamepad.read()
    assert not reading.held
    assert "unplugged" in reading.problem
    assert pad.device.closed
    clock.now_s += 2 * REOPEN_S
    assert "unplugged" in pad.gamepad.read().problem
    again = _SimulatedGamepad()
    pad.spares.append(again)
    clock.now_s += 2 * REOPEN_S
    reading = pad.gamepad.read()
    assert not reading.problem
    assert not reading.held
    press(again)
    assert pad.gamepad.read().held


def test_lost_events_let_go(pad):
    press(pad.device)
    assert pad.gamepad.read().held
    pad.device.push(ecodes.EV_SYN, ecodes.SYN_DROPPED, 0)
    assert not pad.gamepad.read().held


@pytest.mark.parametrize("lacking", [{"axes": ()}, {"buttons": ()}])
def test_what_is_no_gamepad_is_refused_and_closed(lacking):
    device = _SimulatedGamepad(**lacking)
    with pytest.raises(DeviceError, match="no gamepad"):
        Gamepad(device, lambda: device)
    assert device.closed


def test_a_device_that_may_not_be_read_names_its_group(monkeypatch, tmp_path):
    file = tmp_path / "event0"
    file.touch()

    def refuse(_path):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(evdev, "InputDevice", refuse)
    with pytest.raises(DeviceError, match=r"usermod -aG \S+ \$USER"):
        open_gamepad(str(file))


@pytest.mark.parametrize("path", ["/dev/null", "/no/such/device"])
def test_what_is_no_input_device_is_said(path):
    with pytest.raises(DeviceError, match="no input device"):
        open_gamepad(path)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--gamepad", "/no/such/device"], 1),
        (["--keyboard"], 1),
        (["--joy", "--gamepad", "auto"], 2),
        (["--mode", "dance"], 2),
    ],
)
def test_the_command_ends_with_one_sentence(arguments, code, capfd, monkeypatch):
    monkeypatch.setattr("sys.stdin", open(os.devnull, encoding="utf-8"))  # noqa: SIM115 - closed with the test
    assert main(["teleop", *arguments]) == code
    message = capfd.readouterr().err
    assert "Traceback" not in message
    assert message.strip()
