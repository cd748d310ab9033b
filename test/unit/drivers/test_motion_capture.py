# SPDX-License-Identifier: Apache-2.0
"""The motion capture driver: bodies to the tip in the base frame, over a process that may hang, end or fall silent."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from robot_files import changed_robot

from continuum_robot.drivers import backends
from continuum_robot.drivers.motion_capture import device as driver
from continuum_robot.drivers.motion_capture.device import MotionCaptureTracker
from continuum_robot.drivers.motion_capture.settings import MotionCapture
from continuum_robot.drivers.protocols import CountsFrames, Tracker
from continuum_robot.errors import DeviceError, RobotFileError
from continuum_robot.geometry import so3

# A stand-in for the library: what it sees, and what it does, stand in the file that it is to connect to.
LIBRARY = """
import json, sys, time
from types import SimpleNamespace

class Source:
    def __init__(self, file):
        self.file, self.rigidBodies, self.count = file, {}, 0

    def waitForNextFrame(self):
        time.sleep(0.002)
        script = json.load(open(self.file))
        while script["does"] == "hang":
            time.sleep(0.01)
            script = json.load(open(self.file))
        if script["does"] == "end":
            raise RuntimeError("the stream was closed")
        self.count += script["does"] == "run"
        self.rigidBodies = {}
        for name, (place, turn) in script["bodies"].items():
            place[0] += 1e-9 * self.count
            rotation = SimpleNamespace(w=turn[0], x=turn[1], y=turn[2], z=turn[3])
            self.rigidBodies[name] = SimpleNamespace(position=place, rotation=rotation)

def connect(system, options):
    if system == "qualisys":
        raise ValueError("cannot connect")
    return Source(options["hostname"])
"""


def pose(turn, place):
    made = np.eye(4)
    made[:3, :3], made[:3, 3] = so3.exp(turn), place
    return made


def as_body(seen):
    return [seen[:3, 3].tolist(), so3.quaternion_from_matrix(seen[:3, :3]).tolist()]


BASE_BODY = pose([0.1, 0.9, -0.3], [2.0, 1.0, 0.5])
BASE_IN_BODY = pose([0.0, 0.0, 0.4], [0.01, 0.02, 0.03])
TIP_IN_BODY = pose([0.2, 0.0, 0.0], [0.0, 0.0, 0.015])
TIP_IN_BASE = pose([0.3, -0.2, 0.1], [0.04, -0.02, 0.2])
TIP_BODY = BASE_BODY @ BASE_IN_BODY @ TIP_IN_BASE @ np.linalg.inv(TIP_IN_BODY)


class Capture:
    """A system that streams two bodies."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.bodies = {"tip": as_body(TIP_BODY), "base": as_body(BASE_BODY), "wand": as_body(np.eye(4))}
        self.do("run")

    def do(self, what: str) -> None:
        made = self.file.with_suffix(".new")
        made.write_text(json.dumps({"does": what, "bodies": self.bodies}))
        made.replace(self.file)

    def settings(self, **changes) -> MotionCapture:
        values = {
            "kind": "motion_capture",
            "system": "vicon",
            "hostname": str(self.file),
            "tip_body": "tip",
            "base_body": "base",
            "base_position_m": tuple(BASE_IN_BODY[:3, 3]),
            "base_quaternion": tuple(so3.quaternion_from_matrix(BASE_IN_BODY[:3, :3])),
            "tip_position_m": tuple(TIP_IN_BODY[:3, 3]),
            "tip_quaternion": tuple(so3.quaternion_from_matrix(TIP_IN_BODY[:3, :3])),
        }
        return MotionCapture(**(values | changes))


