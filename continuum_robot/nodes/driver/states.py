# SPDX-License-Identifier: Apache-2.0
"""The driver's readings as messages, while somebody listens; and whether another driver publishes such."""

from __future__ import annotations

import time

from sensor_msgs.msg import JointState

from continuum_robot.errors import DeviceError
from continuum_robot.msg import TendonStates
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.driver.context import DriverContext
from continuum_robot.nodes.lockstep.flow import Flow
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.flat_messages import states_layout
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.cycle.row import CycleRow
from continuum_robot.runtime.round_trips import RoundTripStatistics

FOREIGN_STATES_S = 0.5
LOOK_EVERY = 10
"""Cycles after which it is asked again who listens."""


class StatePublisher:
    """Publishes ``tendon_states``, ``tendon_states_decimated`` and ``joint_states`` of the cycle's rows."""

    def __init__(self, node: ManagedNode, flow: Flow) -> None:
        self._clock = node.clock
        self._states = flow.create_publisher(TendonStates, "tendon_states", qos.state_publisher())
        self._decimated = flow.create_publisher(TendonStates, "tendon_states_decimated", qos.state_publisher())
        self._joints = node.create_publisher(JointState, "joint_states", qos.state_publisher())
        self._publishers = self._states, self._decimated, self._joints
        self._parameters = node.parameters
        self._trips: RoundTripStatistics | None = None
        self.newest = 0
        self._heard: tuple[bool, ...] = ()

    def prepare(
        self,
        row: CycleRow,
        robot: Robot,
        *,
        simulated: bool,
        trips: RoundTripStatistics | None,
    ) -> None:
        """Make the messages of a robot, before :meth:`publish`."""
        layout = states_layout(robot.tendon_count, displacements=robot.takes_displacements)
        get = self._parameters.get
        self._layout, self._row, self._trips = layout, row, trips
        self._decimation, self._joints_decimation = (
            max(1, round(get("rate_hz") / get(name))) for name in ("decimated_rate_hz", "joint_states_rate_hz")
        )
        self._joint_names = [f"{get('prefix')}{name}" for name in robot.tendon_names]
        self._numbers = layout.editable()
        place = layout.place
        self._numbers[place["simulated"]] = simulated
        self._sequence, self._sec, self._nanosec = place["sequence"], place["sec"], place["nanosec"]
        names = ("displacement", "velocity", "tension", "current", "temperature", "age")
        self._fields = [(place[name], getattr(row, name)) for name in names]
        self._fields.append(
            (place[conversions.commanded_field(displacements=robot.takes_displacements)], row.commanded)
        )
        self._limited = place["limited"]

    def publish(self, numbers_of_row: list[float]) -> None:
        """Publish what a cycle read; what is not known is NaN."""
        numbers, row, found = self._numbers, self._row, numbers_of_row
        self.newest = numbers[self._sequence] = sequence = int(found[row.number])
        if sequence % LOOK_EVERY == 0 or not self._heard:
            self._heard = tuple(one.get_subscription_count() > 0 for one in self._publishers)
        states, decimated, joints = self._heard
        joints = joints and sequence % self._joints_decimation == 0
        decimated = decimated and sequence % self._decimation == 0
        states = states or decimated
        if not (joints or states):
            return
        # Once: the wall clock may be set between two messages of a cycle.
        stamp_ns = self._clock.stamp_ns(found[row.stamp_s])
        if joints:
            self._publish_joints(found, stamp_ns)
        if not states:
            return
        for target, source in self._fields:
            numbers[target] = found[source]
        numbers[self._limited] = [int(bits) for bits in found[row.limited]]
        numbers[self._sec], numbers[self._nanosec] = divmod(stamp_ns, conversions.NS_PER_S)
        data = self._layout.to_bytes(numbers)
        if self._trips is not None:
            self._trips.published(sequence, self._clock.monotonic_ns())
        self._states.publish(data)
        if decimated:
            self._decimated.publish(data)

    def _publish_joints(self, found: list[float], stamp_ns: int) -> None:
        """One prismatic joint a tendon, as robot_description has them: m, m/s, N."""
        row = self._row
        message = JointState(
            name=self._joint_names,
            position=found[row.displacement],
            velocity=found[row.velocity],
            effort=found[row.tension],
        )
        conversions.set_stamp(message.header.stamp, stamp_ns)
        self._joints.publish(message)


class OtherDriver:
    """Notices a driver of the same name in the DDS domain, while this one does not publish itself."""

    def __init__(self, context: DriverContext) -> None:
        self._context, node = context, context.node
        self._topic = node.resolve_topic_name("tendon_states")
        self._heard_s = self._closed_s = float("-inf")
        # Never destroyed: the EventsExecutor does not take it well when a callback destroys what it listens to.
        node.create_subscription(TendonStates, "tendon_states_decimated", self._on_states, qos.newest_state(), raw=True)
        if node.bus is not None:
            node.bus.ear(str(node.resolve_topic_name("tendon_states_decimated")))

    def refuse(self) -> None:
        """Raise :class:`DeviceError` where another driver publishes."""
        if time.monotonic() - self._heard_s < FOREIGN_STATES_S:
            raise DeviceError(
                self._topic,
                "another driver is publishing it in this DDS domain",
                "Stop that program, or give this robot a namespace or a ROS_DOMAIN_ID of its own",
            )

    def closed(self) -> None:
        """The driver publishes no more; its last states may still come for a while."""
        self._closed_s = time.monotonic()

    def _on_states(self, _data: bytes) -> None:
        """Before this driver publishes, states are another driver's. A dead driver would still be listed a while."""
        if self._context.loop is None and time.monotonic() - self._closed_s > FOREIGN_STATES_S:
            self._heard_s = time.monotonic()
