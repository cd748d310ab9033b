# SPDX-License-Identifier: Apache-2.0
"""The driver of the ODRI boards against boards simulated to the frame, in virtual time."""

from __future__ import annotations

import dataclasses
import errno
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import can
import numpy as np
import pytest
from board_peers import PythonCanWire
from hypothesis import given, settings
from hypothesis import strategies as st
from odri_stand import METER_PER_TURN, NEWTON_PER_AMPERE, SOCKETS, OdriStand, five_tendons, wiring

from continuum_robot.drivers.named_faults import faults_of
from continuum_robot.drivers.odri_can import codec, protocol
from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
from continuum_robot.drivers.odri_can.board import Board, describe
from continuum_robot.drivers.odri_can.device import ChannelSurvey, heard_on
from continuum_robot.drivers.odri_can.emulator import FAULTS as BOARD_FAULTS
from continuum_robot.drivers.odri_can.frame_port import FramePort
from continuum_robot.drivers.odri_can.protocol import CommandCode, ErrorCode, Status
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.stepped.system_calls import NOTHING_WAITS, CanFrame


@pytest.fixture
def stand() -> Iterator[OdriStand]:
    made = OdriStand()
    yield made
    made.close()


@pytest.fixture
def bus_stand() -> Iterator[OdriStand]:
    """On a python-can bus, on which others can listen."""
    made = OdriStand("virtual")
    yield made
    made.close()


class Silent(FramePort):
    """A port from which nothing comes, and that takes everything."""

    def send(self, _identifier: int, _first: int, _second: int) -> bool:
        return True


def names_of(faults: tuple[str, ...]) -> set[str]:
    return {fault.rsplit(": ", 1)[1] for fault in faults}


# --- enabling


def test_open_switches_nothing_on_and_reads_all_motors(stand: OdriStand) -> None:
    stand.actuators.open()
    reading = stand.run(0.05)
    assert [board.system_enabled for board in stand.boards] == [False] * 3
    np.testing.assert_array_equal(reading.displacement_m, np.zeros(5))
    np.testing.assert_array_equal(reading.age_s, np.zeros(5))
    assert np.isnan(reading.temperature_c).all()
    assert reading.device_faults == ()


def test_enable_aligns_once_and_holds_currents_back_meanwhile(stand: OdriStand) -> None:
    stand.actuators.open()
    begin_s = stand.now_s
    stand.actuators.begin_enable(stand.now_s)
    while not stand.actuators.continue_enable(stand.now_s):
        stand.sleep(0.001)
        stand.actuators.read(stand.now_s)
        stand.actuators.write(np.full(5, 5.0), stand.now_s)
        assert all(board.reference_a == (0.0, 0.0) for board in stand.boards)
    assert stand.now_s - begin_s > 0.3
    assert stand.actuators.aligned
    assert all(board.motor_ready[0] or board.motor_ready[1] for board in stand.boards)
    # The sixth motor pulls nothing and stays off.
    assert stand.boards[2].motor_enabled == [False, True]
    stand.run(0.01, np.zeros(5))
    assert [board.receive_timeout_ms for board in stand.boards] == [150] * 3
    stand.run(2.0, np.zeros(5))
    stand.actuators.disable()
    begin_s = stand.now_s
    stand.actuators.enable()
    assert stand.now_s - begin_s < 1.1, "aligned rotors wait only for the next status"


def test_the_stale_current_of_an_earlier_host_does_not_move_a_motor(stand: OdriStand) -> None:
    for board in stand.boards:
        board.reference_a = (1.5, 1.5)
    stand.actuators.open()
    stand.actuators.enable()
    stand.run(0.1, np.zeros(5))
    assert all(motor.velocity_rev_per_s == 0.0 for pair in stand.motors for motor in pair)


def test_the_receive_timeout_is_applied_again_where_the_command_was_lost(stand: OdriStand) -> None:
    stand.up()
    stand.boards[1].receive_timeout_ms = 0
    stand.run(1.1, np.zeros(5))
    assert stand.boards[1].receive_timeout_ms == 150


