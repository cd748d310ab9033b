# SPDX-License-Identifier: Apache-2.0
"""The shipped driver and the makers' library against a simulated NDI tracker that speaks its bytes."""

from __future__ import annotations

import dataclasses
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from emulated_ndi import SimulatedNdiTracker
from hypothesis import given
from hypothesis import strategies as st
from robot_files import changed_robot

from continuum_robot.drivers import backends
from continuum_robot.drivers.ndi_serial import device as driver
from continuum_robot.drivers.ndi_serial.device import NdiTracker, check_sum
from continuum_robot.drivers.ndi_serial.settings import NdiSerial
from continuum_robot.drivers.protocols import TrackedPose, Tracker
from continuum_robot.errors import DeviceError, ParameterError, RobotFileError
from continuum_robot.geometry import so3
from continuum_robot.robot.loading import load_robot

needs_library = pytest.mark.skipif(driver.ndicapy is None, reason="ndicapi is not installed")

BASE = NdiSerial(
    kind="ndi_serial",
    port="unused",
    base_position_m=(0.1, -0.2, -1.5),
    base_quaternion=tuple(so3.quaternion_from_matrix(so3.exp([0.3, -0.5, 2.0])).tolist()),
    tip_position_m=(0.0, 0.002, 0.03),
    tip_quaternion=tuple(so3.quaternion_from_matrix(so3.exp([0.0, 0.4, 0.0])).tolist()),
)


def frame(turn, place):
    made = np.eye(4)
    made[:3, :3], made[:3, 3] = so3.exp(turn), place
    return made


TIP_IN_BASE = frame([0.2, 0.1, -0.4], [0.05, -0.03, 0.18])


def tool_of(tip):
    """Pose of the tool in the tracker's frame, where the tip is so in the base's."""
    to_tracker = np.eye(4)
    to_tracker[:3, :3] = so3.matrix_from_quaternion(BASE.base_quaternion)
    to_tracker[:3, 3] = BASE.base_position_m
    in_tool = np.eye(4)
    in_tool[:3, :3] = so3.matrix_from_quaternion(BASE.tip_quaternion)
    in_tool[:3, 3] = BASE.tip_position_m
    return to_tracker @ tip @ np.linalg.inv(in_tool)


@pytest.fixture
def simulated():
    made = SimulatedNdiTracker(lambda: tool_of(TIP_IN_BASE))
    yield made
    made.close()


@pytest.fixture
def tracker(simulated):
    made = NdiTracker(BASE, simulated.port)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("text", "check"), [(b"INIT:", 0xE3A5), (b"COMM:50000", 0x0048), (b"PENA:0AD", 0xAD1E), (b"TX:0801", 0xC19B)]
)
def test_check_sums_are_those_of_the_library(text, check):
    """Golden bytes: what ndicapi 3.7.6 sends."""
    assert check_sum(text) == check


@given(st.binary(max_size=40))
def test_a_check_sum_behind_its_data_leaves_nothing(data):
    assert check_sum(data + check_sum(data).to_bytes(2, "little")) == 0


@needs_library
def test_the_tip_comes_in_the_base_frame(simulated, tracker):
    assert isinstance(tracker, Tracker)
    tracker.open()
    found = tracker.read(3.0)
    assert isinstance(found, TrackedPose)
    assert found.time_s == 3.0 - BASE.latency_s
    np.testing.assert_allclose(found.tip[:3, 3], TIP_IN_BASE[:3, 3], atol=2e-5)  # hundredths of a millimetre
    np.testing.assert_allclose(found.tip[:3, :3], TIP_IN_BASE[:3, :3], atol=3e-4)  # four decimals
    assert tracker.read(3.1).time_s == pytest.approx(3.0 + 1 / 60 - BASE.latency_s)
    assert simulated.baud_code == "50000"
    assert [one.split(":")[0] for one in simulated.commands[:3]] == ["INIT", "COMM", "PHSR"]
    tracker.close()
    assert simulated.commands[-2:] == ["TSTOP:", "COMM:00000"]
    with pytest.raises(DeviceError, match="not open"):
        tracker.read(4.0)


def frames_read(numbers, times_s, **settings):
    """Stamps of frames that are read at some times, of a library that answers at once."""

    line = SimpleNamespace(close=lambda: None)
    tracker = NdiTracker(dataclasses.replace(BASE, **settings))
    tracker._device, stamps = line, []
    for number, time_s in zip(numbers, times_s, strict=True):
        seen = "0100+10000+00000+00000+00000+000000+000000+000000+0120000000031"
        line.ask = lambda _command, number=number, seen=seen: f"{seen}{number:08X}\n0000"
        stamps.append(tracker.read(float(time_s)).time_s)
    return np.array(stamps), tracker


