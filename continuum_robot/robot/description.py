# SPDX-License-Identifier: Apache-2.0
"""The description of a robot: frozen dataclasses in SI units. Base frame: z along the straight backbone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.actuation import DISPLACEMENT, Actuators, DisplacementLimits, TensionLimits
from continuum_robot.robot.base_stage import BaseStage
from continuum_robot.robot.control_settings import (
    BY_LOAD,
    BY_MODEL,
    INVERSE_DYNAMICS_LAW,
    LAWS,
    PRELOAD,
    STATICS_LAW,
    ControlSettings,
    ReactionSettings,
    ReferenceSettings,
)
from continuum_robot.robot.file.parts import VERSION
from continuum_robot.robot.file.recording import Recording
from continuum_robot.robot.hardware import Hardware
from continuum_robot.robot.mechanism import EquilibriumModulation, RollingJoint
from continuum_robot.robot.provenance import Provenance
from continuum_robot.robot.rod_construction import FEWEST_AROUND, PAIR, RodConstruction
from continuum_robot.robot.schema import quantity, quantity_of, refuse
from continuum_robot.robot.segments.routing import MOST_TURNS, RoutedPath
from continuum_robot.robot.segments.segment import Segment
from continuum_robot.robot.segments.tendons import DisplacedTendons, Fiber, RoutedTendon, String
from continuum_robot.robot.simulation_settings import SimulationSettings
from continuum_robot.robot.stop_policy import BRAKE, StopPolicy
from continuum_robot.robot.traits import Traits
from continuum_robot.robot.transmission import Transmission

Vector = NDArray[np.float64]

_TURN_PLACES = 4097


@dataclass(frozen=True, slots=True, kw_only=True)
class Robot:
    """A tendon-driven continuum robot. Tendons are numbered segment by segment from the base, then by angle."""

    schema_version: int = quantity(
        "version of this file format; required in a file", default=VERSION, ge=VERSION, le=VERSION
    )
    name: str = quantity("the robot's name", filled=True)
    segments: tuple[Segment, ...] = quantity("from the base to the tip; none with a mechanism", default=())
    mechanism: RollingJoint | EquilibriumModulation | None = quantity(
        "what the robot is instead of a backbone with segments", default=None
    )
    description: str = quantity("what robot this is, for a reader", default="")
    gravity_m_per_s2: tuple[float, ...] = quantity(
        "gravity in the base frame", default=(0.0, 0.0, 0.0), length=3, ge=-100, le=100
    )
    payload_kg: float = quantity("mass of what the tip carries", default=0.0, ge=0, le=100)
    payload_offset_m: tuple[float, ...] = quantity(
        "its centre of mass in the axes of the tip, from the backbone's end", default=(0.0, 0.0, 0.0), length=3,
        ge=-10, le=10
    )  # fmt: skip
    tendon_stiffness_n_per_m: float = quantity(
        "axial stiffness of a tendon from its end to its spool", default=2.0e4, gt=0, le=1e9
    )
    actuators: Actuators | None = quantity("the tendon actuators; none: geometry and statics only", default=None)
    transmission: Transmission | None = quantity(
        "what lies between motors and tendons; none: each motor pulls one tendon", default=None
    )
    limits: TensionLimits | DisplacementLimits | None = quantity("limits of the tendon driver", default=None)
    stop: StopPolicy = quantity("what the tendon driver does after a fault", factory=StopPolicy)
    control: ControlSettings | None = quantity("the Clarke controller", default=None)
    reference: ReferenceSettings | None = quantity("default trajectory", default=None)
    reaction: ReactionSettings | None = quantity("what it does when something touches it", default=None)
    simulation: SimulationSettings = quantity("the simulated robot", factory=SimulationSettings)
    strings: tuple[String, ...] = quantity("strings of the string encoders", default=())
    fiber: Fiber | None = quantity("a fibre with gratings that measures the backbone's curvature", default=None)
    routed_tendons: tuple[RoutedTendon, ...] = quantity(
        "tendons on paths of their own, each with an actuator, beside those of the segments and numbered after them",
        default=(),
    )
    base_stage: BaseStage | None = quantity(
        "what inserts and turns the whole robot; none: its base stands still", default=None
    )
    hardware: Hardware | None = quantity("its devices and their wiring; none: simulated only", default=None)
    recording: Recording | None = quantity("how recorded data maps to this robot", default=None)
    displaced_tendons: DisplacedTendons | None = quantity(
        "what lies between servos that hold tendons at displacements and the robot's shape", default=None
    )
    provenance: tuple[Provenance, ...] = quantity("fits whose results this file has", default=())
    assumed: tuple[str, ...] = quantity("dotted keys whose values no source states", default=())
    file_name: str = field(default="", init=False, compare=False)
    derived: tuple[str, ...] = field(default=(), init=False, compare=False)

    def __post_init__(self) -> None:
        if bool(self.segments) == (self.mechanism is not None):
            raise refuse("segments", len(self.segments), "at least one segment, or else a mechanism")
        for key, what in (("segments", "segment"), ("strings", "string"), ("routed_tendons", "tendon")):
            names = [one.name for one in getattr(self, key)]
            if len(set(names)) != len(names):
                raise refuse(key, names, f"a different name for each {what}")
        if self.fiber is not None and not self.segments:
            raise refuse("fiber", self.traits.kind, "none on a mechanism, which has no backbone that bends")
        self._check_own()
        for key, value, least, most, expected in self._bounds():
            if not least <= value <= most:
                raise refuse(key, value, expected)
        for index, segment in enumerate(self.segments):
            self._check_count(index)
            if index and segment.capstans is not None and segment.tendons.from_base:
                raise refuse(
                    f"segments[{index}].tendons.from_base",
                    True,
                    "false: the capstans of a later segment ride on the end of the one before",
                )
        self._check_paths()
        if self.control is not None:
            object.__setattr__(self, "control", self._checked_control(self.control))
        if self.reference is not None:
            self._check_reference(self.reference)
        for section in ("displaced_tendons", "simulation.wiring_errors", "recording"):
            self._check_lists(section)
        if self.recording is not None:
            columns = self.recording.displacement_columns
            if len(set(columns)) != len(columns):
                raise refuse("recording.displacement_columns", columns, "a different column for each tendon")
        if self.transmission is not None:
            self._check_transmission(self.transmission)
        if self.actuators is not None:
            self.stop.check(displacements=self.takes_displacements)
            self._check_command(self.actuators.command)
        if self.stop.braking and (self.actuators is None or self.actuators.brake_holds_n is None):
            expected = "another action: the file states no brake (actuators.brake_holds_n)"
            raise refuse(f"stop.{self.stop.braking}", BRAKE, expected)

    def _check_lists(self, section: str) -> None:
        """Refuse lists of a section that do not have one value for each tendon; where it may be left out, none.

        What the motors do otherwise has a value for each of those that a transmission has.
        """
        stated = attrgetter(section)(self)
        for one in () if stated is None else fields(stated):
            value = getattr(stated, one.name)
            of_tendons = isinstance(value, tuple) and quantity_of(one).length is None
            of_motors = self.shares_motors and section == "simulation.wiring_errors" and one.name != "slack_m"
            count, what = (self.motor_count, "motor") if of_motors else (self.tendon_count, "tendon")
            if of_tendons and len(value) != count and (value or one.default is MISSING):
                raise refuse(f"{section}.{one.name}", value, f"{count} values, one a {what}")

    def _check_own(self) -> None:
        """Refuse values of single tendons that are not there, or whose motors cannot differ."""
        if self.limits is not None:
            self.limits.check_numbers("limits", self.tendon_count)
        if self.actuators is None or not self.actuators.tendons:
            return
        self.actuators.check_numbers("actuators", self.tendon_count)
        if self.transmission is not None or self.mechanism is not None:
            what = "a transmission" if self.mechanism is None else "a mechanism"
            numbers = list(self.actuators.tendons[0].tendons)
            raise refuse("actuators.tendons", numbers, f"none: motors of a robot with {what} are all of one kind")

    def _check_count(self, index: int) -> None:
        tendons = self.segments[index].tendons
        if self.routed_tendons or (tendons.count >= FEWEST_AROUND and tendons.surround):
            return
        if not tendons.even:
            key, expected = f"segments[{index}].tendons.uneven_angles_rad", "less than half a turn between neighbours"
            raise refuse(key, tendons.uneven_angles_rad, expected)
        key = f"segments[{index}].tendons.count"
        if tendons.count < PAIR:
            raise refuse(
                key,
                tendons.count,
                f"at least {FEWEST_AROUND}, {PAIR} that bend the segment in one plane, or routed_tendons that bend it"
                " instead",
            )
        if any(segment.tendons.count != PAIR for segment in self.segments):
            raise refuse(key, PAIR, f"{PAIR} tendons, which bend in one plane, in every segment or in none")
        if not tendons.routing.parallel:
            raise refuse(
                f"segments[{index}].tendons.routing", tendons.routing.kind, f"straight for {PAIR} tendons a segment"
            )

    def _check_paths(self) -> None:
        routed = [tendon.name for tendon in self.routed_tendons]
        keys = [
            f"segments[{index}].tendons.routing"
            for index, segment in enumerate(self.segments)
            for _ in range(segment.tendons.count)
        ]
        keys += [f"routed_tendons[{index}]" for index in range(len(self.routed_tendons))]
        found = [
            (key, path)
            for key, path in zip(keys, self.tendon_paths, strict=True)
            if path.name in routed or not path.parallel
        ]
        found += [
            (f"strings[{index}].routing", string.path)
            for index, string in enumerate(self.strings)
            if not string.path.parallel
        ]
        for key, path in found:
            turns = path.turned_rad(np.linspace(path.start_m, path.end_m, _TURN_PLACES))[-1] / (2 * math.pi)
            if not turns <= MOST_TURNS * (1 + 1e-9):
                raise refuse(key, turns, f"a path that turns about the backbone at most {MOST_TURNS:g} times")
            for start_m, segment in zip(self.segment_starts_m, self.segments, strict=True):
                radius_m = path.largest_radius_m(float(start_m), float(start_m) + segment.length_m)
                if radius_m > segment.disks.radius_m * (1 + 1e-9):
                    raise refuse(
                        key,
                        radius_m,
                        f"a path within the disks of {segment.name}, at most their radius_m ="
                        f" {segment.disks.radius_m:g} m from the backbone",
                    )

    def _check_transmission(self, transmission: Transmission) -> None:
        if self.actuators is None:
            raise refuse("actuators", None, "the actuators' properties too, since there is a transmission")
        transmission.check(self.tendon_count)
        self._check_layers(transmission)
        if not self.shares_motors:
            return
        if isinstance(limits := self.limits, TensionLimits):
            for number in range(1, self.tendon_count + 1):
                if (safe_n := limits.of(number).safe_n) != transmission.preload_n:
                    preload = f"transmission.preload_n = {transmission.preload_n:g} N"
                    key = f"limits.{limits.key_of('safe_n', number)}"
                    raise refuse(key, safe_n, f"{preload}, which idle motors leave on tendons")
        if self.displaced_tendons is not None:
            expected = "none: its zeros and gains are of motors that pull one tendon each"
            raise refuse("displaced_tendons", "a fit of held tendons", expected)
        if self.takes_displacements and self.motor_count == self.coordinate_count and self.control is not None:
            usual_n = ControlSettings().pretension_n
            if self.control.pretension_n != usual_n:
                expected = "none: transmission.preload_n alone says how tight the tendons are"
                raise refuse("control.pretension_n", self.control.pretension_n, expected)

    def _check_layers(self, transmission: Transmission) -> None:
        """Refuse spools whose radius would halve before the range of the displacements ends."""
        if self.actuators is None or self.limits is None:
            return
        inverse = np.linalg.pinv(transmission.coupling(self.tendon_count))
        farthest_m = np.abs(inverse) @ self.limits.each("maximum_displacement_m", self.tendon_count)
        largest_m = 0.75 * math.pi * self.actuators.spool_radius_m**2 / farthest_m
        for index, layer_m in enumerate(transmission.layer_m):
            if layer_m > largest_m[index]:
                expected = (
                    f"at most {largest_m[index]:.2g} m for motor {index + 1}: beyond, the spool's radius is less than"
                    " half at the end of limits.maximum_displacement_m"
                )
                raise refuse("transmission.layer_m", transmission.layer_m, expected)

    def _checked_control(self, control: ControlSettings) -> ControlSettings:
        """The settings, with the law that displacements need; RobotFileError where one is without effect."""
        plain = ControlSettings()
        self._check_modes(control.modes)
        if not self.takes_displacements:
            if len(control.gains) != len(self.part_names):
                each = "mode" if control.modes else "segment"
                raise refuse("control.gains", len(control.gains), f"{len(self.part_names)} entries, one a {each}")
            if control.law == STATICS_LAW:
                raise refuse("control.law", control.law, "pid or another law: the actuators take tensions")
            for key in ("integral_per_s", "pretension_by"):
                if getattr(control, key) != getattr(plain, key):
                    expected = f"none: only the law {STATICS_LAW} of actuators that take displacements has it"
                    raise refuse(f"control.{key}", getattr(control, key), expected)
            return self._preloaded(control)
        if control.law not in LAWS:
            return control
        if control.law == INVERSE_DYNAMICS_LAW:
            raise refuse("control.law", control.law, f"{STATICS_LAW}, since the actuators take displacements")
        fed_forward = ("feedforward_stiffness", "feedforward_gravity", "feedforward_friction")
        for key in ("gains", "inverse_dynamics", *fed_forward):
            if getattr(control, key) != getattr(plain, key):
                raise refuse(f"control.{key}", getattr(control, key), "none: the law statics has no use for it")
        if control.tendon_forces in ("clip", PRELOAD):
            expected = "another one: clipped loads hold no shape, and preload is of motors that take tensions"
            raise refuse("control.tendon_forces", control.tendon_forces, expected)
        if control.integral_per_s and not self.sees_shape and not self.sees_tip:
            expected = "0: no strings and no fibre see the shape, and no hardware.tracker the tip"
            raise refuse("control.integral_per_s", control.integral_per_s, expected)
        if control.pretension_by == BY_LOAD and self.transmission is not None:
            expected = f"{BY_MODEL}: motors that share tendons tighten none alone"
            raise refuse("control.pretension_by", control.pretension_by, expected)
        return replace(control, law=STATICS_LAW)

    def _check_modes(self, modes: int) -> None:
        """Refuse a number of modes without effect, or of more than there are; the rod itself says the rest."""
        if not modes:
            return
        if self.mechanism is not None:
            raise refuse("control.modes", modes, f"none: the coordinates of a {self.traits.kind} are its own")
        usual = RodConstruction(self).all_coordinates
        if modes == usual or (modes > usual and not self.traits.without_clarke):
            expected = f"fewer than {usual}, or none: these tendons have {usual} coordinates without it"
            raise refuse("control.modes", modes, expected)
        if modes >= self.tendon_count:
            expected = f"fewer than the {self.tendon_count} tendons, which only pull"
            raise refuse("control.modes", modes, expected)

    def _preloaded(self, control: ControlSettings) -> ControlSettings:
        """The settings for motors that take tensions; where they share tendons, the preload is their pretension."""
        if not self.shares_motors or self.transmission is None:
            if control.tendon_forces == PRELOAD:
                raise refuse("control.tendon_forces", PRELOAD, "another one: no motors share tendons")
            return control
        for key, needed in (("tendon_forces", PRELOAD), ("pretension_n", self.transmission.preload_n)):
            if getattr(control, key) not in (needed, getattr(ControlSettings(), key)):
                expected = f"{needed}, or none: motors that share tendons leave their preload on them"
                raise refuse(f"control.{key}", getattr(control, key), expected)
        return replace(control, tendon_forces=PRELOAD, pretension_n=self.transmission.preload_n)

    def _check_command(self, command: str) -> None:
        if self.limits is not None and isinstance(self.limits, DisplacementLimits) != self.takes_displacements:
            keys = "speed_m_per_s" if self.takes_displacements else "rate_n_per_s"
            expected = f"those of actuators.command: {command}, with {keys} and so on"
            raise refuse("limits", type(self.limits).__name__, expected)

    def _bounds(self) -> Iterator[tuple[str, float, float, float, str]]:
        """Values that other values of the file bound: key, value, least, most, and what is expected."""
        places_m = [(f"strings[{index}].anchor_m", one.anchor_m) for index, one in enumerate(self.strings)]
        places_m += [(f"routed_tendons[{index}].end_m", one.end_m) for index, one in enumerate(self.routed_tendons)]
        for key, place_m in [*places_m, *(("fiber.gratings_m", at) for at in self.gratings_m)]:
            yield key, place_m, 0.0, self.length_m + 1e-12, f"at most the robot's length, {self.length_m:g} m"
        if isinstance(limits := self.limits, TensionLimits):
            for key in ("minimum_n", "safe_n"):
                least_n = float(limits.each(key, self.tendon_count).sum())
                expected = f"at least {least_n:g} N, which {self.tendon_count} tendons at {key} need"
                yield "limits.total_n", limits.total_n, least_n, math.inf, expected
        for number in range(1, self.tendon_count + 1):
            yield from self._tendon_bounds(number)

    def _tendon_bounds(self, number: int) -> Iterator[tuple[str, float, float, float, str]]:
        """As :meth:`_bounds`, for a tendon, from 1."""
        if self.limits is None:
            return
        limits, stated = self.limits.of(number), self.limits.key_of("maximum_n", number)
        stated = f"limits.{stated} = {limits.maximum_n:g} N"
        if self.control is not None:
            yield "control.pretension_n", self.control.pretension_n, 0.0, limits.maximum_n, f"at most {stated}"
        if self.actuators is None:
            return
        actuators = self.actuators.of(number)
        of_tendon = f" of tendon {number}" if self.actuators.tendons else ""
        most_n, most_m_per_s = actuators.maximum_tension_n, actuators.maximum_speed_m_per_s
        expected = f"at most {most_n:.4g} N, which the actuators{of_tendon} give at maximum_current_a"
        yield f"limits.{self.limits.key_of('maximum_n', number)}", limits.maximum_n, 0.0, most_n, expected
        if isinstance(limits, DisplacementLimits):
            expected = f"at most {most_m_per_s:.4g} m/s, which the servo's maximum_speed_rad_per_s makes on the spool"
            for key in ("speed_m_per_s", "pay_out_speed_m_per_s"):
                place = f"limits.{self.limits.key_of(key, number)}"
                yield place, getattr(limits, key), 0.0, most_m_per_s, f"{expected}{of_tendon}"
        if self.stop.braking and actuators.brake_holds_n is not None:
            expected = f"at least {stated}, since stop.{self.stop.braking} relies on the brakes"
            yield "actuators.brake_holds_n", actuators.brake_holds_n, limits.maximum_n, math.inf, expected

    def check_hardware(self) -> None:
        """Refuse a hardware section that does not fit the robot. Robots made from others may keep one that does not."""
        hardware = self.hardware
        if hardware is None:
            return
        if self.actuators is None:
            raise refuse("actuators", None, "the actuators' properties too, since hardware is given")
        hardware.check_motors(self.motor_count, transmission=self.transmission is not None)
        for index, entry in enumerate(hardware.tendon_actuators.motors):
            own = self.actuators.of(entry.number).gear_ratio
            stated = self.actuators.key_of("gear_ratio", entry.number)
            if stated != "gear_ratio" and entry.gear_ratio not in (None, own):
                key = f"hardware.tendon_actuators.motors[{index}].gear_ratio"
                raise refuse(key, entry.gear_ratio, f"{own:g}, as actuators.{stated} says of tendon {entry.number}")
        hardware.check_strings([string.name for string in self.strings])
        if hardware.base_stage is not None and self.base_stage is None:
            raise refuse("hardware.base_stage", hardware.base_stage.kind, "none, or the section base_stage too")
        timeout_s = 0.0 if self.limits is None else self.limits.command_timeout_s
        for key, section in hardware.motor_sections.items():
            if section.receive_timeout_ms <= 1000 * timeout_s:
                expected = f"more than limits.command_timeout_s = {timeout_s:g} s: the driver releases first"
                raise refuse(f"{key}.receive_timeout_ms", section.receive_timeout_ms, expected)

    def _check_reference(self, reference: ReferenceSettings) -> None:
        coordinates = self.coordinate_count
        allowed = (0, coordinates) if reference.kind in ("hold", "csv") else (coordinates,)
        if len(reference.amplitude_m) not in allowed:
            raise refuse("reference.amplitude_m", reference.amplitude_m, f"{coordinates} values, one a coordinate")
        if len(reference.frequency_hz) not in (0, 1, coordinates):
            raise refuse("reference.frequency_hz", reference.frequency_hz, f"1 or {coordinates} values")

    @property
    def construction(self) -> RodConstruction | RollingJoint | EquilibriumModulation:
        """What it is made of: the one place where a rod and a mechanism are distinguished."""
        if self.mechanism is not None:
            return self.mechanism
        return RodConstruction(self)

    @property
    def control_settings(self) -> ControlSettings:
        """Its control section. Raises :class:`ParameterError` where its file has none."""
        if self.control is None:
            raise ParameterError("robot.control", None, f"control settings in the file of robot {self.name!r}")
        return self.control

    @property
    def traits(self) -> Traits:
        """What the stack can do with it, by what it is made of."""
        return self.construction.traits

    @property
    def coordinates_name(self) -> str:
        """What the coordinates are called that its tendons are controlled in."""
        modes = self.traits.without_clarke or (self.control is not None and self.control.modes)
        return "tendon modes" if modes else "Clarke coordinates"

    @property
    def part_names(self) -> tuple[str, ...]:
        """What has gains of its own: segments, tendon modes or pairs of them, or the mechanism's kind."""
        return self.construction.part_names

    def fitted_to(self, sha256: str) -> bool:
        """Whether values of its file were fitted to the data with this SHA-256."""
        return any(fit.sha256 == sha256 for fit in self.provenance)

    def changed(self, **fields: Any) -> Robot:
        """The same robot with other values in some fields, still of its file. Raises :class:`RobotFileError`."""
        robot = replace(self, **fields)
        object.__setattr__(robot, "file_name", self.file_name)
        object.__setattr__(robot, "derived", self.derived)
        return robot

    @property
    def gravity_turns(self) -> bool:
        """Whether gravity in the base frame changes as its stage turns."""
        return self.base_stage is not None and self.base_stage.turns(self.gravity_m_per_s2)

    def on_stage(self, position: ArrayLike) -> Robot:
        """The same robot in the gravity that its base feels where the stage stands; in its base frame all
        else stays.
        """
        if self.base_stage is None:
            raise ParameterError("robot.base_stage", None, f"a stage in the file of robot {self.name!r}")
        return self.changed(gravity_m_per_s2=tuple(self.base_stage.gravity(position, self.gravity_m_per_s2).tolist()))

    @property
    def with_all_coordinates(self) -> Robot:
        """The same robot under control of all its coordinates, for procedures that move and measure every tendon.

        Motors that share tendons can make no others than ``control.modes`` says.
        """
        control = self.control
        if control is None or not control.modes or self.shares_motors:
            return self
        entries = len(self.segments)
        return self.changed(control=replace(control, modes=0, gains=control.gains[:1] * entries), reference=None)

    def carrying(self, payload_kg: float) -> Robot:
        """The same robot with another payload, kg. Raises :class:`ParameterError` for a mechanism: it carries none."""
        if self.mechanism is not None:
            raise ParameterError("payload_kg", payload_kg, f"none: the model of {self.name} has no payload")
        return self.changed(payload_kg=payload_kg)

    @property
    def length_m(self) -> float:
        """Length of the whole backbone, m."""
        return self.construction.length_m

    @property
    def segment_starts_m(self) -> Vector:
        """Arc length of each segment's start from the base, shape (segments,), m."""
        return np.cumsum([0.0, *(segment.length_m for segment in self.segments)])[:-1]

    @property
    def disk_arc_lengths_m(self) -> Vector:
        """Arc length of every disk from the base, shape (disks,), m."""
        return np.concatenate(
            [
                start + segment.disks.positions_m(segment.length_m)
                for start, segment in zip(self.segment_starts_m, self.segments, strict=True)
            ]
        )

    @property
    def gratings_m(self) -> tuple[float, ...]:
        """Arc length of every grating of its fibre, m; empty without one."""
        return () if self.fiber is None else self.fiber.gratings_m

    @property
    def tendon_count(self) -> int:
        """Number of all tendons."""
        return self.construction.tendon_count

    @property
    def motor_count(self) -> int:
        """Number of all motors: one for each tendon, but where a transmission couples them."""
        if self.transmission is None or not self.transmission.matrix:
            return self.tendon_count
        return len(self.transmission.matrix[0])

    @property
    def shares_motors(self) -> bool:
        """Whether there are fewer motors than tendons."""
        return self.motor_count < self.tendon_count

    @property
    def tendon_actuators(self) -> Actuators | None:
        """The actuators with what each tendon has of their inertia and friction: halves where two share a motor."""
        if self.actuators is None or self.transmission is None:
            return self.actuators
        matrix = np.abs(self.transmission.coupling(self.tendon_count))
        # A motor's power and energy over those of its tendons where all move as it winds: q = T y.
        rubs, moves = self.motor_count / matrix.sum(), self.motor_count / (matrix**2).sum()
        return replace(
            self.actuators,
            rotor_inertia_kg_m2=moves * self.actuators.rotor_inertia_kg_m2,
            viscous_friction_nms=moves * self.actuators.viscous_friction_nms,
            coulomb_friction_nm=rubs * self.actuators.coulomb_friction_nm,
            cogging_amplitude_nm=rubs * self.actuators.cogging_amplitude_nm,
        )

    @property
    def tendon_slices(self) -> tuple[slice, ...]:
        """For each segment, or the mechanism, where its tendons stand in an array over all; routed ones come last."""
        return self.construction.tendon_slices

    @property
    def tendon_groups(self) -> dict[str, slice]:
        """Where the tendons of each segment stand in an array over all, and the routed ones; or the mechanism's."""
        slices = self.tendon_slices
        names = [segment.name for segment in self.segments] or [self.traits.kind]
        groups = {name: rows for name, rows in zip(names, slices, strict=True) if rows.stop > rows.start}
        first = max(rows.stop for rows in slices)
        return groups if first == self.tendon_count else {**groups, "routed": slice(first, self.tendon_count)}

    @property
    def tendon_paths(self) -> tuple[RoutedPath, ...]:
        """Path of every tendon of a rod: the segments' in tendon order, then the routed ones."""
        return RodConstruction(self).tendon_paths

    @property
    def tendon_names(self) -> tuple[str, ...]:
        """``<segment>/tendon_<j>`` with j from 1, in tendon order, then the routed ones'; the mechanism's own names."""
        return self.construction.tendon_names

    @property
    def tendon_stiffnesses_n_per_m(self) -> Vector:
        """Of every tendon and its drive, (N,), N/m: as a fit found it, else as the file states it."""
        if self.displaced_tendons is not None:
            return np.array(self.displaced_tendons.stiffness_n_per_m)
        usual = self.tendon_stiffness_n_per_m
        values = np.full(self.tendon_count, usual)
        for rows, segment in zip(self.tendon_slices, self.segments, strict=False):
            values[rows] = segment.tendons.stiffness_n_per_m or usual
        if self.routed_tendons:
            values[-len(self.routed_tendons) :] = [one.stiffness_n_per_m or usual for one in self.routed_tendons]
        return values

    @property
    def takes_displacements(self) -> bool:
        """Whether its actuators are told displacements instead of tensions."""
        return self.actuators is not None and self.actuators.command == DISPLACEMENT

    @property
    def sees_shape(self) -> bool:
        """Whether strings or a fibre measure the shape."""
        return bool(self.strings) or self.fiber is not None

    @property
    def sees_tip(self) -> bool:
        """Whether a tracker measures where the tip of the rod is."""
        return self.hardware is not None and self.hardware.tracker is not None and not self.traits.without_tip_control

    @property
    def tension_limits(self) -> TensionLimits:
        """Its limits. Raises :class:`ParameterError` where it has none, or takes displacements."""
        if not isinstance(self.limits, TensionLimits):
            raise ParameterError("robot.limits", None, f"limits of tensions in the file of robot {self.name!r}")
        return self.limits

    @property
    def displacement_limits(self) -> DisplacementLimits:
        """Its limits. Raises :class:`ParameterError` where it has none, or takes tensions."""
        if not isinstance(self.limits, DisplacementLimits):
            raise ParameterError("robot.limits", None, f"limits of displacements in the file of robot {self.name!r}")
        return self.limits

    @property
    def newton_per_ampere(self) -> Vector:
        """Tension of every tendon for its motor's current, shape (N,), N/A; NaN without actuators.

        As the hardware section states where it has every tendon's motor, else as the actuators say.
        """
        if self.actuators is None:
            return np.full(self.tendon_count, np.nan)
        values = self.actuators.each("newton_per_ampere", self.motor_count)
        motors = () if self.hardware is None else self.hardware.tendon_actuators.motors
        if sorted(entry.number for entry in motors) == list(range(1, self.motor_count + 1)):
            for entry in motors:
                values[entry.number - 1] = entry.newton_per_ampere(self.actuators.of(entry.number))
        return values if self.transmission is None else values[self.transmission.motors(self.tendon_count)]

    @property
    def coordinate_count(self) -> int:
        """Number of coordinates that the tendons control, Clarke's or tendon modes; or the mechanism's."""
        return self.construction.coordinate_count

    @property
    def coefficient_count(self) -> int:
        """Number of strain coefficients of the whole robot, or of values that describe the mechanism's pose."""
        return self.construction.coefficient_count
