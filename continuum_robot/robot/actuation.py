# SPDX-License-Identifier: Apache-2.0
"""Actuators and limits of a robot, as its file states them: of all tendons, and what some have of their own."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import RobotFileError
from continuum_robot.robot.schema import quantity, refuse

Kind = TypeVar("Kind", bound="OfTendons")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Base of an entry: values of some tendons, instead of the common ones."""

    tendons: tuple[int, ...] = quantity("numbers of these tendons, from 1, in tendon order", ge=1, le=640)

    @property
    def stated(self) -> dict[str, Any]:
        """The values by their keys."""
        values = {one.name: getattr(self, one.name) for one in dataclasses.fields(self) if one.name != "tendons"}
        return {name: value for name, value in values.items() if value is not None}


def own(kind: type[Any], key: str) -> Any:
    """A field of an entry: a value that ``kind`` states for all, with the same unit and range; None: the common one."""
    (field,) = [one for one in dataclasses.fields(kind) if one.name == key]
    return dataclasses.field(default=None, metadata=field.metadata)


class OfTendons:
    """Base of dataclasses whose values hold for every tendon but those that entries of ``tendons`` name."""

    __slots__ = ()
    tendons: tuple[Any, ...]

    def of(self: Kind, number: int) -> Kind:
        """The values of a tendon."""
        if not self.tendons:
            return self
        values: dict[str, Any] = next((entry.stated for entry in self.tendons if number in entry.tendons), {})
        return cast("Kind", dataclasses.replace(cast("Any", self), tendons=(), **values))

    def each(self, key: str, count: int) -> NDArray[np.float64]:
        """A value of every tendon, (N,)."""
        if not self.tendons:
            return np.full(count, float(getattr(self, key)))
        return np.array([getattr(self.of(number), key) for number in range(1, count + 1)], dtype=float)

    def smallest(self, key: str, count: int) -> float:
        """The smallest of :meth:`each`."""
        return float(self.each(key, count).min())

    def largest(self, key: str, count: int) -> float:
        """The largest of :meth:`each`."""
        return float(self.each(key, count).max())

    def key_of(self, key: str, number: int) -> str:
        """Where the value of a tendon stands, a dotted key within this section."""
        for index, entry in enumerate(self.tendons):
            if number in entry.tendons and key in entry.stated:
                return f"tendons[{index}].{key}"
        return key

    @property
    def common(self: Kind) -> Kind:
        """The common values alone."""
        return cast("Kind", dataclasses.replace(cast("Any", self), tendons=()))

    def lowered(self: Kind, common: Kind) -> Kind:
        """These values with other common ones: where one is lower than it was, it bounds those of single
        tendons too.
        """
        entries = []
        for entry in self.tendons:
            values: dict[str, Any] = {}
            for key, value in entry.stated.items():
                now = getattr(common, key)
                kept = min(value, now) if now != getattr(self, key) else value
                values |= {} if kept == now else {key: kept}
            entries += [type(entry)(tendons=entry.tendons, **values)] if values else []
        return cast("Kind", dataclasses.replace(cast("Any", common), tendons=tuple(entries)))

    @property
    def all_values(self: Kind) -> tuple[Kind, ...]:
        """The common values, and those of the first tendon of each entry."""
        return (self, *(self.of(entry.tendons[0]) for entry in self.tendons))

    def check_own(self) -> None:
        """Refuse entries without effect, two for one tendon, and values that do not fit the others."""
        taken: set[int] = set()
        for index, entry in enumerate(self.tendons):
            key = f"tendons[{index}]"
            if not entry.tendons or len({*taken, *entry.tendons}) < len(taken) + len(entry.tendons):
                raise refuse(f"{key}.tendons", list(entry.tendons), "at least one tendon, each in one entry and once")
            taken.update(entry.tendons)
            if not entry.stated:
                names = [one.name for one in dataclasses.fields(entry) if one.name != "tendons"]
                raise refuse(key, list(entry.tendons), f"at least one of the keys {', '.join(names)} too")
            for name, value in entry.stated.items():
                if value == getattr(self, name):
                    raise refuse(f"{key}.{name}", value, "another value than all tendons have, or none")
            try:
                self.of(entry.tendons[0])
            except RobotFileError as error:
                raise refuse(f"{key}.{error.key}", error.value, error.expected) from None

    def check_numbers(self, section: str, count: int) -> None:
        """Refuse a tendon that is not there."""
        for index, entry in enumerate(self.tendons):
            if max(entry.tendons) > count:
                expected = f"tendons of 1 to {count}"
                raise refuse(f"{section}.tendons[{index}].tendons", list(entry.tendons), expected)


