# SPDX-License-Identifier: Apache-2.0
"""CiA 402 drives against emulated ones, with the package canopen as the peer of the frames."""

from __future__ import annotations

import dataclasses
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

from continuum_robot.drivers import backends
from continuum_robot.drivers.base_stage import stage_motors
from continuum_robot.drivers.can_bus import Frame, slcan_line, take_slcan
from continuum_robot.drivers.cia402 import codec, device
from continuum_robot.drivers.cia402.bus import CanOpenBus
from continuum_robot.drivers.cia402.device import Cia402Actuators
from continuum_robot.drivers.cia402.emulator import EmulatedCia402
from continuum_robot.drivers.cia402.settings import Cia402, Cia402Motor
from continuum_robot.drivers.safety.stage_motion import StageMotion
from continuum_robot.drivers.survey import motors_findings
from continuum_robot.errors import DeviceError, RobotFileError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot

COUNTS = 4096
OPTIONS: dict[str, Any] = {"answer_margin_s": PATIENCE_S, "simulated": True}
WATCHED = 127 << 16 | TIMEOUT_MS


def section(port: str, servos: tuple[int, ...] = SERVOS, **changes: Any) -> Cia402:
    motors = entries_of(Cia402Motor, servos, counts_per_turn=COUNTS)
    given = {"maximum_current_a": 0.5, "receive_timeout_ms": TIMEOUT_MS, **changes}
    return Cia402(kind="cia402", port=port, motors=motors, **given)


def emulated(motors: dict[int, ServoMotor]) -> EmulatedCia402:
    entries = {entry.id: entry for entry in section("none", tuple(motors)).motors}
    return EmulatedCia402(
        motors,
        entries,
        nm_per_a=dict.fromkeys(motors, CONSTANT),
        largest_a=dict.fromkeys(motors, 1.0),
        velocity_unit_rev_per_s=1 / 60,
    )


def stand_of(robot: Any, start_rev: float = 0.3) -> ServoStand:
    return ServoStand(emulated, lambda port: Cia402Actuators(robot, section(port), **OPTIONS), start_rev)


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


class Stepped:
    """Drives and driver in virtual time: one drive for each tendon, and its motor."""

    def __init__(self, robot: Robot, **changes: Any) -> None:
        self.now_s, self.motors = 0.0, {servo: ServoMotor(0.3) for servo in SERVOS}
        self.drives = emulated(self.motors)
        self.driver = Cia402Actuators(
            robot,
            section("none", **changes),
            clock=lambda: self.now_s,
            stepped=True,
            ask=self.drives.take,
            pass_time=self.pass_time,
        )
        self.pass_time(0.001)

    def pass_time(self, now_s: float) -> None:
        for motor in self.motors.values():
            motor.advance(now_s - self.now_s)
        self.now_s = now_s
        self.drives.step(now_s)

    def run(self, duration_s: float, command: Any = None) -> Any:
        """Cycles; gives the last reading."""
        for _ in range(round(duration_s / 0.002)):
            reading = self.driver.read(self.now_s + 0.002)
            if command is not None:
                self.driver.write(np.broadcast_to(np.asarray(command, dtype=float), 5), self.now_s)
        return reading

    def only_drives(self, duration_s: float) -> None:
        """Time without the host."""
        for _ in range(round(duration_s / 0.002)):
            self.pass_time(self.now_s + 0.002)

    def names(self) -> set[str]:
        return {fault.split(": ", 1)[1] for fault in self.driver.read(self.now_s).device_faults}


# --- frames, with the package canopen as peer


@pytest.fixture
def virtual_bus(request: pytest.FixtureRequest) -> Iterator[can.BusABC]:
    with can.Bus(interface="virtual", channel=request.node.name) as bus:
        yield bus


@pytest.fixture
def network(request: pytest.FixtureRequest) -> Iterator[Any]:
    canopen = pytest.importorskip("canopen", reason="canopen is not installed")
    made = canopen.Network()
    made.connect(interface="virtual", channel=request.node.name)
    yield made
    made.disconnect()


