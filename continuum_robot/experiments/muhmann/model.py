# SPDX-License-Identifier: Apache-2.0
"""Muhmann figs. 5 and 6: what rotational energies, Coriolis and centrifugal forces matter in one segment.

The segment is controlled through steps: it bends to theta = pi/4, rotates to phi = pi/4 while bent, and returns to the
straight configuration. The paper gives neither the gains nor the time of a step; gains come from the rule in
:mod:`continuum_robot.experiments.muhmann.ideal_robot`, the time is an option, and both figures are ratios.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import ClarkeReference
from continuum_robot.experiments.experiment import Figures, Progress, experiment
from continuum_robot.experiments.muhmann.ideal_robot import GainRule, IdealRobot, Series
from continuum_robot.experiments.plotting import COLOURS
from continuum_robot.geometry.clarke import clarke_from_arc
from continuum_robot.robot.control_settings import ControlSettings
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.inertia import Parts
from continuum_robot.rod.rod import Rod

Array = NDArray[np.float64]

_LEAST_SHOWN_J = 1e-14


@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """Options of both experiments."""

    robot: str = quantity("robot file or name, one segment", default="opencr_five_tendon")
    bending_rad: float = quantity("bending angle theta of the first two steps", "rad", default=math.pi / 4, gt=0, le=6)
    direction_rad: float = quantity("bending direction phi of the second step", "rad", default=math.pi / 4, ge=-7, le=7)
    dwell_s: float = quantity("time of each of the three steps", "s", default=1.0, gt=0.01, le=100)
    stiffness_ratio: float = quantity("p over the stiffness of the straight robot", default=10.0, gt=0, le=1000)


@dataclass(frozen=True)
class Waypoints:
    """Steps through Clarke coordinates, shape (k, 2m), m, each held for ``dwell_s``."""

    positions_m: Array
    dwell_s: float

    @property
    def duration_s(self) -> float:
        """Time of all steps, s."""
        return self.dwell_s * len(self.positions_m)

    def at(self, t_s: float, /) -> ClarkeReference:
        """The reference at a time, s; at rest, also where it steps."""
        index = min(max(int(t_s / self.dwell_s), 0), len(self.positions_m) - 1)
        return ClarkeReference.at_rest(self.positions_m[index])


def _step_motion(settings: StepSettings, progress: Progress) -> tuple[Series, Array, Array]:
    """The motion; translational and rotational energy (k, 2), J; Coriolis and centrifugal forces (k, 2m), N."""
    described = load_robot(settings.robot)
    robot = IdealRobot(described, rotational_energy=True, progress=progress)
    segments = len(described.segments)
    radius = [segment.tendons.pitch_radius_m for segment in described.segments]
    bent = clarke_from_arc(0.0, settings.bending_rad, radius).ravel()
    turned = clarke_from_arc(settings.direction_rad, settings.bending_rad, radius).ravel()
    reference = Waypoints(np.array([bent, turned, np.zeros(2 * segments)]), settings.dwell_s)
    gains = robot.gains(GainRule(stiffness_ratio=settings.stiffness_ratio))
    control = ControlSettings(gains=gains, tendon_forces="shift", pretension_n=0.0)
    series = robot.run(control, reference, reference.duration_s, progress)
    progress("energies and forces")
    S, rod, still = robot.to_curvature, robot.rod, np.zeros(robot.rod.n)
    points = Rod(described, parts=Parts(capstan_inertia=True))  # of the same masses that do not turn
    kinetic, coriolis = [], []
    for clarke, clarke_rate in zip(series.clarke_m, series.clarke_rate_m_per_s, strict=True):
        c, c_rate = S @ clarke, S @ clarke_rate
        whole, moving = (one.terms(c, c_rate) for one in (rod, points))
        translational_j = float(c_rate @ moving.momentum) / 2
        kinetic.append((translational_j, float(c_rate @ whole.momentum) / 2 - translational_j))
        coriolis.append(S.T @ (whole.bias - rod.terms(c, still).bias))
    return series, np.array(kinetic), np.array(coriolis)


@experiment(
    "muhmann.energies",
    "muhmann, fig. 5",
    paper={"ratio_rotational_to_translational_of_maxima": "negligible (a figure without numbers)"},
)
def energies(progress: Progress, settings: StepSettings) -> Any:
    """Translational against rotational kinetic energy of one segment that bends, rotates and straightens."""
    series, kinetic, _ = _step_motion(settings, progress)
    translational, rotational = kinetic.T
    moving = translational > 1e-6 * translational.max()
    fraction = rotational[moving] / translational[moving]
    numbers = {
        "max_translational_j": float(translational.max()),
        "max_rotational_j": float(rotational.max()),
        "ratio_rotational_to_translational_of_maxima": float(rotational.max() / translational.max()),
        "ratio_rotational_to_translational_of_means": float(rotational.mean() / translational.mean()),
        "ratio_rotational_to_translational_greatest": float(fraction.max()),
        "duration_s": float(3 * settings.dwell_s),
        "n_samples": len(translational),
    }

    def draw(figure: Figures) -> None:
        title = "Kinetic energies of one segment through steps (muhmann, fig. 5)"
        with figure(title, 2, 1, sharex=True) as (_, axes):
            _draw_steps(axes[0], series)
            for energy, color, label in zip(kinetic.T, COLOURS, ("translational", "rotational"), strict=False):
                axes[1].semilogy(series.time_s, np.maximum(energy, _LEAST_SHOWN_J), color=color, label=label)
            axes[1].set(xlabel="time in s", ylabel="kinetic energy in J")
            axes[1].set_ylim(_LEAST_SHOWN_J, 1e3 * translational.max())
            axes[1].legend(loc="upper right", ncols=2)

    return numbers, draw


@experiment(
    "muhmann.coriolis",
    "muhmann, fig. 6",
    paper={"ratio_coriolis_to_overall_of_maxima": "negligible (a figure without numbers)"},
)
def coriolis_forces(progress: Progress, settings: StepSettings) -> Any:
    """Overall forces against Coriolis and centrifugal forces of one segment on the same motion."""
    series, _, coriolis_n = _step_motion(settings, progress)
    overall_n = series.applied_force_n  # the tendons' generalised force: the sum of the left side of muhmann (25)
    overall, coriolis = (np.linalg.norm(force, axis=1) for force in (overall_n, coriolis_n))
    numbers = {
        "max_overall_n": float(overall.max()),
        "max_coriolis_n": float(coriolis.max()),
        "ratio_coriolis_to_overall_of_maxima": float(coriolis.max() / overall.max()),
        "ratio_coriolis_to_overall_of_rms": float(np.sqrt(np.mean(coriolis**2) / np.mean(overall**2))),
        **{
            f"max_{name}_{part}_n": float(np.abs(force[:, column]).max())
            for name, force in (("overall", overall_n), ("coriolis", coriolis_n))
            for column, part in enumerate(("re", "im"))
        },
        "duration_s": float(3 * settings.dwell_s),
        "n_samples": len(overall),
    }

    def draw(figure: Figures) -> None:
        title = "Overall forces against Coriolis and centrifugal forces (muhmann, fig. 6)"
        with figure(title, 3, 1, sharex=True) as (_, axes):
            time_s = series.time_s
            _draw_steps(axes[0], series)
            for index, (axis, name) in enumerate(zip(axes[1:], ("Re", "Im"), strict=True)):
                axis.plot(time_s, overall_n[:, index], color=COLOURS[0], label="overall (left)")
                axis.set_ylabel(f"$\\tau_{{{name}}}$ in N", color=COLOURS[0])
                right = axis.twinx()
                right.plot(time_s, coriolis_n[:, index], color=COLOURS[1], label="Coriolis, centrifugal (right)")
                right.set_ylabel(f"$(C\\,\\dot q)_{{{name}}}$ in N", color=COLOURS[1])
                right.grid(visible=False)
                right.spines["right"].set_visible(True)
                handles = [*axis.get_lines(), *right.get_lines()]
                axis.legend(handles, [line.get_label() for line in handles], loc="upper right", ncols=2)
            axes[-1].set_xlabel("time in s")

    return numbers, draw


def _draw_steps(axis: Any, series: Series) -> None:
    for index, name in enumerate(("Re", "Im")):
        axis.plot(series.time_s, series.reference_m[:, index], color=COLOURS[2 + index], linestyle="--", linewidth=0.8)
        axis.plot(series.time_s, series.clarke_m[:, index], color=COLOURS[2 + index], label=f"$q_{{{name}}}$")
    axis.set(ylabel="Clarke coordinates in m")
    axis.legend(loc="upper right", ncols=2, title="dashed: reference", title_fontsize=8)
