# SPDX-License-Identifier: Apache-2.0
"""Section 6.2 of wang, tables 3 and 4, on synthetic trajectories: the paper's are not published.

The synthetic trajectories are those of the model with the paper's own fit as the truth. That the calibration finds this
lambda again shows that Algorithm 1 works, not that the model describes a robot. What the paper published of its
measured trajectory at 45 degrees is compared with the model under the printed lambda: RMSE of lambda = 0, length of the
path before and after the turning point, RMSE before it. ``readings_*`` are the same numbers under other readings of the
text: the depth of insertion, the definition of the turning point, the marker's distance from the end disk, lambda with
twice its slope. ``closest_lambda_*`` is the lambda of a grid that comes closest to all four published numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE
from continuum_robot.experiments.wang.algorithm_1 import fit_as_printed
from continuum_robot.experiments.wang.segment import IDEAL, MM, NMM, UM, in_plane, load_segment
from continuum_robot.identification.modulation_fit import FitSettings, ModulationData, ModulationFit, fit
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import jacobians
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import LinearMomentError
from continuum_robot.mechanisms.equilibrium_modulation.segment import ModulatedSegment
from continuum_robot.mechanisms.equilibrium_modulation.turning_point import turning_point
from continuum_robot.robot.schema import Quantity

Array = NDArray[Any]

_ANGLES_DEG = (15.0, 30.0, 45.0, 60.0, 75.0)  # fig. 9
_SAMPLES = 382
_TABLE_DEG = 45.0  # fig. 8
_TABLE_ROWS = (0, 5, 10, 20, 30)
_DRAWN = (0, 5, 10, 20)
# Of the measured trajectory at 45 degrees, section 6.2: RMSE of lambda = 0 on all of it and before the turning point,
# lengths before and after, um.
_PUBLISHED_UM = np.array([42.27, 19.51, 48.11, 38.82])
_PATH_SAMPLES = 200
_GRID_K_LAMBDA0_NMM = np.linspace(-0.1, 0.3, 17)
_GRID_K_LAMBDAQ_N = np.linspace(-0.005, 0.025, 25)


def _trajectory(
    segment: ModulatedSegment, theta: Array, depth: Array, true: LinearMomentError, noise: Array
) -> ModulationData:
    position = jacobians(segment, theta, 0.0, depth, true).pose[:, :3, 3]
    return ModulationData(
        theta_rad=theta, delta_rad=np.zeros(len(depth)), insertion_m=depth, position_m=position + noise
    )


@experiment(
    "wang.calibration",
    "wang, section 6.2, tables 3 and 4, fig. 10; its trajectories are not published",
    paper={
        "iterations_paper_step": 46,
        "table3_iteration": [0, 5, 10, 20, 30, 45, 46],
        "table3_k_lambda0_1e-2_nmm": [0, 4.22, 6.72, 9.06, 9.88, 10.23, 10.24],
        "table3_k_lambdaq_1e-3_n": [0, 2.7, 4.3, 5.7, 6.3, 6.5, 6.5],
        "table3_rmse_um": [42.27, 15.71, "25.40 (misprint)", 7.72, 6.07, 5.82, 5.82],
        "table4_iteration": [0, 5, 10, 20, 30, 58, 59],
        "table4_rmse_um": [19.51, 13.01, 9.30, 6.12, 5.17, 4.76, 4.76],
        "full_rmse_lambda0_um": 42.27,
        "full_path_um": 86.93,
        "full_path_before_turn_um": 48.11,
        "full_path_after_turn_um": 38.82,
        "full_rmse_lambda0_before_turn_um": 19.51,
        "noise_um": "tracking better than 2 um; 382 samples a trajectory, ten insertions at each of five angles",
    },
    tolerances={"*": Tolerance(relative=1e-3)},
)
def calibration(
    progress: Progress,
    k_lambda0_nmm: Annotated[float, Quantity("true constant part of lambda", "N.mm", ge=-10, le=10)] = 0.1024,
    k_lambdaq_n: Annotated[float, Quantity("true part by insertion, N.mm/mm", "N", ge=-10, le=10)] = 0.0065,
    noise_um: Annotated[float, Quantity("tracking noise in each axis", "um", ge=0, le=1000)] = 2.0,
    repetitions: Annotated[int, Quantity("insertions at each angle, which are averaged", ge=1, le=1000)] = 10,
    step: Annotated[float, Quantity("step size eta of Algorithm 1", gt=0, le=1)] = 0.1,
    seed: Annotated[int, Quantity("of the noise", ge=0, le=2**31 - 1)] = 1,
) -> Any:
    """Calibration of the moment error on synthetic trajectories whose truth is the paper's own fit."""
    segment, _, stroke = load_segment()
    true = LinearMomentError(k_lambda0_nmm * NMM, k_lambdaq_n)
    rng = np.random.default_rng(seed)
    sigma = noise_um / UM
    # Weights count only beside one another where the noise is nothing.
    options = FitSettings(position_std_m=sigma or 1.0 / UM)
    depth = np.linspace(0.0, stroke, _SAMPLES)

    progress(f"five angles, {repetitions} insertions each")
    theta = np.repeat(np.deg2rad(_ANGLES_DEG), _SAMPLES)
    averaged = sigma / np.sqrt(repetitions) * rng.standard_normal((len(theta), 3))
    together = _trajectory(segment, theta, np.tile(depth, len(_ANGLES_DEG)), true, averaged)
    lm = fit(segment, together, options)
    printed = fit_as_printed(segment, together, options, step=step)
    numbers = _recovered("", lm, true)
    numbers |= _recovered("paper_step_", printed, true)
    numbers |= {
        "iterations_paper_step": printed.iterations,
        "iterations_lm": lm.iterations,
        "rmse_um": lm.rmse_m * UM,
        "rmse_paper_step_um": printed.rmse_m * UM,
        "rmse_start_um": float(lm.history_rmse_m[0] * UM),
        "std_k_lambda0_percent": _percent(lm.standard_deviation[0], true.k_lambda0),
        "std_k_lambdaq_percent": _percent(lm.standard_deviation[1], true.k_lambdaq),
        "correlation": float(lm.covariance[0, 1] / np.prod(lm.standard_deviation)),
        "samples": lm.samples,
    }

    progress("one insertion at 45 degrees: table 3")
    theta_one = np.full(_SAMPLES, np.deg2rad(_TABLE_DEG))
    one = _trajectory(segment, theta_one, depth, true, sigma * rng.standard_normal((_SAMPLES, 3)))
    full = fit_as_printed(segment, one, options, step=step)
    full_lm = fit(segment, one, options)
    numbers |= _table("table3", full) | {"table3_iterations_lm": full_lm.iterations}
    turn = turning_point(segment, float(theta_one[0]), true, stroke_m=stroke)
    if turn is not None:
        progress("the same up to the turning point: table 4")
        before = depth <= turn
        part = ModulationData(
            theta_rad=theta_one[before],
            delta_rad=np.zeros(before.sum()),
            insertion_m=depth[before],
            position_m=np.asarray(one.position_m)[before],
        )
        partial = fit_as_printed(segment, part, options, step=step)
        partial_lm = fit(segment, part, options)
        numbers |= _table("table4", partial) | {"table4_iterations_lm": partial_lm.iterations}
        numbers["turning_point_qs_mm"] = turn * MM
    progress("what the paper published of its trajectory")
    numbers |= _published(segment, true, stroke)

    def draw(figure: Figures) -> None:
        title = "Calibration on one synthetic trajectory (wang, fig. 10, table 3)"
        with figure(title, 1, 2, size=(8.4, 3.6)) as (_, axes):
            angle = float(theta_one[0])
            start = in_plane(jacobians(segment, angle, 0.0, 0.0, IDEAL).pose[:3, 3])
            tracked = (in_plane(np.asarray(one.position_m)) - start) * UM
            axes[0].plot(*tracked.T, ".", color="0.7", markersize=3, label="tracked")
            colours = iter(COLOURS)
            for row in (*[row for row in _DRAWN if row < full.iterations], full.iterations):
                error = LinearMomentError(*full.history_k[row])
                model = jacobians(segment, angle, 0.0, depth, error).pose[:, :3, 3]
                axes[0].plot(*((in_plane(model) - start) * UM).T, color=next(colours), label=f"iteration {row}")
            axes[0].set(xlabel="x in um", ylabel="z in um")
            axes[0].invert_yaxis()
            axes[0].legend()
            axes[1].semilogy(full.history_rmse_m * UM, color=COLOURS[0], label="Algorithm 1, step as given")
            axes[1].semilogy(full_lm.history_rmse_m * UM, "o-", color=COLOURS[1], label="least squares")
            paper = np.array([(0, 42.27), (5, 15.71), (20, 7.72), (30, 6.07), (45, 5.82)])
            axes[1].semilogy(*paper.T, "x", color=REFERENCE, label="paper's table 3, its own data")
            axes[1].set(xlabel="iteration", ylabel="RMSE in um")
            axes[1].legend()

    return numbers, draw


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """How the text is read."""

    depth_m: float
    marker_m: float = 0.0
    turn: str = "distance"

    def path_um(self, segment: ModulatedSegment, error: LinearMomentError) -> Array:
        """Path of the marker in the plane of bending at 45 degrees, (k, 2), um."""
        depth = np.linspace(0.0, self.depth_m, _PATH_SAMPLES)
        pose = jacobians(segment, np.full(len(depth), np.deg2rad(_TABLE_DEG)), 0.0, depth, error).pose
        return in_plane(pose[:, :3, 3] + self.marker_m * pose[:, :3, 2]) * UM

    def numbers(self, segment: ModulatedSegment, error: LinearMomentError, ideal_um: Array) -> Array:
        """RMSE of lambda = 0 on the whole path and before the turn, lengths before and after it, um."""
        path = self.path_um(segment, error)
        moved = path - path[0]
        turn = int(np.argmax(np.abs(moved[:, 1]) if self.turn == "height" else np.linalg.norm(moved, axis=1)))
        step = np.linalg.norm(np.diff(path, axis=0), axis=1)
        apart = np.sum((path - ideal_um) ** 2, axis=1)
        rms = np.sqrt([apart.mean(), apart[: turn + 1].mean()])
        return np.array([*rms, step[:turn].sum(), step[turn:].sum()])


