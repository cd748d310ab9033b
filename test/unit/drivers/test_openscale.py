# SPDX-License-Identifier: Apache-2.0
"""Load cells behind OpenScale boards: lines, faults, reconnection, and tensions that replace the motors' guesses."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from emulated_openscale import OpenScaleEmulator
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.drivers.joined_actuators import MeasuredTensions
from continuum_robot.drivers.local_port import Pty
from continuum_robot.drivers.openscale.codec import STANDARD_GRAVITY, LineStream, ScaleLine, encode, parse
from continuum_robot.drivers.openscale.device import OpenScaleSensors
from continuum_robot.drivers.openscale.settings import LoadCell, OpenScale
from continuum_robot.drivers.protocols import (
    CountsFromPowerOn,
    DisplacementActuators,
    TendonActuators,
    TendonReading,
    TensionSensors,
)
from continuum_robot.errors import DeviceError, ParameterError, RobotFileError
from continuum_robot.simulation.wire.ports import Pacer

POUND_N = 4.4482216152605  # NIST SP 811


@pytest.mark.parametrize(
    ("line", "force_n", "time_ms"),
    [
        (b"18.50,lbs,\r", 18.5 * POUND_N, None),  # as users print it, community.sparkfun.com/t/42340
        (b"1043,0.382,kg,\r", 0.382 * STANDARD_GRAVITY, 1043),
        (b"1043,-0.382,kg,-38211,22.5,21.0,\r", -0.382 * STANDARD_GRAVITY, 1043),
        (b" 7 , 2.0 , lbs , 8 ,\r", 2 * POUND_N, 7),
    ],
)
def test_a_line_is_its_force(line, force_n, time_ms):
    found = parse(line)
    assert found.force_n == pytest.approx(force_n)
    assert found.time_ms == time_ms


@pytest.mark.parametrize(
    "line", [b"", b"kg,", b"1) Tare scale to zero\r", b"1,2,3.0,kg,", b"12,nan,kg,", b"1.5,1.0,kg,", b"1,\xff.0,kg,"]
)
def test_anything_else_is_no_reading(line):
    assert parse(line) is None


@given(st.floats(-500, 500), st.integers(0, 2**32 - 1))
def test_what_is_sent_is_read(force_n, time_ms):
    found = parse(encode(ScaleLine(force_n, time_ms), decimals=6).removesuffix(b"\n"))
    assert found.force_n == pytest.approx(force_n, abs=1e-5)
    assert found.time_ms == time_ms


@given(st.binary(max_size=300), st.integers(0, 300))
def test_a_stream_takes_any_bytes_and_the_lines_behind_them(data, cut):
    stream = LineStream()
    stream.feed(data[:cut])
    stream.feed(data[cut:])
    assert stream.feed(b"\n5,1.0,kg,\r\n6,2.0,kg,\r\n")[-1] == ScaleLine(2 * STANDARD_GRAVITY, 6)


class Bench:
    """Two boards for tendons 1 and 3 of three, in virtual time."""

    def __init__(self, **board):
        self.now_s, self.force_n = 100.0, [3.0, 5.0]
        self.lines = [Pty(), Pty()]
        self.settings = OpenScale(
            kind="openscale",
            cells=(
                LoadCell(tendon=1, port=str(self.lines[0].path)),
                LoadCell(tendon=3, port=str(self.lines[1].path), newton_per_newton=0.5),
            ),
        )
        self.boards = [
            OpenScaleEmulator(line, lambda k=k: self.force_n[k], **board) for k, line in enumerate(self.lines)
        ]
        self.sensors = OpenScaleSensors(self.settings, 3, simulated=True, clock=lambda: self.now_s)

    def open(self):
        """Open it while the boards report by the wall's time."""
        pacer = Pacer(lambda _now_s: self.step(0.02), 0.002)
        pacer.start()
        self.sensors.open()
        pacer.stop()

    def step(self, duration_s):
        self.now_s += duration_s
        for board in self.boards:
            board.step(self.now_s)

    def run(self, duration_s):
        for _ in range(round(duration_s / 0.02)):
            self.step(0.02)
            for line in self.lines:
                if line.is_plugged_in:
                    line.wait_delivered()
            reading = self.sensors.read(self.now_s)
        return reading

    def close(self):
        self.sensors.close()
        for line in self.lines:
            line.close()


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.close()


def test_tensions_come_in_newtons_at_their_tendons(bench):
    assert isinstance(bench.sensors, TensionSensors)
    bench.open()
    reading = bench.run(1.0)
    np.testing.assert_allclose(reading.tension_n, [3.0, math.nan, 2.5], atol=0.01)
    assert reading.device_faults == ()
    bench.force_n[0] = -0.5
    assert bench.run(0.5).tension_n[0] == pytest.approx(-0.5, abs=0.01)
    assert bench.sensors.statistics()["tendon_1_lines_rejected"] == 0