def test_a_motor_that_never_gets_ready_is_reported_and_all_are_off() -> None:
    stand = OdriStand(alignment_timeout_s=2.0)
    stand.boards[1]._alignment_s = 100.0
    stand.actuators.open()
    with pytest.raises(DeviceError, match=r"motor 1 and 2 not ready after 2 s .*not aligned.*slack tendons"):
        stand.actuators.enable()
    stand.sleep(0.01)
    assert not any(board.system_enabled for board in stand.boards)
    stand.close()


@pytest.mark.parametrize(("fault", "sentence"), [("estop", "stop input"), ("encoder_error", "encoder lost counts")])
def test_a_board_that_refuses_is_named_and_nothing_stays_on(stand: OdriStand, fault: str, sentence: str) -> None:
    stand.actuators.open()
    stand.boards[2].inject(fault)
    with pytest.raises(DeviceError, match=f"{stand.names[2]}.*cannot be enabled.*{sentence}"):
        stand.actuators.enable()
    stand.sleep(0.01)
    assert not any(board.system_enabled for board in stand.boards)


@pytest.mark.parametrize("after_s", [0.0, 0.005, 0.5])
def test_an_abort_while_a_board_is_silent_switches_all_off_and_nothing_on(stand: OdriStand, after_s: float) -> None:
    stand.actuators.open()
    stand.boards[1].inject("silent", duration_s=100.0)
    sent = _logged(stand)
    begun_s = stand.now_s
    with pytest.raises(DeviceError, match="were stopped while they were being switched on"):
        stand.actuators.enable(lambda: stand.now_s >= begun_s + after_s)
    assert stand.now_s < begun_s + after_s + 0.02
    sent.clear()
    # The cycle goes on meanwhile, and asks for tensions.
    stand.run(1.5, np.full(5, 8.0))
    switches = {CommandCode.ENABLE_SYSTEM, CommandCode.ENABLE_MOTOR_1, CommandCode.ENABLE_MOTOR_2}
    for identifier, data in sent:
        frame = codec.decode(identifier, data)
        if isinstance(frame, protocol.Command):
            assert frame.value == 0 or frame.code not in switches
        else:
            assert data == bytes(8)
    for number in (0, 2):
        assert not stand.boards[number].system_enabled


def test_switched_off_by_another_thread_while_it_is_enabled(stand: OdriStand) -> None:
    stand.actuators.open()
    stand.actuators.begin_enable(stand.now_s)
    assert not stand.actuators.continue_enable(stand.now_s)
    stand.actuators.disable()
    with pytest.raises(DeviceError, match="were stopped"):
        stand.actuators.continue_enable(stand.now_s)


def _logged(stand: OdriStand) -> list[tuple[int, bytes]]:
    """Frames that the boards get from now on."""
    sent: list[tuple[int, bytes]] = []
    for wire in stand.wires:

        def receive(inner: Callable[[], list[tuple[int, bytes]]] = wire.receive) -> list[tuple[int, bytes]]:
            frames = inner()
            sent.extend(frames)
            return frames

        wire.receive = receive
    return sent


def test_displacements_count_from_power_on_over_alignments(stand: OdriStand) -> None:
    for pair in stand.motors:
        pair[0].position_rev = pair[1].position_rev = 3.0
    stand.actuators.open()
    assert not stand.actuators.aligned
    before = stand.run(0.01).displacement_m
    np.testing.assert_allclose(before, 3 * METER_PER_TURN * np.array([1, -1, 1, -1, 1]), rtol=1e-6)
    stand.actuators.enable()
    np.testing.assert_array_equal(stand.run(0.01).displacement_m, before)
    stand.actuators.close()
    stand.actuators.open()
    np.testing.assert_array_equal(stand.run(0.01).displacement_m, before)
    assert stand.actuators.aligned


# --- units and signs


