# SPDX-License-Identifier: Apache-2.0
"""A SpaceMouse: what its cap and buttons ask for, and that it lets go where it is unplugged or silent."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: teleoperation needs ROS 2")

from continuum_robot.app.command_line import main
from continuum_robot.app.teleop.devices import REOPEN_S, Command, DeviceReading
from continuum_robot.app.teleop.space_mouse import STALE_S, SpaceMouse, open_space_mouse
from continuum_robot.control.teleoperation import axes_of_coordinates
from continuum_robot.errors import DeviceError


class Device:
    """What pyspacemouse's SpaceMouseDevice (2.1) offers: a read takes one report, ``t`` changes with each."""

    name = "SpaceNavigator"

    def __init__(self, *names: str) -> None:
        self.info = SimpleNamespace(button_names=names or ("LEFT", "RIGHT"))
        self.reports: list[dict[str, float | int]] = []
        self.unplugged = self.closed = False
        axes = dict.fromkeys(("x", "y", "z", "roll", "pitch", "yaw"), 0.0)
        self.state = SimpleNamespace(t=-1.0, buttons=[0] * len(self.info.button_names), **axes)

    def report(self, **values: float) -> None:
        self.reports.append(values)

    def read(self) -> SimpleNamespace:
        if self.unplugged:
            raise Exception("Failed to read from HID device: -1")  # as plain as easyhid's
        if self.reports:
            for name, value in self.reports.pop(0).items():
                if name in self.info.button_names:
                    self.state.buttons[self.info.button_names.index(name)] = value
                else:
                    setattr(self.state, name, value)
            self.state.t += 0.01
        return self.state

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def hand() -> SimpleNamespace:
    made = SimpleNamespace(device=Device(), now_s=100.0, spares=[])
    made.mouse = SpaceMouse(made.device, made.spares.pop, None, lambda: made.now_s)
    return made


def test_cap_moves_while_the_button_is_held_and_the_newest_report_counts(hand: SimpleNamespace) -> None:
    for x in (0.2, 0.9, 0.5):  # more came than steps were taken
        hand.device.report(x=x, y=-0.25)
    hand.device.report(z=0.1, pitch=0.3, roll=0.4, yaw=0.6)
    reading = hand.mouse.read()
    np.testing.assert_allclose(reading.axes, [0.5, -0.25, 0.1, 0.3, -0.4, 0.6])
    assert not reading.held
    hand.device.report(LEFT=1)
    assert hand.mouse.read().held
    hand.device.report(LEFT=0)
    assert not hand.mouse.read().held


def test_other_button_stops_once_however_short(hand: SimpleNamespace) -> None:
    hand.device.report(RIGHT=1)
    hand.device.report(RIGHT=0)
    assert hand.mouse.read().commands == (Command.ESTOP,)
    hand.device.report(RIGHT=1)
    assert hand.mouse.read().commands == (Command.ESTOP,)
    assert hand.mouse.read().commands == ()


def test_deflected_cap_that_falls_silent_lets_go_and_one_at_rest_may_be_silent(hand: SimpleNamespace) -> None:
    hand.device.report(LEFT=1)
    assert hand.mouse.read().held
    hand.now_s += 10 * STALE_S
    assert hand.mouse.read().held
    hand.device.report(x=1.0)
    assert hand.mouse.read().axes[0] == 1.0
    hand.now_s += 2 * STALE_S
    reading = hand.mouse.read()
    assert not reading.held
    assert not reading.axes.any()
    assert "not reported" in reading.problem
    hand.device.report(x=1.0)
    assert hand.mouse.read().held


def test_unplugged_it_holds_nothing_and_back_again_the_switch_has_to_be_pressed_anew(hand: SimpleNamespace) -> None:
    hand.device.report(LEFT=1, x=1.0)
    assert hand.mouse.read().held
    hand.device.unplugged = True
    reading = hand.mouse.read()
    assert not reading.held
    assert "unplugged" in reading.problem
    assert hand.device.closed
    hand.now_s += 2 * REOPEN_S
    assert "unplugged" in hand.mouse.read().problem  # nothing there yet
    again = Device()
    hand.spares.append(again)
    hand.now_s += 2 * REOPEN_S
    reading = hand.mouse.read()
    assert (reading.problem, reading.held) == ("", False)
    again.report(LEFT=1)
    assert hand.mouse.read().held


