# SPDX-License-Identifier: Apache-2.0
"""Static shape under load: one robot by two models, strain coefficients and the Cosserat rod's equations."""

import argparse
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.cosserat.description import cosserat_rod
from continuum_robot.rod.cosserat.statics import solve
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.rod import Rod


def main(out: Path) -> None:
    """Hang 0.1, 0.2 and 0.3 N at the tip of rucker's robot while its helical tendon pulls, and plot the shapes."""
    robot = load_robot("rucker")
    strain_rod = Rod(robot)
    rod = cosserat_rod(strain_rod.description)
    tension_n = np.array([0.0, 0.0, 0.0, 0.0, 2.0, 0.0])
    s_m = np.linspace(0, robot.length_m, 100)
    figure, axis = plt.subplots(figsize=(7, 5), layout="constrained")
    for number, weight_n in enumerate((0.0, 0.1, 0.2, 0.3)):
        loads = [PointWrench(s_m=robot.length_m, force_n=(-weight_n, 0.0, 0.0))]
        coefficients = strain_rod.loaded(loads).equilibrium(tension_n)
        exact = solve(rod, tension_n, loads)
        shape_m = strain_rod.poses(coefficients.c, s_m)[:, :3, 3]
        apart_mm = 1e3 * np.linalg.norm(shape_m[-1] - exact.tip_m)
        stable = "stable" if exact.stable else "not stable"
        print(f"{weight_n:.1f} N: tip at {np.round(1e3 * exact.tip_m, 2)} mm, {stable}, models {apart_mm:.3f} mm apart")
        axis.plot(1e3 * shape_m[:, 2], 1e3 * shape_m[:, 0], color=f"C{number}", lw=4, alpha=0.4)
        exact_m = exact.at(s_m).position_m
        axis.plot(1e3 * exact_m[:, 2], 1e3 * exact_m[:, 0], color=f"C{number}", lw=1, label=f"{weight_n:.1f} N")
    axis.set(xlabel="z [mm]", ylabel="x [mm]", aspect="equal")
    axis.legend(title="wide: strain, thin: Cosserat", frameon=False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "05_static_load.png", dpi=110)
    print(f"plot: {out / '05_static_load.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="folder of the plot")
    main(parser.parse_args().out)
