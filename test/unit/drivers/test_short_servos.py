# SPDX-License-Identifier: Apache-2.0
"""Servos with short packets, Dynamixel protocol 1 and Feetech; the makers' libraries are the peers of the emulators."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from emulated_servos import (
    METER_PER_TURN,
    NEWTON_PER_AMPERE,
    PATIENCE_S,
    SERVOS,
    TIMEOUT_MS,
    SdkLine,
    ServoMotor,
    ServoStand,
    dynamixels,
    entries_of,
    positioned,
)
from hypothesis import given
from hypothesis import strategies as st
from odri_stand import five_tendons

from continuum_robot.drivers.dynamixel import protocol_1
from continuum_robot.drivers.dynamixel.emulator import EmulatedProtocol1
from continuum_robot.drivers.dynamixel.models import model_named
from continuum_robot.drivers.dynamixel.protocol_1 import Protocol1Actuators
from continuum_robot.drivers.feetech import device as feetech
from continuum_robot.drivers.feetech.device import FeetechActuators
from continuum_robot.drivers.feetech.emulator import EmulatedFeetech
from continuum_robot.drivers.feetech.settings import Feetech
from continuum_robot.drivers.protocols import DisplacementActuators
from continuum_robot.drivers.servo_bus import ShortFraming
from continuum_robot.drivers.servo_settings import ServoMotor as Entry
from continuum_robot.errors import DeviceError, ParameterError, RobotFileError

OPTIONS: dict[str, Any] = {"answer_margin_s": PATIENCE_S, "simulated": True}


def feetechs(port: str, **changes: Any) -> Feetech:
    motors = entries_of(Entry)
    return Feetech(kind="feetech", port=port, motors=motors, **{"receive_timeout_ms": TIMEOUT_MS, **changes})


@dataclasses.dataclass(frozen=True)
class Kind:
    emulated: Callable[[dict[int, ServoMotor]], Any]
    driver: Callable[..., Any]
    counts_per_turn: float
    table: Any
    full_torque: int


KINDS = {
    "AX": Kind(
        EmulatedProtocol1,
        lambda port, **changes: Protocol1Actuators(positioned(), dynamixels(port, protocol=1, **changes), **OPTIONS),
        1023 * 1.2,
        protocol_1.TABLE,
        1023,
    ),
    "MX": Kind(
        lambda motors: EmulatedProtocol1(motors, model_named("MX-28")),
        lambda port, **changes: Protocol1Actuators(positioned(), dynamixels(port, protocol=1, **changes), **OPTIONS),
        4096,
        protocol_1.TABLE,
        1023,
    ),
    "Feetech": Kind(
        EmulatedFeetech,
        lambda port, **changes: FeetechActuators(positioned(), feetechs(port, **changes), **OPTIONS),
        4096,
        feetech.TABLE,
        1000,
    ),
}


class Stand(ServoStand):
    def __init__(self, kind: str, **changes: Any) -> None:
        self.kind = KINDS[kind]
        super().__init__(self.kind.emulated, lambda port: self.kind.driver(port, **changes), start_rev=0.4)

    def get(self, servo: int, address: int, size: int = 2) -> int:
        return int(self.servos.servos[servo].get(address, size))


@pytest.fixture(params=list(KINDS))
def stand(request: pytest.FixtureRequest) -> Iterator[Stand]:
    made = Stand(request.param)
    yield made
    made.close()


# --- bytes


@given(st.binary(max_size=40), st.integers(0, 253), st.binary(max_size=8))
def test_a_packet_is_found_in_a_stream_whatever_it_holds(parameters: bytes, servo: int, before: bytes) -> None:
    stream = bytearray(before.replace(b"\xff", b"") + ShortFraming.packet(servo, 0, parameters))
    assert ShortFraming().take(stream) == (servo, 0, parameters)
    assert not stream


def test_packets_are_those_of_the_protocols_description() -> None:
    # The examples "Ping" and "Read" of emanual.robotis.com/docs/en/dxl/protocol1.
    assert ShortFraming.packet(1, 1, b"") == bytes.fromhex("ff ff 01 02 01 fb")
    assert ShortFraming.packet(1, 2, b"\x2b\x01") == bytes.fromhex("ff ff 01 04 02 2b 01 cc")


@given(st.lists(st.binary(max_size=30), max_size=10))
def test_no_bytes_from_the_host_break_the_servos(chunks: list[bytes]) -> None:
    for servos in (EmulatedProtocol1({1: ServoMotor()}), EmulatedFeetech({1: ServoMotor()})):
        for number, chunk in enumerate([*chunks, ShortFraming.packet(1, 1, b"")]):
            servos.step(0.001 * number, chunk)


def peer(kind: str) -> tuple[Any, Any]:
    """The makers' library and its packets."""
    if kind == "Feetech":
        sdk = pytest.importorskip("scservo_sdk", reason="feetech-servo-sdk is not installed")
        return sdk, sdk.PacketHandler(0)
    sdk = pytest.importorskip("dynamixel_sdk", reason="dynamixel-sdk is not installed")
    return sdk, sdk.PacketHandler(1.0)


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_makers_library_sends_the_same_bytes_and_reads_what_the_servos_send(kind: str) -> None:
    sdk, handler = peer(kind)
    one = KINDS[kind]
    servos = one.emulated({servo: ServoMotor(0.05 * servo) for servo in SERVOS})
    servos.step(1.0)
    line = SdkLine(sdk, servos)
    sent: list[bytes] = []
    driver = one.driver("none")
    driver.bus.in_process = lambda data: sent.append(data) or servos.take(data)

    def same(call: Callable[[], Any], ours: Callable[[], Any]) -> Any:
        line.written.clear()
        sent.clear()
        answer = call()
        ours()
        assert bytes(line.written) == b"".join(sent)
        return answer

    read = handler.read2ByteTxRx(line.port, 7, one.table.position)
    assert read == (round(0.35 * one.counts_per_turn), 0, 0)
    same(lambda: handler.read2ByteTxRx(line.port, 7, one.table.position), lambda: driver.get(3, one.table.position))
    same(
        lambda: handler.write2ByteTxRx(line.port, 7, one.table.goal, 700), lambda: driver.put(3, one.table.goal, 2, 700)
    )
    assert servos.servos[7].get(one.table.goal, 2) == 700
    group = sdk.GroupSyncWrite(line.port, handler, one.table.goal, 2)
    for servo in SERVOS:
        group.addParam(servo, [servo, 1])
    same(group.txPacket, lambda: driver.sync_write(one.table.goal, {servo: bytes([servo, 1]) for servo in SERVOS}))
    assert servos.servos[11].get(one.table.goal, 2) == 256 + 11
    if kind == "Feetech":
        states = sdk.GroupSyncRead(line.port, handler, one.table.torque, feetech.STATE_SIZE)
        for servo in SERVOS:
            states.addParam(servo)
        assert same(states.txRxPacket, lambda: driver.measured(range(5))) == 0
        assert states.getData(7, one.table.position, 2) == round(0.35 * 4096)


