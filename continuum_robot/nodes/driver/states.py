# SPDX-License-Identifier: Apache-2.0
"""The driver's readings as messages, in every cycle and decimated; and whether another driver publishes such."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable

from rclpy.node import Node

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import DeviceError
from continuum_robot.msg import TendonStates
from continuum_robot.nodes import conversions, qos
from continuum_robot.nodes.flat_messages import states_layout
from continuum_robot.nodes.timing import RoundTripStatistics

FOREIGN_STATES_S = 0.5


class StatePublisher:
    """Publishes ``tendon_states`` and ``tendon_states_decimated``, numbered over all configurations.

    Parameters
    ----------
    node : the driver
    """

    def __init__(self, node: Node) -> None:
        self._clock = node.get_clock()
        self._states = node.create_publisher(TendonStates, "tendon_states", qos.state_publisher())
        self._decimated = node.create_publisher(TendonStates, "tendon_states_decimated", qos.state_publisher())
        self._due: deque[bytes] = deque()
        self._sequence = 0

    def prepare(
        self,
        tendon_count: int,
        *,
        simulated: bool,
        decimation: int,
        trips: RoundTripStatistics,
    ) -> None:
        """Make the messages of a robot, before :meth:`publish`.

        Parameters
        ----------
        tendon_count : number N of tendons
        simulated : what the messages say of the devices
        decimation : every how many states a decimated one
        trips : are told of each state
        """
        self._layout = states_layout(tendon_count)
        self._place = self._layout.place
        self._numbers, self._count = self._layout.editable(), tendon_count
        self._numbers[self._place["simulated"]] = simulated
        self._decimation, self._trips = decimation, trips

    def publish(self, reading: TendonReading) -> int:
        """Publish a reading; its sequence number.

        Parameters
        ----------
        reading : what is not known is NaN
        """
        numbers, place = self._numbers, self._place
        self._sequence = sequence = self._sequence + 1
        numbers[place["sequence"]] = sequence
        numbers[place["displacement"]] = reading.displacement_m.tolist()
        numbers[place["velocity"]] = reading.velocity_m_per_s.tolist()
        numbers[place["tension"]] = reading.tension_n.tolist()
        numbers[place["current"]] = reading.current_a.tolist()
        numbers[place["temperature"]] = reading.temperature_c.tolist()
        numbers[place["age"]] = reading.age_s.tolist()
        monotonic_ns = time.monotonic_ns()
        since_acquired_ns = monotonic_ns - round(reading.stamp_s * 1e9)
        stamp_ns = conversions.now_ns(self._clock) - since_acquired_ns
        numbers[place["sec"]], numbers[place["nanosec"]] = divmod(stamp_ns, conversions.NS_PER_S)
        data = self._layout.to_bytes(numbers)
        self._trips.published(sequence, monotonic_ns)
        self._states.publish(data)
        if sequence % self._decimation == 0:
            self._due.append(data)
        return sequence

    def publish_decimated(self) -> None:
        """Publish what is due on tendon_states_decimated: after the command, for which the tendons wait, has come.

        Where none comes, the next cycle does it. Its readers would otherwise take the processor from the controller.
        """
        with contextlib.suppress(IndexError):
            self._decimated.publish(self._due.popleft())

    def note_commanded(self, tension_n: list[float], limited: list[int]) -> None:
        """What the next states say was sent.

        Parameters
        ----------
        tension_n : N values, N
        limited : LIMITED_ bits of control/limits.py, N values
        """
        self._numbers[self._place["commanded_tension"]] = tension_n
        self._numbers[self._place["limited"]] = limited

    def note_nothing_commanded(self) -> None:
        """The next states say that nothing was sent."""
        self.note_commanded([math.nan] * self._count, [0] * self._count)


class OtherDriver:
    """Notices a driver of the same name in the DDS domain, while this one does not publish itself.

    Parameters
    ----------
    node : this driver
    publishing : whether states are this driver's own
    """

    def __init__(self, node: Node, publishing: Callable[[], bool]) -> None:
        self._publishing = publishing
        self._topic = node.resolve_topic_name("tendon_states")
        self._heard_s = self._closed_s = -math.inf
        # Never destroyed: the EventsExecutor does not take it well when a callback destroys what it listens to.
        node.create_subscription(TendonStates, "tendon_states_decimated", self._on_states, qos.newest_state(), raw=True)

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
        if not self._publishing() and time.monotonic() - self._closed_s > FOREIGN_STATES_S:
            self._heard_s = time.monotonic()
