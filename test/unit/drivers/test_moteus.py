# SPDX-License-Identifier: Apache-2.0
"""moteus controllers against emulated ones, with the makers' library as the peer of the frames."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from typing import Any

import can
import numpy as np
import pytest
from emulated_servos import (
    CONSTANT,
    METER_PER_TURN,
    NEWTON_PER_AMPERE,
    PATIENCE_S,
    RADIUS_M,
    SERVOS,
    TIMEOUT_MS,
    ServoMotor,
    ServoStand,
    entries_of,
    positioned,
)
from hypothesis import given
from hypothesis import strategies as st
from odri_stand import five_tendons

from continuum_robot.drivers.moteus import frames
from continuum_robot.drivers.moteus.device import MoteusActuators
from continuum_robot.drivers.moteus.emulator import EmulatedMoteus
from continuum_robot.drivers.moteus.frames import FdcanusbFraming
from continuum_robot.drivers.moteus.settings import Moteus, MoteusMotor
from continuum_robot.errors import DeviceError

OPTIONS: dict[str, Any] = {"answer_margin_s": PATIENCE_S, "simulated": True}


def section(port: str) -> Moteus:
    motors = entries_of(MoteusMotor)
    return Moteus(kind="moteus", port=port, motors=motors, maximum_current_a=0.5, receive_timeout_ms=TIMEOUT_MS)


def emulated(motors: dict[int, ServoMotor]) -> EmulatedMoteus:
    return EmulatedMoteus(motors, nm_per_a=dict.fromkeys(motors, CONSTANT), largest_a=dict.fromkeys(motors, 1.0))


def stand_of(robot: Any) -> ServoStand:
    return ServoStand(emulated, lambda port: MoteusActuators(robot, section(port), **OPTIONS), start_rev=0.3)


@pytest.fixture
def held() -> Iterator[ServoStand]:
    made = stand_of(positioned())
    yield made
    made.close()


@pytest.fixture
def stand() -> Iterator[ServoStand]:
    made = stand_of(five_tendons())
    yield made
    made.close()


# --- frames


def test_the_makers_library_makes_the_same_frames_and_reads_the_answers() -> None:
    moteus = pytest.importorskip("moteus", reason="moteus is not installed")
    protocol = pytest.importorskip("moteus.protocol")
    resolution = moteus.QueryResolution()
    resolution.voltage = protocol.mp.IGNORE
    one = moteus.Controller(id=7, query_resolution=resolution)
    values = (1.5, 0.0, 0.1, 1.0, 1.0, 0.5, math.nan, 0.2, 2.0, 3.0)
    names = ("position", "velocity", "feedforward_torque", "kp_scale", "kd_scale", "maximum_torque")
    names += ("stop_position", "watchdog_timeout", "velocity_limit", "accel_limit")
    theirs = one.make_position(**dict(zip(names, values, strict=True)), query=True)
    assert theirs.data == frames.command(values) + frames.QUERY
    assert one.make_stop().data == frames.STOP
    servos = emulated({7: ServoMotor(0.25)})
    servos.step(1.0)
    line = servos.take(FdcanusbFraming.packet(7, frames.REPLY, frames.QUERY))
    answer = FdcanusbFraming().take(bytearray(line))
    assert answer is not None
    assert answer.servo == 7
    read = protocol.parse_reply(answer.data)
    assert read[moteus.Register.POSITION] == 0.25
    assert read[moteus.Register.TEMPERATURE] == 31.0


@given(st.binary(max_size=64), st.integers(1, 127))
def test_no_bytes_break_either_side(data: bytes, servo: int) -> None:
    FdcanusbFraming().take(bytearray(data + b"\n" + FdcanusbFraming.packet(servo, 0, data)))
    servos = emulated({1: ServoMotor()})
    servos.step(1.0, data + b"\n" + FdcanusbFraming.packet(1, frames.REPLY, data))


def test_a_can_fd_interface_takes_the_same_lines() -> None:
    servos = emulated({servo: ServoMotor(0.3) for servo in SERVOS})
    servos.step(1.0)
    framing = FdcanusbFraming()
    with can.Bus(interface="virtual", channel="moteus", fd=True) as device:

        def answer() -> None:
            while (frame := device.recv(2.0)) is not None:
                line = f"can send {frame.arbitration_id:04x} {bytes(frame.data).hex()} bF\n".encode()
                found = framing.take(bytearray(servos.take(line)))
                if found is not None:
                    message = can.Message(arbitration_id=found.servo << 8, is_fd=True, data=found.data)
                    device.send(message)

        thread = threading.Thread(target=answer)
        thread.start()
        driver = MoteusActuators(five_tendons(), section("virtual:moteus"), **OPTIONS)
        driver.open()
        reading = driver.read(time.monotonic())
        driver.close()
        thread.join()
    np.testing.assert_allclose(np.abs(reading.displacement_m), 0.3 * METER_PER_TURN, rtol=1e-6)


# --- tensions and displacements


def test_tensions_pull_with_either_polarity_and_are_read_back(stand: ServoStand) -> None:
    stand.actuators.open()
    assert not any(stand.servos.torque_enabled)
    start = stand.read().displacement_m
    stand.actuators.enable()
    stand.run_until(lambda: bool((stand.read().displacement_m > start + 1e-3).all()), command=20.0)
    np.testing.assert_allclose(stand.read().tension_n, 20.0, rtol=1e-3)
    stand.run_until(lambda: bool(stand.read().tension_n[0] > 80.0), command=1e4)
    assert stand.read().tension_n.max() <= 0.5 * NEWTON_PER_AMPERE * 1.001, "maximum_current_a clamps"


def test_enabling_holds_the_place_and_displacements_are_held(held: ServoStand) -> None:
    held.actuators.open()
    start = held.read().displacement_m
    held.actuators.enable()
    assert held.servos.registers(7)[frames.WATCHDOG] == pytest.approx(TIMEOUT_MS / 1000)
    assert held.servos.registers(7)[frames.COMMAND + 5] == pytest.approx(20.0 * RADIUS_M)  # maximum_n
    time.sleep(0.05)
    np.testing.assert_allclose(held.read().displacement_m, start, atol=1e-6)
    for moved in (0.01, 2.2 * METER_PER_TURN):
        goal = start + moved
        held.run_until(lambda goal=goal: np.allclose(held.read().displacement_m, goal, atol=1e-4), goal)
    assert held.names() == set()


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("silent", "silent_servo"),
        ("reboot", "torque_off"),
        ("overheating", "hardware_error over_temperature"),
        ("position_jump", "position_jump"),
    ],
)
def test_faults_are_named_and_the_controller_can_be_used_again(held: ServoStand, fault: str, name: str) -> None:
    held.actuators.open()
    held.actuators.enable()
    start = held.read().displacement_m
    held.line.inject(fault, 3, 3.0)
    held.run_until(lambda: name in held.names(), start)
    held.actuators.disable()
    held.line.inject("", 3)
    time.sleep(0.4)  # it may have restarted
    held.run_until(lambda: held.read().age_s.max() < 0.05)
    held.actuators.clear_faults()
    held.actuators.enable()
    place = held.read().displacement_m
    held.run_until(lambda: bool((held.read().displacement_m > place + 4e-3).all()), place + 5e-3)
    assert held.names() == set()


def test_a_host_that_dies_is_noticed_by_the_controllers_themselves(stand: ServoStand) -> None:
    stand.actuators.open()
    stand.actuators.enable()
    stand.run_until(lambda: bool((stand.read().tension_n > 9.0).all()), command=10.0)
    stand.actuators._stop.set()  # as if the process were killed: no word of goodbye
    stand.run_until(lambda: not any(stand.servos.torque_enabled))
    assert all(stand.servos.registers(servo)[frames.MODE] == frames.TIMED_OUT for servo in SERVOS)


def test_every_missing_controller_is_named(stand: ServoStand) -> None:
    stand.actuators.bus._margin_s = 0.1
    stand.line.inject("silent", 2)
    with pytest.raises(DeviceError, match="2 does not answer"):
        stand.actuators.open()