def test_stamps_follow_the_frames_and_not_the_readings():
    """Readings up to 12 ms late, now and then 80 ms, and frames that are missed, on a clock that is 50 ppm fast."""
    rng = np.random.default_rng(3)
    numbers = np.flatnonzero(rng.random(1200) > 0.1) + 1000
    exposed_s = numbers / 60 / (1 + 5e-5)
    late_s = rng.uniform(0, 0.012, numbers.size) + 0.07 * (rng.random(numbers.size) < 0.05)
    read_s = np.maximum.accumulate(exposed_s + 0.02 + late_s)
    stamps, tracker = frames_read(numbers.tolist(), read_s)
    assert np.abs(stamps - exposed_s)[300:].max() < 1.5e-3
    assert tracker.recounted == 0


def test_frames_that_are_not_counted_as_stated_are_stamped_when_they_are_read():
    numbers = np.arange(1, 600)
    stamps, tracker = frames_read(numbers.tolist(), numbers / 20)
    np.testing.assert_allclose(numbers[100:] / 20 - stamps[100:], BASE.latency_s)
    assert tracker.statistics()["recounted"] == 4


def test_frames_that_start_again_begin_a_new_clock():
    stamps, tracker = frames_read([500, 501, 1, 2], [10.0, 10.02, 20.0, 20.02])
    np.testing.assert_allclose(stamps + BASE.latency_s, [10.0, 10.0 + 1 / 60, 20.0, 20.0 + 1 / 60])
    assert tracker.recounted == 1


@needs_library
@pytest.mark.parametrize("baud_bps", [9600, 57600, 115200])
def test_it_can_be_opened_again_after_it_was_closed(simulated, baud_bps):
    tracker = NdiTracker(dataclasses.replace(BASE, baud_bps=baud_bps), simulated.port)
    for _ in range(2):
        tracker.open()
        assert simulated.baud_bps == baud_bps
        assert tracker.read(0.0) is not None
        tracker.close()
        assert simulated.baud_bps == 9600


@needs_library
def test_a_tracker_that_was_left_at_another_rate_is_reset_by_a_break(simulated, tracker, monkeypatch):
    """As by a program that was killed. The library's break is real; the pseudo-terminal does not carry it."""

    class Breaking:
        def __getattr__(self, name):
            return getattr(library, name)

        @staticmethod
        def ndiCommand(device, command):
            if command is None:
                threading.Timer(0.1, simulated.break_line).start()
            return library.ndiCommand(device, command)

    library = driver.ndicapy
    monkeypatch.setattr(driver, "ndicapy", Breaking())
    simulated.baud_bps = 115200
    tracker.open()
    assert tracker.read(0.0) is not None


@needs_library
def test_a_tool_out_of_sight_is_no_pose_and_counted(simulated, tracker):
    tracker.open()
    simulated.faults.add("missing")
    assert [tracker.read(0.1 * k) for k in range(3)] == [None] * 3
    assert tracker.statistics()["missed"] == 3
    simulated.faults.clear()
    assert tracker.read(1.0) is not None


@needs_library
def test_a_tool_without_a_wire_is_described_by_its_file(tmp_path):
    simulated = SimulatedNdiTracker(lambda: np.eye(4), wired=False)
    try:
        with pytest.raises(DeviceError, match="no tool is there"):
            NdiTracker(BASE, simulated.port).open()
        definition = tmp_path / "tool.rom"
        definition.write_bytes(bytes(range(200)))
        settings = NdiSerial(kind="ndi_serial", port=simulated.port, tool_file=str(definition))
        made = NdiTracker(settings)
        made.open()
        assert bytes(simulated.definition[:200]) == definition.read_bytes()
        assert len(simulated.definition) == 256
        np.testing.assert_allclose(made.read(0.0).tip, np.eye(4), atol=1e-9)
        made.close()
        with pytest.raises(DeviceError, match="no tool definition file"):
            NdiTracker(NdiSerial(kind="ndi_serial", port=simulated.port, tool_file="gone.rom")).open()
    finally:
        simulated.close()


@needs_library
@pytest.mark.parametrize(("fault", "words"), [("wrong_check", "INIT"), ("no_tool", "no tool")])
def test_what_is_wrong_at_the_start_is_said(simulated, tracker, fault, words):
    simulated.faults.add(fault)
    with pytest.raises(DeviceError, match=words):
        tracker.open()
    simulated.faults.clear()
    tracker.open()
    assert tracker.read(0.0) is not None


@needs_library
def test_a_tracker_that_falls_silent_is_an_error_and_may_come_back(simulated, tracker):
    tracker.open()
    simulated.faults.add("silent")
    with pytest.raises(DeviceError, match="TX"):
        tracker.read(0.0)
    simulated.faults.clear()
    time.sleep(0.05)
    assert tracker.read(1.0) is not None