# --- the driver


def test_enabling_holds_the_place_and_displacements_are_held_with_either_polarity(stand: Stand) -> None:
    assert isinstance(stand.actuators, DisplacementActuators)
    stand.actuators.open()
    assert stand.actuators.aligned, "within its turn a servo knows where it is"
    assert not any(stand.servos.torque_enabled)
    start = stand.read().displacement_m
    table = stand.kind.table
    middle = (stand.get(1, table.low) + stand.get(1, table.high)) / 2 / stand.kind.counts_per_turn
    turn = np.where(np.arange(5) % 2, -1, 1) * (0.4 - middle) * METER_PER_TURN
    np.testing.assert_allclose(start, turn, atol=METER_PER_TURN / stand.kind.counts_per_turn)
    stand.actuators.enable()
    assert all(stand.servos.torque_enabled)
    time.sleep(0.05)
    np.testing.assert_array_equal(stand.read().displacement_m, start)
    count_m = METER_PER_TURN / stand.kind.counts_per_turn
    for moved in (0.01, -0.01):
        goal = start + moved
        stand.run_until(lambda goal=goal: np.allclose(stand.read().displacement_m, goal, atol=1.01 * count_m), goal)
    assert stand.names() == set()


def test_speed_torque_and_delay_are_set(stand: Stand) -> None:
    stand.actuators.open()
    assert "servo 7: return delay 250 -> 0" in stand.actuators.written
    stand.actuators.enable()
    table = stand.kind.table
    strongest_n = NEWTON_PER_AMPERE
    assert stand.get(1, table.torque_limit) == -(-stand.kind.full_torque * 20 // strongest_n)
    unit = stand.actuators.speed_unit_rev_per_s(0)
    assert stand.get(1, table.speed) == -(-0.05 / METER_PER_TURN // unit)
    stand.actuators.close()
    stand.actuators.open()
    assert stand.actuators.written == []


def test_a_load_is_a_part_of_the_largest_torque(stand: Stand) -> None:
    stand.actuators.open()
    stand.actuators.enable()
    stand.run_until(lambda: stand.read().tension_n[0] > 0, stand.read().displacement_m)
    reading = stand.read()
    load = 0.2 * stand.motors[1].torque_fraction
    assert reading.tension_n[0] == pytest.approx(load * NEWTON_PER_AMPERE, abs=2e-3 * NEWTON_PER_AMPERE)
    assert np.isnan(reading.current_a).all()
    np.testing.assert_array_equal(reading.temperature_c, 31.0)


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("silent", "silent_servo"),
        ("reboot", "torque_off"),
        ("overheating", "hardware_error overheating"),
        ("overload", "hardware_error overload"),
    ],
)
def test_faults_are_named_and_the_servo_can_be_used_again(stand: Stand, fault: str, name: str) -> None:
    stand.actuators.open()
    stand.actuators.enable()
    start = stand.read().displacement_m
    stand.line.inject(fault, 3)
    stand.run_until(lambda: name in stand.names(), start)
    assert any(text.endswith(f"servo 3: {name}") for text in stand.read().device_faults)
    stand.line.inject("", 3)
    time.sleep(0.4)  # it may have restarted
    stand.run_until(lambda: stand.read().age_s.max() < 0.05)
    stand.actuators.disable()
    stand.actuators.clear_faults()
    stand.actuators.enable()
    stand.run_until(lambda: bool((stand.read().displacement_m > start + 4e-3).all()), start + 5e-3)
    assert stand.names() == set()