def test_a_tension_pulls_the_tendon_in_whatever_the_polarity(stand: OdriStand) -> None:
    stand.up()
    reading = stand.run(0.05, np.full(5, 2.0))
    assert (reading.displacement_m > 0).all()
    assert (reading.velocity_m_per_s > 0).all()
    np.testing.assert_allclose(reading.tension_n, 2.0, atol=1e-6)
    np.testing.assert_allclose(reading.current_a, 2.0 / NEWTON_PER_AMPERE, atol=1e-7)
    wire = [stand.boards[0].reference_a[0], stand.boards[0].reference_a[1], stand.boards[2].reference_a[1]]
    np.testing.assert_allclose(wire, np.array([1, -1, 1]) * 2.0 / NEWTON_PER_AMPERE, atol=1e-7)
    turns = [stand.motors[0][0], stand.motors[0][1], stand.motors[1][0], stand.motors[1][1], stand.motors[2][1]]
    sign = np.array([1, -1, 1, -1, 1])
    # The last reading is one tick older than the motors.
    np.testing.assert_allclose(
        reading.displacement_m, sign * [motor.position_rev for motor in turns] * METER_PER_TURN, rtol=0.1
    )


def test_the_current_clamp_is_told(stand: OdriStand) -> None:
    stand.up()
    stand.run(0.01, [1.0, 100.0, 1.0, -100.0, 1.0])
    np.testing.assert_array_equal(stand.actuators.limited, [False, True, False, True, False])
    np.testing.assert_allclose(stand.actuators.commanded_current_a[[1, 3]], [2.0, -2.0])
    assert max(map(abs, stand.boards[0].reference_a + stand.boards[1].reference_a)) <= 2.0


@pytest.mark.parametrize("tension", [np.full(4, 1.0), np.array([1, 1, np.nan, 1, 1.0]), np.full(5, np.inf)])
def test_nan_and_wrong_sizes_never_reach_the_wire(stand: OdriStand, tension: Any) -> None:
    stand.up()
    sent = stand.actuators.channels[0].counters["frames_out"]
    with pytest.raises(ParameterError, match="5 finite tensions"):
        stand.actuators.write(tension, stand.now_s)
    assert stand.actuators.channels[0].counters["frames_out"] == sent


@pytest.mark.parametrize("direction", [1, -1])
def test_displacements_run_on_over_the_rollover_of_the_wire(direction: int) -> None:
    stand = OdriStand(start_rev=direction * 99.9, aligned=True)
    stand.up()
    sign = np.array([1, -1, 1, -1, 1])
    for pair in stand.motors:
        for motor in pair:
            motor.velocity_rev_per_s = direction * 20.0
    before = stand.actuators.read(stand.now_s).displacement_m
    for _ in range(50):
        reading = stand.run(0.002)
        assert (sign * direction * (reading.displacement_m - before) > 0).all()
        assert np.abs(reading.displacement_m - before).max() < 0.06 * METER_PER_TURN
        before = reading.displacement_m
    assert stand.boards[0]._snapshot()[0][0] * direction < -90, "the wire did roll over"
    stand.close()


turns = st.lists(st.floats(-0.4, 0.4), min_size=1, max_size=60)


@given(st.floats(-99, 99), turns)
def test_unwrapping_recovers_any_path_whose_steps_are_possible(start: float, steps: list[float]) -> None:
    board = Board("can0", {1: 0, 2: 1}, wiring(("a", "b", "c")), Silent())
    true, time_s = start, 0.0
    for step in [0.0, *steps]:
        true += step
        time_s += 0.001
        raw = (true + 100.0) % 200.0 - 100.0
        for frame in (protocol.Current(0, 0), protocol.Position(raw, raw), protocol.Velocity(0, 0)):
            board.telemetry.receive(*codec.encode(frame), time_s)
        assert board.telemetry.has_sample
        # The first position is where counting begins, and 100 and -100 are one place.
        assert board.telemetry.sample[2] == pytest.approx(true, abs=1e-6)


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(st.one_of(st.sampled_from(sorted(protocol.KINDS)), st.integers(0, 0x7FF)), st.binary(max_size=9)),
        max_size=40,
    )
)
def test_no_sequence_of_frames_breaks_a_board(frames: list[tuple[int, bytes]]) -> None:
    board = Board("can0", {1: 0}, wiring(("a", "b", "c")), Silent())
    board.begin_enable(0.0)
    for number, (identifier, data) in enumerate(frames):
        now_s = 0.001 * number
        board.telemetry.receive(identifier, data, now_s)
        board.look(now_s)
        board.write(0.1, 0.0, now_s)
        if board.telemetry.has_sample:
            assert np.isfinite(board.telemetry.sample).all()
    assert all(fault.rsplit(": ", 1)[1] in protocol.FAULT_NAMES for fault in board.faults)


