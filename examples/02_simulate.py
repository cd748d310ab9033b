# SPDX-License-Identifier: Apache-2.0
"""Simulate and plot: motors pull at the tendons of a rod, which swings, and hangs bent in the end."""

import argparse
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod
from continuum_robot.simulation.plant import Plant

STEP_S = 0.002


def main(out: Path) -> None:
    """Pull 3 N more at the first of five tendons, for 1.5 s, and plot bending, tensions and the tip's path."""
    robot = load_robot("opencr_five_tendon")
    plant = Plant(robot)
    rod = Rod(robot)
    pretension_n = np.full(robot.tendon_count, 3.0)
    pull_n = pretension_n + np.array([3.0, 0, 0, 0, 0])

    time_s = STEP_S * np.arange(1000)
    curvature, tension, tip = [], [], []
    for now_s in time_s:
        plant.advance(pull_n if now_s >= 0.5 else pretension_n, STEP_S)
        curvature.append(plant.c)
        tension.append(plant.tension)
        tip.append(rod.poses(plant.c, [robot.length_m])[0, :3, 3])
    bend_degrees = np.degrees(robot.length_m * np.array(curvature))
    tip_mm = 1e3 * np.array(tip)
    print(f"bent by               {np.linalg.norm(bend_degrees[-1]):.2f} degrees in the end")
    print(f"tip                   {np.round(tip_mm[-1], 2)} mm in the base frame, z along the straight backbone")
    print(f"tensions              {np.round(tension[-1], 2)} N")

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    left.plot(time_s, bend_degrees, label=["about x", "about y"])
    left.set(xlabel="time [s]", ylabel="bending angle [degrees]")
    left.legend(frameon=False)
    middle.plot(time_s, tension, label=[f"tendon {j + 1}" for j in range(robot.tendon_count)])
    middle.set(xlabel="time [s]", ylabel="tension [N]")
    middle.legend(frameon=False)
    right.plot(tip_mm[:, 0], tip_mm[:, 2])
    right.set(xlabel="tip x [mm]", ylabel="tip z [mm]")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "02_simulate.png", dpi=110)
    print(f"plot                  {out / '02_simulate.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="folder of the plot")
    main(parser.parse_args().out)
