# SPDX-License-Identifier: Apache-2.0
"""The driver's cycle on sockets: both forms of it give the same bits, and what happens to sockets that break."""

from __future__ import annotations

import itertools
import math
import socket
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from odri_stand import SOCKETS, OdriStand, five_tendons, wiring

from continuum_robot.drivers.can_bus import can_socket, frame_bytes, frame_parts, frame_sockets
from continuum_robot.drivers.odri_can import codec, protocol
from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
from continuum_robot.drivers.odri_can.channel import Channel
from continuum_robot.drivers.odri_can.emulator import FAULTS
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.runtime.cycle.compilation import NotCompiledError, compiled_cycle
from continuum_robot.simulation.wire.can_wire import FrameSocketWire

NUMBERS = ("displacement_m", "velocity_m_per_s", "tension_n", "current_a", "temperature_c", "age_s")


@pytest.fixture(scope="module")
def compiled() -> Any:
    try:
        return compiled_cycle()
    except NotCompiledError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["interpreted", "compiled"])
def stand(request: pytest.FixtureRequest) -> Iterator[OdriStand]:
    made = OdriStand(form=None if request.param == "interpreted" else request.getfixturevalue("compiled"))
    assert made.actuators.compiled == (request.param == "compiled")
    yield made
    made.close()


def bits_of(reading: TendonReading) -> tuple[Any, ...]:
    """All that it reports, where NaN is NaN whatever its bits."""
    numbers = [np.where(np.isnan(row), math.inf, row).tobytes() for row in (getattr(reading, n) for n in NUMBERS)]
    return (reading.stamp_s, reading.device_faults, *numbers)


def happenings(seed: int, seconds: float) -> list[list[tuple[Any, ...]]]:
    """What is done in each cycle of a run, drawn once."""
    rng = np.random.default_rng(seed)
    script = []
    for _ in range(round(seconds / 0.001)):
        todo: list[tuple[Any, ...]] = []
        if rng.random() < 0.02:
            fault = str(rng.choice([*FAULTS, ""]))
            size = float(rng.uniform(-2, 5)) if fault == "position_jump" else float(rng.choice([0.0, 0.01, 0.1, 0.9]))
            todo.append(("inject", int(rng.integers(3)), fault, size, float(rng.choice([0.005, 0.05, 0.3]))))
        if rng.random() < 0.003:
            todo.append((str(rng.choice(["enable", "disable", "clear_faults"])),))
        if rng.random() < 0.003:
            todo.append(("stall", float(rng.choice([0.012, 0.05, 0.3]))))
        if rng.random() < 0.9:
            todo.append(("write", rng.choice([0.5, 3.0, 40.0, math.nan]) * rng.uniform(0.5, 1.0, 5)))
        script.append(todo)
    return script


def lived(script: list[list[tuple[Any, ...]]], form: Any) -> list[tuple[Any, ...]]:
    """What a stand reports in each cycle of such a run."""
    stand = OdriStand(form=form, start_rev=99.5, current_noise_a=0.05)
    assert stand.actuators.compiled == (form is not None)
    actuators = stand.actuators
    said: list[tuple[Any, ...]] = []
    actuators.open()
    actuators.begin_enable(stand.now_s)
    for todo in script:
        stand.sleep(0.001)
        said.append(bits_of(actuators.read(stand.now_s)))
        try:
            said.append((actuators.continue_enable(stand.now_s),))
        except DeviceError as error:
            said.append((str(error),))
        for what, *values in todo:
            if what == "inject":
                number, fault, size, duration_s = values
                stand.boards[number].inject(fault, size, duration_s)
            elif what == "write":
                try:
                    actuators.write(values[0], stand.now_s)
                except ParameterError as error:
                    said.append((str(error),))
                said.append((actuators.limited.tobytes(), np.nan_to_num(actuators.commanded_current_a).tobytes()))
            elif what == "stall":
                stand.sleep(values[0])
            elif what == "enable":
                actuators.begin_enable(stand.now_s)
            else:
                getattr(actuators, what)()
        said.append(tuple(board.reference_a for board in stand.boards))
    said.append((repr(actuators.counters()), actuators.zero_lost.tobytes(), actuators.aligned))
    stand.close()
    return said


@pytest.mark.parametrize("seed", range(3))
def test_both_forms_say_the_same_over_all_faults_of_the_boards(seed: int, compiled: Any) -> None:
    script = happenings(seed, 2.0)
    assert lived(script, None) == lived(script, compiled)