TENSION, DISPLACEMENT = "tension", "displacement"
COMMANDS = (TENSION, DISPLACEMENT)
"""What actuators take: a tension of the tendon, N, or its displacement, m."""

SLOWEST_HZ = 20.0
"""Of the driver's cycle."""

COPPER_PER_K = 0.0039
"""By which fraction the resistance of copper rises with each kelvin from 25 degC."""
COPPER_AT_C = 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MotorHeat:
    """How a motor warms up, for boards that report no temperature: winding and housing (docs/how-to/motors.md)."""

    loss_w_per_a2: float = quantity(
        "heat of the cold winding (25 degC) for the square of the current, which is a resistance: that between the"
        " terminals of a brushed motor, 3/2 of a phase's of a brushless one under field-oriented control",
        "ohm",
        gt=0,
        le=1000,
    )
    winding_to_housing_k_per_w: float = quantity("thermal resistance, winding to housing", gt=0, le=1000)
    housing_to_ambient_k_per_w: float = quantity(
        "thermal resistance, housing to the air, as the motor is mounted", gt=0, le=1000
    )
    winding_time_constant_s: float = quantity("thermal time constant of the winding", gt=0, le=1e4)
    housing_time_constant_s: float = quantity("thermal time constant of the motor as a whole", gt=0, le=1e6)
    ambient_c: float = quantity("hottest air around the motors", default=30.0, ge=-40, le=100)

    def steady_current_a(self, temperature_c: float) -> float:
        """The current that brings the winding to ``temperature_c`` (degC) when it flows for good, A."""
        rise_k = max(temperature_c - self.ambient_c, 0.0)
        resistance_k_per_w = self.winding_to_housing_k_per_w + self.housing_to_ambient_k_per_w
        hot_w_per_a2 = self.loss_w_per_a2 * (1 + COPPER_PER_K * (temperature_c - COPPER_AT_C))
        return math.sqrt(rise_k / (resistance_k_per_w * hot_w_per_a2))


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionServo:
    """How a motor that takes displacements moves to them, by the loop that it has built in."""

    bandwidth_hz: float = quantity("bandwidth of its position loop", default=8.0, gt=0, le=500)
    maximum_speed_rad_per_s: float = quantity("no-load speed of the motor at the supply's voltage", gt=0, le=1e4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Actuators(OfTendons):
    """A tendon actuator, a motor with a spool: what all tendons have, but for what ``tendons`` state of some."""

    command: str = quantity("what they take", default=TENSION, choices=COMMANDS)
    spool_radius_m: float = quantity("radius at which the tendon winds on the spool", gt=0, le=0.2)
    gear_ratio: float = quantity("turns of the motor for a turn of the spool", default=1.0, gt=0, le=1000)
    torque_constant_nm_per_a: float = quantity("motor torque per current", gt=0, le=10)
    maximum_current_a: float = quantity("largest motor current", gt=0, le=200)
    rotor_inertia_kg_m2: float = quantity("inertia of the rotor", gt=0, le=1)
    current_time_constant_s: float = quantity("first-order lag of the current loop", default=0.0005, ge=1e-5, le=1)
    viscous_friction_nms: float = quantity("viscous friction at the motor", default=0.0, ge=0, le=1)
    coulomb_friction_nm: float = quantity("dry friction at the motor", default=0.0, ge=0, le=10)
    friction_travel_m: float = quantity(
        "pull of the tendon over which the motor's dry friction grows to 63 % from rest, and over twice as much after"
        " a turn; 0: at once",
        default=0.0,
        ge=0,
        le=0.1,
    )
    cogging_amplitude_nm: float = quantity("amplitude of the cogging torque", default=0.0, ge=0, le=10)
    cogging_periods_per_turn: int = quantity("cogging periods in a turn of the motor", default=24, ge=1, le=1000)
    encoder_counts_per_turn: int = quantity("encoder counts in a turn of the motor", default=20000, ge=16, le=2**26)
    temperature_warn_c: float = quantity(
        "temperature of a motor at which to warn, as measured or by heat", default=70.0, ge=0, le=200, live=True
    )
    temperature_error_c: float = quantity(
        "temperature of a motor at which the fault motor_hot latches", default=85.0, ge=0, le=200, live=True
    )
    brake_holds_n: float | None = quantity(
        "tension that the brake of each motor holds, which closes by itself where the torque goes off; none: no brakes",
        default=None,
        gt=0,
        le=1e5,
    )
    heat: MotorHeat | None = quantity(
        "how a motor warms up, where its board reports no temperature; none: that is not known then", default=None
    )
    rate_hz: float = quantity(
        "cycles a second of the driver, as many as the motors' bus carries; 0: 1000, or 200 for displacements",
        default=0.0,
        ge=0,
        le=4000,
    )
    servo: PositionServo | None = quantity("its position loop, where command is displacement", default=None)
    tendons: tuple[OwnActuators, ...] = quantity(
        "what the motors of some tendons have instead; none with a transmission", default=()
    )

    def __post_init__(self) -> None:
        if (self.command == DISPLACEMENT) != (self.servo is not None):
            expected = "its position loop, since command is displacement"
            raise refuse("servo", self.servo, expected if self.servo is None else "none, since command is tension")
        if 0 < self.rate_hz < SLOWEST_HZ:
            raise refuse("rate_hz", self.rate_hz, f"at least {SLOWEST_HZ:g} Hz, or 0")
        if self.temperature_warn_c >= self.temperature_error_c:
            raise refuse(
                "temperature_warn_c",
                self.temperature_warn_c,
                f"less than temperature_error_c = {self.temperature_error_c:g} degC",
            )
        if self.heat is not None and self.heat.ambient_c >= self.temperature_warn_c:
            raise refuse(
                "heat.ambient_c",
                self.heat.ambient_c,
                f"less than temperature_warn_c = {self.temperature_warn_c:g} degC",
            )
        self.check_own()

    @property
    def cycle_hz(self) -> float:
        """Cycles a second of the driver."""
        return self.rate_hz or (200.0 if self.command == DISPLACEMENT else 1000.0)

    @property
    def newton_per_ampere(self) -> float:
        """Tendon tension for a motor current, N/A."""
        return self.torque_constant_nm_per_a * self.gear_ratio / self.spool_radius_m

    @property
    def maximum_tension_n(self) -> float:
        """Tension at the largest current, N."""
        return self.newton_per_ampere * self.maximum_current_a

    @property
    def motor_rad_per_m(self) -> float:
        """Turn of the motor for a spooled length, rad/m."""
        return self.gear_ratio / self.spool_radius_m

    @property
    def maximum_speed_m_per_s(self) -> float:
        """Tendon that a servo winds at its no-load speed, m/s; infinite where the actuators take tensions."""
        return math.inf if self.servo is None else self.servo.maximum_speed_rad_per_s / self.motor_rad_per_m

    @property
    def bandwidth_rad_per_s(self) -> float:
        """Bandwidth of the position loop, rad/s; infinite where the actuators take tensions."""
        return math.inf if self.servo is None else 2 * math.pi * self.servo.bandwidth_hz

    @property
    def cogging_rad_per_m(self) -> float:
        """Phase of the cogging for a spooled length, rad/m."""
        return self.cogging_periods_per_turn * self.motor_rad_per_m

    @property
    def meter_per_count(self) -> float:
        """Tendon that an encoder's count stands for, m."""
        return 2 * math.pi / self.motor_rad_per_m / self.encoder_counts_per_turn

    @property
    def viscous_ns_per_m(self) -> float:
        """Viscous friction as seen from the tendon, N.s/m."""
        return self.viscous_friction_nms * self.motor_rad_per_m**2

    @property
    def coulomb_n(self) -> float:
        """Dry friction as a force on the tendon, N."""
        return self.coulomb_friction_nm * self.motor_rad_per_m

    @property
    def cogging_n(self) -> float:
        """Amplitude of the cogging as a force on the tendon, N."""
        return self.cogging_amplitude_nm * self.motor_rad_per_m

    @property
    def reflected_mass_kg(self) -> float:
        """Rotor inertia as a mass that moves with the tendon, kg."""
        return self.rotor_inertia_kg_m2 * self.motor_rad_per_m**2


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnActuators(Own):
    """What the motors of some tendons have instead of what ``actuators`` state."""

    spool_radius_m: float | None = own(Actuators, "spool_radius_m")
    gear_ratio: float | None = own(Actuators, "gear_ratio")
    torque_constant_nm_per_a: float | None = own(Actuators, "torque_constant_nm_per_a")
    maximum_current_a: float | None = own(Actuators, "maximum_current_a")
    rotor_inertia_kg_m2: float | None = own(Actuators, "rotor_inertia_kg_m2")
    viscous_friction_nms: float | None = own(Actuators, "viscous_friction_nms")
    coulomb_friction_nm: float | None = own(Actuators, "coulomb_friction_nm")
    cogging_amplitude_nm: float | None = own(Actuators, "cogging_amplitude_nm")
    cogging_periods_per_turn: int | None = own(Actuators, "cogging_periods_per_turn")
    encoder_counts_per_turn: int | None = own(Actuators, "encoder_counts_per_turn")
    servo: PositionServo | None = own(Actuators, "servo")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActuationLimits(OfTendons):
    """Limits of both kinds of commands: what the tendon driver lets through, and when something is wrong."""

    maximum_n: float = quantity("greatest tension of a tendon", gt=0, le=1e4)
    maximum_displacement_m: float = quantity("largest displacement of a tendon either way", gt=0, le=10)
    command_timeout_s: float = quantity("age of a command at which the safe state begins", default=0.1, ge=0.002, le=5)
    reading_timeout_s: float = quantity("age of a reading at which the safe state begins", default=0.05, ge=0.002, le=5)
    frozen_motion_m: float = quantity(
        "how far the other tendons say that one moved which reads the same, beyond their stretch, until it is frozen;"
        " or how far the command of a servo moves meanwhile; 0: derived (docs/reference/safety.md)",
        default=0.0,
        ge=0,
        le=0.1,
    )
    frozen_begin_s: float = quantity(
        "how long a tendon that must move, by the others, the forces or its command, may take to begin to; 0: derived,"
        " at least 20 ms (docs/reference/safety.md)",
        default=0.0,
        ge=0,
        le=10,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TensionLimits(ActuationLimits):
    """Of actuators that take tensions."""

    minimum_n: float = quantity("least tension of a tendon while active: no slack", ge=0, le=1e4)
    rate_n_per_s: float = quantity("fastest change of a commanded tension", gt=0, le=1e7)
    total_n: float = quantity("greatest sum of all tensions", gt=0, le=1e5)
    safe_n: float = quantity("tension of the safe state", ge=0, le=1e4)
    safe_rate_n_per_s: float = quantity("ramp to the safe state", gt=0, le=1e7)
    inconsistency_m: float = quantity(
        "largest root mean square by which displacements of a segment may miss the Clarke manifold; 0: 2 mm, or the"
        " stretch of a tendon at maximum_n where that is more",
        default=0.0,
        ge=0,
        le=1,
    )
    frozen_force_n: float = quantity(
        "change of the commanded generalised force that must move some tendon; 0: derived from the motors' friction",
        default=0.0,
        ge=0,
        le=1e4,
    )
    current_mismatch_a: float = quantity(
        "largest difference of commanded and measured current; 0: by maximum_current_a and the kind of motors",
        default=0.0,
        ge=0,
        le=200,
    )
    tendons: tuple[OwnTensionLimits, ...] = quantity("what some tendons are limited to instead", default=())

    def __post_init__(self) -> None:
        if self.minimum_n >= self.maximum_n:
            raise refuse("minimum_n", self.minimum_n, f"less than maximum_n = {self.maximum_n:g} N")
        if self.safe_n > self.maximum_n:
            raise refuse("safe_n", self.safe_n, f"at most maximum_n = {self.maximum_n:g} N")
        self.check_own()

    @property
    def least_n(self) -> float:
        """Least tension of a tendon while active, N."""
        return self.minimum_n

    @property
    def largest_sum_n(self) -> float:
        """Greatest sum of all tensions, N."""
        return self.total_n

    @property
    def longest_ramp_s(self) -> float:
        """Time of the ramp from the greatest tension to none at ``safe_rate_n_per_s``, s."""
        return max(one.maximum_n / self.safe_rate_n_per_s for one in self.all_values)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTensionLimits(Own):
    """What the tensions of some tendons are limited to instead of what ``limits`` state."""

    maximum_n: float | None = own(TensionLimits, "maximum_n")
    maximum_displacement_m: float | None = own(TensionLimits, "maximum_displacement_m")
    minimum_n: float | None = own(TensionLimits, "minimum_n")
    rate_n_per_s: float | None = own(TensionLimits, "rate_n_per_s")
    safe_n: float | None = own(TensionLimits, "safe_n")
    frozen_motion_m: float | None = own(TensionLimits, "frozen_motion_m")
    current_mismatch_a: float | None = own(TensionLimits, "current_mismatch_a")


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplacementLimits(ActuationLimits):
    """Of actuators that take displacements: they hold their place and limit their load while nobody talks to them."""

    command_timeout_s: float = quantity("age of a command at which the safe state begins", default=0.15, ge=0.002, le=5)
    reading_timeout_s: float = quantity("age of a reading at which the safe state begins", default=0.25, ge=0.002, le=5)
    speed_m_per_s: float = quantity("fastest change of a commanded displacement", gt=0, le=10)
    acceleration_m_per_s2: float = quantity("fastest change of that speed", gt=0, le=1e4)
    slack_n: float = quantity(
        "load below which a tendon counts as slack while active, where loads are known, beyond the motor's friction;"
        " 0: none does",
        default=0.0,
        ge=0,
        le=1e4,
    )
    lag_m: float = quantity(
        "largest distance between a commanded and a measured displacement; 0: derived from the servo's bandwidth and"
        " stiffness, the fastest command, the largest load, the bus and the encoders",
        default=0.0,
        ge=0,
        le=1,
    )
    pay_out_m: float = quantity(
        "displacement, below that of the straight robot, to which a release pays out: every tendon is slack there",
        gt=0,
        le=1,
    )
    pay_out_speed_m_per_s: float = quantity("how fast a release pays out", gt=0, le=10)
    tendons: tuple[OwnDisplacementLimits, ...] = quantity("what some tendons are limited to instead", default=())

    def __post_init__(self) -> None:
        if self.slack_n >= self.maximum_n:
            raise refuse("slack_n", self.slack_n, f"less than maximum_n = {self.maximum_n:g} N")
        if self.pay_out_m > self.maximum_displacement_m:
            raise refuse(
                "pay_out_m", self.pay_out_m, f"at most maximum_displacement_m = {self.maximum_displacement_m:g} m"
            )
        self.check_own()

    @property
    def least_n(self) -> float:
        """Least load of a tendon while active, N."""
        return self.slack_n

    @property
    def largest_sum_n(self) -> float:
        """Greatest sum of all loads, N: nothing limits it."""
        return math.inf

    @property
    def longest_ramp_s(self) -> float:
        """Time in which a release pays out from the greatest displacement, s."""
        return max((one.maximum_displacement_m + one.pay_out_m) / one.pay_out_speed_m_per_s for one in self.all_values)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnDisplacementLimits(Own):
    """What the displacements and loads of some tendons are limited to instead of what ``limits`` state."""

    maximum_n: float | None = own(DisplacementLimits, "maximum_n")
    maximum_displacement_m: float | None = own(DisplacementLimits, "maximum_displacement_m")
    speed_m_per_s: float | None = own(DisplacementLimits, "speed_m_per_s")
    acceleration_m_per_s2: float | None = own(DisplacementLimits, "acceleration_m_per_s2")
    slack_n: float | None = own(DisplacementLimits, "slack_n")
    lag_m: float | None = own(DisplacementLimits, "lag_m")
    frozen_motion_m: float | None = own(DisplacementLimits, "frozen_motion_m")
    pay_out_m: float | None = own(DisplacementLimits, "pay_out_m")
    pay_out_speed_m_per_s: float | None = own(DisplacementLimits, "pay_out_speed_m_per_s")


Limits: TypeAlias = TensionLimits | DisplacementLimits
