# SPDX-License-Identifier: Apache-2.0
"""The driver of Dynamixel servos: the makers' library against servos simulated to the byte, over a pseudo-terminal."""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odri_stand import five_tendons

from continuum_robot.drivers.dynamixel import bus as bus_module
from continuum_robot.drivers.dynamixel import registers
from continuum_robot.drivers.dynamixel.actuators import DynamixelTendonActuators
from continuum_robot.drivers.dynamixel.bus import DynamixelBus
from continuum_robot.errors import DeviceError, ParameterError, RobotFileError
from continuum_robot.robot.hardware import Dynamixel, DynamixelMotor
from continuum_robot.simulation.wire.dynamixel_servos import SimulatedDynamixelBus, crc_16, packet
from continuum_robot.simulation.wire.odri_board import FreeMotor
from continuum_robot.simulation.wire.pacing import Pacer

RADIUS_M, CONSTANT = 0.01, 1.78
NEWTON_PER_AMPERE = CONSTANT / RADIUS_M
METER_PER_TURN = 2 * np.pi * RADIUS_M
SERVOS = (1, 2, 3, 7, 11)
# Driver and servos share an interpreter here, which a busy machine stops now and then.
PATIENCE_S = 0.5
TIMEOUT_MS = 2000


def wiring(port: str) -> Dynamixel:
    motors = tuple(
        DynamixelMotor(
            id=servo,
            tendon=index + 1,
            polarity=-1 if index % 2 else 1,
            spool_radius_m=RADIUS_M,
            torque_constant_nm_per_a=CONSTANT,
        )
        for index, servo in enumerate(SERVOS)
    )
    return Dynamixel(kind="dynamixel", port=port, maximum_current_a=0.5, receive_timeout_ms=TIMEOUT_MS, motors=motors)


class ServoStand:
    """Servos in real time, and the driver."""

    def __init__(self) -> None:
        self.motors = {servo: FreeMotor(acceleration_rev_per_s2_a=20.0, damping_per_s=10.0) for servo in SERVOS}
        self.servos = SimulatedDynamixelBus(self.motors)
        self._last_s = time.monotonic()
        self.pacer = Pacer(self.step, 0.0005)
        self.pacer.start()
        self.actuators = DynamixelTendonActuators(
            five_tendons(), wiring(self.servos.port), answer_margin_s=PATIENCE_S, simulated=True
        )

    def step(self, now_s: float) -> None:
        for motor in self.motors.values():
            motor.advance(min(0.01, now_s - self._last_s))
        self._last_s = now_s
        self.servos.step(now_s)

    def run_until(self, happened: Callable[[], bool], tension: float | None = None, timeout_s: float = 60.0) -> None:
        """Cycles of the driver until something happened, which must be in time."""
        end_s = time.monotonic() + timeout_s
        while not happened():
            assert time.monotonic() < end_s, "it did not happen in time"
            if tension is not None:
                self.actuators.write(np.full(5, tension), time.monotonic())
            self.actuators.read(time.monotonic())
            time.sleep(0.005)

    def names(self) -> set[str]:
        return {fault.split(": ", 1)[1] for fault in self.actuators.read(time.monotonic()).device_faults}

    def close(self) -> None:
        self.actuators.close()
        self.pacer.stop()
        self.servos.close()


@pytest.fixture
def stand() -> Iterator[ServoStand]:
    made = ServoStand()
    yield made
    made.close()


# --- noise


class NoisyLine:
    """A serial line on which bytes come without an end; it counts them."""

    def __init__(self, noise: bytes) -> None:
        self._noise = itertools.cycle(noise)
        self._descriptor = os.open("/dev/zero", os.O_RDONLY)
        self.in_waiting, self.count = 1 << 20, 0

    def fileno(self) -> int:
        return self._descriptor

    def read(self, size: int) -> bytes:
        self.count += size
        assert self.count < 100_000, "noise holds the reader"
        return bytes(itertools.islice(self._noise, size))

    def write(self, data: list[int]) -> int:
        return len(data)

    def reset_input_buffer(self) -> None:
        pass

    def close(self) -> None:
        os.close(self._descriptor)


@pytest.mark.parametrize(
    "noise",
    [
        b"\x00",
        b"\xff\x00\x55",
        b"\xff\xff\xfd\x00",
        packet(9, 0x55, b"\x00" + bytes(4)),  # a servo that nobody asked
        packet(1, 0x55, b"\x00" + bytes(5)),  # an answer to something else
    ],
)
def test_noise_without_an_end_does_not_hold_the_bus(noise: bytes) -> None:
    """Found by fuzzing: the library looks at the time only where nothing comes."""
    bus = DynamixelBus("noise", 1_000_000, answer_margin_s=0.0)
    bus._line = bus_module._port_handler("noise", 1_000_000, NoisyLine(noise), 0.0)  # type: ignore[arg-type]
    bus._packet = bus_module._packet_handler()
    try:
        assert bus.read_all(registers.PRESENT_CURRENT, registers.STATE_SIZE, SERVOS) == {}
        assert not bus.ping(1)
        with pytest.raises(DeviceError, match="does not answer"):
            bus.read(1, registers.HARDWARE_ERROR, 1)
    finally:
        bus.close()