def dictionary() -> Any:
    """The objects of a drive for canopen."""
    peer = pytest.importorskip("canopen", reason="canopen is not installed")
    types = {"<b": 2, "<B": 5, "<h": 3, "<H": 6, "<i": 4, "<I": 7}
    found = peer.ObjectDictionary()

    def variable(key: int) -> Any:
        made = peer.objectdictionary.ODVariable(f"object {key:06x}", key >> 8, key & 0xFF)
        made.data_type = types[codec.form_of(key)]
        made.access_type = "rw"
        return made

    keys = set(codec.OBJECTS)
    for pdo in (codec.goals_received(codec.TARGET_POSITION), codec.STATES_SENT, codec.SPEEDS_SENT):
        keys |= {pdo.communication << 8 | sub for sub in range(3)}
        keys |= {pdo.mapping << 8 | sub for sub in range(5)}
    for index in sorted({key >> 8 for key in keys}):
        own = sorted(key for key in keys if key >> 8 == index)
        if len(own) == 1 and not own[0] & 0xFF:
            found.add_object(variable(own[0]))
            continue
        record = peer.objectdictionary.ODRecord(f"object {index:04x}", index)
        for key in own:
            record.add_member(variable(key))
        found.add_object(record)
    return found


class Answering:
    """Emulated drives that answer on a python-can bus; keeps what they received."""

    def __init__(self, bus: can.BusABC, drives: EmulatedCia402) -> None:
        self._bus, self._drives, self.received = bus, drives, list[Frame]()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Answering:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.is_set():
            if (message := self._bus.recv(0.05)) is None:
                continue
            self.received.append(Frame(message.arbitration_id, bytes(message.data)))
            self._drives.step(self._drives.now_s + 1e-3)
            answers = bytearray(self._drives.take(slcan_line(self.received[-1])))
            while (frame := take_slcan(answers)) is not None:
                self._bus.send(can.Message(arbitration_id=frame.identifier, data=frame.data, is_extended_id=False))


def test_canopen_as_master_reads_maps_and_enables_the_emulated_drive(network: Any, virtual_bus: can.BusABC) -> None:
    profile = pytest.importorskip("canopen.profiles.p402")
    drives = emulated({5: ServoMotor(0.25)})
    with Answering(virtual_bus, drives) as answering:
        node = network.add_node(profile.BaseNode402(5, dictionary()))
        assert node.sdo[0x1000].raw & 0xFFFF == 402
        node.nmt.state = "PRE-OPERATIONAL"
        for pdo, ours in (
            (node.rpdo[1], codec.goals_received(codec.TARGET_POSITION)),
            (node.tpdo[1], codec.STATES_SENT),
            (node.tpdo[2], codec.SPEEDS_SENT),
        ):
            pdo.clear()
            for key in ours.objects:
                pdo.add_variable(key >> 8, key & 0xFF)
            pdo.cob_id, pdo.trans_type, pdo.enabled = ours.function + 5, 1, True
            pdo.rtr_allowed = pdo is node.rpdo[1]
            begin = len(answering.received)
            pdo.save()
            sent = [frame for frame in answering.received[begin:] if frame.identifier == codec.SDO_REQUEST + 5]
            theirs = [frame for frame in sent if frame.data[0] != 0x40]
            mine = [codec.write_request(5, key, value) for key, value in codec.pdo_set_up(ours, 5)]
            assert set(theirs) <= set(mine), "the same bytes, whatever the order"
            assert {frame for frame in mine if frame.data[1:3] == ours.mapping.to_bytes(2, "little")} <= set(theirs)
        node.sdo[0x6060].raw = codec.CSP
        assert node.sdo[0x6061].raw == codec.CSP
        node.nmt.state = "OPERATIONAL"
        node.sdo[0x607A].raw = node.sdo[0x6064].raw
        for word, state in ((0x06, codec.READY), (0x07, codec.SWITCHED_ON), (0x0F, codec.ENABLED)):
            node.sdo[0x6040].raw = word
            assert codec.state_of(node.sdo[0x6041].raw) == drives.state(5) == state
        node.rpdo[1][0x6040].raw, node.rpdo[1][0x607A].raw = 0x0F, 1500
        node.rpdo[1].transmit()
        network.sync.transmit()
        assert node.tpdo[2].wait_for_reception(5.0) is not None
        assert node.tpdo[1][0x6064].raw == round(0.25 * COUNTS)
        assert codec.goal_frame(5, codec.TARGET_POSITION, 0x0F, 1500) in answering.received
        assert drives.objects(5)[codec.TARGET_POSITION] == 1500


