# SPDX-License-Identifier: Apache-2.0
"""A published shape of a tendon-driven robot, judged by two engines that share no mechanics.

One is the rod's energy over strain functions, the other the boundary-value problem of rod/cosserat. The publication is
in a YAML file: its robot, its loads, its result and the tolerance; those of config/published are shipped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root

from continuum_robot.errors import ConvergenceError, RobotFileError
from continuum_robot.experiments.rucker.two_solvers import Answers, solve_both
from continuum_robot.geometry import so3
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.parts import VERSION
from continuum_robot.robot.file.plain_yaml import plain_yaml, read_yaml, yaml_text
from continuum_robot.robot.loading import load_robot, parse_robot
from continuum_robot.robot.schema import Source, quantity, read, refuse
from continuum_robot.robot.traits import ROD
from continuum_robot.rod.cosserat.description import cosserat_rod
from continuum_robot.rod.cosserat.statics import CosseratSolution, solve
from continuum_robot.rod.description import RodDescription
from continuum_robot.rod.loads import FRAMES, PointWrench
from continuum_robot.rod.rod import Rod

Vector = NDArray[np.float64]

ORDER = 8
"""Of all strains: what the robot's own basis leaves out is no error of the publication."""
AGREEMENT = 0.1
"""Fraction of the tolerance, or of the published result's error, within which the engines have to agree."""
_LENGTH_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Publication:
    """Where the result was published."""

    authors: str = quantity("who published it", filled=True)
    year: int = quantity("year of publication", ge=1690, le=2200)
    title: str = quantity("title of the paper or repository", filled=True)
    where: str = quantity("table, figure, section or file, and the commit of a repository", filled=True)
    link: str = quantity("DOI or address", filled=True)


def _refuse_nothing(key: str, values: Sequence[float | None]) -> None:
    if values and not any(one is not None for one in values):
        raise refuse(key, list(values), "a number among them, or no such key")


@dataclass(frozen=True, kw_only=True)
class PublishedWrench:
    """A force and a moment on the backbone."""

    s_m: float = quantity("arc length from the base", ge=0, le=100)
    force_n: tuple[float, ...] = quantity("force", default=(0.0, 0.0, 0.0), length=3)
    moment_nm: tuple[float, ...] = quantity("moment", default=(0.0, 0.0, 0.0), length=3)
    frame: str = quantity("axes that they keep: base, or body, which turns", default="base", choices=FRAMES)


@dataclass(frozen=True, kw_only=True)
class PublishedLoad:
    """What acts besides the weight that the robot's gravity and masses make."""

    tensions_n: tuple[float, ...] = quantity("tension of each tendon; none: none is pulled", default=(), ge=0)
    displacements_m: tuple[float | None, ...] = quantity(
        "how far each tendon is pulled in; null: it is slack. Instead of tensions", default=(), ge=-10, le=10
    )
    tendon_stiffness_n_per_m: float | None = quantity(
        "of tendons with displacements; none: they do not stretch", default=None, gt=0
    )
    wrenches: tuple[PublishedWrench, ...] = quantity("on the backbone", default=())

    def __post_init__(self) -> None:
        if self.tensions_n and self.displacements_m:
            raise refuse("displacements_m", list(self.displacements_m), "tensions or displacements, not both")
        _refuse_nothing("displacements_m", self.displacements_m)
        if self.tendon_stiffness_n_per_m is not None and not self.displacements_m:
            raise refuse("tendon_stiffness_n_per_m", self.tendon_stiffness_n_per_m, "displacements_m beside it")


@dataclass(frozen=True, kw_only=True)
class PublishedPoint:
    """A point of the backbone."""

    s_m: float = quantity("arc length from the base", ge=0, le=100)
    position_m: tuple[float | None, ...] = quantity("its position; null: not published", length=3)

    def __post_init__(self) -> None:
        _refuse_nothing("position_m", self.position_m)