def test_commands_come_from_the_keyboard_beside_it_but_no_motion() -> None:
    typed = DeviceReading(np.ones(3), True, (Command.SEGMENT,))
    keyboard = SimpleNamespace(read=lambda: typed, help=(("hold w s", "to x"), ("tab", Command.SEGMENT)))
    mouse = SpaceMouse(Device("MENU", "ALT", "FIT"), Device, keyboard)
    reading = mouse.read()
    assert reading.commands == (Command.SEGMENT,)
    assert not reading.axes.any()
    assert not reading.held
    assert {key for key, _ in mouse.help} >= {"hold the button MENU", "button FIT", "tab"}
    assert "hold w s" not in {key for key, _ in mouse.help}


def test_six_axes_move_a_segment_and_the_next_one() -> None:
    six = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    np.testing.assert_array_equal(axes_of_coordinates(six, 6, 0), [0.1, 0.2, 0.4, 0.5, 0.0, 0.0])
    np.testing.assert_array_equal(axes_of_coordinates(six, 4, 1), [0.4, 0.5, 0.1, 0.2])
    np.testing.assert_array_equal(axes_of_coordinates(six, 2, 0), [0.1, 0.2])
    np.testing.assert_array_equal(axes_of_coordinates(six, 3, 0), [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(axes_of_coordinates(six, 5, 2), [0.4, 0.5, 0.0, 0.0, 0.1])


def test_device_without_two_buttons_is_refused_and_closed() -> None:
    device = Device("A", "B")
    with pytest.raises(DeviceError, match="has no buttons LEFT and RIGHT"):
        SpaceMouse(device, Device)
    assert device.closed


def test_without_its_library_or_a_device_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyspacemouse", None)
    with pytest.raises(DeviceError, match=r"continuum-robot\[spacemouse\]"):
        open_space_mouse()

    def fail(**_options: object) -> None:
        raise RuntimeError("No connected or supported devices found.")

    library = SimpleNamespace(open=fail, AxisConvention=SimpleNamespace(ROS="ros"))
    monkeypatch.setitem(sys.modules, "pyspacemouse", library)
    assert main(["teleop", "--spacemouse"]) == 1
    assert "No connected or supported devices" in " ".join(capfd.readouterr().err.split())
    assert main(["teleop", "--spacemouse", "--keyboard"]) == 2


def test_directions_are_those_of_the_library() -> None:
    """Raw reports of a SpaceNavigator: to the right, towards the person, down; turned about these."""
    library = pytest.importorskip("pyspacemouse", reason="pyspacemouse is not installed: the extra spacemouse")

    class Hid:
        product_string = manufacturer_string = serial_number = release_number = ""

        def __init__(self) -> None:
            self.reports: list[bytes] = []

        def read(self, _size: int) -> bytes:
            return self.reports.pop(0) if self.reports else b""

        def open(self) -> None: ...

        def close(self) -> None: ...

    def report(channel: int, *values: int) -> bytes:
        return bytes([channel, *b"".join(value.to_bytes(2, "little", signed=True) for value in values)])

    hid = Hid()
    spec = library.apply_axis_convention(library.get_device_specs()["SpaceNavigator"], library.AxisConvention.ROS)
    device = library.SpaceMouseDevice(spec, hid)
    device.open()
    mouse = SpaceMouse(device, os.getcwd)
    for hid.reports, expected in (
        ([report(1, 350, 0, 0)], [0, -1, 0, 0, 0, 0]),  # to the right: -y
        ([report(1, 0, -350, 0)], [1, 0, 0, 0, 0, 0]),  # away from the person: +x
        ([report(1, 0, 0, -350)], [0, 0, 1, 0, 0, 0]),  # lifted: +z
        ([report(1, 0, 0, 0), report(2, -350, 0, 0)], [0, 0, 0, 1, 0, 0]),  # its top tilted away: +x
        ([report(2, 0, 350, 0)], [0, 0, 0, 0, 1, 0]),  # its top tilted to the left: +y
    ):
        np.testing.assert_allclose(mouse.read().axes, expected, atol=1e-9)
    hid.reports = [report(2, 0, 0, 0), bytes([3, 1, 0, 0, 0, 0, 0])]
    assert mouse.read().held
    hid.reports = [bytes([3, 2, 0, 0, 0, 0, 0])]
    assert mouse.read().commands == (Command.ESTOP,)