def _published(segment: ModulatedSegment, true: LinearMomentError, stroke_m: float) -> dict[str, object]:
    """The published numbers of the trajectory at 45 degrees, under all readings, and the closest lambda."""
    full_m = segment.length_m * (1 - 1e-6)
    steep = LinearMomentError(true.k_lambda0, 2 * true.k_lambdaq)
    readings = {
        "insertion over the whole length": (_Reading(depth_m=full_m), true),
        f"insertion over {stroke_m * MM:.0f} mm": (_Reading(depth_m=stroke_m), true),
        "turning point where z turns": (_Reading(depth_m=full_m, turn="height"), true),
        "marker 5 mm beyond the disk": (_Reading(depth_m=full_m, marker_m=5e-3), true),
        "marker 5 mm below the disk": (_Reading(depth_m=full_m, marker_m=-5e-3), true),
        "twice the printed k_lambdaq": (_Reading(depth_m=full_m), steep),
    }
    rows = np.array([one.numbers(segment, error, one.path_um(segment, IDEAL)) for one, error in readings.values()])
    names = ("rmse_lambda0", "rmse_lambda0_before_turn", "path_before_turn", "path_after_turn")
    numbers: dict[str, object] = {f"full_{name}_um": float(rows[0, k]) for k, name in enumerate(names)}
    numbers["full_path_um"] = float(rows[0, 2:].sum())
    numbers["readings"] = list(readings)
    numbers |= {f"readings_{name}_um": rows[:, k].tolist() for k, name in enumerate(names)}
    plain = _Reading(depth_m=full_m)
    ideal = plain.path_um(segment, IDEAL)
    found = []
    for constant in _GRID_K_LAMBDA0_NMM:
        for slope in _GRID_K_LAMBDAQ_N:
            values = plain.numbers(segment, LinearMomentError(constant * NMM, slope), ideal)
            factor = np.exp(np.abs(np.log(np.maximum(values, 1e-3) / _PUBLISHED_UM)).max())
            found.append((float(factor), float(constant), float(slope)))
    factor, constant, slope = min(found)
    return numbers | {
        "closest_lambda_factor": factor,
        "closest_lambda_k_lambda0_1e-2_nmm": 1e2 * constant,
        "closest_lambda_k_lambdaq_1e-3_n": 1e3 * slope,
    }


def _recovered(prefix: str, found: ModulationFit, true: LinearMomentError) -> dict[str, object]:
    return {
        f"{prefix}recovered_k_lambda0_error_percent": _percent(found.moment_error.k_lambda0, true.k_lambda0, 1),
        f"{prefix}recovered_k_lambdaq_error_percent": _percent(found.moment_error.k_lambdaq, true.k_lambdaq, 1),
    }


def _percent(value: float, true: float, off: int = 0) -> float:
    """A value in percent of the true one, or its distance from it."""
    return float(100 * abs(value / true - off)) if true else float("nan")


def _table(name: str, found: ModulationFit) -> dict[str, object]:
    """Rows of table 3 or 4: iteration, parameters in the table's units, RMSE."""
    last = found.iterations
    rows = [row for row in _TABLE_ROWS if row < last - 1] + [max(last - 1, 0), last]
    return {
        f"{name}_iteration": rows,
        f"{name}_k_lambda0_1e-2_nmm": [float(found.history_k[row, 0] / NMM * 1e2) for row in rows],
        f"{name}_k_lambdaq_1e-3_n": [float(found.history_k[row, 1] * 1e3) for row in rows],
        f"{name}_rmse_um": [float(found.history_rmse_m[row] * UM) for row in rows],
    }