@pytest.fixture
def capture(tmp_path, monkeypatch):
    (tmp_path / "motioncapture.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return Capture(tmp_path / "capture.json")


@pytest.fixture
def tracker(capture):
    made = MotionCaptureTracker(capture.settings())
    yield made
    made.close()


def next_pose(tracker, timeout_s=20.0):
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        found = tracker.read(time.monotonic())
        if found is not None:
            return found
        time.sleep(0.005)
    raise AssertionError("no pose came")


def error_of(tracker, timeout_s=20.0):
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        try:
            tracker.read(time.monotonic())
        except DeviceError as error:
            return str(error)
        time.sleep(0.005)
    raise AssertionError("no error came")


def test_the_tip_comes_in_the_frame_of_the_base_body(tracker):
    assert isinstance(tracker, Tracker)
    assert isinstance(tracker, CountsFrames)
    before_s = time.monotonic()
    tracker.open()
    found = next_pose(tracker)
    np.testing.assert_allclose(found.tip, TIP_IN_BASE, atol=1e-4)
    assert before_s - 0.02 < found.time_s < time.monotonic() - 0.02


def test_without_a_base_body_the_base_is_where_the_file_says(capture):
    base = BASE_BODY @ BASE_IN_BODY
    tracker = MotionCaptureTracker(
        capture.settings(
            base_body="",
            base_position_m=tuple(base[:3, 3]),
            base_quaternion=tuple(so3.quaternion_from_matrix(base[:3, :3])),
        )
    )
    tracker.open()
    np.testing.assert_allclose(next_pose(tracker).tip, TIP_IN_BASE, atol=1e-4)
    tracker.close()


def test_a_body_that_is_hidden_or_repeated_is_no_pose(capture, tracker):
    tracker.open()
    next_pose(tracker)
    capture.do("repeat")
    time.sleep(0.2)
    tracker.read(time.monotonic())  # the last that moved may still have waited
    time.sleep(0.1)
    missed = tracker.missed
    assert tracker.read(time.monotonic()) is None
    assert tracker.missed == missed + 1
    del capture.bodies["base"]
    capture.do("run")
    time.sleep(0.2)
    assert [tracker.read(time.monotonic()) for _ in range(1)] == [None]
    capture.bodies["base"] = as_body(BASE_BODY)
    capture.do("run")
    next_pose(tracker)


def test_a_system_that_hangs_is_an_error_in_time_and_taken_up_again(capture, tracker, monkeypatch):
    monkeypatch.setattr(driver, "SILENT_AFTER_S", 0.3)
    tracker.open()
    next_pose(tracker)
    capture.do("hang")
    assert "sent nothing for 0.3 s" in error_of(tracker)
    capture.do("run")
    monkeypatch.setattr(driver, "SILENT_AFTER_S", 20.0)
    end_s = time.monotonic() + 20.0
    while time.monotonic() < end_s:
        try:
            if tracker.read(time.monotonic()) is not None:
                return
        except DeviceError:
            pass
        time.sleep(0.01)
    raise AssertionError("it was not taken up again")


def test_a_stream_that_ends_says_why(capture, tracker):
    tracker.open()
    capture.do("end")
    assert "its receiver ended: RuntimeError: the stream was closed" in error_of(tracker)


def test_what_is_wrong_at_the_start_is_said(capture, monkeypatch):
    monkeypatch.setattr(driver, "FIRST_FRAME_S", 3.0)
    with pytest.raises(DeviceError, match=r"sees no rigid body tool \(it sees: base, tip, wand\)"):
        MotionCaptureTracker(capture.settings(tip_body="tool")).open()
    with pytest.raises(DeviceError, match="its receiver ended: ValueError: cannot connect"):
        MotionCaptureTracker(capture.settings(system="qualisys")).open()
    capture.do("hang")
    monkeypatch.setattr(driver, "FIRST_FRAME_S", 0.5)
    with pytest.raises(DeviceError, match=r"no frame came for 0.5 s. .*hardware\.tracker\.hostname"):
        MotionCaptureTracker(capture.settings()).open()
    monkeypatch.setattr(driver, "find_spec", lambda _name: None)
    with pytest.raises(DeviceError, match=r"pip install 'continuum-robot\[mocap\]'"):
        MotionCaptureTracker(capture.settings()).open()
    with pytest.raises(DeviceError, match="is not open"):
        MotionCaptureTracker(capture.settings()).read(0.0)


def test_the_library_itself_is_spoken_to_and_sees_no_body_of_its_mock(monkeypatch):
    """The peer: its mock streams frames, in which Python cannot put a body."""
    pytest.importorskip("motioncapture")
    monkeypatch.setattr(driver, "FIRST_FRAME_S", 3.0)
    tracker = MotionCaptureTracker(MotionCapture(kind="motion_capture", system="mock", hostname="here", tip_body="tip"))
    with pytest.raises(DeviceError, match=r"sees no rigid body tip \(it sees: none\)"):
        tracker.open()
    assert tracker.frames > 10


def test_the_robot_file_names_it():
    section = {"kind": "motion_capture", "system": "optitrack", "hostname": "10.0.0.2", "tip_body": "tip"}
    made = backends.tracker(changed_robot({"hardware.tracker": section}))
    assert isinstance(made, MotionCaptureTracker)
    assert made.settings.hostname == "10.0.0.2"
    for key, value, words in (("base_body", "tip", "another body"), ("system", "kinect", "one of vicon")):
        with pytest.raises(RobotFileError, match=words):
            changed_robot({"hardware.tracker": section | {key: value}})