def test_a_node_of_canopen_takes_our_transfers(network: Any, request: pytest.FixtureRequest) -> None:
    node = network.create_node(9, dictionary())
    bus = CanOpenBus(f"virtual:{request.node.name}", 1_000_000, 127, 400, margin_s=1.0)
    bus.open()
    try:
        for key, value in ((codec.MODE, -3), (codec.TARGET_POSITION, -123456), (codec.LARGEST_TORQUE, 65000)):
            bus.write(9, key, value)
            assert node.sdo[key >> 8].raw == value
            assert bus.read(9, key) == value
        bus.write(9, codec.CONSUMER_HEARTBEAT, WATCHED)
        assert node.sdo[0x1016][1].raw == WATCHED
        with pytest.raises(DeviceError, match=r"drive 9 .* refuses object 0x6077:00 \(abort|no such"):
            bus.read(9, codec.TORQUE)  # it has no value there
        bus.command(codec.START, [9])
        end_s = time.monotonic() + 10.0
        while node.nmt.state != "OPERATIONAL":
            assert time.monotonic() < end_s
            time.sleep(0.01)
    finally:
        bus.close()


def test_states_and_transitions_are_those_of_canopen() -> None:
    theirs = pytest.importorskip("canopen.profiles.p402", reason="canopen is not installed").State402
    assert {name.upper(): value for name, value in codec.STATES.items()} == theirs.SW_MASK
    for state, word in codec.TOWARDS_ENABLED.items():
        nearer = theirs.next_state_indirect(state.upper())
        assert theirs.TRANSITIONTABLE[state.upper(), nearer] == word


@given(st.sampled_from(list(codec.OBJECTS)), st.integers(1, 127), st.binary(max_size=8))
def test_no_bytes_break_either_side(key: int, node: int, data: bytes) -> None:
    codec.sdo_answer(data)
    drives = emulated({1: ServoMotor()})
    drives.step(1.0)
    for function in (0, 0x80, 0x200, 0x600, 0x700):
        drives.take(slcan_line(Frame(function + node, data)))
    drives.take(data + b"\r" + slcan_line(codec.read_request(1, key)))


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_positions_wrap_at_32_bits(counts: int, step: int) -> None:
    there = codec.wrapped(counts + step)
    assert codec.wrapped(there - counts) == step
    assert -(2**31) <= there < 2**31


# --- the state machine


@pytest.mark.parametrize("begin", [codec.SWITCH_ON_DISABLED, codec.READY, codec.SWITCHED_ON, codec.QUICK_STOP_ACTIVE])
def test_it_gets_to_operation_from_every_state_without_a_fault(begin: str) -> None:
    bench = Stepped(positioned())
    bench.driver.open()
    words = {codec.READY: [6], codec.SWITCHED_ON: [6, 7], codec.QUICK_STOP_ACTIVE: [6, 7, 15, 2]}
    for word in words.get(begin, []):
        bench.driver.bus.write(7, codec.CONTROLWORD, word)
    assert bench.drives.state(7) == begin
    bench.driver.enable()
    assert all(bench.drives.state(node) == codec.ENABLED for node in SERVOS)
    bench.driver.disable()
    assert all(bench.drives.state(node) == codec.SWITCH_ON_DISABLED for node in SERVOS)


def test_a_fault_is_named_not_enabled_and_reset_when_faults_are_cleared() -> None:
    bench = Stepped(positioned())
    bench.driver.open()
    bench.driver.enable()
    place = bench.driver.read(bench.now_s).displacement_m
    bench.drives.inject("overload", 3)
    bench.run(0.1, place)
    assert bench.names() == {"hardware_error over_current_output_2310"}
    assert not bench.drives.torque_enabled[2]
    bench.driver.disable()
    with pytest.raises(DeviceError, match=r"drive 3 .* reports over_current_output_2310"):
        bench.driver.enable()
    assert not any(bench.drives.torque_enabled), "all are off then"
    bench.driver.clear_faults()
    assert bench.drives.state(3) == codec.SWITCH_ON_DISABLED
    bench.driver.enable()
    bench.run(0.1, place)
    assert bench.names() == set()


def test_a_drive_whose_power_stage_does_not_switch_on_is_named() -> None:
    bench = Stepped(positioned())
    bench.driver.open()
    bench.drives._drives[7].objects[codec.STATUSWORD] = 0
    bench.drives._show = lambda drive: drive.objects.update({codec.STATUSWORD: 0})  # type: ignore[method-assign]
    bench.pass_time(bench.now_s + 0.01)
    with pytest.raises(DeviceError, match=r"drive 1 .* stays in state 'not ready to switch on'"):
        bench.driver.enable()