# --- faults

# What is injected into board 1, the name that the driver gives it, and within which time.
DETECTED = [
    ("silent", 0.0, "silent_board", 0.07),
    ("late_frames", 0.1, "silent_board", 0.07),
    ("bus_off", 0.0, "bus_off", 0.01),
    ("estop", 0.0, "estop", 1.05),
    ("encoder_error", 0.0, "encoder_error", 1.05),
    ("open_phase", 0.0, "current_mismatch", 0.04),
    ("reboot", 0.0, "silent_board", 0.07),
    ("position_jump", 5.0, "position_jump", 0.01),
    ("second_board", 0.0, "two_boards", 2.2),
    ("other_host", 0.0, "other_host", 0.01),
    ("wrong_board", 0.0, "silent_board", 0.07),
    ("position_converter_error", 0.0, "position_converter_error", 1.05),
    ("other_board_error", 0.0, "other_board_error", 1.05),
    # A half-dead bus: the board hears nothing, and says nothing.
    ("lost_commands", 1.0, "receive_timeout", 1.2),
    ("lost_frames", 1.0, "silent_board", 0.07),
]


@pytest.mark.parametrize(("fault", "magnitude", "name", "within_s"), DETECTED)
def test_faults_are_named_in_time(stand: OdriStand, fault: str, magnitude: float, name: str, within_s: float) -> None:
    stand.up()
    pull = np.full(5, 0.9 * NEWTON_PER_AMPERE)
    assert stand.run(0.05, pull).device_faults == ()
    stand.boards[1].inject(fault, magnitude)
    reading = stand.run(within_s, pull)
    assert name in names_of(reading.device_faults)
    assert all(text.startswith(stand.names[1]) for text in reading.device_faults)


def test_a_board_that_hears_nothing_says_so_when_it_is_opened_and_enabled() -> None:
    stand = OdriStand(alignment_timeout_s=1.5)
    stand.boards[1].inject("lost_commands")
    with pytest.raises(DeviceError, match=r"can1 sends its status only, so that the host's commands do not reach it"):
        stand.actuators.open()
    stand.boards[1].inject("")
    stand.actuators.open()
    stand.boards[1].inject("lost_commands")
    with pytest.raises(DeviceError, match=r"can1: cannot be enabled: estop, .* If it is open, no command reaches"):
        stand.actuators.enable()
    stand.boards[1].system_enabled = True  # as after its power-on
    with pytest.raises(DeviceError, match=r"motor 1 and 2 not ready .*motor 1 off.* It takes no commands"):
        stand.actuators.enable()
    stand.close()


def test_a_cable_that_is_off_fills_the_adapters_queue(stand: OdriStand) -> None:
    stand.up()
    # The kernel gives twice as much; a frame takes about 800 bytes.
    stand.actuators.channels[1].line.end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
    stand.boards[1].inject("full_queue")
    pull = np.full(5, 0.9 * NEWTON_PER_AMPERE)
    assert names_of(stand.run(0.2, pull).device_faults) == {"silent_board", "queue_full"}
    assert stand.actuators.counters()["can1"]["reopened"] == 0
    stand.boards[1].inject("")
    stand.run(0.002, pull)
    stand.actuators.clear_faults()
    assert stand.run(0.05, pull).device_faults == ()


