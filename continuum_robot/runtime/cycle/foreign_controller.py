# SPDX-License-Identifier: Apache-2.0
"""A controller of a user's own in the place of this package's, for the interpreted cycle.

Another package offers a class that is made with a robot, and is a
:class:`~continuum_robot.control.controller.Controller`, under a name of the entry points
``continuum_robot.controllers``; where it has a dataclass as ``settings``, it is made with these too.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.clarke_controller import RodFeedforward
from continuum_robot.control.controller import ClarkeOutput, Controller
from continuum_robot.control.displacement_controller import DisplacementController
from continuum_robot.control.pid_parameters import PidTerms
from continuum_robot.control.policy import load_policy
from continuum_robot.control.references import ClarkeReference
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.robot.control_settings import (
    COMPILED_LAWS,
    INVERSE_DYNAMICS_LAW,
    PID_LAW,
    STATICS_LAW,
    ControlSettings,
)
from continuum_robot.robot.description import Robot
from continuum_robot.robot.doors import CONTROLLERS, made
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.runtime.cycle.policy_controller import PolicyController

Vector = NDArray[np.float64]


def controller_of(
    robot: Robot,
    parts: Any,
    feedforward: Callable[[], RodFeedforward],
    settings: Callable[[str, Any], Any] | None = None,
    *,
    real_time: bool = False,
) -> Any:
    """The controller for the cycle of a robot: the law of its file, or of another package; a policy around it, which in
    ``real_time`` has a thread.
    """
    law = _law_of(robot, parts, feedforward, settings)
    if robot.control is None or robot.control.policy is None:
        return law
    return PolicyController(robot, law, load_policy(robot), real_time=real_time)


def _law_of(robot: Robot, parts: Any, feedforward: Callable[[], RodFeedforward], settings: Any) -> Any:
    law = PID_LAW if robot.control is None else robot.control.law
    if law == STATICS_LAW:
        return DisplacementController(robot)
    if law == PID_LAW:
        return parts.ClarkeController(robot, feedforward())
    if law == INVERSE_DYNAMICS_LAW:
        return parts.InverseDynamicsController(robot)
    return ForeignController(foreign_law(robot, settings), robot)


def foreign_law(robot: Robot, settings: Callable[[str, Any], Any] | None = None) -> Controller:
    """The controller of another package that a robot's file asks for."""
    law, known = robot.control_settings.law, (STATICS_LAW,) if robot.takes_displacements else COMPILED_LAWS
    own: Controller = made(CONTROLLERS, law, "control.law", robot, known=known, settings=settings)
    return own