# --- set-up


def test_what_is_set_up_is_read_back() -> None:
    bench = Stepped(positioned(), quick_stop="off")
    bench.driver.open()
    values = bench.drives.objects(7)
    assert values[codec.CONSUMER_HEARTBEAT] == WATCHED
    assert values[codec.ABORT_CONNECTION] == 3
    assert values[codec.QUICK_STOP_OPTION] == 2
    assert (values[codec.CYCLE], values[codec.CYCLE_EXPONENT]) == (5, -3)  # 200 commands a second
    assert values[codec.LARGEST_TORQUE] == int(1000 * 20.0 * RADIUS_M / CONSTANT)  # maximum_n
    assert values[0x160002] == 0x607A_0020
    assert (values[0x140001], values[0x180001]) == (0x207, 0x4000_0187)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (codec.SUPPORTED_MODES, 1 << codec.CST - 1, r"has no mode CSP \(8\)"),
        (codec.DEVICE_TYPE, 0x0000_0191, "device profile 401 and not 402"),
        (codec.RATED_TORQUE, 0, "states no rated torque"),
        (codec.RATED_TORQUE, 10_000_000, "counts torques in 10 N.m"),
    ],
)
def test_drives_that_do_not_fit_are_refused(key: int, value: int, words: str) -> None:
    bench = Stepped(positioned())
    bench.drives.objects(7)[key] = value
    with pytest.raises(DeviceError, match=rf"drive 7 .*{words}"):
        bench.driver.open()


def test_a_mode_that_does_not_come_or_does_not_stay_is_refused() -> None:
    bench = Stepped(positioned())
    bench.driver.open()
    bench.drives.objects(7)[codec.MODE_DISPLAY] = 1
    with pytest.raises(DeviceError, match=r"drive 7 .* is in mode 1 and not in CSP"):
        bench.driver.enable()
    assert not any(bench.drives.torque_enabled)
    bench.driver.close()
    write = bench.drives._write
    bench.drives._write = (  # type: ignore[method-assign]
        lambda node, drive, key, value: key == codec.MODE or write(node, drive, key, value)
    )
    with pytest.raises(DeviceError, match=r"drive 7 .* stays in mode 1, not CSP"):
        bench.driver.open()


def test_a_section_that_cannot_be_is_refused() -> None:
    with pytest.raises(RobotFileError, match="host_id"):
        section("can0", host_id=7)
    with pytest.raises(RobotFileError, match="each motor once"):
        section("can0", (1, 1, 2, 3, 4))


def test_every_missing_drive_is_named(stand: ServoStand) -> None:
    stand.actuators.bus._margin_s = 0.1
    stand.line.inject("silent", 2)
    with pytest.raises(DeviceError, match="drive 2 does not answer"):
        stand.actuators.open()


# --- tensions and displacements


def test_tensions_pull_with_either_polarity_and_are_read_back(stand: ServoStand) -> None:
    stand.actuators.open()
    assert not any(stand.servos.torque_enabled)
    start = stand.read().displacement_m
    stand.actuators.enable()
    stand.run_until(lambda: bool((stand.read().displacement_m > start + 1e-3).all()), command=20.0)
    step_n = 1e-3 * NEWTON_PER_AMPERE  # a thousandth of the rated torque
    np.testing.assert_allclose(stand.read().tension_n, 20.0, atol=step_n)
    stand.run_until(lambda: bool(stand.read().tension_n[0] > 80.0), command=1e4)
    assert stand.read().tension_n.max() <= 0.5 * NEWTON_PER_AMPERE * 1.001, "maximum_current_a clamps"


def test_enabling_holds_the_place_whatever_target_the_drive_had(held: ServoStand) -> None:
    held.actuators.open()
    start = held.read().displacement_m
    for servo in SERVOS:
        held.servos.objects(servo)[codec.TARGET_POSITION] = 10 * COUNTS
        held.servos.objects(servo)[codec.FOLLOWING_WINDOW] = 10 * COUNTS
    held.actuators.enable()
    for _ in range(20):
        np.testing.assert_allclose(held.read().displacement_m, start, atol=METER_PER_TURN / COUNTS)
        time.sleep(0.002)
    for moved in (0.01, 2.2 * METER_PER_TURN):
        goal = start + moved
        held.run_until(lambda goal=goal: np.allclose(held.read().displacement_m, goal, atol=2e-4), goal)
    assert held.names() == set()


