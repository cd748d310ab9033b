# SPDX-License-Identifier: Apache-2.0
"""The node that simulates a robot and its devices; the drivers talk to it over sockets, as to wires.

It publishes the true shape and contact as messages like those of shape estimator and contact monitor.
"""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from visualization_msgs.msg import MarkerArray

from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.msg import Contact, DriverStatus, Shape
from continuum_robot.nodes.base.diagnostics import Level, LoopThresholds, StatusBuilder
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.spinning import run_node
from continuum_robot.nodes.simulated.device import TrueRobot, answer_injection
from continuum_robot.nodes.simulated.external_force import SimulatedExternalForce
from continuum_robot.nodes.simulated.obstacles import OBSTACLES_TOPIC, obstacle_markers
from continuum_robot.nodes.stack.choices import SIMULATION_LEVELS
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.owned_topic import subscribe_to_owner
from continuum_robot.nodes.topics.turned_gravity import TurnedGravity
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import Quantity
from continuum_robot.runtime.control_thread import ControlThread
from continuum_robot.runtime.periodic import FrozenGarbage, simulator_settings
from continuum_robot.simulation.contact import ContactLoad, load_contacts
from continuum_robot.simulation.mujoco.world import load_world
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.simulator import Simulator, SimulatorReport
from continuum_robot.simulation.truth import TruthRingWriter, true_robot, truth_file
from continuum_robot.srv import InjectFault

METHOD = "truth"
PERIOD_NS = 10_000_000
_NO_LOAD = ContactLoad("", math.nan, False, np.zeros(6), np.zeros(3), 0.0)


