# SPDX-License-Identifier: Apache-2.0
"""What the contact monitor found, as messages of ``contact``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.contact.kind import ContactKind
from continuum_robot.estimation.contact.location import PairEstimate
from continuum_robot.estimation.contact.states import COLLISION, ContactEstimate
from continuum_robot.estimation.screw_deviation import ScrewDeviation
from continuum_robot.msg import Contact
from continuum_robot.nodes.lockstep.flow import FlowPublisher
from continuum_robot.nodes.topics import conversions

Vector = NDArray[np.float64]

_PAIR = "pair_arc_lengths", "pair_arc_length_deviations", "pair_forces", "pair_force_deviations"


class ContactPublisher:
    """Fills one message again and again."""

    def __init__(
        self,
        publisher: FlowPublisher,
        frame: str,
        size: int,
        segments: int,
        pose: Callable[[Vector, float], Any],
        *,
        simulated: bool,
    ) -> None:
        self._publisher = publisher
        message = Contact(simulated=simulated)
        message.header.frame_id = frame
        self._message, self._pose = message, pose
        self._residual = conversions.preallocate(message, "residual", size)
        self._contact_threshold = conversions.preallocate(message, "contact_threshold", size)
        self._collision_threshold = conversions.preallocate(message, "collision_threshold", size)
        self._interval = conversions.preallocate(message, "arc_length_interval", 2)
        self._probability = conversions.preallocate(message, "segment_probability", segments)
        self._wrench = conversions.preallocate(message, "wrench", 6)
        self._covariance = conversions.preallocate(message, "wrench_covariance", 36)
        self._sensed = conversions.preallocate_bytes(message, "wrench_sensed", 6)

    def publish(
        self,
        estimate: ContactEstimate,
        kind: ContactKind,
        coefficients: Vector,
        method: str,
        pair: PairEstimate | None,
        screw: ScrewDeviation | None,
        *,
        stamp: Any,
        sequence: int,
    ) -> None:
        message, wrench, location = self._message, estimate.wrench, estimate.location
        message.header.stamp, message.sequence = stamp, sequence
        message.state, message.invalid_reason = estimate.state, estimate.reason
        message.in_contact, message.collision = estimate.in_contact, estimate.state == COLLISION
        message.kind, message.kind_reason = kind.name, kind.reason
        message.accelerating = estimate.accelerating
        message.method = method
        self._residual[:] = estimate.residual
        self._contact_threshold[:] = estimate.contact_threshold
        self._collision_threshold[:] = estimate.collision_threshold
        message.ratio = float(estimate.ratio)
        message.location_observable = location is not None and location.observable
        if location is None:
            message.arc_length = message.arc_length_deviation = math.nan
            self._interval[:] = self._probability[:] = math.nan
        else:
            message.arc_length, message.arc_length_deviation = float(location.arc_length_m), float(location.sigma_m)
            self._interval[:], self._probability[:] = location.interval_m, location.segment_probability
        arc_length_m = float(estimate.wrench_arc_length_m)
        message.wrench_arc_length, message.wrench_location_assumed = arc_length_m, estimate.wrench_location_assumed
        known = wrench.sensed | wrench.assumed_zero
        self._wrench[:] = np.where(known, wrench.wrench, np.nan)
        self._sensed[:] = np.where(wrench.sensed, Contact.SENSED, np.where(known, Contact.ASSUMED_ZERO, 0))
        self._covariance[:] = wrench.covariance.ravel()
        if math.isfinite(arc_length_m):
            conversions.set_pose(message.pose, self._pose(coefficients, arc_length_m))
        self._set_pair(pair)
        message.screw_deviations = [] if screw is None else screw.deviations.tolist()
        message.screw_segment = -1 if screw is None else screw.segment
        conversions.set_named_values(message, estimate.named_values)
        self._publisher.publish(message)

    def _set_pair(self, pair: PairEstimate | None) -> None:
        message = self._message
        if pair is None:
            for name in _PAIR:
                setattr(message, name, [])
            message.pair_reason = ""
            return
        message.pair_arc_lengths = pair.arc_lengths_m.tolist()
        message.pair_arc_length_deviations = pair.deviations_m.tolist()
        message.pair_forces = pair.forces_n.ravel().tolist()
        message.pair_force_deviations = pair.force_deviations_n.tolist()
        message.pair_reason = pair.reason
