# SPDX-License-Identifier: Apache-2.0
"""An obstacle on the way, and what the robot does about it: nothing, hold, retract, or give way.

The robot bends towards a wall, hard or soft, that touches it at one of five places, at three speeds. What it feels
comes from the shape estimator and the contact monitor, which learned its floor from the same motions without a wall;
the reaction is :class:`~continuum_robot.control.contact_reaction.ContactReaction`, with the defaults of the robot file.
The peak force is the largest true force on the wall, and the ratios are means over the cases of that with a reaction
over that without.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.contact_reaction import ContactReaction, ContactSense
from continuum_robot.control.references import ClarkeReference
from continuum_robot.estimation.contact_monitor import ContactMonitor
from continuum_robot.estimation.contact_states import BLIND, ContactEstimate
from continuum_robot.estimation.free_motion import Floor
from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.experiments.experiment import OF_COGGING, Experiment, Progress, Result
from continuum_robot.experiments.plotting import COLOURS, figure, legend_below
from continuum_robot.experiments.virtual_stack import VirtualStack
from continuum_robot.models.making import robot_model
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.reaction_settings import COMPLY, HOLD, IGNORE, RETRACT, ReactionSettings
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.tendon_modes import coefficients_from_clarke, controlled_manifold
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.plants import PLANTS
from continuum_robot.simulation.string_encoder_device import SimulatedStringEncoders

Array = NDArray[np.float64]

STRATEGIES = (IGNORE, HOLD, RETRACT, COMPLY)
_STEP_S, _SETTLE_S, _AFTER_S = 0.01, 1.5, 1.5


@dataclass(frozen=True, kw_only=True)
class ReactionCases:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, a rod with actuators, limits and control", default="vanderbilt_segment")
    plants: tuple[str, ...] = quantity("what is simulated", default=tuple(PLANTS), choices=tuple(PLANTS))
    amplitude_m: float = quantity("how far the robot is to bend, Clarke coordinates", "m", default=0.05, gt=0, le=1)
    touch: float = quantity("fraction of that at which it touches", default=0.3, gt=0, lt=1)
    places: tuple[float, ...] = quantity(
        "of the wall, fractions of the length", default=(0.4, 0.55, 0.7, 0.85, 1.0), gt=0, le=1
    )
    speeds_m_per_s: tuple[float, ...] = quantity(
        "of the motion, Clarke coordinates", "m/s", default=(0.01, 0.02, 0.04), gt=0, le=10
    )
    stiffnesses_n_per_m: tuple[float, ...] = quantity("of the wall", "N/m", default=(2000.0, 20000.0), gt=0, le=1e5)
    seed: int = quantity("of the rotors' angles and the noise", default=1, ge=0, le=2**31)


@dataclass(frozen=True)
class Case:
    """A wall: where it touches, as a fraction of the length, how stiff it is, N/m, and how fast the robot comes, m/s.

    Attributes
    ----------
    place : fraction of the length
    stiffness_n_per_m : of the wall, N/m
    speed_m_per_s : Clarke coordinates, m/s
    """

    place: float
    stiffness_n_per_m: float
    speed_m_per_s: float


@dataclass(frozen=True)
class Run:
    """What came of a case.

    Attributes
    ----------
    peak_n : largest force on the wall, N
    falling_s : from touch to the first time at which the force has fallen to nine tenths of its peak, s
    felt_s : from touch to the report, s; NaN where it was not felt
    given_up_m : largest distance of the reference from the one asked for, Clarke coordinates, m
    time_s, force_n : of the force over time, shape (T,), s and N
    """

    peak_n: float
    falling_s: float
    felt_s: float
    given_up_m: float
    time_s: Array
    force_n: Array


class Bend:
    """From straight to a bend along the first coordinate, from rest to rest by a quintic.

    Parameters
    ----------
    count : of coordinates
    amplitude_m : of the first one, m
    speed_m_per_s : in its middle, m/s
    """

    def __init__(self, count: int, amplitude_m: float, speed_m_per_s: float) -> None:
        self._end = amplitude_m * np.eye(count)[0]
        self.duration_s = 1.875 * amplitude_m / speed_m_per_s

    def at(self, time_s: float) -> ClarkeReference:
        """The reference at a time, s, since its begin."""
        x, of = min(max(time_s / self.duration_s, 0.0), 1.0), self.duration_s
        return ClarkeReference(
            self._end * x**3 * (10 - 15 * x + 6 * x * x),
            self._end * (30 * x * x * (1 - x) ** 2 / of),
            self._end * (60 * x * (1 - x) * (1 - 2 * x) / of**2),
        )


class Sensing:
    """What the stack feels a hundred times a second: the shape, and contacts.

    Parameters
    ----------
    robot : as known
    progress : told what is compiled
    """

    def __init__(self, robot: Robot, progress: Progress) -> None:
        self.robot = robot
        self.monitor = ContactMonitor(robot, motors=True, progress=progress)
        self._shape = robot_model(robot).shape_estimator(WatchSettings(unknown_s=0.5, noise_m=1e-4))
        self._onto = coefficients_from_clarke(robot)
        self._stack: VirtualStack | None = None
        self._strings: SimulatedStringEncoders | None = None

    def begin(self, stack: VirtualStack, floor: Floor | None, seed: int) -> None:
        """Feel another robot.

        Parameters
        ----------
        stack : of the robot
        floor : what the monitor knows of free motion
        seed : of the strings' noise
        """
        self._stack = stack
        self._shape.reset()
        self.monitor.reset()
        if floor is not None:
            self.monitor.use_floor(floor)
        if self.robot.strings:
            source, rng = stack.actuators.string_source, np.random.default_rng([seed, 1])
            self._strings = SimulatedStringEncoders(self.robot, source, rng=rng)
            self._strings.open()

    def feel(self) -> ContactEstimate | None:
        """A turn; None while there is no reading."""
        stack = self._stack
        reading = None if stack is None else stack.loop.reading
        if stack is None or reading is None:
            return None
        extension = None if self._strings is None else self._strings.read(stack.now_s).extension_m
        shape = self._shape.update(
            reading.displacement_m, reading.velocity_m_per_s, extension, _STEP_S, reading.tension_n
        )
        size = self.robot.coefficient_count
        rates = slice(size, 2 * size)
        return self.monitor.update(
            shape.coefficients,
            shape.coefficient_rates,
            shape.covariance,
            _STEP_S,
            tension=reading.tension_n,
            c_rate_covariance=None if shape.motion is None else shape.motion.covariance[rates, rates],
        )

    def sense(self, estimate: ContactEstimate) -> ContactSense:
        """What the reaction needs of an estimate.

        Parameters
        ----------
        estimate : of the monitor
        """
        blind = estimate.reason if estimate.state == BLIND else ""
        return ContactSense(estimate.in_contact, self._onto.T @ estimate.residual, blind)


def cases(settings: ReactionCases) -> Iterator[Case]:
    """All of them.

    Parameters
    ----------
    settings : of the experiment
    """
    for place in settings.places:
        for stiffness in settings.stiffnesses_n_per_m:
            for speed in settings.speeds_m_per_s:
                yield Case(place, stiffness, speed)


def wall(robot: Robot, case: Case, settings: ReactionCases) -> Contact:
    """The wall of a case: across the way that its place takes, where the model has it at the touch.

    Parameters
    ----------
    robot : as known
    case : which
    settings : of the motion
    """
    drawing, arc_length_m = robot_model(robot).drawing(), case.place * robot.length_m

    def place_m(fraction: float) -> Array:
        clarke = fraction * settings.amplitude_m * np.eye(robot.coordinate_count)[0]
        return np.asarray(drawing.pose(drawing.coefficients(clarke), arc_length_m)[:3, 3])

    way = place_m(settings.touch + 0.01) - place_m(settings.touch)
    return Contact(
        name="wall",
        kind="wall",
        arc_length_m=arc_length_m,
        point_m=tuple(float(value) for value in place_m(settings.touch)),
        normal=tuple(float(value) for value in -way / np.linalg.norm(way)),
        stiffness_n_per_m=case.stiffness_n_per_m,
    )


class _Rig:
    """A kind of plant with what feels it."""

    def __init__(self, robot: Robot, kind: str, settings: ReactionCases, progress: Progress) -> None:
        self.robot, self.kind, self.settings = robot, kind, settings
        self.sensing = Sensing(robot, progress)
        self.manifold = controlled_manifold(robot)
        self.floor: Floor | None = None

    def learn(self) -> None:
        """The floor of free motion, from all motions without a wall."""
        monitor = self.sensing.monitor
        monitor.use_floor(None)
        monitor.learn_floor(True)
        for speed in self.settings.speeds_m_per_s:
            self._move(None, speed, IGNORE)
        monitor.learn_floor(False)
        self.floor = monitor.floor

    def run(self, case: Case, strategy: str) -> Run:
        """A case under a strategy."""
        return self._move(wall(self.robot, case, self.settings), case.speed_m_per_s, strategy)

    def _move(self, obstacle: Contact | None, speed_m_per_s: float, strategy: str) -> Run:
        settings, robot = self.settings, self.robot
        contacts = () if obstacle is None else (obstacle,)
        plant = PLANTS[self.kind](
            robot, actuation="motors", rng=np.random.default_rng(settings.seed), contacts=contacts
        )
        stack = VirtualStack(robot, plant, seed=settings.seed)
        self.sensing.begin(stack, self.floor, settings.seed)
        reaction = ContactReaction(robot, ReactionSettings(strategy=strategy))
        bend = Bend(robot.coordinate_count, settings.amplitude_m, speed_m_per_s)
        current, at_s, next_s = bend.at(0.0), 0.0, 0.0
        felt_s, given_up_m = np.nan, 0.0
        rows: list[tuple[float, float]] = []

        def wanted(time_s: float) -> ClarkeReference:
            nonlocal current, at_s, next_s, felt_s, given_up_m
            asked = bend.at(time_s - _SETTLE_S)
            if time_s >= next_s - 1e-9:
                next_s += _STEP_S
                estimate, reading = self.sensing.feel(), stack.loop.reading
                if estimate is not None and reading is not None and time_s > _SETTLE_S / 2:
                    if estimate.in_contact and not np.isfinite(felt_s):
                        felt_s = time_s
                    clarke = self.manifold.clarke(reading.displacement_m)
                    current = reaction.update(asked, self.sensing.sense(estimate), clarke, _STEP_S).reference
                    at_s = time_s
                    given_up_m = max(given_up_m, float(np.linalg.norm(current.position - asked.position)))
            if reaction.state == "following":
                return asked
            return ClarkeReference(
                current.position + (time_s - at_s) * current.velocity, current.velocity, current.acceleration
            )

        def look(running: VirtualStack) -> None:
            force_n = sum(float(np.linalg.norm(load.force_in_base_n)) for load in plant.contact_loads)
            rows.append((running.now_s - began_s, force_n))

        try:
            stack.activate()
            began_s = stack.now_s
            stack.follow(wanted, _SETTLE_S + bend.duration_s + _AFTER_S, look)
        finally:
            stack.close()
        time_s, force_n = np.array(rows).T
        return _judge(time_s, force_n, felt_s, given_up_m)


def _judge(time_s: Array, force_n: Array, felt_s: float, given_up_m: float) -> Run:
    touched = np.flatnonzero(force_n > 0)
    if touched.size == 0:
        return Run(0.0, np.nan, np.nan, given_up_m, time_s, force_n)
    touch_s, top = float(time_s[touched[0]]), int(force_n.argmax())
    fallen = np.flatnonzero(force_n[top:] < 0.9 * force_n[top])
    falling_s = float(time_s[top + fallen[0]]) - touch_s if fallen.size else np.nan
    return Run(float(force_n[top]), falling_s, felt_s - touch_s, given_up_m, time_s - touch_s, force_n)


def _compute(settings: ReactionCases, progress: Progress) -> Result:
    robot = load_robot(settings.robot)
    numbers: dict[str, object] = {}
    runs: dict[str, dict[str, list[Run]]] = {}
    every = list(cases(settings))
    for kind in settings.plants:
        rig = _Rig(robot, kind, settings, progress)
        progress(f"{kind}: free motion")
        rig.learn()
        runs[kind] = {strategy: [] for strategy in STRATEGIES}
        for index, case in enumerate(every):
            progress(f"{kind}: case {index + 1} of {len(every)}")
            for strategy in STRATEGIES:
                runs[kind][strategy].append(rig.run(case, strategy))
        numbers |= _numbers(runs[kind], "" if kind == "rod" else f"_{kind}")
    return Result(numbers, (every, runs))


def _numbers(of: dict[str, list[Run]], suffix: str) -> dict[str, object]:
    numbers: dict[str, object] = {}
    without = np.array([run.peak_n for run in of[IGNORE]])
    numbers[f"peak_force_n_ignore{suffix}"] = without.tolist()
    for strategy in STRATEGIES[1:]:
        peak = np.array([run.peak_n for run in of[strategy]])
        numbers[f"peak_force_ratio_{strategy}{suffix}"] = float(np.mean(peak / without))
        numbers[f"largest_ratio_{strategy}{suffix}"] = float(np.max(peak / without))
        for key in ("falling_s", "given_up_m"):
            values = [getattr(run, key) for run in of[strategy]]
            numbers[f"{key}_{strategy}{suffix}"] = float(np.nanmean(values)) if np.any(np.isfinite(values)) else None
    felt = [run.felt_s for run in of[RETRACT]]
    numbers[f"felt_s{suffix}"] = float(np.nanmean(felt)) if np.any(np.isfinite(felt)) else None
    numbers[f"not_felt{suffix}"] = int(np.count_nonzero(~np.isfinite(felt)))
    return numbers


def _draw(result: Result, folder: Path) -> list[Path]:
    every, runs = result.series
    file = folder / "contact_reaction.png"
    with figure(file, "A wall on the way", len(runs), 2, squeeze=False) as (drawing, axes):
        for row, (kind, of) in zip(axes, runs.items(), strict=True):
            middle = len(every) - 2
            for colour, strategy in zip(COLOURS, STRATEGIES, strict=False):
                run = of[strategy][middle]
                shown = run.time_s > -0.1
                row[0].plot(run.time_s[shown], run.force_n[shown], color=colour, label=strategy, linewidth=0.9)
                peak = np.array([one.peak_n for one in of[strategy]])
                without = np.array([one.peak_n for one in of[IGNORE]])
                row[1].plot(peak / without, "o", color=colour, markersize=3)
            case = every[middle]
            row[0].set(
                xlabel="time since the touch in s",
                ylabel="force in N",
                title=f"{kind}: at {case.place:g} of the length, {1e-3 * case.stiffness_n_per_m:g} N/mm",
            )
            row[1].set(xlabel="case", ylabel="peak force over that without", ylim=(0, None), title=kind)
        legend_below(drawing, axes[0][0])
    return [file]


REACTION = Experiment(
    name="contact.reaction",
    summary="A wall on the way, at five places and three speeds: hold, retract and comply against nothing.",
    source="no paper: control/contact_reaction.py",
    paper={},
    settings=ReactionCases,
    compute=_compute,
    plot=_draw,
    package="mujoco",
    tolerances={"*": OF_COGGING},
)