class LateServos:
    """Servos whose answers come with those to the next packet, as on a machine that stalls."""

    def __init__(self) -> None:
        self.servos = SimulatedDynamixelBus({servo: FreeMotor() for servo in SERVOS})
        self.late = b""

    def ask(self, data: bytes) -> bytes:
        come, self.late = self.late, self.servos.ask(data)
        return come


def test_a_late_answer_is_not_taken_for_that_to_the_next_question() -> None:
    late = LateServos()
    bus = DynamixelBus("late", 1_000_000, answer_margin_s=0.0, ask=late.ask)
    try:
        bus.open()
        condition = {servo: bytes(registers.CONDITION_SIZE) for servo in SERVOS}
        assert bus.read_all(registers.PRESENT_CURRENT, registers.STATE_SIZE, SERVOS) == {}
        # States that come instead of conditions, and conditions instead of a register.
        assert bus.read_all(registers.TORQUE_ENABLE, registers.CONDITION_SIZE, SERVOS) == {}
        late.servos.inject("overheating", 1)
        late.servos.step(1.0)
        assert bus.read(1, registers.HARDWARE_ERROR, 1) == 1 << 2
        late.late = b""
        assert bus.read_all(registers.TORQUE_ENABLE, registers.CONDITION_SIZE, SERVOS) == {}
        assert bus.read_all(registers.TORQUE_ENABLE, registers.CONDITION_SIZE, SERVOS[1:]) == {
            servo: condition[servo] for servo in SERVOS[1:]
        }
    finally:
        bus.close()
        late.servos.close()


# --- bytes


def test_packets_are_those_of_the_protocols_description() -> None:
    # The examples "Ping" and "Write" of emanual.robotis.com/docs/en/dxl/protocol2.
    assert packet(1, 0x01, b"") == bytes.fromhex("ff ff fd 00 01 03 00 01 19 4e")
    assert packet(1, 0x03, bytes.fromhex("74 00 00 02 00 00")) == bytes.fromhex(
        "ff ff fd 00 01 09 00 03 74 00 00 02 00 00 ca 89"
    )


@given(st.binary(max_size=40), st.integers(0, 252))
def test_stuffing_hides_every_header_within_a_packet(parameters: bytes, servo: int) -> None:
    data = packet(servo, 0x55, b"\x00" + parameters)
    assert data.count(b"\xff\xff\xfd\x00") == 1 or b"\xff\xff\xfd\x00" not in data[4:]
    assert crc_16(data[:-2]) == int.from_bytes(data[-2:], "little")


states = st.builds(
    registers.ServoState,
    st.integers(-2000, 2000),
    st.integers(-2000, 2000).map(lambda counts: counts * registers.VELOCITY_UNIT_REV_PER_S),
    st.integers(-(1 << 31), (1 << 31) - 1).map(lambda counts: counts / registers.COUNTS_PER_TURN),
    st.integers(0, 300).map(lambda counts: counts / 10),
    st.integers(0, 255).map(float),
)


@given(states)
def test_registers_survive_the_round_trip(state: registers.ServoState) -> None:
    assert len(registers.encode_state(state)) == registers.STATE_SIZE == 21
    assert registers.decode_state(registers.encode_state(state)) == pytest.approx(state)


@given(st.lists(st.binary(max_size=30), max_size=10))
def test_no_bytes_from_the_host_break_the_servos(chunks: list[bytes]) -> None:
    servos = SimulatedDynamixelBus({1: FreeMotor()})
    received = iter([*chunks, packet(1, 0x01, b"")])
    servos.pty.receive = lambda: next(received, b"")  # type: ignore[method-assign]
    for number in range(len(chunks) + 2):
        servos.step(0.001 * number)
    servos.close()


def test_the_watchdog_is_rounded_up() -> None:
    assert [registers.watchdog_counts(ms) for ms in (20, 21, 200, 2540, 9999)] == [1, 2, 10, 127, 127]


# --- through the library


