# SPDX-License-Identifier: Apache-2.0
"""The truth about what touches the simulated robot, as messages like those of the contact monitor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rclpy.publisher import Publisher

from continuum_robot.msg import Contact
from continuum_robot.nodes.topics import conversions
from continuum_robot.simulation.contact import ContactLoad
from continuum_robot.simulation.plant import Plant

METHOD = "truth"
PERIOD_NS = 10_000_000
_NO_LOAD = ContactLoad("", math.nan, False, np.zeros(6), np.zeros(3), 0.0)


class TrueContacts:
    """Publishes what the plant knows, a hundred times a second of its time; of several contacts that of the greatest
    force.

    Parameters
    ----------
    plant : with contacts
    base_frame : frame_id of the messages
    publisher : of them
    """

    def __init__(self, plant: Plant, base_frame: str, publisher: Publisher[Any]) -> None:
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
        """The schedule begins.

        Parameters
        ----------
        since_s : how long ago, s; negative: that much later
        """
        # To a microsecond: the last digits of a difference of times depend on when it is taken.
        self._plant.contacts_from_s = round(self._plant.time_s - since_s, 6)

    def publish(self, now_ns: int, stamp_ns: int) -> None:
        """Publish the contacts of now, where it is time for it.

        Parameters
        ----------
        now_ns : time of the simulated robot, ns
        stamp_ns : the same instant on the clock of ROS, ns
        """
        if now_ns < self._due_ns:
            return
        self._due_ns = (now_ns // PERIOD_NS + 1) * PERIOD_NS
        loads = self._plant.contact_loads
        # In a world without a contact there is none to speak of.
        load = max(loads, key=lambda one: float(np.linalg.norm(one.force_in_base_n)), default=_NO_LOAD)
        message = self._message
        conversions.set_stamp(message.header.stamp, stamp_ns)
        self._sequence += 1
        message.sequence = self._sequence
        message.in_contact, message.state = load.touching, "contact" if load.touching else "clear"
        self._wrench[:] = load.wrench_in_disk
        message.arc_length = message.wrench_arc_length = load.arc_length_m
        if load.touching:
            message.place = conversions.pose_message(self._plant.pose(load.arc_length_m))
        self._publisher.publish(message)