def test_velocities_have_their_sign_and_unit() -> None:
    bench = Stepped(positioned())
    bench.driver.open()
    bench.driver.enable()
    start = bench.driver.read(bench.now_s).displacement_m
    reading = bench.run(0.05, start + 0.02)
    motor = np.array([bench.motors[node].velocity_rev_per_s for node in SERVOS])
    assert (reading.velocity_m_per_s > 0.05).all()
    np.testing.assert_allclose(np.abs(motor) * METER_PER_TURN, reading.velocity_m_per_s, atol=METER_PER_TURN / 60)


def test_a_position_that_wraps_goes_on() -> None:
    bench = Stepped(positioned())
    for node in SERVOS:  # so that it counts from 100 counts below the wrap
        bench.drives.servos[node].zero_rev -= (2**31 - 100) / COUNTS
    bench.pass_time(0.003)
    bench.driver.open()
    start = bench.driver.read(bench.now_s).displacement_m
    bench.driver.enable()
    for moved in (0.3, -0.3, 0.3):
        goal = start + moved * METER_PER_TURN
        reading = bench.run(1.0, goal)
        np.testing.assert_allclose(reading.displacement_m, goal, atol=2 * METER_PER_TURN / COUNTS)
    assert reading.device_faults == ()
    assert not bench.driver.zero_lost.any()


# --- who is gone


def test_a_silent_drive_is_named_and_the_others_are_read_and_driven(held: ServoStand) -> None:
    held.actuators.open()
    held.actuators.enable()
    start = held.read().displacement_m
    held.line.inject("silent", 3)
    goal = start + 0.01
    held.run_until(lambda: "silent_drive" in held.names(), goal)
    others = np.array([servo != 3 for servo in SERVOS])
    held.run_until(lambda: bool(np.allclose(held.read().displacement_m[others], goal[others], atol=2e-4)), goal)
    assert held.read().age_s[others].max() < held.read().age_s[~others][0]


@pytest.mark.parametrize(("quick_stop", "on"), [("auto", True), ("hold", True), ("off", False)])
def test_drives_stop_by_themselves_when_the_host_dies(quick_stop: str, on: bool) -> None:
    bench = Stepped(positioned(), quick_stop=quick_stop)
    bench.driver.open()
    bench.driver.enable()
    start = bench.driver.read(bench.now_s).displacement_m
    bench.run(0.01, start + 0.05)
    bench.only_drives(TIMEOUT_MS / 1000 - 0.1)
    assert all(bench.drives.state(node) == codec.ENABLED for node in SERVOS)
    bench.only_drives(0.2)
    state = codec.QUICK_STOP_ACTIVE if on else codec.SWITCH_ON_DISABLED
    assert all(bench.drives.state(node) == state for node in SERVOS)
    places = [bench.motors[node].position_rev for node in SERVOS]
    bench.only_drives(0.5)
    assert [bench.motors[node].position_rev for node in SERVOS] == pytest.approx(places, abs=1e-3)
    # The host goes on: it learns of it, and the drives stay stopped until the faults are cleared.
    bench.run(0.6, start)
    assert bench.names() >= {"not_operational", "receive_timeout"}
    assert bench.driver.read(bench.now_s).age_s.max() < 0.01
    assert all(bench.drives.state(node) == state for node in SERVOS)
    bench.driver.disable()
    bench.driver.clear_faults()
    bench.run(0.01)
    bench.driver.enable()
    assert not bench.driver.zero_lost.any()
    reading = bench.run(1.0, start)
    assert reading.device_faults == ()
    np.testing.assert_allclose(reading.displacement_m, start, atol=2e-4)


@pytest.mark.parametrize("command", [0x02, codec.PRE_OPERATE, 0x81])
def test_drives_that_another_program_stops_or_resets_are_named_and_taken_up_again(command: int) -> None:
    bench = Stepped(positioned())
    bench.driver.open()
    bench.driver.enable()
    place = bench.driver.read(bench.now_s).displacement_m
    bench.run(0.1, place)
    bench.drives.take(slcan_line(Frame(codec.NMT, bytes([command, 3]))))
    bench.run(1.0, place)
    assert bench.names() >= {"not_operational"}
    assert ("restarted" in bench.names()) is (command == 0x81)
    bench.driver.disable()
    bench.driver.clear_faults()
    bench.run(0.1)
    bench.driver.enable()
    assert bench.run(0.5, bench.driver.read(bench.now_s).displacement_m).device_faults == ()