@dataclass(frozen=True, kw_only=True)
class PublishedResult:
    """What was published, in the base frame of the robot file: z along the backbone at its clamped end."""

    tip_m: tuple[float | None, ...] = quantity("position of the tip; null: not published", default=(), length=3)
    tip_rotation_rad: tuple[float, ...] = quantity("rotation vector of the tip", default=(), length=3)
    tip_deflection_m: float | None = quantity("distance of the tip from where it is without any load", default=None)
    backbone: tuple[PublishedPoint, ...] = quantity("points of the backbone", default=())
    tensions_n: tuple[float | None, ...] = quantity("tensions; null: not published", default=())
    tolerance_m: float | None = quantity("largest error of a position", default=None, gt=0)
    tolerance_rad: float | None = quantity("largest error of the rotation", default=None, gt=0)
    tolerance_n: float | None = quantity("largest error of a tension", default=None, gt=0)
    tolerance_from: str = quantity("why these tolerances", filled=True)

    def __post_init__(self) -> None:
        _refuse_nothing("tip_m", self.tip_m)
        _refuse_nothing("tensions_n", self.tensions_n)
        lengths = bool(self.tip_m or self.backbone or self.tip_deflection_m is not None)
        for name, given in (("m", lengths), ("rad", bool(self.tip_rotation_rad)), ("n", bool(self.tensions_n))):
            if given != (getattr(self, f"tolerance_{name}") is not None):
                expected = "this key for what is published" if given else f"a published result in {name} beside it"
                raise refuse(f"tolerance_{name}", getattr(self, f"tolerance_{name}"), expected)
        if not (lengths or self.tip_rotation_rad or self.tensions_n):
            raise refuse("", None, "one of tip_m, tip_rotation_rad, tip_deflection_m, backbone, tensions_n")


@dataclass(frozen=True, kw_only=True)
class PublishedFile:
    """The keys of a file, but ``robot``: a robot file's name or its sections."""

    source: Publication = quantity("where it was published")
    assumptions: str = quantity("model of the publication, as far as it differs from none here", default="")
    load: PublishedLoad = quantity("what acts on the robot", factory=PublishedLoad)
    published: PublishedResult = quantity("what was published")
    cause: str = quantity("why the result does not hold, as far as known", default="")


@dataclass(frozen=True)
class Published:
    """A publication with its robot."""

    stated: PublishedFile
    robot: Robot


@dataclass(frozen=True, slots=True)
class Row:
    """A published number, or vector, and what the engines make of it; NaN for what was not published."""

    name: str
    unit: str
    tolerance: float
    published: Vector
    rod: Vector
    cosserat: Vector

    @property
    def errors(self) -> tuple[float, float, float]:
        """Of the published value against rod and Cosserat, and of the two against each other."""
        pairs = (self.published, self.rod), (self.published, self.cosserat), (self.rod, self.cosserat)
        known = np.isfinite(self.published)
        return tuple(float(np.linalg.norm((a - b)[known])) for a, b in pairs)  # type: ignore[return-value]


@dataclass(frozen=True)
class Judgement:
    """What became of a publication."""

    rows: tuple[Row, ...]
    answers: Answers
    stable: bool

    @property
    def worst(self) -> Row:
        """The row that decides: that of the largest error against its tolerance."""
        return max(self.rows, key=lambda row: max(row.errors[:2]) / row.tolerance)

    @property
    def agree(self) -> bool:
        """Whether the engines agree much better than what is judged."""
        return all(row.errors[2] <= AGREEMENT * max(row.tolerance, *row.errors[:2]) for row in self.rows)

    @property
    def holds(self) -> bool:
        """Whether the engines agree, and with the publication."""
        return self.agree and all(max(row.errors[:2]) <= row.tolerance for row in self.rows)


def load_published(file: Path) -> Published:
    """Read a file; RobotFileError names file, line, key, value and what is allowed."""
    values, lines = plain_yaml(read_yaml(file, "published result"), file)
    source = Source(file, lines)
    if not isinstance(values, dict) or "robot" not in values:
        raise source.error("robot", None, "this key: a robot file, the name of a shipped robot, or its sections")
    robot = _robot(values.pop("robot"), file, source)
    stated: PublishedFile = read(PublishedFile, values, source)
    if robot.traits.kind != ROD or robot.displaced_tendons is not None:
        raise source.error("robot", robot.name, "a robot with a backbone, without mechanism and displaced_tendons")
    count = len(RodDescription.of_robot(robot).tendon_paths)
    for key, one in (
        ("load.tensions_n", stated.load.tensions_n),
        ("load.displacements_m", stated.load.displacements_m),
        ("published.tensions_n", stated.published.tensions_n),
    ):
        if one and len(one) != count:
            raise source.error(key, list(one), f"{count} values, one a tendon of {robot.name}")
    places = {f"load.wrenches[{index}].s_m": one.s_m for index, one in enumerate(stated.load.wrenches)}
    places |= {f"published.backbone[{index}].s_m": one.s_m for index, one in enumerate(stated.published.backbone)}
    for key, place_m in places.items():
        if place_m > robot.length_m:
            raise source.error(key, place_m, f"at most the length, {robot.length_m:g} m")
    return Published(stated, robot)


def _robot(given: Any, file: Path, source: Source) -> Robot:
    try:
        if isinstance(given, Mapping):
            return parse_robot(yaml_text({"schema_version": VERSION, **given}), file)
        beside = file.parent / str(given)
        return load_robot(beside if beside.is_file() else str(given))
    except RobotFileError as error:
        if isinstance(given, Mapping):
            raise source.error(f"robot.{error.key}", error.value, error.expected) from error
        raise source.error("robot", given, str(error) if error.key else error.expected) from error


