# SPDX-License-Identifier: Apache-2.0
"""The truth about what touches the simulated robot, as messages like those of the contact monitor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rclpy.publisher import Publisher

from continuum_robot.msg import Contact
from continuum_robot.nodes import conversions
from continuum_robot.simulation.plant import Plant

METHOD = "truth"


class TrueContacts:
    """Publishes what the plant knows; of several contacts that of the greatest force.

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
        # Nothing touches before the driver is active.
        plant.contacts_from_s = math.inf

    def start(self) -> None:
        """The schedule begins now."""
        self._plant.contacts_from_s = self._plant.time_s

    def publish(self, stamp_ns: int, sequence: int) -> None:
        """Publish the contact at the moment of a driver's message, by its stamp and sequence number.

        Parameters
        ----------
        stamp_ns : stamp of that message, ns
        """
        loads = self._plant.contact_loads
        load = max(loads, key=lambda one: float(np.linalg.norm(one.force_in_base_n)))
        message = self._message
        conversions.set_stamp(message.header.stamp, stamp_ns)
        message.sequence = sequence
        message.in_contact, message.state = load.touching, "contact" if load.touching else "clear"
        self._wrench[:] = load.wrench_in_disk
        message.arc_length = message.wrench_arc_length = load.arc_length_m
        if load.touching:
            message.place = conversions.pose_message(self._plant.pose(load.arc_length_m))
        self._publisher.publish(message)