def test_a_heartbeat_from_before_a_drive_started_is_not_taken_for_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    asks, take = slcan_line(codec.read_request(3, codec.POSITION)), EmulatedCia402.take
    late = slcan_line(Frame(codec.HEARTBEAT + 3, bytes([codec.PRE_OPERATIONAL])))
    monkeypatch.setattr(EmulatedCia402, "take", lambda own, data: (late if asks in data else b"") + take(own, data))
    bench = Stepped(positioned())
    bench.driver.open()
    bench.driver.enable()


def test_tensions_go_when_the_host_dies() -> None:
    bench = Stepped(five_tendons())
    bench.driver.open()
    bench.driver.enable()
    bench.run(0.1, 10.0)
    assert all(motor.current_a != 0 for motor in bench.motors.values())
    bench.only_drives(TIMEOUT_MS / 1000 + 0.1)
    assert all(abs(motor.current_a) < 1e-6 for motor in bench.motors.values())
    assert not any(bench.drives.torque_enabled)


def test_a_loop_that_stands_still_is_noticed_before_the_drives_notice(stand: ServoStand) -> None:
    stand.actuators.open()
    stand.actuators.enable()
    stand.run_until(lambda: bool((stand.read().tension_n > 9.0).all()), command=10.0)
    stand.run_until(lambda: "receive_timeout" in stand.names())
    stand.run_until(lambda: not any(stand.servos.torque_enabled))


def test_a_drive_whose_heartbeat_stops_is_named() -> None:
    bench = Stepped(positioned())
    bench.driver.open()
    bench.run(1.0)
    assert bench.names() == set()
    bench.drives.objects(3)[codec.PRODUCER_HEARTBEAT] = 0
    reading = bench.run(TIMEOUT_MS / 1000 + 0.1)
    assert [fault for fault in reading.device_faults if "drive 3: heartbeat_lost" in fault]
    assert bench.names() == {"heartbeat_lost"}


def test_a_drive_that_restarts_loses_its_zero_and_can_be_used_again() -> None:
    bench = Stepped(positioned())
    bench.driver.open()
    bench.driver.enable()
    start = bench.driver.read(bench.now_s).displacement_m
    bench.run(0.1, start)
    bench.drives.inject("reboot", 3)
    bench.run(0.6, start)
    assert {"silent_drive", "restarted"} <= bench.names()
    assert bench.driver.zero_lost.tolist() == [servo == 3 for servo in SERVOS]
    bench.driver.disable()
    bench.driver.clear_faults()
    bench.run(0.1)
    bench.driver.enable()
    place = bench.driver.read(bench.now_s).displacement_m
    assert bench.run(1.0, place + 5e-3).device_faults == ()
    np.testing.assert_allclose(bench.driver.read(bench.now_s).displacement_m, place + 5e-3, atol=2e-4)


def test_a_zero_holds_until_a_drive_lost_its_power_or_the_network() -> None:
    bench = Stepped(positioned())
    for expected in (False, True):
        bench.driver.open()
        assert bench.driver.aligned is expected
        bench.driver.enable()
        bench.driver.close()
        bench.only_drives(TIMEOUT_MS / 1000 + 0.5)
    assert bench.drives.objects(7)[codec.CONSUMER_HEARTBEAT] == 127 << 16, "no heartbeat is missed after closing"
    bench.drives.inject("reboot", 3)
    bench.only_drives(0.5)
    bench.driver.open()
    assert not bench.driver.aligned


def test_a_blocked_motor_is_a_following_error() -> None:
    bench = Stepped(positioned())
    bench.driver.open()
    bench.driver.enable()
    start = bench.driver.read(bench.now_s).displacement_m
    for servo in SERVOS:
        bench.drives.objects(servo)[codec.FOLLOWING_WINDOW] = 200
    bench.drives.inject("stuck_motor", 3)
    bench.run(0.5, start + 100 * METER_PER_TURN / COUNTS)
    assert bench.names() == set()
    bench.run(0.5, start + 300 * METER_PER_TURN / COUNTS)
    faults = bench.driver.read(bench.now_s).device_faults
    assert [fault.split(" ", 1)[1] for fault in faults if "following_error" in fault] == ["drive 3: following_error"]