# --- on a network


@pytest.fixture
def networked():
    made = SimulatedNdiTracker(lambda: tool_of(TIP_IN_BASE), network=True)
    yield made
    made.close()


def test_a_tracker_on_a_network_gives_the_same_tip_without_the_library(networked, monkeypatch):
    monkeypatch.setattr(driver, "ndicapy", None)
    tracker = NdiTracker(BASE, networked.port)
    tracker.open()
    found = tracker.read(3.0)
    np.testing.assert_allclose(found.tip[:3, 3], TIP_IN_BASE[:3, 3], atol=2e-5)
    np.testing.assert_allclose(found.tip[:3, :3], TIP_IN_BASE[:3, :3], atol=3e-4)
    tracker.close()
    assert [one.split(":")[0] for one in networked.commands] == [
        *("INIT", "PHSR", "PHSR", "PINIT", "PHSR", "PENA", "TSTART", "TX", "TSTOP")
    ]


def test_a_tracker_on_a_network_that_is_silent_from_the_start_is_said(networked, monkeypatch):
    monkeypatch.setattr(driver, "SET_UP_S", 0.2)
    networked.faults.add("silent")
    with pytest.raises(DeviceError, match="INIT"):
        NdiTracker(BASE, networked.port).open()


@pytest.mark.parametrize("fault", ["silent", "wrong_check"])
def test_a_tracker_on_a_network_that_falls_silent_is_an_error_in_time_and_set_up_again(networked, monkeypatch, fault):
    monkeypatch.setattr(driver, "TRACK_S", 0.1)
    tracker = NdiTracker(BASE, networked.port)
    tracker.open()
    networked.faults.add(fault)
    with pytest.raises(DeviceError, match=r"TX: (timed out|an answer with a wrong check sum)"):
        tracker.read(10.0)
    networked.faults.clear()
    with pytest.raises(DeviceError, match="TX"):
        tracker.read(10.1)  # it is not yet time to try again
    assert tracker.read(11.0) is not None
    tracker.close()


def test_nobody_at_the_address_is_one_sentence():
    with pytest.raises(DeviceError, match=r"127.0.0.1:9: nothing answers there .*correct hardware\.tracker\.port"):
        NdiTracker(BASE, "127.0.0.1:9").open()


@needs_library
def test_the_makers_library_reads_the_same_pose_from_the_same_tracker(networked):
    """The peer over TCP; while the tracker answers, for without an answer it waits for ever."""
    own = NdiTracker(NdiSerial(kind="ndi_serial", port=networked.port))
    own.open()
    seen = own.read(1.0).tip
    own.close()
    library = driver.ndicapy
    address, port = networked.port.split(":")
    device = library.ndiOpenNetwork(address, int(port))
    for command in ("INIT:", "PHSR:02", "PINIT:0A", "PENA:0AD", "TSTART:", "TX:0801"):
        library.ndiCommand(device, command)
    pose = library.ndiGetTXTransform(device, b"\n")
    library.ndiCloseNetwork(device)
    np.testing.assert_allclose(pose[4:7], 1e3 * seen[:3, 3], atol=1e-9)
    np.testing.assert_allclose(so3.matrix_from_quaternion(np.array(pose[:4]) / np.linalg.norm(pose[:4])), seen[:3, :3])


def test_without_port_or_library_it_says_so(monkeypatch, tmp_path):
    with pytest.raises(DeviceError, match=r"no such port|not installed"):
        NdiTracker(BASE, str(tmp_path / "gone")).open()
    monkeypatch.setattr(driver, "ndicapy", None)
    with pytest.raises(DeviceError, match=r"pip install 'continuum-robot\[ndi\]'"):
        NdiTracker(BASE).open()


def test_the_robot_file_names_it():
    section = {"kind": "ndi_serial", "port": "/dev/tracker", "base_position_m": [0, 0, -1]}
    made = backends.tracker(changed_robot({"hardware.tracker": section}))
    assert isinstance(made, NdiTracker)
    assert made.port == "/dev/tracker"
    with pytest.raises(ParameterError, match="a tracker of the tip in the file"):
        backends.tracker(load_robot("opencr_five_tendon"))
    for key, value, words in (
        ("baud_bps", 20000, "one of 9600"),
        ("baud_bps", 921600, "115200"),
        ("base_quaternion", [1, 1, 0, 0], "add up to 1"),
        ("kind", "camera", "one of motion_capture, ndi_serial"),
    ):
        with pytest.raises(RobotFileError, match=words):
            changed_robot({"hardware.tracker": {**section, key: value}})