def stray_frames(rng: np.random.Generator, count: int) -> list[bytes]:
    """Frames of known and of other identifiers, with positions that a motor may have and such that it has not."""
    frames = []
    turns = 0.0
    for _ in range(count):
        turns += float(rng.normal(0.0, 0.2))
        wire = (turns + 100.0) % 200.0 - 100.0
        kind = rng.integers(8)
        if kind < 3:
            for frame in (protocol.Current(0.1, -0.2), protocol.Position(wire, -wire), protocol.Velocity(0.3, -0.01)):
                frames.append(frame_bytes(*codec.encode(frame)))
        elif kind == 3:
            frames.append(frame_bytes(protocol.STATUS_ID, rng.bytes(1)))
        elif kind == 4:
            frames.append(frame_bytes(int(rng.choice(sorted(protocol.KINDS))), rng.bytes(int(rng.integers(9)))))
        elif kind == 5:
            frames.append(frame_bytes(int(rng.integers(0x800)), rng.bytes(int(rng.integers(9)))))
        elif kind == 6:
            frames.append(rng.bytes(16))
        else:
            frames.append(rng.bytes(int(rng.integers(1, 15))))
    return frames


def test_both_forms_read_the_same_from_any_frames(compiled: Any) -> None:
    answers = []
    for form in (None, compiled):
        rng = np.random.default_rng(7)
        stand = OdriStand(form=form)
        stand.up()
        said = []
        for _ in range(400):
            for wire in stand.wires:
                for frame in stray_frames(rng, int(rng.integers(6))):
                    wire._socket.send(frame)
            stand.now_s += 0.001
            said.append(bits_of(stand.actuators.read(stand.now_s)))
            stand.actuators.write(np.full(5, 1.0), stand.now_s)
            if rng.random() < 0.05:
                stand.actuators.clear_faults()
        counters = stand.actuators.counters()
        answers.append((said, counters))
        assert all(counters["can0"][name] > 0 for name in ("refused_frames", "bad_frames", "refused_positions"))
        stand.close()
    assert answers[0] == answers[1]


def test_frames_are_what_the_kernel_has() -> None:
    """struct can_frame of linux/can.h: identifier and flags little-endian, length, padding, data."""
    assert frame_bytes(0x80000123, b"\x01\x02") == bytes.fromhex("23010080 02000000 0102000000000000")
    assert frame_parts(frame_bytes(0x7FF, b"12345678")) == (0x7FF, b"12345678")


def test_currents_leave_as_frames(stand: OdriStand) -> None:
    stand.up()
    stand.wires[0].receive()
    stand.actuators.write(np.array([2.0, 1.0, 0, 0, 0]), stand.now_s)
    current = stand.actuators.commanded_current_a
    expected = codec.encode(protocol.CurrentReference(current[0], -current[1]))[1]
    assert stand.wires[0].receive() == [(protocol.CURRENT_REFERENCE_ID, expected)]


@pytest.mark.parametrize("tension", [np.array([1, 1, math.nan, 1, 1.0]), np.array([1, 1, 1, 1, -math.inf])])
def test_the_cycle_sends_nothing_where_a_tension_is_not_finite(stand: OdriStand, tension: Any) -> None:
    stand.up()
    sent = stand.actuators.counters()["can0"]["frames_out"]
    assert not stand.actuators.cycle.write(stand.actuators._vector(tension), stand.now_s)
    assert stand.actuators.counters()["can0"]["frames_out"] == sent
    assert stand.actuators.cycle.write(stand.actuators._vector(np.ones(5)), stand.now_s)


def test_a_cycle_before_open_reads_nothing(stand: OdriStand) -> None:
    assert not stand.actuators.cycle.read(stand.actuators._reading, stand.now_s)
    assert not stand.actuators.cycle.write(stand.actuators._vector(np.ones(5)), stand.now_s)


def test_a_stall_of_50_ms_loses_no_frame(stand: OdriStand) -> None:
    stand.up()
    before = stand.actuators.counters()["can0"]
    stand.sleep(0.05)
    stand.run(0.001)
    after = stand.actuators.counters()["can0"]
    assert after["positions"] - before["positions"] == 51
    assert after["incomplete_ticks"] == before["incomplete_ticks"]
    assert all(wire.lost_frames == 0 for wire in stand.wires)


def test_a_full_queue_loses_frames_which_are_counted_and_is_a_fault(stand: OdriStand) -> None:
    stand.up()
    channel = stand.actuators.channels[0]
    sent = 0
    while not channel.port.failed and sent < 100_000:
        stand.actuators.cycle.write(stand.actuators._vector(np.ones(5)), stand.now_s)
        sent += 1
    counters = stand.actuators.counters()["can0"]
    assert counters["send_errors"] == 3
    assert sent > 150
    assert counters["last_error"] == "Resource temporarily unavailable"
    faults = stand.actuators.read(stand.now_s).device_faults
    assert "can0: queue_full" in faults
    assert "can0: bus_error" not in faults
    # The boards read again: sending works, and nothing had to be opened again.
    stand.run(0.001, np.ones(5))
    stand.actuators.clear_faults()
    reading = stand.run(0.01, np.ones(5))
    assert reading.device_faults == ()
    assert stand.actuators.counters()["can0"]["reopened"] == 0