@pytest.mark.parametrize("motor", [1, 2])
def test_a_motor_that_is_off_alone_is_named_with_its_number(stand: OdriStand, motor: int) -> None:
    stand.up()
    pull = np.full(5, 0.9 * NEWTON_PER_AMPERE)
    stand.run(0.05, pull)
    stand.boards[1].inject("motor_off", motor=motor)
    assert stand.run(0.04, pull).device_faults == (f"can1 motor {motor}: current_mismatch",)
    stand.run(1.05, pull)
    assert stand.actuators.device_faults == tuple(
        f"can1 motor {motor}: {name}" for name in ("current_mismatch", "motor_off")
    )
    assert not any(stand.boards[1].motor_enabled), "the other motor is switched off with it"
    stand.actuators.clear_faults()
    stand.actuators.enable()
    assert stand.run(0.1, pull).device_faults == ()


@pytest.mark.parametrize("left_on", [False, True])
def test_a_rollover_is_a_fault_only_of_boards_whose_error_was_left_on(left_on: bool) -> None:
    stand = OdriStand(start_rev=99.9, aligned=True)
    if left_on:  # by another program
        command = protocol.Command(CommandCode.ENABLE_ROLLOVER_ERROR, 1)
        stand.boards[0].wire.receive = lambda: [codec.encode(command)]
        stand.boards[0].step(stand.now_s)
    stand.up()
    stand.motors[0][0].velocity_rev_per_s = 20.0
    stand.run(1.1, np.full(5, 0.1))
    names = {"position_rollover_error", "current_mismatch"} if left_on else set()
    assert names_of(stand.actuators.device_faults) <= names
    assert ("can0: position_rollover_error" in stand.actuators.device_faults) == left_on
    stand.close()


class FailingFrame(CanFrame):
    """A socket whose interface went: errors of the kernel, once when reading, always when sending."""

    def __init__(self, when_read: int, when_sent: int) -> None:
        super().__init__()
        self.when_read, self.when_sent = when_read, when_sent

    def receive(self, _descriptor: int) -> int:
        number, self.when_read = self.when_read, 0
        return -number if number else NOTHING_WAITS

    def send(self, _descriptor: int) -> int:
        return -self.when_sent


@pytest.mark.parametrize(
    ("when_read", "when_sent", "name", "reopens"),
    [
        (0, errno.ENOBUFS, "queue_full", False),
        (errno.ENETDOWN, errno.ENETDOWN, "bus_error", False),  # ip link set can1 down; it serves again when it is up
        (errno.ENODEV, errno.ENXIO, "bus_error", True),  # the adapter was unplugged: its interface is gone
    ],
)
def test_what_the_kernel_says_of_an_interface_is_named(
    stand: OdriStand, when_read: int, when_sent: int, name: str, reopens: bool
) -> None:
    stand.up()
    port = stand.actuators.channels[1].port
    whole = port._frame, port._out
    port._frame = port._out = FailingFrame(when_read, when_sent)
    reading = stand.run(0.005, np.ones(5))
    assert f"can1: {name}" in reading.device_faults
    assert names_of(reading.device_faults) == {name}
    assert stand.actuators.needs_service() == reopens
    assert stand.actuators.counters()["can1"]["last_error"] == os.strerror(when_read if reopens else when_sent)
    assert faults_of("odri_can")[name].cure
    port._frame, port._out = whole
    stand.run(0.6)
    assert stand.actuators.counters()["can1"]["reopened"] == reopens
    stand.actuators.clear_faults()
    stand.actuators.enable()
    stand.run(0.1, np.ones(5))
    stand.actuators.clear_faults()
    assert stand.run(0.05, np.ones(5)).device_faults == ()


# These change single frames: nothing false is read, and nothing stops.
HARMLESS = [
    ("lost_frames", 0.05),
    ("duplicated_frames", 0.0),
    ("reordered_frames", 0.1),
    ("noise", 0.0),
    ("late_frames", 0.004),
]


