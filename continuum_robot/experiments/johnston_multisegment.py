# SPDX-License-Identifier: Apache-2.0
"""Johnston section 13: contact with the fourth disk of the distal of two horizontal segments.

The robot is simulated with both segments; the observers' parameters are off by 5 %. It sags to rest, then both second
capstans turn towards the sensor until it reads 30 N, and back. Without coupling, as in the paper, each segment has
observers of its own: the proximal one takes the straight distal segment for a rigid body on its end disk that carries
the torques of the distal motors (74), (75); the distal one takes its base for fixed and level. The force is estimated
at the fourth disk of each; nothing touches the proximal segment, so what is estimated there is wrong in full. With
coupling, one observer has the model of the whole robot; forces on both fourth disks are fitted to all coefficients at
once, so that the data decides which segment is touched.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.joint_force_deviation import BackwardGaussian, SmoothedDifference
from continuum_robot.estimation.momentum_observer import MomentumObserver
from continuum_robot.experiments.experiment import Experiment, Progress, Result
from continuum_robot.experiments.johnston_segment import CapstanRobot, Stop, perturbed, point_force
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, figure, legend_below
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.distal_segment import distal_reaction, lumped_distal

Array = NDArray[np.float64]

DISK_M = 0.213293
SEGMENTS = ("proximal", "distal")
METHODS = ("gmo", "jfd")
SETTLE_S, SCORED_FROM_S = 1.5, 1.0  # at rest before the motion; from when errors count
SAG_STEPS, SAG_DAMPING = 1500, 0.9  # braked steps in which the robot sags to rest
CLEARANCE_M, PEAK_N, RAMP_RAD_PER_S2, RIM_M = 0.02, 30.0, 2.0, 0.08
_POINTS = {"gmo": 100, "jfd": 200}
_RATE_POINTS = 30


@dataclass(frozen=True, kw_only=True)
class MultisegmentSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, two segments with capstans", default="vanderbilt_two_segment")
    rate_hz: int = quantity("of simulation and observers", "Hz", default=250, ge=200, le=1000)
    speed_deg_per_s: float = quantity("of the capstans on the way to the sensor", "deg/s", default=36.0, gt=1, le=180)
    farthest_deg: float = quantity("how far they turn towards it", "deg", default=150.0, gt=1, le=225)
    parameter_error: float = quantity("share by which the observers' parameters are off", default=0.05, ge=0, le=0.5)
    noise_per_m: float = quantity("peak-to-peak noise of the coefficients", "1/m", default=0.001, ge=0, le=0.1)
    gain_per_s: float = quantity("K_o of every coefficient", "1/s", default=25.0, gt=0, le=1000)
    seed: int = quantity("of errors and noise", default=1, ge=0, le=2**31)


@dataclass(frozen=True)
class MultisegmentSeries:
    """Forces in x and y at the fourth disk of each segment; keys (coupling, method, segment).

    Attributes
    ----------
    time_s : shape (T,), s
    truth : force on the distal segment, shape (T, 2), N
    forces : estimated force, shape (T, 2), N, by coupling, method, segment
    """

    time_s: Array
    truth: Array
    forces: dict[tuple[str, str, str], Array]


class _Observer:
    """GMO and JFD on one model."""

    def __init__(self, robot: CapstanRobot, gain_per_s: float) -> None:
        self.robot = robot
        self._momentum = MomentumObserver(gain_per_s, 1000, robot.size)
        self._smooth = {method: BackwardGaussian(_POINTS[method]) for method in METHODS}

    def update(self, motion: Sequence[Array], torque: Array, other: Array, dt: float) -> Array:
        """Generalised forces of GMO and JFD as columns, (n, 2); other: a known generalised force."""
        seen = self.robot.observe(motion[0], motion[1], motion[2], torque)
        residual = self._momentum.update(seen.momentum, seen.known_force + other, dt)
        found = {"gmo": residual, "jfd": seen.deviation - other}
        return np.column_stack([self._smooth[method].update(found[method]) for method in METHODS])


def distal_alone(robot: Robot) -> Robot:
    """The distal segment on a fixed base, as the uncoupled observer takes it."""
    segment = dataclasses.replace(
        robot.segments[1], tendons=dataclasses.replace(robot.segments[1].tendons, from_base=True)
    )
    control = None if robot.control is None else dataclasses.replace(robot.control, gains=robot.control.gains[:1])
    return dataclasses.replace(
        robot,
        name=f"{robot.name}_distal",
        segments=(segment,),
        control=control,
        reference=None,
        recording=None,
        strings=(),
        assumed=(),
    )


def _run(settings: MultisegmentSettings, progress: Progress) -> Result:
    rng = np.random.default_rng(settings.seed)
    robot = load_robot(settings.robot)
    plant = CapstanRobot(perturbed(robot, settings.parameter_error, rng), progress)
    whole = CapstanRobot(robot, progress)
    proximal, distal = CapstanRobot(lumped_distal(robot), progress), CapstanRobot(distal_alone(robot), progress)
    observers = {
        name: _Observer(one, settings.gain_per_s)
        for name, one in (("whole", whole), ("proximal", proximal), ("distal", distal))
    }
    contact_m = robot.segments[0].length_m + DISK_M
    n, dt, difference = plant.size, 1 / settings.rate_hz, SmoothedDifference(_RATE_POINTS)
    first = proximal.size
    times, truth = [], []
    forces: dict[tuple[str, str, str], list[Array]] = {}
    for time_s, x, torque, wrench in _motion(plant, contact_m, settings):
        measured = x[:n] + settings.noise_per_m * rng.uniform(-0.5, 0.5, n)
        motion = difference.update(measured, dt)
        near, far = tuple(part[:first] for part in motion), tuple(part[first:] for part in motion)
        times.append(time_s)
        truth.append(np.array(wrench[:2], dtype=float))
        found = observers["whole"].update(motion, torque, np.zeros(n), dt)
        here = np.vstack([whole.jacobian(motion[0], DISK_M)[:2], whole.jacobian(motion[0], contact_m)[:2]])
        both = np.linalg.lstsq(here.T, found, rcond=None)[0]
        reaction = distal_reaction(robot, 0.0, torque[2:])
        loaded = proximal.jacobian(near[0], robot.segments[0].length_m).T @ reaction
        lower = observers["proximal"].update(near, torque[:2], loaded, dt)
        upper = observers["distal"].update(far, torque[2:], np.zeros(n - first), dt)
        estimates = {
            ("coupled", "proximal"): both[:2],
            ("coupled", "distal"): both[2:],
            ("uncoupled", "proximal"): point_force(lower, proximal.jacobian(near[0], DISK_M)),
            ("uncoupled", "distal"): point_force(upper, distal.jacobian(far[0], DISK_M)),
        }
        for (coupling, segment), values in estimates.items():
            for k, method in enumerate(METHODS):
                forces.setdefault((coupling, method, segment), []).append(values[:, k])
        if len(times) % settings.rate_hz == 0:
            progress(f"{time_s:.0f} s, contact force {np.linalg.norm(wrench[:3]):.1f} N")
    series = MultisegmentSeries(np.array(times), np.array(truth), {key: np.array(rows) for key, rows in forces.items()})
    scored = series.time_s >= SCORED_FROM_S
    numbers: dict[str, object] = {}
    for (coupling, method, segment), values in series.forces.items():
        error = (values - series.truth * (segment == "distal"))[scored]
        for axis, letter in enumerate("xy"):
            numbers[f"{coupling}_{method}_{segment}_rmse_{letter}_n"] = float(np.sqrt(np.mean(error[:, axis] ** 2)))
    numbers["largest_force_n"] = float(np.linalg.norm(series.truth, axis=1).max())
    numbers["duration_s"] = float(series.time_s[-1])
    numbers["rate_hz"] = settings.rate_hz
    return Result(numbers, series)


def _motion(
    plant: CapstanRobot, contact_m: float, settings: MultisegmentSettings
) -> Iterator[tuple[float, Array, Array, Array]]:
    """Both second capstans turn towards a stop in +y until it pushes with 30 N, and back."""
    dt, n, k = 1 / settings.rate_hz, plant.size, plant.capstans
    side = np.array([0.0, 1.0] * (k // 2))
    x, angle, speed, time_s = np.zeros(2 * n + 1), 0.0, 0.0, 0.0
    wanted = math.radians(settings.speed_deg_per_s)
    back = False
    stop = Stop(arc_length_m=contact_m, direction=(0.0, 1.0, 0.0), offset_m=10.0)
    for _ in range(SAG_STEPS):
        x = plant.drive(x, np.zeros(3 * k), stop.parameters, dt)
        x[n : 2 * n] *= SAG_DAMPING
    while True:
        ramp = (
            0.0
            if time_s < SETTLE_S
            else float(np.clip(((-wanted if back else wanted) - speed) / dt, -RAMP_RAD_PER_S2, RAMP_RAD_PER_S2))
        )
        reference = np.concatenate([angle * side, speed * side, ramp * side])
        torque, wrench = plant.drive_loads(x, reference, stop.parameters)
        yield time_s, x, torque, wrench
        if time_s < SETTLE_S <= time_s + dt:
            pose = plant.pose(x[:n], contact_m)
            start_y = float(pose[1, 3] + RIM_M * pose[1, 1])
            stop = dataclasses.replace(stop, offset_m=start_y + CLEARANCE_M)
        pushed = np.linalg.norm(wrench[:3]) >= PEAK_N
        back = back or bool(pushed) or angle >= math.radians(settings.farthest_deg)
        if back and angle <= 0:
            return
        x = plant.drive(x, reference, stop.parameters, dt)
        angle, speed, time_s = angle + speed * dt + ramp * dt**2 / 2, speed + ramp * dt, time_s + dt


def _draw(result: Result, folder: Path) -> list[Path]:
    series: MultisegmentSeries = result.series
    file = folder / "johnston_multisegment.png"
    scored = series.time_s >= SCORED_FROM_S
    reach = 1.1 * max(float(np.abs(values[scored, 1]).max()) for values in series.forces.values())
    with figure(file, "Contact on the distal of two segments (johnston, section 13)", 2, 2, sharex=True) as (
        drawing,
        axes,
    ):
        for row, segment in enumerate(SEGMENTS):
            for column, coupling in enumerate(("uncoupled", "coupled")):
                axis = axes[row, column]
                for k, method in enumerate(METHODS):
                    values = series.forces[coupling, method, segment][:, 1]
                    axis.plot(series.time_s, values, color=COLOURS[k], label=method.upper())
                true = series.truth[:, 1] * (segment == "distal")
                axis.plot(series.time_s, true, color=REFERENCE, linestyle="--", label="true")
                axis.set_title(f"{segment} segment, {coupling}", loc="left")
                axis.set_ylabel("force in y in N")
                axis.set_ylim(-reach, reach)
        for axis in axes[-1]:
            axis.set_xlabel("time in s")
        legend_below(drawing, axes[0, 0])
    return [file]


MULTISEGMENT = Experiment(
    name="johnston.multisegment",
    summary="Contact on the distal of two segments, with an observer for each and with one for the whole robot.",
    source="johnston, table 10 and section 13 (measured on the robot)",
    paper={
        "uncoupled_gmo_proximal_rmse_x_n": 16.07,
        "uncoupled_gmo_proximal_rmse_y_n": 10.51,
        "uncoupled_jfd_proximal_rmse_x_n": 68.01,
        "uncoupled_jfd_proximal_rmse_y_n": 10.74,
        "uncoupled_gmo_distal_rmse_x_n": 10.45,
        "uncoupled_gmo_distal_rmse_y_n": 4.65,
        "uncoupled_jfd_distal_rmse_x_n": 15.96,
        "uncoupled_jfd_distal_rmse_y_n": 6.55,
    },
    settings=MultisegmentSettings,
    compute=_run,
    plot=_draw,
)
