# SPDX-License-Identifier: Apache-2.0
"""Controller, default reference and reaction to contacts of a robot, as its file states them."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.doors import REFERENCES
from continuum_robot.robot.schema import quantity, refuse

ANTIWINDUP_STRATEGIES = ("none", "back_calculation", "conditional_integration")
TENDON_FORCE_STRATEGIES = ("shift", "redistribute", "clip", "least_sum")
PRELOAD = "preload"
PID_LAW = "pid"
INVERSE_DYNAMICS_LAW = "inverse_dynamics"
STATICS_LAW = "statics"
COMPILED_LAWS = (PID_LAW, INVERSE_DYNAMICS_LAW)
"""Of the controllers of this package that give tensions; they are compiled with the cycle."""
LAWS = (*COMPILED_LAWS, STATICS_LAW)
"""Of all controllers of this package; the last one gives displacements."""
FASTEST_INTEGRAL_PER_S = 20.0
BY_MODEL, BY_LOAD = "model", "load"
POLICY_ACTIONS = ("clarke", "tension", "displacement")
REFERENCE_KINDS = ("chirp", "steps", "circle", "rest_to_rest", "hold", "csv")


@dataclass(frozen=True, slots=True, kw_only=True)
class PidGains:
    """PID gains on the two Clarke coordinates of one segment; names as in ros2_control's pid_controller."""

    p: float = quantity("proportional gain", "N/m", ge=0, le=1e7, live=True)
    i: float = quantity("integral gain", "N/(m.s)", default=0.0, ge=0, le=1e8, live=True)
    d: float = quantity("derivative gain", "N.s/m", default=0.0, ge=0, le=1e6, live=True)
    u_clamp_max: float = quantity("largest generalised force", "N", default=1e3, gt=0, le=1e6, live=True)
    u_clamp_min: float = quantity("least generalised force", "N", default=-1e3, ge=-1e6, lt=0, live=True)
    i_clamp_max: float = quantity("largest integral term", "N", default=1e3, gt=0, le=1e6, live=True)
    i_clamp_min: float = quantity("least integral term", "N", default=-1e3, ge=-1e6, lt=0, live=True)
    antiwindup_strategy: str = quantity(
        "what keeps the integral from winding up", default="back_calculation", choices=ANTIWINDUP_STRATEGIES
    )
    tracking_time_constant: float = quantity(
        "time constant of back-calculation; 0: sqrt(d/i), or p/i without d", "s", default=0.0, ge=0, le=100, live=True
    )
    error_deadband: float = quantity("error below which the integral rests", "m", default=0.0, ge=0, le=0.1, live=True)
    derivative_filter_time: float = quantity(
        "time constant of the filter on the derivative", "s", default=0.005, ge=0, le=1, live=True
    )
    reference_velocity_weight: float = quantity(
        "fraction of the reference's velocity in the derivative; 0: derivative on measurement, 1: of the error",
        default=0.0,
        ge=0,
        le=1,
        live=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InverseDynamicsSettings:
    """What the law ``inverse_dynamics`` has beside the gains p and d, bounds and pretension."""

    observer_rate_per_s: float = quantity(
        "bandwidth of the disturbance observer; 0: none", default=25.0, ge=0, le=1000, live=True
    )
    friction: float = quantity("fraction of the motors' dry friction fed forward", default=0.7, ge=0, le=1, live=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """A learned policy that moves the robot: by references for the law, or by commands in its place."""

    model: str = quantity(
        "ONNX file, from this file's folder; its inputs are named as observations, its output as the action", default=""
    )
    function: str = quantity(
        "instead of a model, module:name of a Python function: observations by name to the action", default=""
    )
    observations: tuple[str, ...] = quantity("what a function sees; names are in docs/how-to/learning.md", default=())
    action: str = quantity("what a function gives", default="", choices=("", *POLICY_ACTIONS))
    rate_hz: float = quantity("how often it computes an action", default=50.0, ge=0.1, le=4000)
    delay_s: float = quantity(
        "time from an observation to the action that answers it, in which it has to be computed; 0: 5 ms, or half a"
        " period if that is less",
        default=0.0,
        ge=0,
        le=5,
    )
    late_s: float = quantity(
        "how much later an action may be: the last one holds meanwhile, then the law takes over",
        default=0.1,
        ge=0,
        le=5,
    )

    def __post_init__(self) -> None:
        if bool(self.model) == bool(self.function):
            raise refuse("model", self.model, "an ONNX file, or else a function")
        for key in ("observations", "action"):
            if bool(getattr(self, key)) != bool(self.function):
                expected = "what the function has" if self.function else "none: the model says it"
                raise refuse(key, getattr(self, key), expected)
        if self.delay_s > 1 / self.rate_hz:
            raise refuse("delay_s", self.delay_s, f"at most one period of rate_hz, {1 / self.rate_hz:g} s")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings:
    """The Clarke controller of a robot."""

    gains: tuple[PidGains, ...] = quantity(
        "one entry a segment, or a mode with modes; none if the actuators take displacements", default=()
    )
    modes: int = quantity(
        "how many modes of the tendons are controlled, the softest ones; 0: all Clarke coordinates, or two a segment",
        default=0, ge=0, le=1000,
    )  # fmt: skip
    law: str = quantity(
        "what turns states into tensions: pid, inverse_dynamics, or the name of an installed controller; into"
        " displacements: statics, which is the default there, or an installed one",
        default=PID_LAW,
        filled=True,
    )
    tendon_forces: str = quantity(
        "how negative tendon forces are avoided: preload where motors share tendons, by itself",
        default="shift",
        choices=(*TENDON_FORCE_STRATEGIES, PRELOAD),
    )
    pretension_n: float = quantity("least tension that shifting leaves", default=0.5, ge=0, le=1e4, live=True)
    pretension_rate_n_per_s: float = quantity(
        "how fast the pretension goes to another that was asked for", default=5.0, gt=0, le=1e6, live=True
    )
    pretension_by: str = quantity(
        "of the law statics: whose loads have the pretension, the model's, or the measured ones too: then the tendons"
        " of a segment are tightened together while one has less",
        default=BY_MODEL,
        choices=(BY_MODEL, BY_LOAD),
    )
    feedforward_stiffness: float = quantity(
        "fraction of the elastic force fed forward", default=0.0, ge=0, le=1, live=True
    )
    feedforward_gravity: float = quantity("fraction of gravity fed forward", default=0.0, ge=0, le=1, live=True)
    feedforward_friction: float = quantity(
        "fraction of the motors' friction and the backbone's hysteresis along the reference fed forward",
        default=0.0,
        ge=0,
        le=1,
        live=True,
    )
    integral_per_s: float = quantity(
        "of the law statics: how fast the error of the shape that strings or a fibre measure, else of the tip that a"
        " tracker does, is corrected; 0: not",
        default=0.0,
        ge=0,
        le=FASTEST_INTEGRAL_PER_S,
        live=True,
    )
    inverse_dynamics: InverseDynamicsSettings = quantity(
        "of that law; the fractions fed forward are not", factory=InverseDynamicsSettings
    )
    policy: PolicySettings | None = quantity(
        "a policy that moves the robot; the law serves it, and takes over where it fails", default=None
    )
    state_timeout_s: float = quantity(
        "age of a state at which the controller falls silent", default=0.02, ge=0.001, le=5
    )
    note: str = quantity("how the gains were chosen", default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSettings:
    """Trajectory of the Clarke coordinates that the reference source plays; lists go [q_Re,1, q_Im,1, ...]."""

    kind: str = quantity("which trajectory", choices=REFERENCE_KINDS, door=REFERENCES)
    amplitude_m: tuple[float, ...] = quantity("amplitude of each Clarke coordinate", default=(), ge=-1, le=1)
    frequency_hz: tuple[float, ...] = quantity(
        "frequency at the start, one value or one a coordinate", default=(), ge=0, le=100
    )
    frequency_rate_hz_per_s: float = quantity("linear rise of the frequency", default=0.0, ge=0, le=10)
    rise_s: float = quantity(
        "time for which the frequency rises; then it falls as long, and so on", default=60.0, gt=0, le=1e4
    )
    period_s: float = quantity(
        "dwell of a step, duration of a move or of the entry into a circle", default=2.0, gt=0, le=1e4
    )
    rate_hz: float = quantity("how often the reference is published", default=100.0, ge=1, le=2000)
    file: str = quantity(
        "CSV with time_s and a column for each coordinate, and insertion_m and rotation_rad where it moves the stage"
        " too, for kind csv",
        default="",
    )
    speed_m_per_s: float = quantity(
        "largest speed towards a target, of all coordinates together; 0: the largest displacement in 2 s",
        default=0.0,
        ge=0,
        le=10,
    )
    acceleration_m_per_s2: float = quantity(
        "largest acceleration towards a target; 0: full speed after 0.5 s", default=0.0, ge=0, le=1000
    )

    def __post_init__(self) -> None:
        if self.kind == "csv" and not self.file:
            raise refuse("file", self.file, "the path of a CSV file, since kind is csv")
        if self.kind in ("chirp", "circle") and not self.frequency_hz:
            raise refuse("frequency_hz", self.frequency_hz, f"at least one value, since kind is {self.kind}")


IGNORE, HOLD, RETRACT, COMPLY, GUIDE, PRESS = "ignore", "hold", "retract", "comply", "guide", "press"
REACTIONS = (IGNORE, HOLD, RETRACT, COMPLY, GUIDE, PRESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactionSettings:
    """How the reference of the Clarke coordinates answers a contact."""

    strategy: str = quantity(
        "ignore; hold: stop; retract: back along its path until the force has gone; comply: yield as mass, "
        "damper and spring; guide: be led by hand; press: keep a force on the contact",
        default=IGNORE,
        choices=REACTIONS,
        live=True,
    )
    speed_m_per_s: float = quantity(
        "of yielding and of the return, Clarke coordinates; 0: that of motions to targets",
        default=0.0,
        ge=0,
        le=100,
        live=True,
    )
    acceleration_m_per_s2: float = quantity(
        "of yielding and of retract, Clarke coordinates: tensions have to follow; 0: twice that of motions to targets",
        default=0.0,
        ge=0,
        le=1000,
        live=True,
    )
    clear_m: float = quantity(
        "further travel of retract once the force has gone, Clarke coordinates; 0: a fiftieth of the largest there is",
        default=0.0,
        ge=0,
        le=1,
        live=True,
    )
    largest_m: float = quantity(
        "largest distance from the reference of comply, guide and press; 0: half of the largest displacement",
        default=0.0,
        ge=0,
        le=1,
        live=True,
    )
    mass_kg: float = quantity(
        "of comply and guide, at the tip; 0: settles in a twentieth of a second", default=0.0, ge=0, le=1e4, live=True
    )
    damping_ns_per_m: float = quantity(
        "of comply, guide and press, at the tip; 0: five times as slow as the gains follow",
        default=0.0,
        ge=0,
        le=1e7,
        live=True,
    )
    stiffness_n_per_m: float = quantity(
        "of comply, at the tip; 0: a twentieth of that of the rod itself", default=0.0, ge=0, le=1e7, live=True
    )
    press_n: float = quantity("force on the contact with press, at the tip", default=1.0, gt=0, le=1e4, live=True)
