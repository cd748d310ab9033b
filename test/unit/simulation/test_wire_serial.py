# SPDX-License-Identifier: Apache-2.0
"""What simulated serial devices are made of: line faults, the pacer, and the faults of the devices themselves."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from continuum_robot.drivers.emulated_sensor import LINE_FAULTS, LineFaults
from continuum_robot.drivers.protocols import ForceSensor
from continuum_robot.drivers.rokubi_serial.emulator import SimulatedRokubi
from continuum_robot.drivers.string_encoder_serial.emulator import SimulatedStringEncoderBoard
from continuum_robot.drivers.string_encoder_serial.settings import EncoderString, StringEncoderSerial
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.simulation.devices.sensors import SimulatedForceSensor
from continuum_robot.simulation.wire.ports import Pacer

FRAME = bytes(range(1, 30))


def line() -> LineFaults:
    return LineFaults(np.random.default_rng(0))


def test_without_faults_frames_pass() -> None:
    faults = line()
    assert faults.apply(FRAME, 0.0) == [FRAME]
    assert faults.damaged == 0


@pytest.mark.parametrize("name", LINE_FAULTS)
def test_a_fault_touches_as_many_frames_as_it_should(name: str) -> None:
    faults = line()
    faults.inject(name, count=3)
    arrived = [faults.apply(FRAME, 0.001 * index) for index in range(10)]
    assert faults.damaged == 3
    # A stall gives back in the end what it held, and what overtook nothing is in its place again.
    assert arrived[5:] == [[FRAME]] * 5
    touched = arrived[:3]
    whole = {
        "duplicate": [[FRAME, FRAME]] * 3,
        "reorder": [[], [FRAME], [FRAME]],
        "silence": [[]] * 3,
        "stall": [[]] * 3,
    }
    if name in whole:
        assert touched == whole[name]
    else:
        assert all(pieces != [FRAME] for pieces in touched)
    sizes = {"flip": 29, "delete": 28, "glue": 28, "garbage": 49, "babble": 29}
    if name in sizes:
        assert [len(pieces[0]) for pieces in touched] == [sizes[name]] * 3


def test_a_stall_gives_all_back_at_once() -> None:
    faults = line()
    faults.inject("stall", duration_s=0.01)
    arrived = [faults.apply(bytes([index]), 0.001 * index) for index in range(12)]
    assert arrived[:10] == [[]] * 10
    assert b"".join(arrived[10]) == bytes(range(11))
    assert arrived[11] == [b"\x0b"]


def test_a_share_of_the_frames_for_a_time() -> None:
    faults = line()
    faults.inject("flip", duration_s=10.0, fraction=0.2)
    hit = sum(faults.apply(FRAME, 0.001 * index) != [FRAME] for index in range(10_000))
    assert hit == pytest.approx(2000, abs=200)
    assert faults.apply(FRAME, 10.0) == [FRAME]
    faults.inject("flip", duration_s=10.0)
    faults.inject("")
    assert faults.apply(FRAME, 11.0) == [FRAME]


def test_unknown_faults_are_refused() -> None:
    with pytest.raises(ParameterError, match="flip"):
        line().inject("flop")
    with pytest.raises(ParameterError):
        line().inject("flip", fraction=1.5)
    settings = StringEncoderSerial(
        kind="string_encoder_serial",
        port="/dev/none",
        strings=(EncoderString(string="a", channel=0, pulley_radius_m=0.01),),
    )
    board = SimulatedStringEncoderBoard(settings, ["a"], lambda: np.zeros(1))
    with pytest.raises(ParameterError, match="reboot"):
        board.inject("flop")
    with pytest.raises(ParameterError, match="channel"):
        board.inject("jump", 4)
    board.close()
    with pytest.raises(ParameterError, match="among them"):
        SimulatedStringEncoderBoard(settings, ["b"], lambda: np.zeros(1))
    sensor = SimulatedRokubi(lambda: np.zeros(6))
    with pytest.raises(ParameterError, match="overrange"):
        sensor.inject("flop")
    sensor.close()
    with pytest.raises(ParameterError, match="460800"):
        SimulatedRokubi(lambda: np.zeros(6), baud_bps=19200)


def test_the_pacer_steps_in_order_until_it_is_stopped() -> None:
    times: list[float] = []
    enough = threading.Event()

    def step(now_s: float) -> None:
        times.append(now_s)
        if len(times) == 5:
            enough.set()

    pacer = Pacer(step)
    pacer.start()
    pacer.start()
    assert enough.wait(60.0)
    pacer.stop()
    pacer.stop()
    count = len(times)
    time.sleep(0.01)
    assert len(times) == count
    assert times == sorted(times)
    with pytest.raises(ParameterError):
        Pacer(step, 0.0)


def test_a_step_that_fails_is_told_when_the_pacer_stops() -> None:
    failed = threading.Event()

    def step(_now_s: float) -> None:
        failed.set()
        raise ValueError("broken device")

    pacer = Pacer(step)
    pacer.start()
    assert failed.wait(60.0)
    with pytest.raises(ValueError, match="broken device"):
        pacer.stop()


def test_the_simulated_force_sensor_measures_tares_and_holds_its_rate() -> None:
    wrench, offset = np.arange(6.0), np.full(6, 0.5)
    sensor = SimulatedForceSensor(lambda: wrench, "flange", rate_hz=100.0, offset=offset)
    assert isinstance(sensor, ForceSensor)
    with pytest.raises(DeviceError):
        sensor.read(0.0)
    sensor.open()
    assert sensor.read(0.0).wrench.tolist() == (wrench + offset).tolist()
    held = sensor.read(0.005)
    assert (held.stamp_s, held.age_s) == (0.0, 0.005)
    sensor.start_tare(5)
    for tick in range(1, 6):
        assert sensor.taring
        sensor.read(0.01 * tick + 1e-9)
    assert (sensor.taring, sensor.tare_problem) == (False, "")
    wrench = wrench + 2.0
    np.testing.assert_allclose(sensor.read(1.0).wrench, 2.0)
    sensor.close()


def test_noise_of_the_simulated_force_sensor() -> None:
    sensor = SimulatedForceSensor(
        lambda: np.zeros(6), force_noise_n=0.1, moment_noise_nm=0.01, rng=np.random.default_rng(1)
    )
    sensor.open()
    samples = np.array([sensor.read(float(tick)).wrench for tick in range(4000)])
    np.testing.assert_allclose(samples.std(axis=0), [0.1] * 3 + [0.01] * 3, rtol=0.06)
    with pytest.raises(ParameterError):
        SimulatedForceSensor(lambda: np.zeros(6), rate_hz=0.0)
