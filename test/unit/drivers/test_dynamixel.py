# SPDX-License-Identifier: Apache-2.0
"""The driver of Dynamixel servos with protocol 2, against servos emulated to the byte over a pseudo-terminal.

The makers' library is the independent peer of codec and emulator.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from emulated_servos import (
    METER_PER_TURN,
    NEWTON_PER_AMPERE,
    SERVOS,
    TIMEOUT_MS,
    SdkLine,
    ServoMotor,
    ServoStand,
    driver_of,
    dynamixels,
    position_stand,
    positioned,
)
from hypothesis import given
from hypothesis import strategies as st
from odri_stand import five_tendons

from continuum_robot.drivers import servo_bus, servo_emulation
from continuum_robot.drivers.dynamixel import models, protocol_2
from continuum_robot.drivers.dynamixel.emulator import EmulatedDynamixels
from continuum_robot.drivers.dynamixel.models import MODELS, MODES, model_named
from continuum_robot.drivers.dynamixel.protocol_2 import Protocol2, crc_16
from continuum_robot.drivers.protocols import DisplacementActuators
from continuum_robot.drivers.servo_bus import BROADCAST, ServoBus
from continuum_robot.errors import DeviceError, ParameterError, RobotFileError

packet = Protocol2.packet
X = model_named("XM430-W350")


@pytest.fixture
def stand() -> Iterator[ServoStand]:
    made = ServoStand()
    yield made
    made.close()


@pytest.fixture
def held() -> Iterator[ServoStand]:
    made = position_stand()
    yield made
    made.close()


# --- noise


class NoisyLine:
    """A serial line on which bytes come without an end; it counts them."""

    def __init__(self, noise: bytes) -> None:
        self._noise = itertools.cycle(noise)
        self.count = 0

    def read(self) -> bytes:
        self.count += 500
        assert self.count < 100_000_000, "noise holds the reader"
        return bytes(itertools.islice(self._noise, 500))

    def write(self, data: bytes) -> None: ...

    def wait(self, timeout_s: float) -> None: ...

    def close(self) -> None: ...


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
    bus = ServoBus("noise", 1_000_000, Protocol2(), "servos", answer_margin_s=0.0)
    line = NoisyLine(noise)
    bus._line = line  # type: ignore[assignment]
    assert bus.ask(BROADCAST, protocol_2.SYNC_READ, bytes(4), protocol_2.STATE_SIZE, SERVOS) == {}
    line.count = 0
    with pytest.raises(DeviceError, match="does not answer"):
        bus.ask_one(1, protocol_2.READ, bytes(4), 1)


class LateServos:
    """Servos whose answers come with those to the next packet, as on a machine that stalls."""

    def __init__(self) -> None:
        self.servos = EmulatedDynamixels({servo: ServoMotor() for servo in SERVOS})
        self.late = b""

    def ask(self, data: bytes) -> bytes:
        come, self.late = self.late, self.servos.take(data)
        return come


def test_a_late_answer_of_another_size_is_not_taken_for_that_to_the_next_question() -> None:
    late = LateServos()
    bus = ServoBus("late", 1_000_000, Protocol2(), "servos", 0.0, late.ask)

    def read(address: int, size: int) -> Any:
        parameters = protocol_2.place(address, size) + bytes(SERVOS)
        return bus.ask(BROADCAST, protocol_2.SYNC_READ, parameters, size, SERVOS)

    assert read(protocol_2.PRESENT_CURRENT, protocol_2.STATE_SIZE) == {}
    assert read(protocol_2.TORQUE_ENABLE, protocol_2.CONDITION_SIZE) == {}  # states came
    assert read(protocol_2.PRESENT_CURRENT, protocol_2.STATE_SIZE) == {}  # conditions came


# --- bytes


def test_packets_are_those_of_the_protocols_description() -> None:
    # The examples "Ping" and "Write" of emanual.robotis.com/docs/en/dxl/protocol2.
    assert packet(1, 0x01, b"") == bytes.fromhex("ff ff fd 00 01 03 00 01 19 4e")
    assert packet(1, 0x03, bytes.fromhex("74 00 00 02 00 00")) == bytes.fromhex(
        "ff ff fd 00 01 09 00 03 74 00 00 02 00 00 ca 89"
    )


@given(st.binary(max_size=40), st.integers(0, 252), st.binary(max_size=8))
def test_a_packet_is_found_in_a_stream_whatever_it_holds(parameters: bytes, servo: int, before: bytes) -> None:
    data = packet(servo, 0x55, b"\x00" + parameters)
    assert crc_16(data[:-2]) == int.from_bytes(data[-2:], "little")
    stream = bytearray(before.replace(b"\xff", b"") + data)
    assert Protocol2().take(stream) == (servo, 0, parameters)
    assert not stream


states = st.builds(
    protocol_2.ServoState,
    st.integers(-2000, 2000),
    st.integers(-2000, 2000).map(lambda counts: counts * X.velocity_unit_rev_per_s),
    st.integers(-(1 << 31), (1 << 31) - 1).map(lambda counts: counts / X.counts_per_turn),
    st.integers(0, 300).map(lambda counts: counts / 10),
    st.integers(0, 255).map(float),
)


@given(states)
def test_registers_survive_the_round_trip(state: protocol_2.ServoState) -> None:
    assert len(protocol_2.encode_state(state, X)) == protocol_2.STATE_SIZE == 21
    assert protocol_2.decode_state(protocol_2.encode_state(state, X), X) == pytest.approx(state)


@given(st.lists(st.binary(max_size=30), max_size=10))
def test_no_bytes_from_the_host_break_the_servos(chunks: list[bytes]) -> None:
    servos = EmulatedDynamixels({1: ServoMotor()})
    for number, chunk in enumerate([*chunks, packet(1, 0x01, b"")]):
        servos.step(0.001 * number, chunk)


def test_the_watchdog_is_rounded_up() -> None:
    assert [protocol_2.watchdog_counts(ms) for ms in (20, 21, 200, 2540, 9999)] == [1, 2, 10, 127, 127]


# --- the makers' library


@pytest.fixture
def sdk() -> Any:
    return pytest.importorskip("dynamixel_sdk", reason="the makers' library is not installed")


def test_the_makers_library_sends_the_same_bytes_and_reads_what_the_servos_send(sdk: Any) -> None:
    motors = {servo: ServoMotor(0.25 * servo) for servo in SERVOS}
    servos = EmulatedDynamixels(motors)
    servos.step(1.0)
    line, handler = SdkLine(sdk, servos), sdk.PacketHandler(2.0)
    ours = ServoBus("", 1_000_000, Protocol2(), "servos", 0.0, lambda data: sent.append(data) or servos.take(data))
    sent: list[bytes] = []

    assert handler.ping(line.port, 7)[:2] == (1020, 0)
    ours.ask_one(7, protocol_2.PING, b"", 3)
    assert handler.write4ByteTxRx(line.port, 7, 116, 0x00FDFFFF)[0] == 0  # FF FF FD on the wire, which is stuffed
    servos.servos[7].set(protocol_2.OPERATING_MODE, 1, MODES["extended_position"])
    assert handler.write4ByteTxRx(line.port, 7, 116, 0x00FDFFFF) == (0, 0)
    ours.ask_one(7, protocol_2.WRITE, bytes.fromhex("7400fffffd00"), 0)
    assert handler.read4ByteTxRx(line.port, 7, 116) == (0x00FDFFFF, 0, 0)
    ours.ask_one(7, protocol_2.READ, protocol_2.place(116, 4), 4)
    for fast in (False, True):
        group = sdk.GroupSyncRead(line.port, handler, protocol_2.PRESENT_CURRENT, protocol_2.STATE_SIZE)
        for servo in SERVOS:
            group.addParam(servo)
        assert (group.fastSyncRead() if fast else group.txRxPacket()) == 0
        for servo in SERVOS:
            state = protocol_2.decode_state(bytes(group.data_dict[servo]), X)
            assert state.position_rev == pytest.approx(0.25 * servo)
    driver = driver_of(five_tendons(), dynamixels("none"), stepped=True, ask=ours.in_process)
    driver.open()
    sent_by_library = bytes(line.written)
    sent.clear()
    driver._read_all(protocol_2.PRESENT_CURRENT, protocol_2.STATE_SIZE, range(5))
    driver._fast = False
    driver._read_all(protocol_2.PRESENT_CURRENT, protocol_2.STATE_SIZE, range(5))
    assert sent_by_library.endswith(sent[1] + sent[0]), "sync read and fast sync read"
    line.written.clear()
    group = sdk.GroupSyncWrite(line.port, handler, protocol_2.GOAL_CURRENT, 2)
    for servo in SERVOS:
        group.addParam(servo, [0xFE, 0xFF])
    assert group.txPacket() == 0
    driver._write_all(dict.fromkeys(SERVOS, (protocol_2.GOAL_CURRENT, b"\xfe\xff")))
    assert bytes(line.written) == sent[-1]


def test_the_table_of_models_is_the_makers(sdk: Any) -> None:
    easy = pytest.importorskip("dynamixel_easy_sdk.control_table", reason="the library has no tables")
    folder = __import__("pathlib").Path(easy.__file__).with_name("control_table")
    files = dict(line.split("\t")[:2] for line in (folder / "dynamixel.model").read_text().splitlines()[1:])
    for number, model in MODELS.items():
        if model.protocol != models.PROTOCOL_2 or str(number) not in files:
            continue
        text = (folder / files[str(number)].strip()).read_text()
        rows = {
            row[2]: int(row[0])
            for row in (line.split("\t") for line in text.partition("[control table]")[2].splitlines())
            if len(row) == 3 and row[0].isdigit()
        }
        assert files[str(number)].startswith(model.name.split("(")[0].lower().replace("-", "_")), model
        assert rows["Torque Enable"] == protocol_2.TORQUE_ENABLE + model.ram, model
        assert rows["Goal Position"] == protocol_2.GOAL_POSITION + model.ram, model
        assert rows["Present Position"] == protocol_2.PRESENT_POSITION + model.ram, model
        assert ("Present Current" in rows) == (model.current_unit_a > 0), model
        named = {name.lower(): address for name, address in rows.items()}
        assert named["bus watchdog"] == protocol_2.BUS_WATCHDOG + model.ram, model
        assert rows["Goal Velocity"] == protocol_2.GOAL_VELOCITY + model.ram, model
        assert rows["Velocity Limit"] == protocol_2.VELOCITY_LIMIT, model
        assert rows["Position I Gain"] == protocol_2.POSITION_I_GAIN + model.ram, model
        assert rows.get("Present Load", rows.get("Present Current")) == protocol_2.PRESENT_CURRENT + model.ram, model
        speed = float(text.partition("Present Velocity\t")[2].split("\t")[0])
        assert model.velocity_unit_rev_per_s * 2 * np.pi == pytest.approx(speed, rel=2e-3), model
        if model.ram:
            most = int(text.partition("value_of_max_radian_position\t")[2].split()[0])
            assert model.counts_per_turn == 2 * most, model


# --- tensions


def test_tensions_pull_with_either_polarity_and_are_read_back(stand: ServoStand) -> None:
    stand.actuators.open()
    assert not any(stand.servos.torque_enabled)
    stand.actuators.enable()
    for servo in SERVOS:
        assert stand.servos.register(servo, protocol_2.OPERATING_MODE, 1) == MODES["current"]
        assert stand.servos.register(servo, protocol_2.BUS_WATCHDOG, 1) == TIMEOUT_MS // 20
        assert stand.servos.register(servo, protocol_2.RETURN_DELAY, 1) == 0
    assert "servo 7: return delay 250 -> 0" in next(iter(stand.actuators.counters().values()))["written"]
    stand.run_until(lambda: bool((stand.read().displacement_m > 1e-3).all()), command=20.0)
    reading = stand.read()
    np.testing.assert_allclose(reading.tension_n, 20.0, atol=0.00269 * NEWTON_PER_AMPERE)
    np.testing.assert_array_equal(reading.temperature_c, 31.0)
    turned = [motor.position_rev for motor in stand.motors.values()]
    assert all(sign * value > 0 for sign, value in zip(itertools.cycle((1, -1)), turned, strict=False))
    assert reading.device_faults == ()


def test_lasting_memory_is_written_once(stand: ServoStand) -> None:
    stand.actuators.open()
    assert len(stand.actuators.written) == 2 * len(SERVOS)  # return delay and operating mode
    stand.actuators.close()
    stand.actuators.open()
    assert stand.actuators.written == []


def test_the_clamp_is_told_and_nan_is_refused(stand: ServoStand) -> None:
    stand.actuators.open()
    stand.actuators.enable()
    stand.actuators.write(np.array([1e4, 0, -1e4, 0, 1.0]), time.monotonic())
    np.testing.assert_array_equal(stand.actuators.limited, [True, False, True, False, False])
    stand.run_until(lambda: stand.servos.register(1, protocol_2.GOAL_CURRENT, 2) == int(0.5 / 0.00269))
    with pytest.raises(ParameterError, match="5 finite"):
        stand.actuators.write(np.array([1, 2, 3, 4, np.nan]), time.monotonic())


def test_every_missing_servo_is_named(stand: ServoStand) -> None:
    stand.actuators.bus._margin_s = 0.1
    stand.line.inject("silent", 2)
    stand.line.inject("silent", 11)
    with pytest.raises(DeviceError, match="servo 2, 11 does not answer"):
        stand.actuators.open()
    stand.line.inject("", 2)
    stand.line.inject("", 11)
    stand.actuators.open()


def test_a_bus_that_stalls_for_a_moment_misses_no_servo(stand: ServoStand, monkeypatch: pytest.MonkeyPatch) -> None:
    ping, stalled = stand.actuators.ping, [3] * servo_bus.ATTEMPTS

    def late(servo: int) -> bool:
        if servo in stalled:
            stalled.remove(servo)
            return False
        return bool(ping(servo))

    monkeypatch.setattr(stand.actuators, "ping", late)
    stand.actuators.open()
    assert not stalled


def test_a_clamp_above_the_servos_own_is_refused(stand: ServoStand) -> None:
    actuators = driver_of(five_tendons(), dynamixels(stand.line.port, maximum_current_a=5.0))
    with pytest.raises(DeviceError, match=r"allows 3\.2 A \(1190 counts\), less than maximum_current_a = 5 A \(1858"):
        actuators.open()


@pytest.mark.parametrize("asked_a", [1.2, 1.19, 0.9, 0.5])
def test_a_limit_of_as_many_whole_counts_is_enough(asked_a: float) -> None:
    """1.2 A are 446.1 counts of 2.69 mA: a servo set to 446 allows all that the driver sends, one set to 445 less."""
    unit_a = X.current_unit_a
    whole = int(asked_a / unit_a)
    for counts in (round(asked_a / unit_a), whole, whole - 1):
        servos = EmulatedDynamixels({servo: ServoMotor() for servo in SERVOS}, current_limit_a=counts * unit_a)
        settings = dynamixels("none", maximum_current_a=asked_a)
        actuators = driver_of(five_tendons(), settings, stepped=True, ask=servos.take)
        if counts < whole:
            with pytest.raises(DeviceError, match=r"allows .* counts\), less than maximum_current_a"):
                actuators.open()
        else:
            actuators.open()


def test_a_loop_that_stands_still_loses_the_torque(stand: ServoStand) -> None:
    stand.actuators.open()
    stand.actuators.enable()
    stand.run_until(lambda: stand.servos.register(1, protocol_2.GOAL_CURRENT, 2) > 0, command=10.0)
    assert stand.actuators.pending_s < TIMEOUT_MS / 1000
    stand.run_until(lambda: "receive_timeout" in stand.names())
    stand.run_until(lambda: not any(stand.servos.torque_enabled))
    stand.actuators.clear_faults()
    stand.actuators.enable()
    stand.run_until(lambda: stand.servos.register(1, protocol_2.GOAL_CURRENT, 2) > 0, command=10.0)
    assert stand.names() == set()


def test_a_host_that_dies_is_noticed_by_the_servos_themselves(stand: ServoStand) -> None:
    stand.actuators.open()
    stand.actuators.enable()
    stand.run_until(lambda: stand.servos.register(1, protocol_2.GOAL_CURRENT, 2) > 0, command=10.0)
    stand.actuators._stop.set()  # as if the process were killed: no word of goodbye
    stand.run_until(lambda: stand.servos.register(1, protocol_2.BUS_WATCHDOG, 1) == protocol_2.WATCHDOG_STRUCK)
    assert all(stand.servos.register(servo, protocol_2.GOAL_CURRENT, 2) == 0 for servo in SERVOS)


@pytest.mark.parametrize(
    ("fault", "magnitude", "name"),
    [
        ("silent", 1.0, "silent_servo"),
        ("reboot", 1.0, "torque_off"),
        ("overheating", 1.0, "hardware_error overheating"),
        ("overload", 1.0, "hardware_error overload"),
        ("position_jump", 3.0, "position_jump"),
    ],
)
def test_faults_are_named(stand: ServoStand, fault: str, magnitude: float, name: str) -> None:
    stand.actuators.open()
    stand.actuators.enable()
    stand.line.inject(fault, 3, magnitude)
    stand.run_until(lambda: name in stand.names(), command=1.0)
    assert any(text.endswith(f"servo 3: {name}") for text in stand.read().device_faults)


@pytest.mark.parametrize("fault", ["lost_frames", "corrupted_frames", "noise"])
def test_single_bad_packets_are_no_fault(stand: ServoStand, fault: str) -> None:
    stand.actuators.open()
    stand.actuators.enable()
    stand.line.inject(fault, 7, 20.0)
    packets = stand.actuators.bus.packets
    stand.run_until(lambda: stand.actuators.bus.packets > packets + 40, command=1.0)
    assert stand.names() <= {"silent_servo"}, "nothing false is read; a slow machine may find it silent"
    assert np.abs(stand.read().displacement_m).max() < METER_PER_TURN


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("ids", [SERVOS, SERVOS[::-1], (3, 1, 11, 2, 7)])
def test_servos_behind_a_silent_one_are_still_read(ids: tuple[int, ...], fast: bool) -> None:
    now_s = 1.0
    servos = EmulatedDynamixels({servo: ServoMotor() for servo in SERVOS}, fast=fast)
    servos.step(now_s)
    actuators = driver_of(
        five_tendons(), dynamixels("none", ids), clock=lambda: now_s, stepped=True, ask=servos.take, simulated=True
    )
    actuators.open()
    actuators.read(now_s)
    servos.inject("silent", 1)
    servos.inject("silent", 2)
    silent = [ids.index(1), ids.index(2)]
    for _ in range(100):
        now_s += 0.002
        servos.step(now_s)
        reading = actuators.read(now_s)
    fresh = [index for index in range(5) if index not in silent]
    np.testing.assert_array_equal(reading.age_s[fresh], 0.0)
    assert reading.age_s[silent].min() > 0.15
    assert sum("silent_servo" in fault for fault in reading.device_faults) == 2
    servos.inject("", 1)
    servos.inject("", 2)
    for _ in range(30):
        now_s += 0.002
        servos.step(now_s)
        reading = actuators.read(now_s)
    assert reading.age_s.max() < 0.01


def test_an_overheated_servo_starts_anew_when_faults_are_cleared(stand: ServoStand) -> None:
    stand.actuators.open()
    stand.line.inject("overheating", 2)
    stand.run_until(lambda: "hardware_error overheating" in stand.names())
    with pytest.raises(DeviceError, match=r"servo 2 .* reports overheating"):
        stand.actuators.enable()
    stand.line.inject("", 2)
    stand.actuators.clear_faults()
    stand.run_until(lambda: bool(np.isfinite(stand.read().displacement_m).all()))
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
    stand.line.inject("reboot", 7)
    time.sleep(0.5)
    stand.actuators.open()
    assert not stand.actuators.aligned


def test_an_adapter_that_is_pulled_out_and_put_in_is_taken_up_again(stand: ServoStand) -> None:
    stand.actuators.open()
    stand.line.pty.hang_up()
    stand.run_until(lambda: "silent_servo" in stand.names())
    with pytest.raises(DeviceError):
        stand.actuators.enable()
    stand.line.pty.plug_in()
    stand.run_until(lambda: bool((stand.read().age_s < 0.05).all()) and time.monotonic() - stand.read().stamp_s < 0.1)
    assert "silent_servo" in stand.names(), "it latched"
    stand.actuators.clear_faults()
    assert stand.names() == set()
    stand.actuators.enable()
    stand.line.pty.hang_up()
    stand.actuators.disable()
    stand.actuators.close()
    with pytest.raises(DeviceError, match="there is no such port"):
        stand.actuators.open()


def test_servos_at_another_baud_rate_do_not_answer(stand: ServoStand) -> None:
    actuators = driver_of(five_tendons(), dynamixels(stand.line.port, baud_bps=57600), answer_margin_s=0.01)
    with pytest.raises(DeviceError, match=r"servo 1, 2, 3, 7, 11 does not answer.* at 57600 bit/s"):
        actuators.open()
    assert stand.line.wrong_speed > 0


def test_settings_that_do_not_fit_are_refused() -> None:
    settings = dynamixels("/dev/ttyUSB0")
    with pytest.raises(RobotFileError, match=r"one of .*57600"):
        dataclasses.replace(settings, baud_bps=60000)
    with pytest.raises(RobotFileError, match=r"motors\[1\].id"):
        dataclasses.replace(settings, motors=(settings.motors[0], settings.motors[0]))
    with pytest.raises(RobotFileError, match="XL430-W250"):
        dataclasses.replace(settings, model="XL431")
    with pytest.raises(RobotFileError, match="what an XL430-W250 can do: velocity, position, extended_position"):
        dataclasses.replace(settings, model="XL430-W250", mode="current")
    twice = dataclasses.replace(settings.motors[0], id=12)
    for motors in ((*settings.motors, twice), (*settings.motors[:4], dataclasses.replace(twice, tendon=6)), ()):
        with pytest.raises(ParameterError, match="some of the tendons 1 to 5, each once"):
            driver_of(five_tendons(), dataclasses.replace(settings, motors=motors))


# --- models and modes


def opened(connected: str, robot: Any = None, **settings: Any) -> Any:
    """A driver of such servos, open, in virtual time."""
    servos = EmulatedDynamixels({servo: ServoMotor(0.3) for servo in SERVOS}, model_named(connected))
    servos.step(1.0)
    clock = settings.pop("clock", lambda: 1.0)
    actuators = driver_of(
        robot or positioned(), dynamixels("none", **settings), clock=clock, stepped=True, ask=servos.take
    )
    actuators.open()
    return actuators, servos


@pytest.mark.parametrize(
    ("model", "mode"),
    [
        ("XL430-W250", "extended_position"),
        ("XL330-M288", "current_based_position"),
        ("XM430-W350", "current_based_position"),
        ("MX-28(2.0)", "extended_position"),
        ("MX-106(2.0)", "current_based_position"),
        ("PH54-100-S500", "extended_position"),
    ],
)
def test_each_model_gets_its_own_mode_and_table(model: str, mode: str) -> None:
    actuators, servos = opened(model)
    assert servos.register(7, protocol_2.OPERATING_MODE, 1) == MODES[mode]
    actuators.enable()
    assert servos.torque_enabled == [True] * 5
    reading = actuators.read(1.0)
    turns = np.where(np.arange(5) % 2, -0.3, 0.3)
    np.testing.assert_allclose(reading.displacement_m, turns * METER_PER_TURN, atol=METER_PER_TURN / 4096)
    assert np.isfinite(reading.current_a).all() == (model_named(model).current_unit_a > 0)
    watchdog = servos.register(7, protocol_2.BUS_WATCHDOG, 1)
    assert watchdog == TIMEOUT_MS // 20


def test_servos_that_cannot_do_the_mode_are_refused_with_what_they_can() -> None:
    with pytest.raises(DeviceError, match="is an XL430-W250, which for tensions can do nothing, not current"):
        opened("XL430-W250", five_tendons())
    with pytest.raises(DeviceError, match="can do velocity, position, extended_position, not current_based_position"):
        opened("XL430-W250", mode="current_based_position")
    with pytest.raises(DeviceError, match=r"is an XL330-M288, not an XM430-W350"):
        opened("XL330-M288", model="XM430-W350")
    with pytest.raises(DeviceError, match=r"XM430-W350, which for displacements can do .* not current"):
        opened("XM430-W350", mode="current")


def test_a_model_that_nobody_knows_is_refused() -> None:
    servos = EmulatedDynamixels({servo: ServoMotor() for servo in SERVOS})
    servos.servos[3].set(protocol_2.MODEL_NUMBER, 2, 999)
    actuators = driver_of(five_tendons(), dynamixels("none"), stepped=True, ask=servos.take)
    with pytest.raises(DeviceError, match=r"servo 3 .* is of model 999"):
        actuators.open()


# --- displacements


def test_enabling_holds_the_place_where_the_servos_are(held: ServoStand) -> None:
    assert isinstance(held.actuators, DisplacementActuators)
    assert held.actuators.takes_displacements
    held.actuators.open()
    before = held.read().displacement_m
    held.actuators.enable()
    assert held.servos.torque_enabled == [True] * 5
    time.sleep(0.1)
    np.testing.assert_array_equal(held.read().displacement_m, before)
    assert all(held.servos.register(servo, protocol_2.GOAL_POSITION, 4) == round(0.3 * 4096) for servo in SERVOS)


def test_displacements_are_held_with_either_polarity_over_many_turns(held: ServoStand) -> None:
    held.actuators.open()
    held.actuators.enable()
    start = held.read().displacement_m
    for moved in (0.01, 1.3 * METER_PER_TURN, -0.4 * METER_PER_TURN):
        goal = start + moved
        held.run_until(lambda goal=goal: np.allclose(held.read().displacement_m, goal, atol=1e-4), goal)
    assert held.names() == set()


class Velocity:
    """Servos in velocity mode in this process, in virtual time."""

    def __init__(self, model: str = "XL430-W250", *, fast: bool = True) -> None:
        self.motors = {servo: ServoMotor(0.3) for servo in SERVOS}
        self.servos = EmulatedDynamixels(self.motors, model_named(model), fast=fast)
        self.now_s = 1.0
        options = {"clock": lambda: self.now_s, "stepped": True, "ask": self.servos.take, "answer_margin_s": None}
        self.actuators = driver_of(positioned(), dynamixels("servos", mode="velocity"), **options)
        self.servos.step(self.now_s)
        self.actuators.open()
        self.actuators.enable()

    def run(self, cycles: int, command: Callable[[float], Any] | None = None) -> Any:
        """Cycles of 5 ms; the last reading."""
        for _ in range(cycles):
            self.now_s += 0.005
            for motor in self.motors.values():
                motor.advance(0.005)
            self.servos.step(self.now_s)
            reading = self.actuators.read(self.now_s)
            if command is not None:
                self.actuators.write(np.broadcast_to(command(self.now_s), 5), self.now_s)
        return reading

    def speeds(self) -> list[int]:
        signed = (self.servos.register(servo, protocol_2.GOAL_VELOCITY, 4) for servo in SERVOS)
        return [value - (1 << 32) if value >> 31 else value for value in signed]


@pytest.mark.parametrize("model", ["XL430-W250", "MX-64(2.0)", "PH54-100-S500"])
def test_velocity_mode_holds_displacements_and_keeps_up_with_moving_ones(model: str) -> None:
    robot = Velocity(model)
    start = robot.run(2).displacement_m
    assert robot.speeds() == [0] * 5
    assert np.abs(robot.run(400, lambda _: start + 0.02).displacement_m - start - 0.02).max() < 2e-4
    begin_s = robot.now_s
    moving = lambda now_s: start + 0.02 - 0.02 * (now_s - begin_s)  # noqa: E731
    behind = robot.run(200, moving).displacement_m - moving(robot.now_s)
    # Without the goals' own speed it would trail by speed / gain, 2.5 mm; the motor itself is 50 ms behind.
    assert 0 < behind.min() <= behind.max() < 1.5e-3
    fastest = 0.05 / METER_PER_TURN / model_named(model).velocity_unit_rev_per_s
    robot.run(2, lambda _: start + 0.5)
    assert max(map(abs, robot.speeds())) == pytest.approx(fastest, abs=1)


def test_in_velocity_mode_who_is_not_heard_stands_and_a_dead_host_stops_all() -> None:
    robot = Velocity(fast=False)
    start = robot.run(2).displacement_m
    robot.run(20, lambda _: start + 0.05)
    assert all(robot.speeds())
    robot.servos.inject("lost_frames", SERVOS[2], 1)
    robot.run(3, lambda _: start + 0.05)
    assert robot.speeds()[2] == 0
    assert all(speed for index, speed in enumerate(robot.speeds()) if index != 2)
    robot.servos.inject("", SERVOS[2])
    robot.run(20, lambda _: start + 0.05)  # a servo that was silent is asked now and then
    assert all(robot.speeds())
    # kill -9: nobody asks any more
    for _ in range(TIMEOUT_MS // 5 + 2):
        robot.now_s += 0.005
        robot.servos.step(robot.now_s)
    assert robot.speeds() == [0] * 5
    assert robot.servos.torque_enabled == [True] * 5
    struck = [robot.servos.register(servo, protocol_2.BUS_WATCHDOG, 1) for servo in SERVOS]
    assert struck == [protocol_2.WATCHDOG_STRUCK] * 5


def test_a_servo_whose_firmware_has_no_watchdog_is_not_switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    actuators, servos = opened("MX-64(2.0)", five_tendons())
    write = servos.write
    monkeypatch.setattr(
        servos, "write", lambda number, at, data: 0 if at == protocol_2.BUS_WATCHDOG else write(number, at, data)
    )
    with pytest.raises(DeviceError, match=r"did not take its watchdog.*before version 38"):
        actuators.enable()
    assert servos.torque_enabled == [False] * 5


def test_the_servos_own_profile_and_torque_are_limited_by_the_robot_file(held: ServoStand) -> None:
    held.actuators.open()
    held.actuators.enable()
    turns_per_s = 0.05 / METER_PER_TURN
    assert held.servos.register(1, protocol_2.PROFILE_VELOCITY, 4) == -(-turns_per_s // (0.229 / 60))
    # 20 N of 178 N that the motor gives at 1 A
    assert held.servos.register(1, protocol_2.GOAL_PWM, 2) == -(-885 * 20 // NEWTON_PER_AMPERE)
    actuators, _ = opened("XM430-W350")
    actuators.enable()
    assert actuators.get(actuators._table[0], protocol_2.GOAL_CURRENT, 2) == -(-20 // (NEWTON_PER_AMPERE * 0.00269))


def test_a_load_is_a_part_of_the_largest_torque(held: ServoStand) -> None:
    held.actuators.open()
    held.actuators.enable()
    held.run_until(lambda: held.motors[1].current_a > 0, held.read().displacement_m)
    held.run_until(lambda: held.read().tension_n[0] > 0)
    load = 0.2 * held.motors[1].torque_fraction
    assert held.read().tension_n[0] == pytest.approx(load * NEWTON_PER_AMPERE, abs=1e-3 * NEWTON_PER_AMPERE)
    assert np.isnan(held.read().current_a).all()


@pytest.mark.parametrize("mode", ["extended_position", "velocity"])
def test_without_commands_servos_hold_where_they_are(mode: str) -> None:
    held = position_stand(mode=mode)
    try:
        without_commands(held)
    finally:
        held.close()


def without_commands(held: ServoStand) -> None:
    held.actuators.open()
    held.actuators.enable()
    start = held.read().displacement_m
    held.run_until(lambda: bool((held.read().displacement_m > start + 0.004).all()), start + 0.005)
    held.run_until(lambda: "receive_timeout" in held.names())
    assert held.servos.torque_enabled == [True] * 5
    held.actuators.write(start, time.monotonic())
    time.sleep(0.1)
    assert (held.read().displacement_m > start + 0.004).all(), "a command after it moves nothing"
    held.actuators.disable()
    held.actuators.clear_faults()
    held.actuators.enable()
    held.run_until(lambda: bool((held.read().displacement_m < start + 0.001).all()), start)


def test_a_host_that_dies_leaves_the_servos_holding_their_place(held: ServoStand) -> None:
    held.actuators.open()
    held.actuators.enable()
    start = held.read().displacement_m
    goal = start + 0.02
    held.run_until(lambda: bool((held.read().displacement_m > start + 0.002).all()), goal)
    held.actuators._stop.set()  # as if the process were killed: no word of goodbye
    held.run_until(lambda: held.servos.register(1, protocol_2.BUS_WATCHDOG, 1) == protocol_2.WATCHDOG_STRUCK)
    assert held.servos.torque_enabled == [True] * 5
    places = [motor.position_rev for motor in held.motors.values()]
    time.sleep(0.1)
    np.testing.assert_allclose([motor.position_rev for motor in held.motors.values()], places, atol=1e-3)


def test_a_goal_beyond_the_turn_is_held_at_its_end_and_latches() -> None:
    now_s = 1.0
    actuators, servos = opened("XL430-W250", mode="position", clock=lambda: now_s)
    assert actuators.aligned, "within its turn a servo knows where it is"
    actuators.enable()
    start = actuators.read(now_s).displacement_m
    actuators.write(start + 0.9 * METER_PER_TURN, now_s)
    now_s += 0.002
    reading = actuators.read(now_s)
    assert actuators.limited[0]
    assert sum("position_out_of_range" in fault for fault in reading.device_faults) == 5
    assert servos.register(1, protocol_2.GOAL_POSITION, 4) == 4095


def test_drive_modes_that_would_move_by_themselves_are_mended() -> None:
    servos = EmulatedDynamixels({servo: ServoMotor() for servo in SERVOS}, model_named("XL430-W250"))
    servos.servos[3].set(protocol_2.DRIVE_MODE, 1, protocol_2.TIME_PROFILE | protocol_2.ON_BY_GOAL)
    actuators = driver_of(positioned(), dynamixels("none"), stepped=True, ask=servos.take)
    actuators.open()
    assert servos.register(3, protocol_2.DRIVE_MODE, 1) == 0
    assert "servo 3: drive 12 -> 0" in actuators.written


def test_a_watchdog_that_strikes_alone_latches_and_lets_the_servo_take_goals_again() -> None:
    now_s = [1.0]
    servos = EmulatedDynamixels({servo: ServoMotor() for servo in SERVOS}, model_named("XL430-W250"))
    actuators = driver_of(
        positioned(), dynamixels("none"), clock=lambda: now_s[0], stepped=True, ask=servos.take, pass_time=servos.step
    )
    actuators.open()
    actuators.enable()
    actuators.read(now_s[0])
    servos.inject(servo_emulation.WATCHDOG, 3)
    struck = []
    for _ in range(30):
        now_s[0] += 0.005
        actuators.write(np.zeros(5), now_s[0])
        actuators.read(now_s[0])
        struck.append(servos.register(3, protocol_2.BUS_WATCHDOG, 1) == protocol_2.WATCHDOG_STRUCK)
    assert struck[0]
    assert not struck[-1]
    assert [fault.split(" servo ")[1] for fault in actuators.read(now_s[0]).device_faults] == ["3: receive_timeout"]
    assert servos.torque_enabled == [True] * 5


def test_a_servo_that_turns_the_other_way_round_is_refused() -> None:
    """A stop that pays out would wind its tendon in."""
    servos = EmulatedDynamixels({servo: ServoMotor() for servo in SERVOS}, model_named("XL430-W250"))
    servos.inject(servo_emulation.DRIVE_REVERSED, 3)
    actuators = driver_of(positioned(), dynamixels("none"), stepped=True, ask=servos.take)
    with pytest.raises(DeviceError, match=r"servo 3 .* turns the other way round: bit 0 of its Drive Mode \(1\)"):
        actuators.open()
    servos.inject("", 3)
    actuators.open()


def test_servos_that_answer_reading_only_are_told_to_answer_all() -> None:
    servos = EmulatedDynamixels({servo: ServoMotor() for servo in SERVOS}, model_named("XL430-W250"))
    servos.servos[3].set(protocol_2.STATUS_RETURN, 1, 1)
    actuators = driver_of(positioned(), dynamixels("none"), stepped=True, ask=servos.take)
    actuators.open()
    actuators.enable()
    assert servos.torque_enabled == [True] * 5


# --- overload


def test_an_overload_is_recovered_as_often_as_the_file_says_and_keeps_the_turns() -> None:
    made = position_stand(start_rev=2.3, overload="restart", overload_restarts=1)
    try:
        made.actuators.open()
        made.actuators.enable()
        start = made.read().displacement_m
        goal = start + np.where(np.arange(5) % 2, -1, 1) * 2.1 * METER_PER_TURN
        made.run_until(lambda: bool(np.allclose(made.read().displacement_m, goal, atol=1e-4)), goal)
        made.line.inject("overload", 3)
        made.run_until(lambda: not all(made.servos.torque_enabled), goal)
        made.run_until(lambda: all(made.servos.torque_enabled), goal)
        made.run_until(lambda: bool(np.allclose(made.read().displacement_m, goal, atol=1e-4)), goal)
        assert made.servos.register(3, protocol_2.PRESENT_POSITION, 4) < 4096, "it counts within its turn"
        assert made.names() == set()
        assert not made.actuators.zero_lost.any()
        made.line.inject("overload", 3)
        made.run_until(lambda: "hardware_error overload" in made.names(), goal)
    finally:
        made.close()


def test_a_bus_that_is_gone_is_closed_all_the_same(stand: ServoStand) -> None:
    stand.actuators.open()
    stand.actuators.enable()
    stand.line.pty.hang_up()
    stand.run_until(lambda: stand.actuators.last_error != "", command=1.0)
    stand.actuators.close()
    assert not any(thread.name == stand.actuators.name for thread in threading.enumerate())
    with pytest.raises(DeviceError, match="not open"):
        stand.read()
