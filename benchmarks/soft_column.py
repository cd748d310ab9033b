# SPDX-License-Identifier: Apache-2.0
"""A soft column that collapses for 3 s under two tendons, beside other simulators' curves; and many of them at once.

The case is section IVa of the benchmark of SoRoMoX (github.com/tud-phi/soromox, paper_results). Its data folder has the
tip's curve by SoRoSim, SoRoMoX and PyElastica: give it by --data. Nothing of it is part of this package.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path

import numpy as np
from scipy.io import loadmat

from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.backbone import Backbone, Disks
from continuum_robot.robot.segments.segment import Segment
from continuum_robot.robot.segments.tendons import RoutedTendon, Tendons
from continuum_robot.rod import Rod

DURATION_S, STEP_S, SAMPLE_S = 3.0, 2.5e-3, 0.01
RADIUS_M, LENGTH_M, VISCOSITY_PAS = 0.03, 0.3, 1e4


def column() -> Robot:
    """Two segments that bend, twist and stretch linearly along each; 16 coefficients."""
    moment_m4 = math.pi / 4 * RADIUS_M**4
    segments = tuple(
        Segment(
            name=name,
            length_m=LENGTH_M,
            backbone=Backbone(
                youngs_modulus_pa=1e6, poisson_ratio=0.5, density_kg_per_m3=1000, outer_diameter_m=2 * RADIUS_M
            ),
            disks=Disks(count=0, radius_m=RADIUS_M),
            tendons=Tendons(count=0, pitch_radius_m=0.02),
            basis=Basis(kind="legendre", bending_order=1, torsion_order=1, extension_order=1),
            bending_damping_nms=3 * VISCOSITY_PAS * moment_m4 / LENGTH_M,
        )
        for name in ("lower", "upper")
    )
    tendons = tuple(
        RoutedTendon(name=name, end_m=2 * LENGTH_M, pitch_radius_m=0.02, angle_rad=angle)
        for name, angle in (("first", math.pi), ("second", math.pi / 2))
    )
    return Robot(name="column", segments=segments, routed_tendons=tendons, gravity_m_per_s2=(0.0, 0.0, -9.81))


def fall(rod: Rod, method: str, step_s: float) -> np.ndarray:
    """The tip every 10 ms, (301, 3), m."""
    c = v = np.zeros((1, rod.n))
    tips, each = [rod.poses(c[0], 2 * LENGTH_M)[0, :3, 3]], round(SAMPLE_S / step_s)
    for _ in range(round(DURATION_S / SAMPLE_S)):
        c, v = rod.motions(c, v, np.ones((1, each, 2)), step_s, method=method)
        tips.append(rod.poses(c[0], 2 * LENGTH_M)[0, :3, 3])
    return np.array(tips)


def others(folder: Path) -> dict[str, np.ndarray]:
    """Curves of the other simulators at the same times, m."""
    times_s = SAMPLE_S * np.arange(round(DURATION_S / SAMPLE_S) + 1)

    def at(t: np.ndarray, places: np.ndarray) -> np.ndarray:
        return np.column_stack([np.interp(times_s, t, places[:, k]) for k in range(3)])

    sorosim = loadmat(folder / "end_effector_position_tendon_driven_gvs_sorosim.mat")
    soromox = np.loadtxt(folder / "end_effector_position_tendon_driven_gvs_soromox.csv", delimiter=",", skiprows=1)
    return {
        "SoRoSim": at(sorosim["t"].ravel(), sorosim["Pos_EE_all"].T),
        "SoRoMoX": at(soromox[:, 0], soromox[:, 1:]),
    }


def main(data: Path | None, robots: int, json_file: Path | None) -> None:
    """Print distances from SoRoSim's curve, and times; those of the first method and step are stored."""
    rod, numbers = Rod(column()), {}
    for method, step_s in (("sdirk", STEP_S), ("midpoint", STEP_S), ("sdirk", STEP_S / 5)):
        tips = fall(rod, method, step_s)
        text = f"{method}, {1e3 * step_s:g} ms: tip ends at {np.round(1e3 * tips[-1], 2)} mm"
        if data is not None:
            apart_mm = 1e3 * np.linalg.norm(tips - others(data)["SoRoSim"], axis=1)
            rms_mm = np.sqrt(np.mean(apart_mm**2))
            text += f"; from SoRoSim at most {apart_mm.max():.3f} mm, RMS {rms_mm:.3f} mm"
            numbers = numbers or {"from_sorosim_at_most_mm": apart_mm.max(), "from_sorosim_rms_mm": rms_mm}
        print(text)
    if data is not None:
        curves = others(data)
        apart_mm = 1e3 * np.linalg.norm(curves["SoRoMoX"] - curves["SoRoSim"], axis=1)
        print(f"SoRoMoX's own curve: from SoRoSim at most {apart_mm.max():.2f} mm")
        numbers["soromox_from_sorosim_at_most_mm"] = apart_mm.max()
    steps = round(DURATION_S / STEP_S)
    for count in (1, robots):
        still, tension = np.zeros((count, rod.n)), np.ones((count, steps, 2))
        tension *= np.linspace(0.9, 1.1, count)[:, None, None] if count > 1 else 1.0
        clock_s, processor_s = time.perf_counter(), time.process_time()
        rod.motions(still, still, tension, STEP_S)
        clock_s, processor_s = time.perf_counter() - clock_s, time.process_time() - processor_s
        factor = count * DURATION_S / processor_s
        threads = min(os.cpu_count() or 1, count)
        print(
            f"{count} robots, {threads} threads: {factor:.1f} simulated seconds in a second of processor time,"
            f" {count * DURATION_S / clock_s:.1f} by the clock"
        )
        numbers[f"simulated_per_processor_second_{count}_robots"] = factor
    if json_file is not None:
        json_file.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder secIVa_benchmarking_sequential_cpu/data of SoRoMoX")
    parser.add_argument("--robots", type=int, default=256)
    parser.add_argument("--json", type=Path, help="write the numbers here")
    given = parser.parse_args()
    main(given.data, given.robots, given.json)