def test_the_library_reads_what_the_servos_send(stand: ServoStand) -> None:
    bus = DynamixelBus(stand.servos.port, 1_000_000, PATIENCE_S)
    bus.open()
    assert bus.missing([1, 4, 11, 20]) == [4, 20]
    assert bus.read(7, 7, 1) == 7
    bus.write(7, 116, 4, 0x00FDFFFF)  # FF FF FD on the wire, which must be stuffed
    assert bus.read(7, 116, 4) == 0x00FDFFFF
    with pytest.raises(DeviceError, match=r"servo 3 at .* refuses register 102"):
        bus.write(3, registers.GOAL_CURRENT, 2, 0x7FFF)
    with pytest.raises(DeviceError, match="servo 9 does not answer"):
        bus.read(9, 7, 1)
    bus.close()


def test_tensions_pull_with_either_polarity_and_are_read_back(stand: ServoStand) -> None:
    stand.actuators.open()
    assert not any(stand.servos.register(servo, registers.TORQUE_ENABLE, 1) for servo in SERVOS)
    stand.actuators.enable()
    for servo in SERVOS:
        assert stand.servos.register(servo, registers.OPERATING_MODE, 1) == registers.CURRENT_CONTROL
        assert stand.servos.register(servo, registers.BUS_WATCHDOG, 1) == TIMEOUT_MS // 20
    stand.run_until(lambda: bool((stand.actuators.read(time.monotonic()).displacement_m > 1e-3).all()), tension=20.0)
    reading = stand.actuators.read(time.monotonic())
    np.testing.assert_allclose(reading.tension_n, 20.0, atol=0.00269 * NEWTON_PER_AMPERE)
    np.testing.assert_array_equal(reading.temperature_c, 31.0)
    turned = [motor.position_rev for motor in stand.motors.values()]
    assert all(sign * value > 0 for sign, value in zip(itertools.cycle((1, -1)), turned, strict=False))
    assert reading.device_faults == ()


def test_the_clamp_is_told_and_nan_is_refused(stand: ServoStand) -> None:
    stand.actuators.open()
    stand.actuators.enable()
    stand.actuators.write(np.array([1e4, 0, -1e4, 0, 1.0]), time.monotonic())
    np.testing.assert_array_equal(stand.actuators.limited, [True, False, True, False, False])
    stand.run_until(lambda: stand.servos.register(1, registers.GOAL_CURRENT, 2) == int(0.5 / 0.00269))
    with pytest.raises(ParameterError, match="5 finite"):
        stand.actuators.write(np.array([1, 2, 3, 4, np.nan]), time.monotonic())


def test_every_missing_servo_is_named(stand: ServoStand) -> None:
    stand.servos.inject("silent", 2)
    stand.servos.inject("silent", 11)
    with pytest.raises(DeviceError, match="servo 2, 11 does not answer"):
        stand.actuators.open()
    stand.servos.inject("", 2)
    stand.servos.inject("", 11)
    stand.actuators.open()