def test_a_line_that_hangs_up_is_a_fault_and_is_opened_again_after_half_a_second(stand: OdriStand) -> None:
    stand.up()
    stand.wires[1].close()
    reading = stand.run(0.001, np.ones(5))
    assert reading.device_faults == ("can1: bus_error",)
    assert stand.actuators.needs_service()
    # Which one depends on whether the board had read all.
    assert stand.actuators.channels[1].last_error in {"the other end hung up", "Connection reset by peer"}
    stand.run(0.4)
    assert stand.actuators.counters()["can1"]["reopened"] == 0
    stand.run(0.2)
    assert stand.actuators.counters()["can1"]["reopened"] == 1
    assert not stand.actuators.needs_service()
    stand.actuators.clear_faults()
    stand.actuators.enable()
    stand.actuators.clear_faults()
    assert stand.run(0.05, np.ones(5)).device_faults == ()


def test_an_adapter_that_is_out_is_tried_every_half_second(stand: OdriStand, monkeypatch: pytest.MonkeyPatch) -> None:
    stand.up()
    tried = []

    def nothing(name: str) -> socket.socket:
        tried.append(name)
        raise OSError(19, "No such device")

    monkeypatch.setattr(stand.actuators.channels[2].line, "_make", lambda: nothing("can2"))
    stand.wires[2].close()
    stand.run(2.2)
    assert tried == ["can2"] * 4
    assert not stand.actuators.channels[2].port.bus_off
    assert stand.actuators.channels[2].port.failed
    monkeypatch.undo()
    stand.run(0.6)
    assert not stand.actuators.channels[2].port.failed


def test_bus_off_ends_with_the_next_sound_frame(stand: OdriStand) -> None:
    stand.up()
    stand.wires[0].report_bus_off()
    assert stand.actuators.read(stand.now_s).device_faults == ("can0: bus_off",)
    assert stand.actuators.channels[0].port.bus_off
    stand.run(0.002)
    assert not stand.actuators.channels[0].port.bus_off


def test_closed_and_opened_again_on_fresh_sockets(stand: OdriStand) -> None:
    stand.up()
    stand.actuators.close()
    with pytest.raises(DeviceError, match="are not open"):
        stand.actuators.read(stand.now_s)
    stand.up()
    assert stand.run(0.01, np.ones(5)).device_faults == ()


def test_in_real_time_frames_are_as_old_as_their_reading(compiled: Any) -> None:
    for form in (None, compiled):
        ends: dict[str, FrameSocketWire] = {}

        def opened(name: str, ends: dict[str, FrameSocketWire] = ends) -> socket.socket:
            host, device = frame_sockets()
            ends[name] = FrameSocketWire(device)
            return host

        names = ("a", "b", "c")

        def passing(_duration_s: float, ends: dict[str, FrameSocketWire] = ends) -> None:
            answer(ends)

        actuators = OdriTendonActuators(
            five_tendons(), wiring(names, "socketcan"), socket_factory=opened, form=form, sleep=passing
        )
        actuators.open()
        answer(ends)
        before_s = time.monotonic()
        reading = actuators.read(before_s)
        assert reading.stamp_s == before_s
        assert (reading.age_s == 0.0).all()
        later = actuators.read(before_s + 10.0)
        assert before_s <= later.stamp_s < before_s + 5.0
        actuators.close()


def answer(ends: dict[str, FrameSocketWire]) -> None:
    for wire, frame in itertools.product(
        ends.values(),
        (
            protocol.Current(0, 0),
            protocol.Position(1, 1),
            protocol.Velocity(0, 0),
            codec.decode(protocol.STATUS_ID, b"\x00"),
        ),
    ):
        wire.send(*codec.encode(frame))


def test_interfaces_without_a_socket_stay_interpreted(compiled: Any) -> None:
    stand = OdriStand("virtual", form=compiled)
    assert not stand.actuators.compiled
    stand.up()
    stand.close()
    assert OdriStand(SOCKETS, form=compiled).actuators.compiled


def test_socketcan_says_what_is_missing_here() -> None:
    try:
        can_socket("can987").close()
    except OSError as error:
        expected = "there is no CAN interface can987" if error.errno == 19 else "kernel has no CAN"
    with pytest.raises(DeviceError, match=expected):
        Channel("socketcan", "can987", 1_000_000).open()