def test_an_adapter_that_is_pulled_out_and_put_in_again_is_opened_again(held: ServoStand) -> None:
    held.actuators.open()
    held.actuators.enable()
    start = held.read().displacement_m
    held.run_until(lambda: bool(held.read().age_s.max() < 0.1), start)
    held.line.pty.hang_up()
    held.run_until(lambda: bool(held.read().device_faults), start)
    held.line.pty.plug_in()
    plugged_in_s = time.monotonic()
    held.run_until(lambda: bool(held.read().stamp_s > plugged_in_s and held.read().age_s.max() < 0.1))
    held.actuators.disable()
    held.actuators.clear_faults()
    held.actuators.enable()
    held.run_until(lambda: np.allclose(held.read().displacement_m, start + 5e-3, atol=2e-4), start + 5e-3)
    assert not held.actuators.zero_lost.any()


@pytest.mark.parametrize("fault", ["lost_frames", "corrupted_frames", "noise"])
def test_damaged_lines_of_an_adapter_cost_their_frames_alone(fault: str) -> None:
    made = ServoStand(emulated, lambda port: Cia402Actuators(positioned(), section(port), **OPTIONS), 0.3)
    try:
        made.actuators.open()
        made.actuators.enable()
        start = made.read().displacement_m
        made.line.inject(fault, 3, 7)
        made.run_until(lambda: made.actuators.bus.lost > 3, start)
        made.line.inject("", 3)
        goal = start + 5e-3
        made.run_until(lambda: np.allclose(made.read().displacement_m, goal, atol=2e-4), goal)
        assert made.actuators.last_error == ""
    finally:
        made.close()


def test_a_survey_names_what_is_there_and_sends_no_heartbeat(held: ServoStand) -> None:
    held.line.inject("silent", 3)
    settings = dataclasses.replace(section(held.line.port))
    found = {one.device: one for one in motors_findings(device.make(positioned(), settings))}
    assert found["drive 3"].state == "missing"
    assert found["drive 7"].state == "found"
    assert found["drive 7"].detail == "profile 402, switch on disabled"
    assert math.isnan(held.servos._drives[7].host_s)
    (absent,) = motors_findings(device.make(positioned(), dataclasses.replace(settings, port="/dev/does_not_exist")))
    assert absent.state == "missing"


# --- the axes of a base stage


def test_they_move_a_base_stage():
    robot, now_s = load_robot("three_segment_servo_stage"), [0.0]
    _, wound = stage_motors(robot)
    motors = {entry.id: ServoMotor(0.0) for entry in wound.motors}
    drives = EmulatedCia402(
        motors,
        {one.id: one for one in wound.motors},
        nm_per_a=dict.fromkeys(motors, 0.3),
        largest_a=dict.fromkeys(motors, 2.0),
        velocity_unit_rev_per_s=1 / 60,
    )

    def pass_time(time_s: float) -> None:
        for motor in motors.values():
            motor.advance(time_s - now_s[0])
        now_s[0] = time_s
        drives.step(time_s)

    pass_time(0.001)
    stage = backends.base_stage(
        robot, simulated=False, clock=lambda: now_s[0], stepped=True, ask=drives.take, pass_time=pass_time
    )
    motion = StageMotion(robot.base_stage)
    stage.motors.open()
    stage.motors.enable()
    for _ in range(400):
        reading = stage.read(now_s[0] + 0.005)
        motion.command((0.01, 0.2), now_s[0])
        stage.write(motion.update(reading, now_s[0], 0.005), now_s[0])
    assert not motion.faults
    assert reading.displacement_m == pytest.approx([0.01, 0.2], abs=2e-5)
    assert motors[1].position_rev == pytest.approx(0.01 / 0.002, abs=0.01)
    assert motors[2].position_rev == pytest.approx(0.2 * 90 / (2 * np.pi), abs=0.01)
    drives.inject("overload", 1)
    for _ in range(4):
        stopped = motion.update(stage.read(now_s[0] + 0.005), now_s[0], 0.005)
    assert any(fault.startswith("can0 drive 1: hardware_error") for fault in motion.faults)
    assert stopped == pytest.approx([0.01, 0.2], abs=1e-6)
