# SPDX-License-Identifier: Apache-2.0
"""Rucker fig. 7: the prototype's backbone with its helical tendon after a step of the tension.

The paper prints shapes at millisecond intervals and no numbers. What moves is taken to be the backbone alone, straight
and weightless at first, of steel of 7850 kg/m^3; with ``inertia=prototype`` the mass of rod and disks moves, 0.47 N/m
by weight. Nothing is damped by default, as in the paper, so energy has to stay what it was.

By a finer and a coarser basis. Torsion of a bare steel rod vibrates at 3 kHz and more, and nothing damps it: the
implicit midpoint rule needs steps of microseconds here, and halves those that do not converge, ``shortest_step_us``
shows it. With damping steps of milliseconds do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE
from continuum_robot.experiments.rucker.prototype import prototype, prototype_robot
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.schema import Quantity
from continuum_robot.rod.cosserat.description import cosserat_rod
from continuum_robot.rod.cosserat.statics import solve
from continuum_robot.rod.description import RodDescription
from continuum_robot.rod.rod import Rod
from continuum_robot.simulation.moving_rod import MovingRod

Vector = NDArray[np.float64]

_HELICAL_TENDON = 5
_SNAPSHOT_S = 1e-3
_DRAWN = 49


@dataclass(frozen=True)
class Snapshots:
    """Shapes and energy of a motion."""

    time_s: Vector
    position_m: Vector
    kinetic_j: Vector
    energy_j: Vector
    shortest_step_s: float

    @property
    def energy_change_percent(self) -> float:
        """Largest change of the energy against the largest kinetic energy."""
        return 100 * float(np.abs(self.energy_j - self.energy_j[0]).max() / self.kinetic_j.max())


def backbone(inertia: str, order: int) -> RodDescription:
    """The rod."""
    whole, steel = prototype(_HELICAL_TENDON, 0, weighs=False), prototype_robot().segments[0].backbone
    (own,) = whole.segments
    fraction = 1.0
    if inertia == "backbone":
        fraction = steel.density_kg_per_m3 * steel.area_m2 / own.linear_density_kg_per_m
    x, y, z = own.rotary_inertia_kg_m
    basis = Basis(
        kind="chebyshev",
        bending_order=order,
        torsion_order=order,
        shear_order=order // 2,
        extension_order=order // 2,
    )
    segment = replace(
        own,
        basis=basis,
        linear_density_kg_per_m=fraction * own.linear_density_kg_per_m,
        rotary_inertia_kg_m=(fraction * x, fraction * y, fraction * z),
    )
    return replace(whole, segments=(segment,))


@experiment(
    "rucker.helical_step",
    "rucker, fig. 7",
    paper={
        "tip_m": "shapes at millisecond intervals, without numbers; the backbone moves towards a helix very quickly",
    },
    # Undamped torsional waves: rounding grows over 30 ms.
    tolerances={"energy_change*": Tolerance(relative=0.2), "*": Tolerance(relative=0.02, absolute=1e-3)},
)
def helical_step(
    progress: Progress,
    tension_n: Annotated[float, Quantity("tension from the start on", "N", gt=0, le=50)] = 5.0,
    duration_ms: Annotated[int, Quantity("how long; a snapshot every millisecond", "ms", ge=1, le=1000)] = 30,
    inertia: Annotated[str, Quantity("what moves", choices=("backbone", "prototype"))] = "backbone",
    order: Annotated[
        int,
        Quantity(
            "of bending and torsion in the finer basis; shear and extension half of it, the coarser basis two less",
            ge=4,
            le=16,
        ),
    ] = 6,
    steps_per_ms: Annotated[int, Quantity("time steps in a millisecond", ge=2, le=10000)] = 800,
    damping_ms: Annotated[float, Quantity("Kelvin-Voigt damping time of every strain", "ms", ge=0, le=1000)] = 0.0,
) -> Any:
    """The backbone with a helical tendon after a step of its tension, by two bases."""

    def motion_of(order: int) -> Snapshots:
        rod = Rod(backbone(inertia, order), nodes=order + 12)  # fewer do not keep the energy
        rod.arrays.damping[:] = 1e-3 * damping_ms * rod.arrays.stiffness
        # What a step lacks adds up over 24000 steps: the energy is off by 0.4 % with 1e-10, by 0.02 % with 1e-12.
        moving, places = MovingRod(rod, method="midpoint", tolerance=1e-12), np.linspace(0, rod.length_m, _DRAWN)
        moving.reset(np.zeros(rod.n))
        moving.desired[:] = tension_n
        rows, shortest_s = [], _SNAPSHOT_S
        for k in range(duration_ms + 1):
            if k:
                progress(f"order {order}: {k} ms")
                times = np.array([k - 1, k]) * _SNAPSHOT_S
                shortest_s = min(shortest_s, moving.follow(times, _SNAPSHOT_S / steps_per_ms).shortest_step_s)
            energy = rod.energies(moving.c, moving.rate())
            total_j = energy.total_j - float(moving.desired @ moving.displacement_m)
            rows.append((rod.poses(moving.c, places)[:, :3, 3], energy.kinetic_j, total_j))
        positions, kinetic, total = (np.array(column) for column in zip(*rows, strict=True))
        return Snapshots(
            _SNAPSHOT_S * np.arange(duration_ms + 1, dtype=np.float64), positions, kinetic, total, shortest_s
        )

    fine, coarse = motion_of(order), motion_of(order - 2)
    static = solve(cosserat_rod(prototype(_HELICAL_TENDON, 0, weighs=False)), [tension_n])
    apart_m = np.linalg.norm(fine.position_m[:, -1] - coarse.position_m[:, -1], axis=1)
    percent = 100 / prototype_robot().length_m
    numbers: dict[str, Any] = {
        "tip_m": _by_time(fine),
        "tip_coarse_m": _by_time(coarse),
        "static_tip_m": static.tip_m.tolist(),
        "max_kinetic_energy_j": float(fine.kinetic_j.max()),
        "energy_change_percent_of_kinetic": fine.energy_change_percent,
        "energy_change_percent_of_kinetic_coarse": coarse.energy_change_percent,
        "shortest_step_us": 1e6 * fine.shortest_step_s,
        "max_basis_difference_percent_of_length": percent * float(apart_m.max()),
        "mean_basis_difference_percent_of_length": percent * float(apart_m.mean()),
    }

    def draw(figure: Figures) -> None:
        title = "Backbone with a helical tendon, every millisecond after a step of its tension (rucker, fig. 7)"
        rest = static.at(np.linspace(0, static.problem.rod.length_m, 49)).position_m
        with figure(title, 1, 2, size=(8.4, 3.4)) as (_, axes):
            for axis, row in zip(axes, (0, 1), strict=True):
                for k, shape in enumerate(fine.position_m):
                    fraction = k / max(1, len(fine.time_s) - 1)
                    axis.plot(shape[:, 2], shape[:, row], color=COLOURS[0], alpha=0.15 + 0.85 * fraction, linewidth=0.8)
                axis.plot(rest[:, 2], rest[:, row], "--", color=REFERENCE, label="at rest")
                axis.set(xlabel="z in m", ylabel=f"{'xy'[row]} in m")
            axes[0].legend()
        with figure("Tip and energy", 2, 1, name="rucker_helical_step_time", sharex=True) as (_, (tip, energy)):
            for row, name in enumerate("xyz"):
                tip.plot(fine.time_s, fine.position_m[:, -1, row], color=COLOURS[row], label=f"{name}, finer basis")
                tip.plot(coarse.time_s, coarse.position_m[:, -1, row], ".", color=COLOURS[row], markersize=3)
                tip.axhline(static.tip_m[row], color=COLOURS[row], linestyle="--", linewidth=0.6)
            tip.set_ylabel("tip in m")
            tip.set_title("dots: coarser basis, dashed: at rest", fontsize="small")
            for axis in (tip, energy):
                axis.margins(y=0.25)
            tip.legend(ncols=3, loc="upper center")
            energy.plot(fine.time_s, fine.kinetic_j, color=COLOURS[0], label="kinetic")
            potential_j = fine.energy_j - fine.kinetic_j
            energy.plot(
                fine.time_s, potential_j - potential_j[0], color=COLOURS[1], label="elastic, less what is given"
            )
            for motion, style, name in ((fine, "-", "finer basis"), (coarse, ":", "coarser")):
                change_j = motion.energy_j - motion.energy_j[0]
                energy.plot(motion.time_s, change_j, style, color=REFERENCE, label=f"sum, {name}")
            energy.set(xlabel="time in s", ylabel="energy in J")
            energy.legend(ncols=3, loc="upper center")

    return numbers, draw


def _by_time(motion: Snapshots) -> dict[str, list[float]]:
    return {f"{1e3 * t:.0f} ms": tip.tolist() for t, tip in zip(motion.time_s, motion.position_m[:, -1], strict=True)}