@pytest.mark.parametrize("kind", list(KINDS))
def test_an_overload_is_recovered_as_often_as_the_file_says(kind: str) -> None:
    stand = Stand(kind, overload="restart", overload_restarts=1)
    try:
        stand.actuators.open()
        stand.actuators.enable()
        goal = stand.read().displacement_m
        stand.line.inject("overload", 3)
        stand.run_until(lambda: bool(stand.actuators._restarts[2]), goal)
        stand.run_until(lambda: all(stand.servos.torque_enabled), goal)
        assert stand.names() == set()
        stand.line.inject("overload", 3)
        stand.run_until(lambda: "hardware_error overload" in stand.names(), goal)
    finally:
        stand.close()


def test_a_host_that_dies_leaves_the_servos_at_their_last_goal(stand: Stand) -> None:
    """No watchdog guards them: they go where they were sent, and hold it."""
    stand.actuators.open()
    stand.actuators.enable()
    goal = stand.read().displacement_m + 0.01
    stand.run_until(lambda: stand.actuators.pending_s == 0.0 and stand.actuators._taken_s > 0, goal)
    stand.actuators._stop.set()  # as if the process were killed: no word of goodbye
    sent = 0.4 + np.where(np.arange(5) % 2, -1, 1) * 0.01 / METER_PER_TURN
    end_s = time.monotonic() + PATIENCE_S * 60
    while not np.allclose([motor.position_rev for motor in stand.motors.values()], sent, atol=2e-3):
        assert time.monotonic() < end_s, "they do not go where they were sent"
        time.sleep(0.01)
    assert all(stand.servos.torque_enabled)


def test_a_loop_that_stands_still_is_said(stand: Stand) -> None:
    stand.actuators.open()
    stand.actuators.enable()
    stand.run_until(lambda: stand.actuators._taken_s > 0, stand.read().displacement_m)
    stand.run_until(lambda: "receive_timeout" in stand.names())
    assert all(stand.servos.torque_enabled)


def test_an_adapter_that_is_pulled_out_and_put_in_is_taken_up_again(stand: Stand) -> None:
    stand.actuators.open()
    stand.line.pty.hang_up()
    stand.run_until(lambda: "silent_servo" in stand.names())
    stand.line.pty.plug_in()
    stand.run_until(lambda: bool((stand.read().age_s < 0.05).all()) and time.monotonic() - stand.read().stamp_s < 0.1)
    stand.actuators.clear_faults()
    stand.actuators.enable()
    assert stand.names() == set()
    stand.line.pty.hang_up()
    stand.actuators.disable()
    stand.actuators.close()


def test_a_goal_beyond_the_turn_is_held_at_its_end_and_latches(stand: Stand) -> None:
    stand.actuators.open()
    stand.actuators.enable()
    stand.run_until(lambda: "position_out_of_range" in stand.names(), stand.read().displacement_m + METER_PER_TURN)
    goals = [stand.get(servo, stand.kind.table.goal) for servo in SERVOS]
    assert set(goals) == {0, stand.get(1, stand.kind.table.high)}


# --- what does not fit


def test_robots_that_take_tensions_are_refused() -> None:
    with pytest.raises(ParameterError, match="hold positions only"):
        FeetechActuators(five_tendons(), feetechs("none"))
    with pytest.raises(ParameterError, match="hold positions only"):
        Protocol1Actuators(five_tendons(), dynamixels("none", protocol=1))


def test_servos_that_do_not_fit_are_refused(stand: Stand) -> None:
    with stand.line.lock:
        stand.servos.servos[3].set(stand.kind.table.high, 2, 0)
    with pytest.raises(DeviceError, match=r"servo 3 .* turns"):
        stand.actuators.open()


def test_other_models_are_refused() -> None:
    stand = Stand("AX", model="MX-28")
    try:
        with pytest.raises(DeviceError, match=r"servo 1 .* is an AX-12A, not an MX-28"):
            stand.actuators.open()
        stand.servos.servos[1].set(0, 2, 1020)
        with pytest.raises(DeviceError, match=r"servo 1 .* is of model 1020"):
            stand.actuators.open()
    finally:
        stand.close()


def test_servos_with_the_other_byte_order_are_refused() -> None:
    stand = Stand("Feetech")
    try:
        stand.servos.servos[2].set(feetech.ENDIAN, 1, 1)
        with pytest.raises(DeviceError, match=r"servo 2 .* high byte first"):
            stand.actuators.open()
    finally:
        stand.close()


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RobotFileError, match="baud_bps"):
        feetechs("none", baud_bps=900_000)
    with pytest.raises(RobotFileError, match="with protocol 1 one of AX-12A"):
        dynamixels("none", protocol=1, model="XL430-W250")
    with pytest.raises(RobotFileError, match="what an AX-12A can do: position"):
        dynamixels("none", protocol=1, model="AX-12A", mode="extended_position")