@pytest.mark.parametrize(("fault", "magnitude"), HARMLESS)
def test_single_bad_frames_cost_a_reading_at_most(stand: OdriStand, fault: str, magnitude: float) -> None:
    stand.up()
    for board in stand.boards:
        board.inject(fault, magnitude)
    before = stand.run(0.05, np.full(5, 1.0))
    for _ in range(150):
        reading = stand.run(0.001, np.full(5, 1.0))
        assert names_of(reading.device_faults) <= {"other_host"}
        assert np.isfinite(reading.displacement_m).all()
        assert np.abs(reading.displacement_m - before.displacement_m).max() < 0.5 * METER_PER_TURN
        assert stand.now_s - reading.stamp_s + reading.age_s.max() < 0.03
        before = reading


def test_corrupted_frames_are_refused_where_they_are_impossible(stand: OdriStand) -> None:
    stand.up()
    stand.boards[0].inject("corrupted_frames", 0.1)
    before = stand.run(0.01)
    for _ in range(300):
        reading = stand.run(0.001)
        moved_rev = np.abs(reading.displacement_m - before.displacement_m) / METER_PER_TURN
        assert moved_rev.max() < 1.0, "a flipped bit of a high digit never becomes a displacement"
        before = reading
    counters = stand.actuators.counters()[stand.names[0]]
    assert counters["refused_positions"] > 0


def test_ages_grow_where_a_board_is_silent_and_old_values_are_not_fresh(stand: OdriStand) -> None:
    stand.up()
    stand.boards[2].inject("silent")
    reading = stand.run(0.02, np.zeros(5))
    np.testing.assert_allclose(reading.age_s, [0, 0, 0, 0, 0.02], atol=2e-3)


def test_a_stall_of_the_host_trips_the_boards_and_the_driver_knows_it_at_once(stand: OdriStand) -> None:
    stand.up()
    stand.run(0.1, np.full(5, 1.0))
    stand.sleep(0.5)
    reading = stand.run(0.001)
    assert names_of(reading.device_faults) == {"receive_timeout"}
    assert [board.timeouts for board in stand.boards] == [1, 1, 1]
    # A command that was on its way does not move anything any more.
    stand.run(0.02, np.full(5, 1.0))
    assert all(board.reference_a == (0.0, 0.0) for board in stand.boards)
    stand.actuators.clear_faults()
    stand.actuators.enable()
    reading = stand.run(0.1, np.full(5, 1.0))
    assert reading.device_faults == ()
    np.testing.assert_allclose(reading.tension_n, 1.0, atol=1e-6)


def test_a_short_stall_is_no_fault(stand: OdriStand) -> None:
    stand.up()
    stand.run(0.1, np.full(5, 1.0))
    stand.sleep(0.1)
    assert stand.run(0.1, np.full(5, 1.0)).device_faults == ()


def test_a_board_without_commands_goes_off_by_itself_and_zero_current_needs_no_commands(stand: OdriStand) -> None:
    stand.up()
    stand.sleep(0.5)
    assert [board.timeouts for board in stand.boards] == [0, 0, 0]
    stand.run(0.001, [1.0, 0, 0, 0, 0])
    stand.sleep(0.2)
    assert [board.timeouts for board in stand.boards] == [1, 0, 0]


def test_a_reboot_loses_the_zero_and_is_recovered_with_a_new_alignment(stand: OdriStand) -> None:
    stand.up()
    stand.boards[0].inject("reboot")
    reading = stand.run(0.3, np.full(5, 1.0))
    assert {"rebooted", "silent_board"} <= names_of(reading.device_faults)
    np.testing.assert_array_equal(stand.actuators.zero_lost, [True, True, False, False, False])
    stand.actuators.clear_faults()
    stand.actuators.enable()
    stand.actuators.clear_faults()
    reading = stand.run(0.2, np.full(5, 1.0))
    assert reading.device_faults == ()
    np.testing.assert_allclose(reading.tension_n, 1.0, atol=1e-6)


