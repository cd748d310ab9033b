# SPDX-License-Identifier: Apache-2.0
"""The driver of the string-encoder board against the simulated board, through a pty and over UDP."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import numpy as np
import pytest
import string_board
from crc_oracle import crc_ccitt_false
from string_board import NAMES, Bench

from continuum_robot.drivers.local_port import Pty
from continuum_robot.drivers.protocols import StringEncoders
from continuum_robot.drivers.string_encoder_serial.codec import stuffed
from continuum_robot.drivers.string_encoder_serial.device import StringEncoderReader
from continuum_robot.drivers.string_encoder_serial.emulator import SimulatedStringEncoderBoard
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.simulation.wire.ports import Pacer


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def test_it_is_what_the_nodes_ask_for(bench: Bench) -> None:
    assert isinstance(bench.reader, StringEncoders)
    assert bench.reader.string_count == 2


def test_strings_are_measured_to_a_count_and_stamped_to_a_microsecond(bench: Bench) -> None:
    reading = bench.run(1.0, 0.05)
    np.testing.assert_allclose(reading.extension_m, 0.05, atol=2 * string_board.METER_PER_COUNT)
    assert reading.stamp_s == pytest.approx(bench.now_s, abs=1.1e-3)
    assert reading.device_faults == ()
    assert bench.reader.statistics()["frames"] >= 1000


@pytest.mark.parametrize("fault", ["flip", "delete", "truncate", "babble", "silence", "reorder", "duplicate", "glue"])
def test_a_damaged_frame_costs_that_frame(bench: Bench, fault: str) -> None:
    bench.run(0.1)
    before = bench.reader.statistics()
    for _ in range(20):
        bench.board.inject(fault)
        reading = bench.run(0.02, 0.1)
        assert np.isfinite(reading.extension_m).all()
        assert reading.device_faults == ()
    after = bench.reader.statistics()
    assert after["frames_lost"] - before["frames_lost"] <= 20
    np.testing.assert_allclose(bench.extension, reading.extension_m, atol=2e-4)


def test_a_noisy_line_never_shows_a_wrong_length(bench: Bench) -> None:
    bench.board.inject("flip", magnitude=0.3, duration_s=3.0)
    for _ in range(300):
        reading = bench.run(0.01, 0.02)
        known = np.isfinite(reading.extension_m)
        assert np.abs(reading.extension_m - bench.extension)[known].max(initial=0) < 5e-4
    assert bench.reader.statistics()["frames_rejected"] > 500


def test_silence_then_frames_again(bench: Bench) -> None:
    bench.run(0.1)
    bench.board.inject("silence", duration_s=0.2)
    quiet = bench.run(0.15)
    assert np.isnan(quiet.extension_m).all()
    assert quiet.age_s[0] == pytest.approx(0.15, abs=2e-3)
    assert np.isfinite(bench.run(0.1).extension_m).all()


def test_a_burst_after_a_stall_is_stamped_by_the_boards_clock(bench: Bench) -> None:
    bench.run(1.0)
    bench.board.inject("stall", duration_s=0.3)
    bench.run(0.2)
    reading = bench.run(0.11, 0.05)
    assert np.isfinite(reading.extension_m).all()
    assert reading.stamp_s == pytest.approx(bench.now_s, abs=1.5e-3)
    assert bench.reader.statistics()["frames_lost"] == 0


def test_a_computer_that_stalls_before_it_reads_does_not_age_what_comes_after(bench: Bench) -> None:
    bench.run(0.5)
    begun_s = bench.now_s
    for _ in range(300):
        bench.now_s += 0.001
        bench.board.step(bench.now_s)
    bench.reader.read(begun_s)  # what it finds was sampled up to 0.3 s after the cycle began
    for _ in range(100):
        reading = bench.run(0.01)
        assert np.isfinite(reading.extension_m).all()
        assert reading.stamp_s == pytest.approx(bench.now_s, abs=1.5e-3)


def test_unplugged_and_plugged_in_again_without_a_restart(bench: Bench) -> None:
    bench.run(0.1)
    bench.board.inject("hang_up")
    with pytest.raises(DeviceError, match="is gone"):
        bench.run(0.01)
    with pytest.raises(DeviceError):
        bench.run(1.0)
    bench.board.plug_in()
    bench.now_s += 1.0
    reading = bench.run(0.05, 0.1)
    # The board had power all the time: its zero holds.
    np.testing.assert_allclose(reading.extension_m, bench.extension, atol=2e-4)
    assert bench.reader.statistics()["reconnects"] == 1


def test_a_board_that_lost_power_has_lost_its_zero(bench: Bench) -> None:
    bench.run(0.5, 0.1)
    bench.board.inject("power_cycle", duration_s=0.2)
    with pytest.raises(DeviceError):
        bench.run(0.05)
    bench.now_s += 1.0
    reading = bench.run(0.05)
    assert np.isnan(reading.extension_m).all()
    assert reading.device_faults == ("board started again: its zero is lost",)
    bench.reader.request_zero()
    reading = bench.run(0.05)
    np.testing.assert_allclose(reading.extension_m, 0.0, atol=1e-12)
    assert reading.device_faults == ()


def test_a_restart_of_the_board_is_no_motion(bench: Bench) -> None:
    bench.run(0.5, 0.1)
    bench.board.inject("reboot")
    for _ in range(50):
        reading = bench.run(0.01)
        known = np.isfinite(reading.extension_m)
        assert np.abs(reading.extension_m - bench.extension)[known].max(initial=0) < 1e-3
    assert reading.device_faults == ("board started again: its zero is lost",)
    assert bench.reader.statistics()["board_restarts"] == 1


@pytest.mark.parametrize(
    ("fault", "magnitude", "problem"),
    [("jump", 2000, "position jumped"), ("jump", -400, "position jumped"), ("magnet_fault", 0, "magnet out of reach")],
)
def test_doubtful_counts_are_unknown_until_the_next_zero(
    bench: Bench, fault: str, magnitude: float, problem: str
) -> None:
    bench.run(0.1)
    bench.board.inject(fault, 2, magnitude, duration_s=0.1)
    reading = bench.run(0.3)
    assert np.isnan(reading.extension_m).tolist() == [True, False]
    assert problem in reading.device_faults[0]
    bench.reader.request_zero()
    assert np.isfinite(bench.run(0.05).extension_m).all()


def test_the_zero_outlives_the_driver() -> None:
    bench = Bench(zeroed=False)
    assert bench.run(0.1, 0.1).device_faults == ("no zero was set",)
    zeros = bench.reader.zeros
    bench.reader.request_zero()
    bench.run(0.05)
    assert (bench.reader.zeroed, bench.reader.zeros) == (True, zeros + 1)
    start = bench.extension.copy()
    bench.run(0.2, 0.1)
    bench.reader.close()
    bench.reader = StringEncoderReader(bench.settings, NAMES, port=bench.board.port, answer_timeout_s=0)
    bench.reader.open()
    np.testing.assert_allclose(bench.run(0.05).extension_m, bench.extension - start, atol=2e-4)
    bench.close()


def test_a_host_that_does_not_read_makes_the_board_drop_whole_frames(bench: Bench) -> None:
    bench.run(0.1)
    for _ in range(4000):
        bench.now_s += 0.001
        bench.board.step(bench.now_s)
    assert bench.board.dropped > 0
    bench.run(1.5)
    statistics = bench.reader.statistics()
    assert statistics["frames_lost"] == bench.board.dropped == statistics["frames_dropped_by_board"]
    assert statistics["frames_rejected"] == 0


def test_zero_waits_for_the_board() -> None:
    extension = np.array([0.01, -0.02])
    board = SimulatedStringEncoderBoard(string_board.settings(), NAMES, lambda: extension)
    pacer = Pacer(board.step)
    pacer.start()
    reader = StringEncoderReader(string_board.settings(port=board.port), NAMES)
    try:
        reader.open()
        reader.zero(timeout_s=5.0)
        assert reader.zeroed
        pacer.stop()
        with pytest.raises(DeviceError, match="set no zero"):
            reader.zero(timeout_s=0.05)
    finally:
        reader.close()
        pacer.stop()
        board.close()


def opened(port: str, **options: float) -> StringEncoderReader:
    reader = StringEncoderReader(string_board.settings(), NAMES, port=port, **options)
    reader.open()
    return reader


def test_no_such_port() -> None:
    with pytest.raises(DeviceError, match=r"there is no such port.*99-continuum-robot.rules"):
        opened("/dev/continuum_robot_not_there")


def test_a_file_is_no_port() -> None:
    with pytest.raises(DeviceError, match="no serial port"):
        opened("/dev/null")


def test_a_port_that_is_open_already_names_who_has_it(bench: Bench) -> None:
    with pytest.raises(DeviceError, match=rf"already open in process {os.getpid()}"):
        opened(bench.board.port)


def test_a_silent_port() -> None:
    line = Pty()
    with pytest.raises(DeviceError, match=r"nothing came for 0\.05 s"):
        opened(str(line.path), answer_timeout_s=0.05)
    line.close()


def test_a_wrong_baud_rate_or_another_device() -> None:
    line = Pty()
    rng = np.random.default_rng(5)
    pacer = Pacer(lambda _now_s: line.send(rng.bytes(30)))
    pacer.start()
    with pytest.raises(DeviceError, match=r"bytes came and no frame.*baud rate"):
        opened(str(line.path), answer_timeout_s=0.2)
    pacer.stop()
    line.close()


def test_another_version_of_the_firmware() -> None:
    body = b"\x12" + bytes(24)
    wire = stuffed(body + crc_ccitt_false(body).to_bytes(2, "little"))
    line = Pty()
    pacer = Pacer(lambda _now_s: line.send(wire))
    pacer.start()
    with pytest.raises(DeviceError, match=r"speaks version 2.*Flash"):
        opened(str(line.path), answer_timeout_s=0.2)
    pacer.stop()
    line.close()


def test_not_open() -> None:
    reader = StringEncoderReader(string_board.settings(), NAMES)
    for call in (lambda: reader.read(0.0), reader.request_zero, reader.zero):
        with pytest.raises(DeviceError, match="is not open"):
            call()
    reader.close()


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def udp() -> Iterator[Bench]:
    made = Bench(transport="udp", port=f"127.0.0.1:{free_port()}")
    yield made
    made.close()


def test_the_same_over_udp(udp: Bench) -> None:
    reading = udp.run(0.5, 0.05)
    np.testing.assert_allclose(reading.extension_m, 0.025, atol=2 * string_board.METER_PER_COUNT)
    udp.board.inject("flip", magnitude=0.2, duration_s=0.5)
    udp.board.inject("reorder", magnitude=0.2, duration_s=0.5)
    assert np.isfinite(udp.run(0.6).extension_m).all()
    statistics = udp.reader.statistics()
    assert statistics["frames_rejected"] > 20
    assert statistics["frames_late"] > 20
    assert statistics["board_restarts"] == 0
    udp.reader.request_zero()
    assert udp.run(0.05).extension_m.tolist() == [0.0, 0.0]


def test_datagrams_of_others_are_not_heard(udp: Bench) -> None:
    udp.run(0.1)
    liar = SimulatedStringEncoderBoard(udp.settings, NAMES, lambda: np.array([0.5, 0.5]))
    for _ in range(100):
        liar.step(udp.now_s)
        reading = udp.run(0.001)
    assert reading.extension_m.tolist() == [0.0, 0.0]
    liar.close()


def test_the_board_may_come_back_under_another_address(udp: Bench) -> None:
    udp.run(0.1)
    udp.board.inject("hang_up")
    assert np.isnan(udp.run(0.2).extension_m).all()
    udp.now_s += 1.0
    udp.board.plug_in()
    assert np.isfinite(udp.run(0.1).extension_m).all()


def test_an_address_in_use_and_one_that_is_none(udp: Bench) -> None:
    with pytest.raises(DeviceError, match="cannot listen there"):
        StringEncoderReader(udp.settings, NAMES).open()
    with pytest.raises(ParameterError, match="ADDRESS:PORT"):
        StringEncoderReader(string_board.settings(transport="udp", port="here"), NAMES)


def test_a_board_whose_clock_is_half_a_percent_slow_is_read_for_good_and_named() -> None:
    """A ceramic resonator, as on an Arduino Mega: the board looked silent for ever."""
    bench = Bench()
    try:
        true_s, step = bench.now_s, bench.board.step
        bench.board.step = lambda now_s: step(true_s + 0.995 * (now_s - true_s))
        bench.run(8.0)
        readings = [bench.run(0.5) for _ in range(16)]
        assert all(np.isfinite(reading.extension_m).all() for reading in readings)
        assert all(reading.device_faults == () for reading in readings)
        assert max(bench.now_s - reading.stamp_s for reading in readings[-1:]) < 0.01
        assert bench.reader.warning == "its clock runs 0.50% slow: a quartz stays within 0.02%"
        assert bench.reader.statistics()["clock_drift_ppm"] == pytest.approx(5025, rel=0.02)
    finally:
        bench.close()
