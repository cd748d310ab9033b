# SPDX-License-Identifier: Apache-2.0
"""Contact observers of other packages, by the name that the setting ``method`` of the contact monitor has.

Such a class is made with a robot and the number n of the residual's channels, and is a :class:`ContactObserver`; it is
offered under a name of the entry points ``continuum_robot.contact_observers``. Thresholds, location, wrench and
states are the monitor's, from what it finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.driven_rod import DrivenRod, Drives
from continuum_robot.estimation.contact.error_budget import Budget
from continuum_robot.estimation.contact.observers import StateTerms
from continuum_robot.estimation.contact.settings import MonitorSettings

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CycleInput:
    """What one update was given."""

    c: Vector
    rate: Vector
    noise: Vector
    rate_noise: Vector
    drives: Drives
    other: Vector
    c_acceleration: ArrayLike | None
    dt: float


@dataclass(frozen=True, slots=True)
class Residual:
    """What an observer finds."""

    values: Vector
    errors: Budget
    c: Vector
    model: StateTerms
    invalid_reason: str
    spread: Vector | None = None
    named_values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """What an observer found in a cycle.

    Attributes
    ----------
    force : generalised force of contacts and of what the model is wrong by, (n,), N.m^2
    bound : of each channel, what free motion makes of it at most, (n,), N.m^2
    covariance : of the error of ``force``, (n, n), (N.m^2)^2; it weighs location and wrench
    named_values : more numbers, by name, for the message and the recording
    problem : why it can estimate nothing any more; empty while all is well
    """

    force: ArrayLike
    bound: ArrayLike
    covariance: ArrayLike
    named_values: Mapping[str, float] = field(default_factory=dict)
    problem: str = ""


class ContactObserver(Protocol):
    """Finds the generalised force of contacts, cycle by cycle."""

    def reset(self) -> None:
        """Restart: after a pause, an invalid state, or a time without shapes."""

    def update(self, cycle: CycleInput, state: StateTerms) -> Finding:
        """What is found in one more cycle.

        Parameters
        ----------
        cycle : what was measured
        state : momentum, mass and known forces of the model there, with their derivatives
        """


class OwnResidual:
    """A :class:`ContactObserver` as a method of the contact monitor.

    Parameters
    ----------
    rod : the model
    observer : of the rod's size
    """

    def __init__(self, rod: DrivenRod, observer: ContactObserver) -> None:
        self._rod, self._observer, self._size = rod, observer, len(rod.stiffness)

    def reset(self) -> None:
        """Restart."""
        self._observer.reset()

    def bridge(self, _gap_s: float) -> None:
        """Restart after a time without shapes."""
        self._observer.reset()

    def update(self, cycle: CycleInput, _settings: MonitorSettings, _fractions: Vector) -> Residual:
        """Residual of one more cycle.

        Parameters
        ----------
        cycle : what is measured

        Raises
        ------
        ParameterError : a finding of another size, or a covariance without an inverse
        """
        state = self._rod.evaluate(cycle.c, cycle.rate, cycle.drives, cycle.other)
        found = self._observer.update(cycle, state)
        force, bound = (self._sized(name, getattr(found, name), 1) for name in ("force", "bound"))
        covariance = self._sized("covariance", found.covariance, 2)
        try:
            information = np.asarray(np.linalg.inv(covariance), dtype=float)
        except np.linalg.LinAlgError as error:
            raise self._refused("covariance", found.covariance, "a matrix that can be inverted") from error
        errors = Budget(bound, covariance, information)
        return Residual(force, errors, cycle.c, state, found.problem, named_values=found.named_values)

    def _sized(self, name: str, value: ArrayLike, dimensions: int) -> Vector:
        array = np.asarray(value, dtype=float)
        if array.shape != (self._size,) * dimensions:
            raise self._refused(name, array.shape, f"shape {(self._size,) * dimensions}")
        return array

    def _refused(self, name: str, value: object, expected: str) -> ParameterError:
        return ParameterError(f"{name} of {type(self._observer).__name__}", value, expected)
