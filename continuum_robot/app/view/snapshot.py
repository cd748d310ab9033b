# SPDX-License-Identifier: Apache-2.0
"""What is known of a running robot at one moment, in plain Python: what the page draws and says."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

SILENCE_S = 2.0


def _empty() -> Vector:
    return np.zeros(0)


@dataclass(frozen=True)
class ContactSnapshot:
    """What the contact monitor says, or the simulator's truth.

    Attributes
    ----------
    state : clear, contact, collision, blind, taring, settling
    reason : why it is blind, or settles
    touching : a contact or collision is felt
    share : magnitude of each residual over its threshold, shape (n,)
    arc_length_m : where, from the base, m; NaN where that is not observable
    interval_m : ends of the stretch of backbone that holds it with 90 % probability, m; NaN where unknown
    wrench_arc_length_m : where the force acts, m
    force_n : in the backbone's frame there, shape (3,), N; NaN for a direction that is not felt
    force_deviation_n : standard deviation of its magnitude, N; NaN where unknown
    place_assumed : the force is given at the tip for want of anything better
    """

    state: str = "clear"
    reason: str = ""
    touching: bool = False
    share: Vector = field(default_factory=_empty)
    arc_length_m: float = math.nan
    interval_m: tuple[float, float] = (math.nan, math.nan)
    wrench_arc_length_m: float = math.nan
    force_n: Vector = field(default_factory=lambda: np.full(3, math.nan))
    force_deviation_n: float = math.nan
    place_assumed: bool = False


@dataclass(frozen=True)
class StackSnapshot:
    """State of the nodes.

    Attributes
    ----------
    state : of the stack: down, starting, up, stopping, fault; empty where no supervisor is heard
    simulated : the wires end in a simulator
    estop : the e-stop is latched
    holding : up, and nobody has started a motion
    nodes : lifecycle state of each managed node
    faults : latched now
    last_fault : the newest one, kept after recovery
    driver : state of the tendon driver: unconfigured, inactive, active, safe
    driver_says : its sentence
    """

    state: str = ""
    simulated: bool = False
    estop: bool = False
    holding: bool = False
    nodes: dict[str, str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    last_fault: str = ""
    driver: str = ""
    driver_says: str = ""


@dataclass(frozen=True)
class LoopSnapshot:
    """Timing of the driver's loop since it was activated.

    Attributes
    ----------
    rate_hz, missed_percent : of the loop
    period_p99_us, execution_p99_us : 99th percentiles
    response_p99_us : from a reading to the command that answers it, over the topics where the controller is not in the
        cycle
    """

    rate_hz: float = math.nan
    missed_percent: float = math.nan
    period_p99_us: float = math.nan
    execution_p99_us: float = math.nan
    response_p99_us: float = math.nan


@dataclass(frozen=True)
class Snapshot:
    """Everything that is known now; NaN, None and empty arrays where nothing is.

    Attributes
    ----------
    time_s : monotonic clock, s
    silent_s : how long no tendon states came, s; inf before the first
    coefficients : of the shape, shape (n,)
    tip_m : place of the tip, base frame, shape (3,), m
    shape_problem : sensors that the shape estimator found broken
    clarke, clarke_reference : measured and wanted, shape (coordinates,), m
    tension_n : measured, shape (N,), N
    commanded_n : commanded, shape (N,), N
    contact : what the monitor says, None where none runs
    true_contact : the simulator's truth, None where it tells none
    obstacles : triangles of each obstacle of a simulated world by its name, base frame, shape (k, 3, 3), m
    stack, loop : see there
    """

    time_s: float
    silent_s: float = math.inf
    coefficients: Vector = field(default_factory=_empty)
    tip_m: Vector = field(default_factory=_empty)
    shape_problem: str = ""
    clarke: Vector = field(default_factory=_empty)
    clarke_reference: Vector = field(default_factory=_empty)
    tension_n: Vector = field(default_factory=_empty)
    commanded_n: Vector = field(default_factory=_empty)
    contact: ContactSnapshot | None = None
    true_contact: ContactSnapshot | None = None
    obstacles: dict[str, Vector] = field(default_factory=dict)
    stack: StackSnapshot = field(default_factory=StackSnapshot)
    loop: LoopSnapshot = field(default_factory=LoopSnapshot)

    @property
    def alive(self) -> bool:
        """Whether the driver speaks."""
        return self.silent_s < SILENCE_S