def judge(case: Published) -> Judgement:
    """Solve a publication's case by both engines; ConvergenceError where one finds no equilibrium."""
    description, load = RodDescription.of_robot(case.robot), case.stated.load
    basis = Basis(kind="chebyshev", bending_order=ORDER, torsion_order=ORDER, shear_order=ORDER, extension_order=ORDER)
    description = replace(description, segments=tuple(replace(one, basis=basis) for one in description.segments))
    loads = [PointWrench(**vars(one)) for one in load.wrenches]
    if load.displacements_m:
        answers = _held(description, load, loads)
    else:
        answers = solve_both(description, load.tensions_n or np.zeros(len(description.tendon_paths)), loads)
    if answers.cosserat is None or answers.energy is None:
        raise ConvergenceError("; ".join(answers.problems), math.nan, 0.0, 0)
    rows = tuple(_rows(case.stated.published, answers.rod, answers.energy, answers.cosserat))
    return Judgement(rows, answers, answers.energy.stable and answers.cosserat.stable is not False)


def _held(description: RodDescription, load: PublishedLoad, loads: Sequence[PointWrench]) -> Answers:
    """Both engines with tendons of known displacement; the boundary-value problem finds their tensions by itself."""
    rod, judge_rod = Rod(description, loads=loads), cosserat_rod(description)
    spooled = np.array([math.nan if one is None else one for one in load.displacements_m])
    held = np.isfinite(spooled)
    stiffness = load.tendon_stiffness_n_per_m or math.inf
    energy = rod.equilibrium(stiffness=np.where(held, stiffness, 0.0), spooled=np.where(held, spooled, 0.0))
    taut = energy.taut & held
    solution: CosseratSolution | None = None

    def stretched(tension: Vector) -> Vector:
        """How much longer each held tendon is than it should be, over the length of the rod."""
        nonlocal solution
        pulls = np.zeros(len(held))
        pulls[taut] = np.maximum(tension, 0.0)
        solution = solve(judge_rod, pulls, loads, start=solution)
        return np.asarray((spooled - rod.rest_m + solution.tendon_lengths_m - pulls / stiffness)[held] / rod.length_m)

    found = root(lambda tension: stretched(tension)[taut[held]], energy.tension[taut], tol=_LENGTH_TOLERANCE)
    left = stretched(found.x)
    left[~taut[held]] = np.maximum(left[~taut[held]], 0.0)  # a slack tendon may be longer than it has to be
    if (worst := float(np.abs(left).max())) > 10 * _LENGTH_TOLERANCE:
        limit = 10 * _LENGTH_TOLERANCE
        raise ConvergenceError(
            "tensions of the boundary-value problem for these displacements", worst, limit, found.nfev
        )
    return Answers(rod, solution, energy, ())


def _rows(stated: PublishedResult, rod: Rod, energy: Any, cosserat: CosseratSolution) -> Iterator[Row]:
    tip, other = rod.poses(energy.c, [rod.length_m])[0], (cosserat.tip_m, cosserat.tip_rotation)
    if stated.tip_m:
        yield Row("tip", "m", stated.tolerance_m or 0.0, _vector(stated.tip_m), tip[:3, 3], other[0])
    if stated.tip_rotation_rad:
        published = so3.exp(np.array(stated.tip_rotation_rad))
        turns = [so3.log(published.T @ one) for one in (tip[:3, :3], other[1])]
        # Each as the published vector and what is left to it, so that differences are turns.
        vector = _vector(stated.tip_rotation_rad)
        yield Row("tip rotation", "rad", stated.tolerance_rad or 0.0, vector, vector + turns[0], vector + turns[1])
    if stated.tip_deflection_m is not None:
        rest = rod.poses(np.zeros(rod.n), [rod.length_m])[0, :3, 3]
        moved = [np.array([np.linalg.norm(place - rest)]) for place in (tip[:3, 3], other[0])]
        yield Row("tip deflection", "m", stated.tolerance_m or 0.0, _vector([stated.tip_deflection_m]), *moved)
    for point in stated.backbone:
        place = rod.poses(energy.c, [point.s_m])[0, :3, 3], cosserat.at([point.s_m]).position_m[0]
        yield Row(f"s = {point.s_m:g} m", "m", stated.tolerance_m or 0.0, _vector(point.position_m), *place)
    if stated.tensions_n:
        both = energy.tension, cosserat.problem.tension_n
        yield Row("tensions", "N", stated.tolerance_n or 0.0, _vector(stated.tensions_n), *both)


def _vector(values: Sequence[float | None]) -> Vector:
    return np.array([math.nan if one is None else one for one in values])