class ForeignController:
    """Gives a :class:`Controller` the methods that the cycle calls of :class:`CycleController`."""

    needs_python = True

    def __init__(self, controller: Controller, robot: Robot) -> None:
        self.controller, self.settings = controller, robot.control
        self.takes_displacements = robot.takes_displacements
        self.manifold = controlled_manifold(robot)
        coordinates, tendons = self.manifold.coordinate_count, self.manifold.tendon_count
        self.command, self.force = [math.nan] * tendons, [math.nan] * coordinates
        self.clarke, self.clarke_rate = [math.nan] * coordinates, [math.nan] * coordinates
        self._reading: TendonReading | None = None
        self._broken = False
        self.on_defect: Callable[[Exception], None] | None = None
        """Where this is set it takes what the controller raises, once, and there is no answer any more: the driver's
        loop goes on.
        """

    def take(self, reading: Any) -> None:
        """Take over what the cycle read."""
        self._reading = reading.get()

    def observe(self, displacement: list[float], velocity: list[float]) -> bool:
        """Clarke coordinates of ``displacement`` and ``velocity``, m and m/s; False where one is not finite."""
        self.clarke[:] = self.manifold.clarke(displacement).tolist()
        self.clarke_rate[:] = self.manifold.clarke(velocity).tolist()
        return math.isfinite(sum(self.clarke) + sum(self.clarke_rate))

    def begin(
        self, command: list[float], position: list[float], velocity: list[float], acceleration: list[float]
    ) -> None:
        """Reset at ``command`` (N or m) with a reference at ``position``, ``velocity`` and ``acceleration`` (m, m/s,
        m/s^2).
        """
        desired = _desired(position, velocity, acceleration)
        with self._named("reset"):
            self.controller.reset(self._measured(), np.array(command), desired)

    def step(
        self,
        position: list[float],
        velocity: list[float],
        acceleration: list[float],
        _measured_tension: list[float],
        _rate_measured: bool,
        dt: float,
    ) -> bool:
        """Answer the state; False: there is no answer."""
        desired, command = _desired(position, velocity, acceleration), np.full(self.manifold.tendon_count, np.nan)
        with self._named("update"):
            given = np.asarray(self.controller.update(self._measured(), desired, dt), float)
            if given.shape != command.shape:
                raise ParameterError(
                    "command", given, f"{self.manifold.tendon_count} values of the controller, one a tendon"
                )
            command = given
        if self._broken or not np.all(np.isfinite(command)):
            self.rest()
            return False
        self.command[:] = command.tolist()
        if not self.takes_displacements:
            self.force[:] = self.manifold.generalized_force(command).tolist()
        return True

    def realise(self, command: list[float]) -> None:
        """Hand on what the driver's limits left of the last answer, ``command``, to a controller that takes it."""
        taken = getattr(self.controller, "realised", None)
        if taken is not None:
            with self._named("realised"):
                taken(np.array(command))

    def rest(self) -> None:
        """Give no answer."""
        self.command[:] = [math.nan] * len(self.command)
        self.force[:] = [math.nan] * len(self.force)

    def output(self) -> ClarkeOutput:
        """What the last step gave; the terms of a PID, which there are not, are NaN."""
        terms = PidTerms.unknown(self.manifold.coordinate_count)
        return ClarkeOutput(
            np.array(self.command), np.array(self.clarke), np.array(self.clarke_rate), np.array(self.force), terms
        )

    def set_settings(self, settings: ControlSettings) -> None:
        """Hand settings on."""
        if settings == self.settings:
            return
        self._hand_on("set_settings", "control", settings)
        self.settings = settings

    def ask_pretension(self, pretension_n: float) -> None:
        """Hand on a pretension that is asked for."""
        self._hand_on("ask_pretension", "pretension_n", pretension_n)

    def ask_payload(self, payload_kg: float) -> None:
        """Hand on another payload."""
        self._hand_on("ask_payload", "payload_kg", payload_kg)

    def set_gravity(self, gravity_m_per_s2: list[float]) -> None:
        """Hand on another gravity, in which a stage has turned the robot."""
        self._hand_on("set_gravity", "gravity_m_per_s2", gravity_m_per_s2)

    @property
    def pretension(self) -> float:
        """Pretension of the controller now, N; NaN where it shows none."""
        return float(getattr(self.controller, "pretension", math.nan))

    @contextlib.contextmanager
    def _named(self, method: str) -> Iterator[None]:
        """An exception of another package names its class and method, wherever it ends up."""
        try:
            yield
        except Exception as error:
            defect: Exception = error
            if not isinstance(error, ContinuumRobotError):
                defect = RuntimeError(f"{type(self.controller).__name__}.{method} raised {error!r}")
            if self.on_defect is None:
                raise defect from error
            if not self._broken:
                self._broken = True
                self.on_defect(defect)

    def _hand_on(self, name: str, what: str, value: Any) -> None:
        """Call a method that the controller may have; what it raises refuses the value."""
        kind = type(self.controller).__name__
        method = getattr(self.controller, name, None)
        if method is None:
            raise ParameterError(what, "changed", f"no change while {kind} controls, which has no method {name}")
        try:
            method(value)
        except ContinuumRobotError:
            raise
        except Exception as error:  # of another package
            raise ParameterError(what, "changed", f"what {kind}.{name} takes; it raised {error!r}") from error

    def _measured(self) -> TendonReading:
        if self._reading is None:
            raise ParameterError("reading", None, "a state before an answer")
        return self._reading


def _desired(position: list[float], velocity: list[float], acceleration: list[float]) -> ClarkeReference:
    return ClarkeReference(np.array(position), np.array(velocity), np.array(acceleration))