class TrueShape:
    """Publishes the shape of the plant, a hundred times a second of its time."""

    def __init__(self, plant: Plant, base_frame: str, publisher: Any) -> None:
        self._plant, self._publisher = plant, publisher
        message = Shape(simulated=True, residual=math.nan)
        message.header.frame_id = base_frame
        count = len(plant.c)
        self._coefficients = conversions.preallocate(message, "coefficients", count)
        self._rates = conversions.preallocate(message, "coefficient_rates", count)
        self._message, self._due_ns = message, 0

    def publish(self, now_ns: int, stamp_ns: int) -> None:
        """Publish the shape of now, where it is time for it; arguments as of :meth:`TrueContacts.publish`."""
        if now_ns < self._due_ns:
            return
        self._due_ns = (now_ns // PERIOD_NS + 1) * PERIOD_NS
        plant, message = self._plant, self._message
        message.sequence += 1
        if not self._publisher.get_subscription_count():
            return
        self._coefficients[:], self._rates[:] = plant.c, plant.c_rate
        conversions.set_stamp(message.header.stamp, stamp_ns)
        conversions.set_pose(message.tip, plant.pose(plant.robot.length_m))
        self._publisher.publish(message)


class TrueContacts:
    """Publishes what the plant knows, a hundred times a second of its time; of several contacts that of the greatest
    force.
    """

    def __init__(self, plant: Plant, base_frame: str, publisher: Any) -> None:
        self._plant, self._publisher = plant, publisher
        message = Contact(simulated=True, method=METHOD)
        message.header.frame_id = base_frame
        message.location_observable = True
        message.arc_length_deviation = message.ratio = math.nan
        self._message = message
        self._wrench = conversions.preallocate(message, "wrench", 6)
        conversions.preallocate_bytes(message, "wrench_sensed", 6)[:] = Contact.SENSED
        self._sequence = 0
        self._due_ns = 0
        # Nothing touches before the driver is active.
        plant.contacts_from_s = math.inf

    def start(self, since_s: float) -> None:
        """The schedule begins."""
        # To a microsecond: the last digits of a difference of times depend on when it is taken.
        self._plant.contacts_from_s = round(self._plant.time_s - since_s, 6)

    def publish(self, now_ns: int, stamp_ns: int) -> None:
        """Publish the contacts of now, where it is time for it."""
        if now_ns < self._due_ns:
            return
        self._due_ns = (now_ns // PERIOD_NS + 1) * PERIOD_NS
        self._sequence += 1
        if not self._publisher.get_subscription_count():
            return
        loads = self._plant.contact_loads
        # In a world without a contact there is none to speak of.
        load = max(loads, key=lambda one: float(np.linalg.norm(one.force_in_base_n)), default=_NO_LOAD)
        message = self._message
        conversions.set_stamp(message.header.stamp, stamp_ns)
        message.sequence = self._sequence
        message.in_contact, message.state = load.touching, "contact" if load.touching else "clear"
        self._wrench[:] = load.wrench_in_disk
        message.arc_length = message.wrench_arc_length = load.arc_length_m
        if load.touching:
            conversions.set_pose(message.pose, self._plant.pose(load.arc_length_m))
        self._publisher.publish(message)


SLOWEST_FACTOR = 0.98
"""Of real time, below which the robot is reported to fall behind."""

_NO_PLANT = "none: mechanisms have no plant"
_HARDWARE = "true: the node simulates the robot that others would find on its wires"


class SimulatorNode(ManagedNode):
    """Configured, the robot lives and its devices have power; drivers connect and leave as they like."""

    follows_payload = True

    def __init__(self, *, own_process: bool = False, **node_options: Any) -> None:
        super().__init__("simulator", **node_options)
        self._own_process = own_process
        declare = self.parameters.declare
        declare(
            "simulation_level",
            "dynamics",
            "how much of the robot is simulated: dynamics, or wire, where the real drivers speak to simulated"
            " devices; mujoco: as wire, with a robot that MuJoCo moves",
            rules=Quantity("", choices=SIMULATION_LEVELS),
            read_only=True,
        )
        declare(
            "contacts",
            "",
            "file of what touches the simulated robot, by the time since the driver was activated; empty: nothing",
            read_only=True,
        )
        declare(
            "contacts_after_s",
            0.0,
            "by how much everything in that file comes later",
            rules=Quantity("", "s", ge=0, le=3600),
            read_only=True,
        )
        declare("world", "", "file of obstacles around the robot, at level mujoco; empty: none", read_only=True)
        self.parameters.declare_settings("", TrueRobot(), quiet=True)
        declare("base_frame", "base", "frame_id of the place of simulated contacts", read_only=True)
        declare(
            "truth",
            "",
            "file for true tensions, motor tensions and displacements of the newest 20 s; empty: none",
            read_only=True,
        )
        self._thresholds = LoopThresholds(self)
        self.simulator: Simulator | None = None
        self.loop: ControlThread | None = None
        self._contacts: TrueContacts | None = None
        self._shape: TrueShape | None = None
        self._ring: TruthRingWriter | None = None
        self._activated_ns = self._started_ns = 0
        self._before: tuple[float, SimulatorReport] | None = None
        self._truth = self.flow.create_publisher(Contact, "simulated_contact", qos.state_publisher())
        self._shapes = self.flow.create_publisher(Shape, "simulated_shape", qos.state_publisher())
        self._obstacles = self.create_publisher(MarkerArray, OBSTACLES_TOPIC, qos.latched())
        self.create_service(InjectFault, "inject_fault", self._serve_inject_fault)
        subscribe_to_owner(self, DriverStatus, "driver_status", self._on_driver_status)
        self._push = SimulatedExternalForce(self, lambda: self.plant)
        self._gravity = TurnedGravity(self, self._turn)
        self.diagnostics.add_task("plant", self._diagnose)

    # Lifecycle

    def configure(self) -> None:
        """Make the robot, which may take a while the first time on a machine, and let drivers connect."""
        get = self.parameters.get
        if not self.simulated:
            raise ParameterError("use_fake_hardware", False, _HARDWARE)
        level = str(get("simulation_level"))
        robot = self._true_robot()
        if get("truth") and robot.traits.without_boards:
            raise ParameterError("truth", get("truth"), _NO_PLANT)
        contacts = load_contacts(get("contacts"), robot) if get("contacts") else ()
        world = load_world(get("world")) if get("world") else None
        self.simulator = simulator = Simulator(
            robot,
            level,
            namespace=self.get_namespace(),
            contacts=contacts,
            world=world,
            progress=self.say,
            clock=None if self.clock.stepped else time.monotonic,
            own_driver=self.bus is not None,
        )
        simulator.open()
        self._gravity.follow(robot)
        self._before = None
        self._activated_ns = self._started_ns = 0
        if world is not None:
            self._obstacles.publish(obstacle_markers(simulator.plant, str(get("base_frame"))))
        if contacts or world is not None:
            self._contacts = TrueContacts(simulator.plant, str(get("base_frame")), self._truth)
        if not robot.traits.without_boards:
            self._shape = TrueShape(simulator.plant, str(get("base_frame")), self._shapes)
        if get("truth"):
            self._ring = TruthRingWriter(Path(str(get("truth"))), robot.tendon_count)
        if self.bus is not None:
            self.bus.world, self.bus.accept = self._move_to, simulator.accept
            self.bus.actuators = simulator.own_actuators
            simulator.link_on_demand()
            return
        FrozenGarbage.hold()
        self.loop = ControlThread(
            "simulator",
            simulator.period_s,
            self._cycle,
            on_failure=self._on_failure,
            on_refused=self.warn_of_all,
            realtime=simulator_settings() if self._own_process else None,
        )
        self.loop.start()

    def _true_robot(self) -> Robot:
        believed, given = self.load_robot(), str(self.parameters.get("true_robot"))
        truth = true_robot(believed, given)
        if truth is not believed:
            self.say(f"simulates {truth_file(believed, given)} in place of {believed.file_name or believed.name}")
            if float(self.parameters.get("payload_kg")) >= 0:
                truth = truth.carrying(believed.payload_kg)
        return truth

    def carry(self, payload_kg: float) -> None:
        """Hang another payload, kg, at the simulated robot; the models are told by parameters of their own nodes."""
        if self.simulator is not None:
            self.simulator.set_payload(payload_kg)

    def _turn(self, gravity: NDArray[np.float64]) -> None:
        if self.simulator is not None:
            self.simulator.set_gravity(gravity)

    def cleanup(self) -> None:
        """Let the robot stand still, and end the devices; drivers notice."""
        loop, self.loop = self.loop, None
        if loop is not None:
            FrozenGarbage.release()
            if not loop.stop():
                self.get_logger().error("the simulated robot hangs in a step")
        if self.bus is not None:
            self.bus.world = self.bus.actuators = None
        simulator, self.simulator = self.simulator, None
        self._contacts = self._shape = self._ring = None
        if simulator is not None:
            simulator.close()

    # What tools and tests look at

    @property
    def plant(self) -> Plant:
        """The simulated rod."""
        return self._configured().plant

    # In the thread that moves the robot

    def _cycle(self, now_s: float, _elapsed_s: float, _missed: int) -> None:
        simulator = self.simulator
        if simulator is not None:
            simulator.step(now_s)
            self._moved(round(now_s * 1e9))

    def _move_to(self, now_ns: int) -> None:
        """In lock-step: move the robot up to a time; a failure is the simulator's, and the driver hears of it."""
        simulator = self._configured()
        try:
            simulator.advance_to(now_ns)
            self._moved(now_ns)
        except Exception as error:
            self._on_failure(error)
            raise DeviceError("simulator", "has failed", "Look at its log, then reset the stack") from error

    def _moved(self, now_ns: int) -> None:
        simulator, ring = self.simulator, self._ring
        if ring is not None and simulator is not None:
            plant = simulator.plant
            motor_n = plant.current * simulator.robot.newton_per_ampere
            ring.write(now_ns * 1e-9, simulator.report().simulated_s, plant.tension, motor_n, plant.rod_displacement)
        self._publish(now_ns)

    def _publish(self, now_ns: int) -> None:
        contacts, shape = self._contacts, self._shape
        stamp_ns = now_ns
        if not self.clock.stepped:
            stamp_ns += conversions.now_ns(self.get_clock()) - time.monotonic_ns()
        if shape is not None:
            shape.publish(now_ns, stamp_ns)
        if contacts is None:
            return
        if self._activated_ns != self._started_ns:
            self._started_ns = self._activated_ns
            late_s = float(self.parameters.get("contacts_after_s"))
            contacts.start((now_ns - self._activated_ns) * 1e-9 - late_s)
        contacts.publish(now_ns, stamp_ns)

    def _on_failure(self, error: BaseException) -> None:
        """The robot does not move any more: the drivers shall notice at once."""
        self.defect = repr(error)
        self.report_error("the simulated robot failed", error)
        if self.simulator is not None:
            self.simulator.close()

    # Callbacks

    def _configured(self) -> Simulator:
        if self.simulator is None:
            raise DeviceError("simulator", "is not configured", "Configure it first")
        return self.simulator

    def _on_driver_status(self, message: DriverStatus) -> None:
        """The driver's activation, on the clock of the robot."""
        if message.state == DriverStatus.ACTIVE:
            self._activated_ns = message.activated_ns

    def _serve_inject_fault(self, request: InjectFault.Request, response: InjectFault.Response) -> InjectFault.Response:
        return answer_injection(self._inject, request, response)

    def _inject(self, fault: str, tendon: int, magnitude: float, duration_s: float) -> None:
        self._configured().inject(fault, tendon, magnitude, duration_s)

    def _diagnose(self, status: StatusBuilder) -> None:
        simulator, loop = self.simulator, self.loop
        if simulator is None:
            status.summary(Level.OK, "not configured")
            return
        wall_s, report = time.monotonic(), simulator.report()
        factor, us_per_ms = math.nan, report.us_per_ms
        if self._before is not None:
            # Since the last time: what was slow an hour ago is of no interest.
            before_s, before = self._before
            lived_s = report.simulated_s - before.simulated_s
            factor = lived_s / (wall_s - before_s) if wall_s > before_s else math.nan
            us_per_ms = 1e3 * (report.busy_s - before.busy_s) / lived_s if lived_s > 0 else math.nan
            skipped_s = report.skipped_s - before.skipped_s
            if loop is not None and (factor < SLOWEST_FACTOR or skipped_s > 0):
                what = f"the robot falls behind: {factor:.2f} of real time, {us_per_ms:.0f} us a simulated ms"
                status.summary(Level.WARN, what)
        self._before = wall_s, report
        if loop is not None:
            self._thresholds.diagnose(status, loop.statistics.report(), loop.period_s)
        status.summary(Level.OK, self.parameters.get("simulation_level"))
        status.add("clock", "lockstep" if self.clock.stepped else "real")
        status.add("simulation_level", simulator.level)
        status.add("real_time_factor", factor)
        status.add("us_per_simulated_ms", us_per_ms)
        status.add("simulated_s", report.simulated_s)
        status.add("skipped_s", report.skipped_s)


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(lambda: SimulatorNode(own_process=True), prompt=True)


if __name__ == "__main__":
    sys.exit(main())