def test_a_bus_that_stalls_for_a_moment_misses_no_servo(stand: ServoStand, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange, stalled = stand.actuators.bus._exchange, [3] * bus_module.ATTEMPTS

    def late(call: str, *arguments: int) -> Any:
        answer = exchange(call, *arguments)
        if call == "ping" and arguments[0] in stalled:
            stalled.remove(arguments[0])
            return 0, -1, 0
        return answer

    monkeypatch.setattr(stand.actuators.bus, "_exchange", late)
    stand.actuators.open()
    assert not stalled


def test_a_clamp_above_the_servos_own_is_refused(stand: ServoStand) -> None:
    settings = dataclasses.replace(wiring(stand.servos.port), maximum_current_a=5.0)
    actuators = DynamixelTendonActuators(five_tendons(), settings, answer_margin_s=PATIENCE_S)
    with pytest.raises(DeviceError, match=r"allows 3\.2 A \(1190 counts\), less than maximum_current_a = 5 A \(1858"):
        actuators.open()


@pytest.mark.parametrize("asked_a", [1.2, 1.19, 0.9, 0.5])
def test_a_limit_of_as_many_whole_counts_is_enough(asked_a: float) -> None:
    """1.2 A are 446.1 counts of 2.69 mA: a servo set to 446 allows all that the driver sends, one set to 445 less."""
    unit_a = wiring("").current_unit_a
    whole = int(asked_a / unit_a)
    for counts in (round(asked_a / unit_a), whole, whole - 1):
        settings = dataclasses.replace(wiring("none"), maximum_current_a=asked_a)
        actuators = DynamixelTendonActuators(five_tendons(), settings, simulated=True)
        actuators.bus.read = lambda *_, counts=counts: counts  # type: ignore[method-assign]
        if counts < whole:
            with pytest.raises(DeviceError, match=r"allows .* counts\), less than maximum_current_a"):
                actuators._check_current_limits()
        else:
            actuators._check_current_limits()


def test_a_loop_that_stands_still_loses_the_torque(stand: ServoStand) -> None:
    stand.actuators.open()
    stand.actuators.enable()
    stand.run_until(lambda: stand.servos.register(1, registers.GOAL_CURRENT, 2) > 0, tension=10.0)
    stand.run_until(lambda: "receive_timeout" in stand.names())
    stand.run_until(lambda: not any(stand.servos.register(servo, registers.TORQUE_ENABLE, 1) for servo in SERVOS))
    stand.actuators.clear_faults()
    stand.actuators.enable()
    stand.run_until(lambda: stand.servos.register(1, registers.GOAL_CURRENT, 2) > 0, tension=10.0)
    assert stand.names() == set()


def test_a_host_that_dies_is_noticed_by_the_servos_themselves(stand: ServoStand) -> None:
    stand.actuators.open()
    stand.actuators.enable()
    stand.run_until(lambda: stand.servos.register(1, registers.GOAL_CURRENT, 2) > 0, tension=10.0)
    stand.actuators._stop.set()  # as if the process were killed: no word of goodbye
    stand.run_until(lambda: stand.servos.register(1, registers.BUS_WATCHDOG, 1) == 0xFF)
    assert all(stand.servos.register(servo, registers.GOAL_CURRENT, 2) == 0 for servo in SERVOS)


@pytest.mark.parametrize(
    ("fault", "magnitude", "name"),
    [
        ("silent", 1.0, "silent_servo"),
        ("reboot", 1.0, "torque_off"),
        ("overheating", 1.0, "hardware_error overheating"),
        ("position_jump", 3.0, "position_jump"),
    ],
)
def test_faults_are_named(stand: ServoStand, fault: str, magnitude: float, name: str) -> None:
    stand.actuators.open()
    stand.actuators.enable()
    stand.servos.inject(fault, 3, magnitude)
    stand.run_until(lambda: name in stand.names(), tension=1.0)
    assert any(text.endswith(f"servo 3: {name}") for text in stand.actuators.read(time.monotonic()).device_faults)


@pytest.mark.parametrize("fault", ["lost_frames", "corrupted_frames", "noise"])
def test_single_bad_packets_are_no_fault(stand: ServoStand, fault: str) -> None:
    stand.actuators.open()
    stand.actuators.enable()
    stand.servos.inject(fault, 7, 20.0)
    packets = stand.actuators.bus.packets
    stand.run_until(lambda: stand.actuators.bus.packets > packets + 40, tension=1.0)
    assert stand.names() <= {"silent_servo"}, "nothing false is read; a slow machine may find it silent"
    assert np.abs(stand.actuators.read(time.monotonic()).displacement_m).max() < METER_PER_TURN


def test_an_overheated_servo_starts_anew_when_faults_are_cleared(stand: ServoStand) -> None:
    stand.actuators.open()
    stand.servos.inject("overheating", 2)
    stand.run_until(lambda: "hardware_error overheating" in stand.names())
    with pytest.raises(DeviceError, match=r"servo 2 .* reports overheating"):
        stand.actuators.enable()
    stand.servos.inject("", 2)
    stand.actuators.clear_faults()
    stand.run_until(lambda: bool(np.isfinite(stand.actuators.read(time.monotonic()).displacement_m).all()))
    assert stand.names() == set()
    np.testing.assert_array_equal(stand.actuators.zero_lost, [False, True, False, False, False])
    stand.actuators.enable()


def test_servos_that_kept_their_power_are_known_again(stand: ServoStand) -> None:
    stand.actuators.open()
    assert not stand.actuators.aligned
    stand.actuators.enable()
    stand.actuators.close()
    stand.actuators.open()
    assert stand.actuators.aligned
    stand.actuators.close()
    stand.servos.inject("reboot", 7)
    time.sleep(0.5)
    stand.actuators.open()
    assert not stand.actuators.aligned


def test_an_adapter_that_is_pulled_out_costs_ages_and_can_be_opened_again(stand: ServoStand) -> None:
    stand.actuators.open()
    stand.servos.pty.hang_up()
    stand.run_until(lambda: "silent_servo" in stand.names())
    with pytest.raises(DeviceError):
        stand.actuators.enable()
    stand.actuators.close()
    with pytest.raises(DeviceError, match="there is no such port"):
        stand.actuators.open()
    stand.servos.pty.plug_in()
    stand.actuators.open()
    assert stand.names() == set()


def test_settings_that_do_not_fit_are_refused() -> None:
    settings = wiring("/dev/ttyUSB0")
    with pytest.raises(RobotFileError, match="one of 57600"):
        dataclasses.replace(settings, baud_bps=60000)
    with pytest.raises(RobotFileError, match=r"motors\[1\].id"):
        dataclasses.replace(settings, motors=(settings.motors[0], settings.motors[0]))
    with pytest.raises(ParameterError, match="each of the tendons 1 to 5 once"):
        DynamixelTendonActuators(five_tendons(), dataclasses.replace(settings, motors=settings.motors[1:]))
