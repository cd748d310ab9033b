# SPDX-License-Identifier: Apache-2.0
"""Lock-step on the bus of one process: two runs give the same bytes; programs of their own are refused, or listen."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")
from continuum_robot.msg import ClarkeState, Shape
from lockstep_script import CYCLE_NS, DECIMATION, heard_of, in_this_process
from rclpy.node import Node
from rclpy.serialization import deserialize_message
from rosbags.rosbag2 import Reader

from continuum_robot.errors import MISCONFIGURED, DeviceError, ParameterError
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.nodes.lockstep.bus import NEVER_NS, BusFlow, LockstepBus
from continuum_robot.nodes.topics import qos
from continuum_robot.runtime.clock import START_NS

pytestmark = [pytest.mark.ros]

NAMES = ["string_encoder", "shape_estimator", "contact_monitor", "reference_source", "recorder"]
CYCLES = 700
ROBOT = "opencr_five_tendon"
# The demo with contacts compares the recordings of two runs of this one: test_nodes_demo.py.
SEGMENT = pytest.param("vanderbilt_segment", marks=pytest.mark.long)
MS = 1_000_000


class Alone:
    """A node's side of a flow without ROS."""

    def __init__(self, name: str = "alone") -> None:
        self._name = name

    def get_name(self) -> str:
        return self._name

    def guarded(self, callback):
        return callback


def test_timers_fire_in_the_order_of_due_times_then_of_creation():
    bus, fired = LockstepBus(), []
    flow = bus.flow(Alone())
    for name, period_s in (("b", 0.002), ("a", 0.001), ("c", 0.002)):
        flow.create_timer(lambda name=name: fired.append(name)).start(period_s)
    assert flow.next_due_ns == START_NS + MS
    assert bus.run_due(START_NS + 2 * MS)
    # The earlier one first, once though it was due twice.
    assert fired == ["a", "b", "c"]
    assert flow.next_due_ns == START_NS + 3 * MS


def test_a_timer_stays_on_its_grid_and_one_that_its_callback_stops_is_not_due_any_more():
    bus, fired = LockstepBus(), []
    flow = bus.flow(Alone())
    timer = flow.create_timer(lambda: fired.append(bus.clock.monotonic_ns()) or len(fired) < 3 or timer.cancel())
    timer.start(0.003)
    for passed_ms in (2, 3, 10, 11, 12, 30):
        bus.run_due(START_NS + passed_ms * MS)
    assert fired == [START_NS + passed_ms * MS for passed_ms in (3, 10, 12)]
    assert flow.next_due_ns == NEVER_NS
    with pytest.raises(ParameterError, match="period_s"):
        timer.start(0.0)


def test_nodes_act_in_the_order_in_which_they_were_made_until_none_has_anything_left_to_do():
    bus, log = LockstepBus(), []
    flows = [bus.flow(Alone(name)) for name in ("first", "second", "third")]
    for flow, period_s in zip(flows, (0.002, 0.001, 0.001), strict=True):
        flow.create_timer(lambda name=flow.name: log.append(name)).start(period_s)
    bus.run_due(START_NS + MS)
    bus.run_due(START_NS + 2 * MS)
    assert log == ["second", "third", "first", "second", "third"]