def test_faults_latch_until_cleared_and_come_back_while_they_last(stand: OdriStand) -> None:
    stand.up()
    stand.boards[0].inject("silent", duration_s=0.2)
    assert "silent_board" in names_of(stand.run(0.1, np.zeros(5)).device_faults)
    stand.actuators.clear_faults()
    assert "silent_board" in names_of(stand.run(0.05, np.zeros(5)).device_faults)
    assert "silent_board" in names_of(stand.run(0.5, np.zeros(5)).device_faults)
    stand.actuators.clear_faults()
    assert stand.run(0.1, np.zeros(5)).device_faults == ()


def test_disable_insists_until_the_status_says_off(stand: OdriStand) -> None:
    stand.up()
    stand.run(0.1, np.full(5, 1.0))
    stand.boards[1].inject("lost_commands", duration_s=0.02)
    stand.actuators.disable()
    assert not stand.boards[0].system_enabled
    stand.run(1.2)
    assert not stand.boards[1].system_enabled


# --- opening


def test_every_missing_board_is_named(stand: OdriStand) -> None:
    stand.boards[0].inject("silent")
    stand.boards[2].inject("wrong_board")
    with pytest.raises(DeviceError) as caught:
        stand.actuators.open()
    assert f"{stand.names[0]} does not answer" in str(caught.value)
    assert f"{stand.names[2]} does not answer" in str(caught.value)
    assert stand.names[1] not in str(caught.value)
    assert not any(channel.is_open for channel in stand.actuators.channels)
    stand.boards[0].inject("")
    stand.boards[2].inject("")
    stand.actuators.open()
    assert stand.run(0.01).device_faults == ()


def test_a_second_host_is_refused_at_open(stand: OdriStand) -> None:
    stand.boards[1].inject("other_host")
    with pytest.raises(DeviceError, match=rf"{stand.names[1]}: another program sends commands"):
        stand.actuators.open()


def test_a_map_may_have_some_of_the_tendons_and_none_twice() -> None:
    settings = wiring(("a", "b", "c"))
    assert (
        OdriTendonActuators(five_tendons(), dataclasses.replace(settings, motors=settings.motors[1:])).tendon_count == 4
    )
    twice = (*settings.motors[:-1], dataclasses.replace(settings.motors[-1], tendon=1))
    with pytest.raises(ParameterError, match="some of the tendons 1 to 5, each once"):
        OdriTendonActuators(five_tendons(), dataclasses.replace(settings, motors=twice))


def test_the_firmwares_expected_statuses_are_told_in_words() -> None:
    frame = codec.decode(protocol.STATUS_ID, b"\x54")
    assert isinstance(frame, Status)
    assert describe(frame).endswith("error 2: receive_timeout")
    assert describe(codec.decode(protocol.STATUS_ID, b"\x1f")) == (
        "system on, motor 1 on and ready, motor 2 on and ready, no error"
    )


def test_each_fault_of_the_simulated_board_says_what_it_does(stand: OdriStand) -> None:
    assert all(BOARD_FAULTS.values())
    with pytest.raises(ParameterError, match="one of lost_frames"):
        stand.boards[0].inject("lost_frame")
    with pytest.raises(ParameterError, match="probability"):
        stand.boards[0].inject("lost_frames", 2.0)
    with pytest.raises(ParameterError, match="motor"):
        stand.boards[0].inject("stuck_motor", motor=3)


# --- the survey


@pytest.fixture(params=[SOCKETS, "virtual", "slcan"])
def any_stand(request: pytest.FixtureRequest) -> Iterator[OdriStand]:
    """On every kind of channel."""
    made = OdriStand(request.param)
    yield made
    made.close()


def heard(stand: OdriStand, number: int, sleep: Callable[[float], None] | None = None) -> ChannelSurvey:
    return heard_on(
        stand.settings.interface,
        stand.names[number],
        duration_s=1.2,
        clock=lambda: stand.now_s,
        sleep=sleep or stand.sleep,
        socket_factory=stand.socket if stand.settings.interface == "socketcan" else None,
    )


