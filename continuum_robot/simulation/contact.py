# SPDX-License-Identifier: Apache-2.0
"""What touches the simulated robot: a compliant wall, sphere or tube, a hand that pushes; with friction, at any arc
length.

A contact acts on one location of the backbone, given by arc length or by a disk. For all but pushes the robot's surface
there is a sphere of ``body_radius_m`` around the backbone, or around a point beside it that turns with it, as of a
disk's rim. The normal force goes through the sphere's centre and the friction acts at the surface, so that they have
moments. The wrench on the robot is known exactly, for tests and reports.

The normal force is k d max(1 + a d', 0) for the penetration d (Hunt and Crossley), which is continuous at touch-down
and never pulls; friction is Coulomb's, rounded off below 1 cm/s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.so3 import hat
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.plain_yaml import plain_yaml, read_yaml
from continuum_robot.robot.schema import Source, quantity, read, refuse

Vector = NDArray[np.float64]


KINDS = ("wall", "sphere", "tube", "push")


FRAMES = ("base", "disk")


# Below this speed friction fades out, so that it has a derivative; at a lower one it would need shorter steps.
FRICTION_SPEED_M_PER_S = 0.01


_KEYS = {
    "wall": ("point_m", "normal"),
    "sphere": ("center_m", "sphere_radius_m"),
    "tube": ("mouth_m", "inwards", "inner_radius_m"),
    "push": ("force_n",),
}


class Kinematics(Protocol):
    """What a contact needs of a robot's model; :class:`~continuum_robot.rod.places.RodPlaces` has it."""

    robot: Robot

    def prepare(self, s_m: float) -> None:
        """Make a place quick to ask for, now and not in a step; from any thread."""

    def poses(self, c: ArrayLike, s: ArrayLike) -> Vector:
        """Frames (k, 4, 4) at arc lengths ``s`` (k,), m."""

    def body_jacobian(self, c: ArrayLike, s: float) -> Vector:
        """Jacobian (6, n) of the twist (linear, angular) at arc length ``s`` (m), in the frame's own axes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """One thing that touches the robot at one location."""

    name: str = quantity("name, unique among the contacts", filled=True)
    kind: str = quantity("what it is", choices=KINDS)
    arc_length_m: float | None = quantity("where on the robot, from the base", "m", default=None, ge=0, le=100)
    disk: int | None = quantity("number of the touched disk from the base, instead", "", default=None, ge=1, le=10000)
    point_m: tuple[float, ...] | None = quantity(
        "wall: a point of its surface in the base frame", "m", default=None, length=3, ge=-100, le=100
    )
    normal: tuple[float, ...] | None = quantity(
        "wall: direction out of it in the base frame, of any length", "", default=None, length=3, ge=-1e6, le=1e6
    )
    center_m: tuple[float, ...] | None = quantity(
        "sphere: centre in the base frame", "m", default=None, length=3, ge=-100, le=100
    )
    sphere_radius_m: float | None = quantity("sphere: radius", "m", default=None, gt=0, le=100)
    mouth_m: tuple[float, ...] | None = quantity(
        "tube: centre of its mouth in the base frame; it is a straight hole in a wall", "m",
        default=None, length=3, ge=-100, le=100,
    )  # fmt: skip
    inwards: tuple[float, ...] | None = quantity(
        "tube: direction into it in the base frame, of any length", "", default=None, length=3, ge=-1e6, le=1e6
    )
    inner_radius_m: float | None = quantity("tube: radius of the hole", "m", default=None, gt=0, le=100)
    force_n: tuple[float, ...] | None = quantity("push: force", "N", default=None, length=3, ge=-1e5, le=1e5)
    frame: str = quantity("push: frame of the force", default="base", choices=FRAMES)
    ramp_s: float = quantity("push: time in which it rises, and falls at the end", "s", default=0.1, ge=0, le=1000)
    body_radius_m: float = quantity(
        "distance of the robot's surface from the backbone there", "m", default=0.0, ge=0, le=1
    )
    body_point_m: tuple[float, ...] = quantity(
        "what is touched instead of the backbone, in its frame there: a point of a disk's rim, the centre of a sphere",
        "m",
        default=(0.0, 0.0, 0.0),
        length=3,
        ge=-1,
        le=1,
    )
    stiffness_n_per_m: float = quantity("stiffness of the contact", "N/m", default=5000.0, gt=0, le=1e5)
    dissipation_s_per_m: float = quantity(
        "fraction by which the normal force grows with the speed of penetration", "s/m", default=2.0, ge=0, le=100
    )
    friction_coefficient: float = quantity("Coulomb friction on the surface", "", default=0.0, ge=0, le=5)
    start_s: float = quantity("time at which it appears", "s", default=0.0, ge=0, le=1e6)
    end_s: float | None = quantity("time at which it is gone; none: it stays", "s", default=None, gt=0, le=1e6)

    def __post_init__(self) -> None:
        if (self.arc_length_m is None) == (self.disk is None):
            raise refuse("arc_length_m", self.arc_length_m, "either arc_length_m or disk")
        for kind, keys in _KEYS.items():
            for key in keys:
                if (getattr(self, key) is None) == (kind == self.kind):
                    expected = (
                        f"this key, as kind is {kind}" if kind == self.kind else f"nothing, as kind is {self.kind}"
                    )
                    raise refuse(key, getattr(self, key), expected)
        for key in ("normal", "inwards"):
            direction = getattr(self, key)
            if direction is not None and not np.linalg.norm(direction) > 0:
                raise refuse(key, direction, "a direction, not zero")
        if self.end_s is not None and self.end_s <= self.start_s:
            raise refuse("end_s", self.end_s, f"later than start_s = {self.start_s:g} s")

    def location_m(self, robot: Robot) -> float:
        """Arc length of the contact from the base, m."""
        if self.disk is not None:
            locations = robot.disk_arc_lengths_m
            if self.disk > len(locations):
                raise ParameterError(f"disk of contact {self.name}", self.disk, f"1 to {len(locations)}")
            return float(locations[self.disk - 1])
        arc_length_m = 0.0 if self.arc_length_m is None else self.arc_length_m
        if arc_length_m > robot.length_m * (1 + 1e-9):
            raise ParameterError(f"arc_length_m of contact {self.name}", arc_length_m, f"at most {robot.length_m:g} m")
        return min(arc_length_m, robot.length_m)

    @property
    def law(self) -> tuple[float, float, float]:
        """Stiffness (N/m), dissipation (s/m) and friction coefficient."""
        return self.stiffness_n_per_m, self.dissipation_s_per_m, self.friction_coefficient

    def presence(self, time_s: float) -> float:
        """How much of it is there at a time, in [0, 1]."""
        if time_s < self.start_s or (self.end_s is not None and time_s >= self.end_s):
            return 0.0
        if self.kind != "push" or self.ramp_s == 0:
            return 1.0
        rise = (time_s - self.start_s) / self.ramp_s
        fall = np.inf if self.end_s is None else (self.end_s - time_s) / self.ramp_s
        return float(min(rise, fall, 1.0))

    def load(self, model: Kinematics, c: ArrayLike, c_rate: ArrayLike, time_s: float) -> ContactLoad:
        """What the robot feels of it."""
        s_m = self.location_m(model.robot)
        touch = _Touch.at(self, model.poses(c, [s_m])[0], model.body_jacobian(c, s_m))
        rate = np.asarray(c_rate, dtype=float)
        return touch.load(s_m, touch.gap_m, rate, self.presence(time_s))

    def generalized_force(self, model: Kinematics, c: ArrayLike, c_rate: ArrayLike, time_s: float) -> Vector:
        """Its force on the strain coefficients, (n,), N.m^2; arguments as for :meth:`load`."""
        s_m = self.location_m(model.robot)
        return model.body_jacobian(c, s_m).T @ self.load(model, c, c_rate, time_s).wrench_in_disk


@dataclass(frozen=True, slots=True)
class ContactLoad:
    """The truth about one contact at one moment."""

    name: str
    arc_length_m: float
    touching: bool
    wrench_in_disk: Vector
    force_in_base_n: Vector
    penetration_m: float
    point_m: Vector | None = None


def contact_force(gap: float, gap_rate: float, slip: Vector, law: tuple[float, float, float]) -> tuple[float, Vector]:
    """Normal force and friction of what gives way."""
    stiffness, dissipation, friction = law
    normal = stiffness * max(-gap, 0.0) * max(1 - dissipation * gap_rate, 0.0)
    speed = math.sqrt(slip[0] ** 2 + slip[1] ** 2 + FRICTION_SPEED_M_PER_S**2)
    return normal, -(friction * normal / speed) * slip


@dataclass(frozen=True, slots=True)
class _Touch:
    """Geometry of a contact at one shape of the robot."""

    contact: Contact
    rotation: Vector  # of the backbone's frame
    gap_m: float
    normal: Vector  # on the robot, base frame
    tangents: Vector  # (2, 3), base frame
    arm: Vector  # from the backbone to the touched surface, base frame, m
    gap_gradient: Vector  # (n,)
    slip_jacobian: Vector  # (2, n)

    @classmethod
    def at(cls, contact: Contact, pose: Vector, jacobian: Vector) -> _Touch:
        rotation = pose[:3, :3]
        beside = rotation @ contact.body_point_m
        position = pose[:3, 3] + beside
        normal, gap_m = np.array([0.0, 0.0, 1.0]), np.inf
        if contact.normal is not None and contact.point_m is not None:
            normal = np.array(contact.normal) / np.linalg.norm(contact.normal)
            gap_m = float(normal @ (position - contact.point_m)) - contact.body_radius_m
        elif contact.center_m is not None and contact.sphere_radius_m is not None:
            apart = position - contact.center_m
            distance = float(np.linalg.norm(apart))
            normal = apart / distance if distance > 0 else rotation[:, 0]
            gap_m = distance - contact.sphere_radius_m - contact.body_radius_m
        elif contact.mouth_m is not None and contact.inwards is not None and contact.inner_radius_m is not None:
            normal, distance = _from_tube(position - contact.mouth_m, np.array(contact.inwards), contact.inner_radius_m)
            gap_m = distance - contact.body_radius_m
        across = hat(normal)
        first = across[:, np.argmin(np.abs(normal))]
        first = first / math.sqrt(first @ first)
        tangents = np.array([first, across @ first])
        radius_m = 0.0 if contact.kind == "push" else contact.body_radius_m
        arm = beside - radius_m * normal
        linear, angular = rotation @ jacobian[:3], rotation @ jacobian[3:]
        surface = linear - hat(arm) @ angular
        nearer = normal @ (linear - hat(beside) @ angular)
        return cls(contact, rotation, float(gap_m), normal, tangents, arm, nearer, tangents @ surface)

    def load(self, s_m: float, gap_m: float, c_rate: Vector, presence: float) -> ContactLoad:
        contact, arm = self.contact, self.arm
        if contact.force_n is not None:
            force = presence * np.array(contact.force_n)
            if contact.frame == "disk":
                force = self.rotation @ force
            penetration_m = 0.0
        elif presence > 0 and gap_m < 0:
            normal, friction = contact_force(
                gap_m,
                float(self.gap_gradient @ c_rate),
                self.slip_jacobian @ c_rate,
                contact.law,
            )
            force = normal * self.normal + friction @ self.tangents
            penetration_m = -gap_m
        else:
            force, penetration_m = np.zeros(3), 0.0
        wrench = np.concatenate([self.rotation.T @ force, self.rotation.T @ (hat(arm) @ force)])
        return ContactLoad(contact.name, s_m, bool(np.any(force)), wrench, force, float(penetration_m))


def _from_tube(apart: Vector, inwards: Vector, radius_m: float) -> tuple[Vector, float]:
    """Direction away from a wall with a hole at a place ``apart`` from the mouth, and how far away it is, m."""
    axis = inwards / np.linalg.norm(inwards)
    depth_m = float(axis @ apart)
    across = apart - depth_m * axis
    off_axis_m = float(np.linalg.norm(across))
    if off_axis_m == 0:  # any direction across
        across = hat(axis)[np.argmin(np.abs(axis))]
    outwards = across / np.linalg.norm(across)
    to_hole_m = off_axis_m - radius_m
    if to_hole_m < 0 and depth_m < 0:  # before the mouth, whose rim is nearest
        from_rim = to_hole_m * outwards + depth_m * axis
        distance = math.hypot(to_hole_m, depth_m)
        return from_rim / distance, distance
    if to_hole_m < 0 or 0 <= to_hole_m < depth_m:
        return -outwards, -to_hole_m
    return -axis, -depth_m


class PlantContacts:
    """Contacts as the plant integrates them.

    At the start of each step the geometry (gap, normal, Jacobians) is taken at the shape of that moment; within it the
    gap changes linearly with the strain coefficients, so that stiffness, dissipation and friction are part of the
    equations that are solved (rod/kernel/plant.hpp) and not a force that lags behind.
    """

    def __init__(self, robot: Robot, contacts: Sequence[Contact], *, size: int | None = None) -> None:
        self.contacts = tuple(contacts)
        self.locations_m = tuple(contact.location_m(robot) for contact in self.contacts)
        self._n = robot.coefficient_count if size is None else size
        self._compliant = [index for index, contact in enumerate(self.contacts) if contact.kind != "push"]
        self.surface_count = len(self._compliant)
        self._slot = 4 + 3 * self._n
        self.size = self._n + len(self._compliant) * self._slot if self.contacts else 0

    def parameters(self, model: Kinematics, c: Vector, c_rate: Vector, time_s: float) -> tuple[Vector, Vector]:
        """For a step from the state ``c``: c and of all but pushes gap (m), law, gradient of the gap (n,) and of the
        slip (2, n); and the pushes' force (n,).
        """
        values, push = [c], np.zeros(self._n)
        for contact, s_m in zip(self.contacts, self.locations_m, strict=True):
            presence = contact.presence(time_s)
            if presence == 0:
                if contact.kind != "push":
                    values.append(np.zeros(self._slot))
                continue
            jacobian = model.body_jacobian(c, s_m)
            touch = _Touch.at(contact, model.poses(c, [s_m])[0], jacobian)
            if contact.kind == "push":
                push += jacobian.T @ touch.load(s_m, touch.gap_m, c_rate, presence).wrench_in_disk
                continue
            values += [np.array([touch.gap_m, *contact.law]), touch.gap_gradient, touch.slip_jacobian.reshape(-1)]
        return np.concatenate(values), push

    def surfaces(self, parameters: Vector) -> Iterator[tuple[float, tuple[float, float, float], Vector, Vector]]:
        """Of all but pushes gap (m), law, gradient of the gap (n,) and Jacobian of the slip (2, n).

        The law is that of :attr:`Contact.law`, all zeros where the contact is not there.
        """
        for k in range(len(self._compliant)):
            slot = parameters[self._n + k * self._slot :][: self._slot]
            gap, stiffness, dissipation, friction = (float(value) for value in slot[:4])
            law = (stiffness, dissipation, friction)
            yield gap, law, slot[4 : 4 + self._n], slot[4 + self._n :].reshape(2, self._n)

    def loads(self, model: Kinematics, c: Vector, c_rate: Vector, time_s: float) -> tuple[ContactLoad, ...]:
        """The truth about every contact."""
        absent = (False, np.zeros(6), np.zeros(3), 0.0)
        return tuple(
            contact.load(model, c, c_rate, time_s)
            if contact.presence(time_s) > 0
            else ContactLoad(contact.name, s_m, *absent)
            for contact, s_m in zip(self.contacts, self.locations_m, strict=True)
        )


def parse_contacts(text: str, robot: Robot, file: Path | str | None = None) -> tuple[Contact, ...]:
    """Read contacts from YAML text: a mapping with the key ``contacts``, a list."""
    path = None if file is None else Path(file)
    mapping, lines = plain_yaml(text, path)
    source = Source(path, lines)
    found: ContactList = read(ContactList, mapping, source)
    for index, contact in enumerate(found.contacts):
        try:
            contact.location_m(robot)
        except ParameterError as error:
            key = "arc_length_m" if contact.disk is None else "disk"
            raise source.error(f"contacts[{index}].{key}", getattr(contact, key), error.expected) from None
    return found.contacts


def load_contacts(file: Path | str, robot: Robot) -> tuple[Contact, ...]:
    """Read a file of contacts; arguments and errors as for :func:`parse_contacts`."""
    path = Path(file)
    return parse_contacts(read_yaml(path, "contact file"), robot, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactList:
    """What a contact file holds."""

    contacts: tuple[Contact, ...] = quantity("what touches the robot")

    def __post_init__(self) -> None:
        names = [contact.name for contact in self.contacts]
        if len(set(names)) != len(names):
            raise refuse("contacts", names, "a different name for each contact")