def test_a_silent_board_is_unknown_and_named_the_others_stay(bench):
    bench.open()
    bench.boards[0].inject("silence", duration_s=1e9)
    reading = bench.run(1.5)
    np.testing.assert_allclose(reading.tension_n, [math.nan, math.nan, 2.5], atol=0.01)
    assert reading.device_faults == ("load cell of tendon 1: silent",)
    bench.boards[0].inject("")
    assert bench.run(0.5).tension_n[0] == pytest.approx(3.0, abs=0.01)


def test_a_board_that_is_plugged_out_and_in_is_taken_up_again(bench):
    bench.open()
    bench.boards[1].inject("power_cycle", duration_s=0.15)
    reading = bench.run(0.1)
    assert math.isnan(reading.tension_n[2])
    assert "load cell of tendon 3: is gone" in reading.device_faults[0]
    assert bench.run(2.0).tension_n[2] == pytest.approx(2.5, abs=0.01)
    assert bench.sensors.statistics()["tendon_3_reconnects"] == 1


def test_a_board_on_a_ceramic_resonator_stays_fresh():
    bench = Bench(clock_rate=0.995)
    try:
        bench.open()
        reading = bench.run(30.0)
        assert bench.now_s - reading.stamp_s < 0.15
        assert "slow" in bench.sensors.boards[0].warning
    finally:
        bench.close()


@pytest.mark.parametrize(("board", "words"), [({"baud_bps": 57600}, "no frame.*baud_bps"), ({}, "nothing came")])
def test_what_is_wrong_at_the_start_is_said(board, words):
    bench = Bench(**board)
    bench.sensors = OpenScaleSensors(
        dataclasses.replace(bench.settings, stale_after_s=0.05), 3, clock=lambda: bench.now_s
    )
    if not board:
        for one in bench.boards:
            one.inject("silence", duration_s=1e9)
    try:
        with pytest.raises(DeviceError, match=f"OpenScale board at .*: .*{words}"):
            bench.open()
    finally:
        bench.close()


def test_a_file_that_cannot_be_is_refused():
    cell = LoadCell(tendon=1, port="/dev/a")
    with pytest.raises(RobotFileError, match=r"cells\[1\].tendon: 1 -- expected each tendon once"):
        OpenScale(kind="openscale", cells=(cell, LoadCell(tendon=1, port="/dev/b")))
    with pytest.raises(RobotFileError, match="each port once"):
        OpenScale(kind="openscale", cells=(cell, LoadCell(tendon=2, port="/dev/a")))
    with pytest.raises(ParameterError, match="1 to 2"):
        OpenScaleSensors(OpenScale(kind="openscale", cells=(LoadCell(tendon=3, port="/dev/a"),)), 2)


class Servos:
    """Displacement actuators that guess their tendons' loads."""

    simulated, tendon_count, takes_displacements = True, 3, True
    aligned, zero_lost = True, np.zeros(3, dtype=bool)

    def __init__(self):
        self.calls = []

    def open(self):
        self.calls.append("open")

    def enable(self, aborted=None):
        self.calls.append("enable")

    def read(self, now_s):
        unknown = np.full(3, math.nan)
        return TendonReading(now_s, np.zeros(3), np.zeros(3), np.full(3, 9.0), unknown, unknown, np.zeros(3), ("own",))

    def write(self, command, now_s):
        self.calls.append(("write", *command))

    def disable(self):
        self.calls.append("disable")

    def close(self):
        self.calls.append("close")

    def clear_faults(self):
        self.calls.append("clear")

    def counters(self):
        return {"bus": {"frames": 1}}


def test_measured_tensions_take_the_place_of_what_the_motors_guess(bench):
    servos = Servos()
    both = MeasuredTensions(servos, bench.sensors)
    assert isinstance(both, TendonActuators)
    assert isinstance(both, DisplacementActuators)
    assert isinstance(both, CountsFromPowerOn)
    assert both.takes_displacements
    bench.open()
    bench.run(0.5)
    reading = both.read(bench.now_s)
    np.testing.assert_allclose(reading.tension_n, [3.0, 9.0, 2.5], atol=0.01)
    assert reading.device_faults == ("own",)
    bench.boards[0].inject("silence", duration_s=1e9)
    bench.run(1.5)
    reading = both.read(bench.now_s)
    np.testing.assert_allclose(reading.tension_n, [math.nan, 9.0, 2.5], atol=0.01)
    assert reading.device_faults == ("own", "load cell of tendon 1: silent")
    both.enable()
    both.write(np.array([1.0, 2.0, 3.0]), 0.0)
    both.disable()
    both.clear_faults()
    both.close()
    assert servos.calls == ["enable", ("write", 1.0, 2.0, 3.0), "disable", "clear", "close"]
    assert set(both.counters()) == {"bus", "tension_sensors"}


def test_actuators_stay_closed_where_a_load_cell_is_missing():
    servos = Servos()
    missing = OpenScale(kind="openscale", cells=(LoadCell(tendon=1, port="/dev/gone"),))
    with pytest.raises(DeviceError, match=r"OpenScale board at /dev/gone: there is no such port"):
        MeasuredTensions(servos, OpenScaleSensors(missing, 3)).open()
    assert servos.calls == []