def test_a_survey_finds_a_board_and_sends_nothing(bus_stand: OdriStand) -> None:
    listener = can.Bus(interface="virtual", channel=bus_stand.names[0])
    found = heard(bus_stand, 0)
    assert found.status is not None
    assert found.status.error is ErrorCode.NONE
    assert found.problem == ""
    assert "system on" in found.summary()
    sent = {message.arbitration_id for message in iter(lambda: listener.recv(0.0), None)}
    assert sent == {protocol.STATUS_ID}
    listener.shutdown()


def test_a_survey_finds_a_board_on_every_kind_of_channel(any_stand: OdriStand) -> None:
    found = heard(any_stand, 0)
    assert found.problem == ""
    assert found.status is not None
    assert found.status.error is ErrorCode.NONE
    assert set(found.frame_rates_hz) == {protocol.STATUS_ID}


def test_a_survey_names_everything_else_on_the_channel(any_stand: OdriStand) -> None:
    any_stand.boards[0].inject("silent")
    assert heard(any_stand, 0).problem == "no frame at all"
    any_stand.boards[1].inject("wrong_board")
    foreign = heard(any_stand, 1)
    assert foreign.status is None
    assert "no motor board answers" in foreign.problem
    assert f"0x{protocol.STATUS_ID + 0x200:03X}" in foreign.problem
    any_stand.boards[2].inject("other_host")
    assert "another program" in heard(any_stand, 2).problem


def test_a_survey_counts_the_frames_of_every_stream(any_stand: OdriStand) -> None:
    """Beside a host that switched the streams on; a frame of a wrong length is a bad one."""
    streams = (protocol.POSITION_ID, protocol.CURRENT_ID, protocol.VELOCITY_ID)

    def sleep(duration_s: float) -> None:
        for identifier in streams:
            any_stand.boards[0].wire.send(identifier, bytes(8))
        any_stand.boards[0].wire.send(protocol.ENCODER_INDEX_ID, bytes(3))
        any_stand.sleep(duration_s)

    found = heard(any_stand, 0, sleep)
    assert set(found.frame_rates_hz) == {protocol.STATUS_ID, protocol.ENCODER_INDEX_ID, *streams}
    assert found.status is not None
    assert "frames that no such board sends" in found.problem


# --- the simulated board itself


def test_of_two_commands_in_one_tick_the_board_sees_the_last(bus_stand: OdriStand) -> None:
    bus = PythonCanWire(can.Bus(interface="virtual", channel=bus_stand.names[0]))
    bus_stand.sleep(0.002)
    for code in (CommandCode.SEND_CURRENT, CommandCode.SEND_POSITION):
        bus.send(protocol.COMMAND_ID, codec.encode(protocol.Command(code, 1))[1])
    bus_stand.sleep(0.005)
    identifiers = {identifier for identifier, _ in bus.receive()}
    assert protocol.POSITION_ID in identifiers
    assert protocol.CURRENT_ID not in identifiers
    bus.close()


def test_a_board_streams_a_thousand_ticks_a_second_and_a_status_each(bus_stand: OdriStand) -> None:
    bus = PythonCanWire(can.Bus(interface="virtual", channel=bus_stand.names[0]))
    bus.send(protocol.COMMAND_ID, codec.encode(protocol.Command(CommandCode.SEND_ALL, 1))[1])
    bus_stand.sleep(1.5)
    while bus.receive():
        pass
    bus_stand.motors[0][1].velocity_rev_per_s = 3.0
    bus_stand.sleep(1.0)
    frames = [identifier for _ in range(2) for identifier, _ in bus.receive()]
    counts = {identifier: frames.count(identifier) for identifier in set(frames)}
    for identifier in (protocol.CURRENT_ID, protocol.POSITION_ID, protocol.VELOCITY_ID, protocol.ADC_ID):
        assert counts[identifier] == 1000
    assert counts[protocol.STATUS_ID] == 1
    assert counts[protocol.ENCODER_INDEX_ID] in (1, 2, 3)
    first = frames.index(protocol.CURRENT_ID)
    assert frames[first : first + 4] == [
        protocol.CURRENT_ID,
        protocol.POSITION_ID,
        protocol.VELOCITY_ID,
        protocol.ADC_ID,
    ]
    bus.close()