def test_nodes_that_answer_each_other_endlessly_are_named():
    bus = LockstepBus()
    flow = bus.flow(Alone("echo"))
    flow.create_timer(lambda: setattr(flow, "woken", True)).start(0.001)
    flow.turn = lambda _now_ns: setattr(flow, "woken", True)
    with pytest.raises(DeviceError, match="echo have turns without end"):
        bus.run_due(START_NS + MS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lockstep")


def parameters(folder: Path) -> dict:
    return {"recorder": {"directory": str(folder)}}


@pytest.fixture(scope="module", params=[ROBOT, SEGMENT])
def reference(request, folder, domain) -> tuple[str, dict[str, list[bytes]]]:
    """A robot, and what the nodes publish."""
    with in_this_process(request.param, parameters(folder), NAMES) as driver:
        driver.run(CYCLES)
        return request.param, heard_of(driver)


def test_all_nodes_publish(reference):
    robot, heard = reference
    strings = {"string_lengths"} if robot == ROBOT else set()
    assert {"shape", "contact", "clarke_reference"} | strings <= set(heard)
    assert len(heard["shape"]) == CYCLES // DECIMATION


def test_a_busy_program_and_a_step_of_the_wall_clock_change_no_byte(reference, folder, monkeypatch):
    robot, heard = reference
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with in_this_process(robot, parameters(folder), NAMES) as driver:
            driver.run(CYCLES // 2)
            wall_ns, wall = time.time_ns, time.time
            monkeypatch.setattr(time, "time_ns", lambda: wall_ns() - 3600 * 10**9)
            monkeypatch.setattr(time, "time", lambda: wall() - 3600)
            driver.run(CYCLES - CYCLES // 2)
            assert heard_of(driver) == heard
    finally:
        busy.kill()
        busy.wait()


def test_a_simulated_board_behind_its_port_keeps_lockstep(folder):
    runs = []
    for _ in range(2):
        with in_this_process(ROBOT, {"string_encoder": {"simulation_level": "wire"}}, NAMES[:2]) as driver:
            driver.run(200)
            runs.append(heard_of(driver))
    assert runs[0] == runs[1]
    assert len(runs[0]["string_lengths"]) == 20


def test_the_recording_lacks_nothing_and_its_times_are_simulated(folder):
    with in_this_process(ROBOT, parameters(folder), NAMES) as driver:
        driver.run(CYCLES)
        recording = driver.nodes["recorder"].folder
    with Reader(recording) as reader:
        times: dict[str, list[int]] = {}
        for connection, time_ns, _data in reader.messages():
            times.setdefault(connection.topic, []).append(time_ns)
    assert times["/tendon_states"] == [START_NS + k * CYCLE_NS for k in range(1, CYCLES + 1)]
    assert len(times["/shape"]) == CYCLES // DECIMATION


def test_a_program_outside_hears_every_message_and_its_references_come_in_once(folder):
    """Over DDS; what comes back of the stack's own messages is not taken for somebody else's."""
    with in_this_process(ROBOT, {}, NAMES[:4]) as driver:
        outside = Node("outside", context=driver.context)
        heard: list[bytes] = []
        outside.create_subscription(Shape, "shape", heard.append, qos.every_state(), raw=True)
        echoes: list[bytes] = []
        outside.create_subscription(ClarkeState, "clarke_reference", echoes.append, qos.every_state(), raw=True)
        publisher = outside.create_publisher(ClarkeState, "clarke_reference", qos.command_publisher())
        driver.spinner.add_node(outside)
        taken: list[bytes] = []
        driver.bus.tap("/clarke_reference", taken.append)
        controller: BusFlow = driver.bus.flow(driver.nodes["reference_source"])
        controller.create_subscription(ClarkeState, "clarke_reference", lambda _m: None, qos.owned_reference())
        shapes = driver.nodes["shape_estimator"].ports["shapes"]
        source = driver.nodes["reference_source"].ports["references"]
        driver.bus.looks += 1
        assert wait_for(lambda: _looked(driver, shapes) and _looked(driver, source), 20.0)
        before, own = len(driver.heard["shape"]), len(taken)
        driver.run(100)
        assert wait_for(lambda: len(heard) == 10, 20.0)
        assert [bytes(data) for data in heard] == driver.heard["shape"][before:]
        own = taken[own:]
        assert wait_for(lambda: len(echoes) == len(own) > 0, 20.0)
        foreign = ClarkeState(sequence=77, position=[0.0] * driver.robot.coordinate_count)
        assert wait_for(lambda: publisher.get_subscription_count() >= 2, 20.0)
        publisher.publish(foreign)
        # Of what is as it was sent: the middleware leaves the bytes between fields undefined.
        assert wait_for(lambda: any(deserialize_message(data, ClarkeState) == foreign for data in taken), 20.0)
        assert len(taken) == len(set(taken))
        outside.executor = None


def _looked(driver, publisher) -> bool:
    driver.bus.looks += 1
    return publisher.listeners_outside > 0


def test_a_program_of_its_own_is_refused_in_a_sentence():
    command = [sys.executable, "-m", "continuum_robot.nodes.shape_estimator", "--ros-args", "-p", "clock:=lockstep"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == MISCONFIGURED
    assert "clock = 'lockstep'" in ended.stderr
    assert "run in one process" in ended.stderr
