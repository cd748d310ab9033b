# SPDX-License-Identifier: Apache-2.0
"""A scripted driver that keeps lock-step: synthetic tendons and strings of a robot, and what the nodes make of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from continuum_robot.msg import ClarkeState, Contact, Shape, StringLengths, TendonStates
from rclpy.context import Context
from rclpy.node import Node
from std_srvs.srv import Trigger

from continuum_robot.nodes.base.calling import call_service
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.spinning import Spinner, initialize, wait_for
from continuum_robot.nodes.contact_monitor import ContactMonitorNode
from continuum_robot.nodes.lockstep.coordinator import LockstepCoordinator
from continuum_robot.nodes.recorder import Recorder
from continuum_robot.nodes.reference_source import ReferenceSource
from continuum_robot.nodes.shape_estimator import ShapeEstimatorNode
from continuum_robot.nodes.string_encoder import StringEncoder
from continuum_robot.nodes.topics import conversions
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.clock import START_NS, SteppedClock
from continuum_robot.simulation.bodies.choosing import linked_count
from continuum_robot.simulation.devices.plant_link import PlantLinkWriter, link_path

NODES = {
    "string_encoder": StringEncoder,
    "shape_estimator": ShapeEstimatorNode,
    "contact_monitor": ContactMonitorNode,
    "reference_source": ReferenceSource,
    "recorder": Recorder,
}
CYCLE_NS = 1_000_000
DECIMATION = 10
HEARD = {"shape": Shape, "contact": Contact, "clarke_reference": ClarkeState, "string_lengths": StringLengths}


class ScriptedDriver:
    """Publishes states of a robot that moves by a script; ``heard`` are the bytes of what the nodes published."""

    def __init__(self, robot: str, *, limit_s: float = 20.0) -> None:
        self.robot = load_robot(robot)
        self.context = Context()
        initialize([], self.context)
        self.node = Node("tendon_driver", context=self.context)
        self.clock = SteppedClock()
        self.coordinator = LockstepCoordinator(self.node, self.clock, limit_s=limit_s)
        self.heard: dict[str, list[bytes]] = defaultdict(list)
        for topic, kind in HEARD.items():
            self.coordinator.listen(kind, topic, self.heard[topic].append, raw=True)
        self._states = self.coordinator.create_publisher(TendonStates, "tendon_states")
        self._decimated = self.coordinator.create_publisher(TendonStates, "tendon_states_decimated")
        self._clarke = self.coordinator.create_publisher(ClarkeState, "clarke_state")
        self.link = PlantLinkWriter(link_path("", self.robot.name), linked_count(self.robot))
        self.unlinked = linked_count(self.robot) - len(self.robot.strings)
        self.link.open()
        self.spinner = Spinner([self.node], self.context)
        self.spinner.start()
        self.cycles = 0
        self.nodes: dict[str, ManagedNode] = {}

    def close(self) -> None:
        self.coordinator.close()
        self.spinner.stop()
        self.link.close()
        self.node.destroy_node()
        self.context.try_shutdown()

    def count_decimated(self) -> None:
        """A state without numbers, without a turn."""
        self._decimated.publish(TendonStates())

    def run(self, cycles: int) -> None:
        count, manifold = self.robot.tendon_count, clarke_manifold(self.robot)
        size = self.robot.coordinate_count
        for _ in range(cycles):
            self.cycles += 1
            now_ns = START_NS + self.cycles * CYCLE_NS
            angle = 2.0 * self.cycles * CYCLE_NS * 1e-9
            clarke = 0.002 * np.sin(angle + np.arange(size))
            rate = 0.004 * np.cos(angle + np.arange(size))
            message = TendonStates(sequence=self.cycles, simulated=True)
            conversions.set_stamp(message.header.stamp, now_ns)
            message.displacement = conversions.float_array(manifold.displacement_matrix @ clarke)
            message.velocity = conversions.float_array(manifold.displacement_matrix @ rate)
            message.tension = conversions.float_array(5.0 + 0.5 * np.sin(angle + np.arange(count)))
            message.commanded_tension = conversions.float_array(np.full(count, 5.0))
            self._states.publish(message)
            state = ClarkeState(sequence=self.cycles, simulated=True, header=message.header)
            state.position, state.velocity = conversions.float_array(clarke), conversions.float_array(rate)
            self._clarke.publish(state)
            if self.cycles % DECIMATION == 0:
                self._decimated.publish(message)
            strings = 0.001 * np.sin(angle + np.arange(len(self.robot.strings)))
            self.link.write(now_ns * 1e-9, np.concatenate((strings, np.full(self.unlinked, np.nan))))
            self.coordinator.run_due(now_ns)
            self.coordinator.wait_heard()


@contextlib.contextmanager
def in_this_process(robot: str, parameters: dict[str, dict[str, Any]], names: list[str]) -> Iterator[ScriptedDriver]:
    """Driver and nodes on one executor."""
    driver = ScriptedDriver(robot)
    nodes = []
    try:
        for name in names:
            overrides = {"robot": robot, "clock": "lockstep", **parameters.get(name, {})}
            nodes.append(NODES[name](context=driver.context, overrides=overrides))
            driver.spinner.add_node(nodes[-1])
        for node in nodes:
            driver.spinner.run(node.trigger_configure)
            driver.spinner.run(node.trigger_activate)
            assert node.state == "active", node.last_error
        driver.coordinator.wait_for(names, 30.0)
        start_motion(driver, names)
        driver.nodes = {node.get_name(): node for node in nodes}
        yield driver
        assert not any(node.defect for node in nodes)
    finally:
        for node in nodes:
            driver.spinner.run(node.trigger_deactivate)
        driver.coordinator.close()
        driver.spinner.stop()
        for node in nodes:
            node.destroy_node()
        driver.close()


@contextlib.contextmanager
def in_processes(
    robot: str, parameters: dict[str, dict[str, Any]], names: list[str], *, limit_s: float = 20.0
) -> Iterator[tuple[ScriptedDriver, dict[str, subprocess.Popen[bytes]]]]:
    """Each node in a process of its own."""
    driver = ScriptedDriver(robot, limit_s=limit_s)
    processes = {}
    try:
        for name in names:
            values = {"robot": robot, "clock": "lockstep", "activate": "true", **parameters.get(name, {})}
            words = [
                f"{key}:={str(value).lower() if isinstance(value, bool) else value}" for key, value in values.items()
            ]
            command = [sys.executable, "-m", f"continuum_robot.nodes.{name}", "--ros-args"]
            command += [word for value in words for word in ("-p", value)]
            processes[name] = subprocess.Popen(command, env={**os.environ, "PYTHONFAULTHANDLER": "1"})
        # Who has not activated yet has no timers and no recording: time begins when all have.
        wait_until_active(driver, names)
        driver.coordinator.wait_for(names, 60.0)
        start_motion(driver, names)
        yield driver, processes
    except BaseException:
        # Where they stand, for the log of a test that failed.
        for process in processes.values():
            process.send_signal(signal.SIGABRT)
        raise
    finally:
        # Release the simulated robot even where a program hangs.
        try:
            end_processes(processes, kill=limit_s < 20)
        finally:
            driver.close()


def end_processes(processes: dict[str, subprocess.Popen[bytes]], *, kill: bool, timeout_s: float = 45.0) -> None:
    """End node programs; a program that hangs reports where, and ends itself (nodes/base/spinning.py).

    Raises
    ------
    AssertionError : one did not end when it was asked to
    """
    for process in processes.values():
        process.kill() if process.poll() is None and kill else process.terminate()
    hung = []
    for name, process in processes.items():
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            hung.append(name)
            process.kill()
            process.wait()
    assert not hung, f"{', '.join(hung)} did not end within {timeout_s:g} s of SIGTERM"


def stand_still(process: subprocess.Popen[bytes]) -> None:
    """Stop a program, and wait until it has: the signal alone lets it do another turn first."""
    process.send_signal(signal.SIGSTOP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)


def wait_until_active(driver: ScriptedDriver, names: list[str]) -> None:
    from lifecycle_msgs.srv import GetState  # noqa: PLC0415

    def active(client: Any) -> Callable[[], bool]:
        def ask() -> bool:
            if not client.service_is_ready():
                return False
            future = client.call_async(GetState.Request())
            return wait_for(future.done, 5.0) and future.result().current_state.label == "active"

        return ask

    for name in names:
        client = driver.node.create_client(GetState, f"{name}/get_state")
        assert wait_for(active(client), 90.0, 0.1), f"{name} is not active"


def start_motion(driver: ScriptedDriver, names: list[str]) -> None:
    """The reference source plays its trajectory from the first cycle on."""
    if "reference_source" not in names:
        return
    client = driver.node.create_client(Trigger, "reference_source/restart")
    answer = call_service(client, Trigger.Request(), 30.0, 5.0)  # the robot's time stands still meanwhile
    assert answer.success, answer.message


def heard_of(driver: ScriptedDriver) -> dict[str, list[bytes]]:
    """What the nodes published, as bytes, by topic."""
    return {topic: list(found) for topic, found in driver.heard.items() if found}
