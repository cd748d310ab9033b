# SPDX-License-Identifier: Apache-2.0
"""The controller of muhmann's fig. 4: PID on the Clarke manifold, tendon tensions out."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.pid import Pid, PidParameters, PidTerms
from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tendon_forces import distribute
from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import ControlSettings
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]
RodFeedforward = Callable[[Vector], tuple[Vector, Vector]]


@dataclass(frozen=True, slots=True)
class ClarkeOutput:
    """What one cycle of the controller computed.

    Attributes
    ----------
    tension : wanted tensions, shape (N,), N; all NaN where an input was not finite
    clarke : measured Clarke coordinates, shape (2m,), m
    clarke_rate : their rate, shape (2m,), m/s; NaN where the velocity is not measured
    generalized_force : wanted generalised force on the Clarke coordinates, shape (2m,), N
    terms : the terms of the PID
    """

    tension: Vector
    clarke: Vector
    clarke_rate: Vector
    generalized_force: Vector
    terms: PidTerms


class ClarkeController:
    """PID on the Clarke coordinates of all segments of a robot.

    Displacements go onto the manifold by muhmann (2), each coordinate has a PID with the gains of its segment, shares
    of the rod's elastic force and gravity at the reference are fed forward, and the generalised forces become tensions
    by (26) and the strategy of the settings. Limits on tensions are the driver's, not applied here; u_clamp_min and
    u_clamp_max are, and ``terms.saturated`` reports them.

    Parameters
    ----------
    robot : with ``control`` settings
    rod_feedforward : Clarke coordinates (2m,), m, to the generalised forces (elastic (2m,), gravity (2m,)), N, that
        hold the rod there: the left side of muhmann (25), K_M q and g_M. Needed where a share of the settings is not 0

    Attributes
    ----------
    manifold : of the robot's tendons
    settings : in use

    Raises
    ------
    ParameterError : a robot without control settings, or a feed-forward share without ``rod_feedforward``
    """

    def __init__(self, robot: Robot, rod_feedforward: RodFeedforward | None = None) -> None:
        self._per_entry = robot.coordinate_count // len(robot.part_names)
        if robot.control is None:
            raise ParameterError("robot.control", None, f"control settings in the file of robot {robot.name!r}")
        self.manifold = clarke_manifold(robot)
        self._rod_feedforward = rod_feedforward
        self._check(robot.control)
        self.settings = robot.control
        self._pid = Pid(PidParameters.from_gains(robot.control.gains, self._per_entry))
        self._nothing = np.full(self.manifold.coordinate_count, np.nan)
        self._no_feedforward = np.zeros(self.manifold.coordinate_count)
        for shared in (self._nothing, self._no_feedforward):
            shared.setflags(write=False)

    def with_settings(self, settings: ControlSettings) -> ClarkeController:
        """The same controller in the same state with other settings, to be exchanged between two cycles.

        Parameters
        ----------
        settings : with one entry of gains a segment

        Returns
        -------
        a new controller; this one is left as it is

        Raises
        ------
        ParameterError : settings that do not fit the robot
        """
        self._check(settings)
        other = copy.copy(self)
        other.settings = settings
        other._pid = self._pid.with_parameters(PidParameters.from_gains(settings.gains, self._per_entry))
        return other

    def reset(
        self,
        displacement: ArrayLike,
        tension: ArrayLike | None = None,
        *,
        velocity: ArrayLike | None = None,
        reference: ClarkeReference | None = None,
    ) -> None:
        """Start anew without a jump: the first update with the same inputs asks for the force of the given tensions.

        What the tensions have in common in a segment bends nothing and is not reproduced: the strategy and its
        pretension decide on it.

        Parameters
        ----------
        displacement : measured, shape (N,), m
        tension : measured or commanded now, shape (N,), N; None: start from the feed-forward alone
        velocity : measured, shape (N,), m/s; None: at rest
        reference : that the first update will get; None: the measured coordinates, at rest

        Raises
        ------
        ParameterError : a value that is not finite, or an array of the wrong shape
        """
        displacement = self._finite("displacement", displacement)
        clarke = self.manifold.clarke(displacement)
        rate = None if velocity is None else self.manifold.clarke(self._finite("velocity", velocity))
        wanted = ClarkeReference.at_rest(clarke) if reference is None else reference
        force = None if tension is None else self.manifold.generalized_force(self._finite("tension", tension))
        self._pid.reset(
            force,
            reference=wanted.position,
            measurement=clarke,
            measurement_rate=rate,
            feedforward=self._feedforward(wanted.position),
            reference_rate=wanted.velocity,
        )

    def update(
        self, displacement: Vector, velocity: Vector | None, reference: ClarkeReference, dt: float
    ) -> ClarkeOutput:
        """One cycle.

        Parameters
        ----------
        displacement : measured, shape (N,), m
        velocity : measured, shape (N,), m/s; None where nothing measures it: the displacements are differentiated
        reference : of the Clarke coordinates
        dt : time since the previous update, s; 0 gives the previous force again

        Returns
        -------
        tensions and all that led to them. An input that is not finite gives NaN tensions and leaves the state alone

        Raises
        ------
        ParameterError : dt negative or not finite, or an array of the wrong shape
        """
        to_clarke = self.manifold.clarke_matrix
        if len(displacement) != to_clarke.shape[1]:
            raise ParameterError("displacement", displacement, f"{to_clarke.shape[1]} values, one a tendon")
        clarke = to_clarke @ displacement
        rate = None if velocity is None else to_clarke @ velocity
        known = clarke.sum() + reference.position.sum() + reference.velocity.sum()
        if rate is not None:
            known = known + rate.sum()
        if not math.isfinite(known):
            # One unknown tendon leaves the force of every segment under it unknown: none gets a tension.
            terms = self._pid.update(self._nothing, self._nothing, None, dt)
            tension = np.full(self.manifold.tendon_count, np.nan)
            return ClarkeOutput(tension, clarke, self._nothing if rate is None else rate, self._nothing, terms)
        feedforward = self._feedforward(reference.position)
        terms = self._pid.update(reference.position, clarke, rate, dt, feedforward, reference_rate=reference.velocity)
        tension = distribute(self.settings.tendon_forces, terms.output, self.manifold, self.settings.pretension_n)
        return ClarkeOutput(tension, clarke, self._nothing if rate is None else rate, terms.output, terms)

    def _feedforward(self, position: Vector) -> Vector:
        stiffness, gravity = self.settings.feedforward_stiffness, self.settings.feedforward_gravity
        if self._rod_feedforward is None or not (stiffness or gravity):
            return self._no_feedforward
        elastic_force, gravity_force = self._rod_feedforward(position)
        return stiffness * elastic_force + gravity * gravity_force  # K_M q and g_M of muhmann (25)

    def _check(self, settings: ControlSettings) -> None:
        if len(settings.gains) != self.manifold.segment_count:
            raise ParameterError(
                "control.gains", len(settings.gains), f"{self.manifold.segment_count} entries, one a segment"
            )
        shares = settings.feedforward_stiffness + settings.feedforward_gravity
        if shares > 0 and self._rod_feedforward is None:
            raise ParameterError("rod_feedforward", None, "the rod's feed-forward, since a share of it is set")

    def _finite(self, name: str, value: ArrayLike) -> Vector:
        array = np.asarray(value, dtype=float)
        if array.shape != (self.manifold.tendon_count,) or not np.all(np.isfinite(array)):
            raise ParameterError(name, array, f"{self.manifold.tendon_count} finite values, one a tendon")
        return array
