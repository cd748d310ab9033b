# SPDX-License-Identifier: Apache-2.0
"""A scripted driver in lock-step: synthetic tendons and strings of a robot, and what the nodes make of them."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from continuum_robot.msg import ClarkeState, TendonStates
from rclpy.context import Context
from rclpy.node import Node
from std_srvs.srv import Trigger

from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.spinning import Spinner, initialize
from continuum_robot.nodes.base.waiting import call_service
from continuum_robot.nodes.contact_monitor import ContactMonitorNode
from continuum_robot.nodes.lockstep.bus import BusPublisher, LockstepBus
from continuum_robot.nodes.recorder import Recorder
from continuum_robot.nodes.reference_source import ReferenceSource
from continuum_robot.nodes.shape_estimator import ShapeEstimatorNode
from continuum_robot.nodes.string_encoder import StringEncoder
from continuum_robot.nodes.topics import conversions
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.clock import START_NS
from continuum_robot.simulation.bodies.mechanisms import linked_count
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
HEARD = ("shape", "contact", "clarke_reference", "string_lengths")


class ScriptedDriver:
    """Publishes states of a robot that moves by a script; ``heard`` are the bytes of what the nodes published."""

    def __init__(self, robot: str) -> None:
        self.robot = load_robot(robot)
        self.context = Context()
        initialize([], self.context)
        self.node = Node("tendon_driver", context=self.context)
        self.bus = bus = LockstepBus()
        self.heard: dict[str, list[bytes]] = defaultdict(list)
        for topic in HEARD:
            bus.tap(f"/{topic}", self.heard[topic].append)
        self._states = BusPublisher(bus, self.node, TendonStates, "tendon_states")
        self._decimated = BusPublisher(bus, self.node, TendonStates, "tendon_states_decimated")
        self._clarke = BusPublisher(bus, self.node, ClarkeState, "clarke_state")
        self.link = PlantLinkWriter(link_path("", self.robot.name), linked_count(self.robot))
        self.unlinked = linked_count(self.robot) - len(self.robot.strings)
        self.link.open()
        self.spinner = Spinner([self.node], self.context)
        self.spinner.start()
        self.cycles = 0
        self.nodes: dict[str, ManagedNode] = {}

    def close(self) -> None:
        self.spinner.stop()
        self.link.close()
        self.node.destroy_node()
        self.context.try_shutdown()

    def run(self, cycles: int) -> None:
        """In the thread that spins the nodes."""
        self.spinner.run(lambda: self._run(cycles))

    def _run(self, cycles: int) -> None:
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
            assert self.bus.run_due(now_ns)


@contextlib.contextmanager
def in_this_process(robot: str, parameters: dict[str, dict[str, Any]], names: list[str]) -> Iterator[ScriptedDriver]:
    """Driver and nodes on one executor."""
    driver = ScriptedDriver(robot)
    nodes = []
    try:
        for name in names:
            overrides = {"robot": robot, "clock": "lockstep", **parameters.get(name, {})}
            nodes.append(NODES[name](context=driver.context, overrides=overrides, bus=driver.bus))
            driver.spinner.add_node(nodes[-1])
        for node in nodes:
            driver.spinner.run(node.trigger_configure)
            driver.spinner.run(node.trigger_activate)
            assert node.state == "active", node.last_error
        start_motion(driver, names)
        driver.nodes = {node.get_name(): node for node in nodes}
        yield driver
        assert not any(node.defect for node in nodes)
    finally:
        for node in nodes:
            driver.spinner.run(node.trigger_deactivate)
        driver.spinner.stop()
        for node in nodes:
            node.destroy_node()
        driver.close()


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
