# SPDX-License-Identifier: Apache-2.0
"""A swing from rest to rest in 0.4 s: tensions by statics, and tensions found by the gradient of the motion."""

import argparse
import dataclasses
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from continuum_robot import Rod, load_robot
from continuum_robot.rod.trajectory import driven_rod, optimal_tensions
from continuum_robot.simulation.plant import Plant

STEP_S = 0.002
SWINGS = {"opencr_five_tendon": (0, 1.5), "two_segment": (5, 1.0)}  # tendon that pulls more, and how much, N


def tips(plant: Plant, rod: Rod, tension: np.ndarray) -> np.ndarray:
    """Tip of the simulated robot, whose tendons stretch and whose motors lag, at each step, (steps, 3), m."""
    plant.advance(tension[0], 1.0)  # to rest
    found = []
    for pull in tension:
        plant.advance(pull, STEP_S)
        found.append(rod.moved(plant.c)[0][:3, 3])
    return np.array(found)


def main(out: Path) -> None:
    """Swing two robots, and print how far their tips are from the target after the swing, at most."""
    figure, axes = plt.subplots(2, len(SWINGS), figsize=(11, 6), sharex=True, layout="constrained")
    for (name, (tendon, more_n)), (upper, lower) in zip(SWINGS.items(), axes.T, strict=True):
        robot = load_robot(name)
        # Dry friction holds such a robot wherever it is: then a controller has to follow found.displacement_m instead.
        motors = dataclasses.replace(robot.actuators, coulomb_friction_nm=0.0, cogging_amplitude_nm=0.0)
        robot, pull_n = robot.changed(actuators=motors), np.full(robot.tendon_count, 4.0)
        start = (rod := driven_rod(robot)).equilibrium(pull_n)
        pull_n[tendon] += more_n
        target = rod.moved(rod.equilibrium(pull_n).c)[0][:3, 3]
        limits = {"start": start, "least_n": 1.5, "most_n": 12.0, "step_s": STEP_S}
        found = optimal_tensions(rod, target, 0.4, **limits)
        steps, end = len(found.tension_n), found.rest_n
        ramp = start.tension + np.linspace(0, 1, steps)[:, None] * (end - start.tension)
        for kind, tension in (("statics", ramp), ("gradient", found.tension_n)):
            whole = np.vstack([tension, np.tile(end, (300, 1))])
            off_mm = 1e3 * np.linalg.norm(tips(Plant(robot), rod, whole) - target, axis=1)
            print(f"{name} by {kind}: {off_mm[steps:].max():.2f} mm from the target after the swing")
            upper.plot(STEP_S * np.arange(len(whole)), off_mm, label=kind)
            lower.plot(STEP_S * np.arange(len(whole)), whole[:, tendon], label=kind)
        upper.set(title=name, ylabel="tip from target [mm]")
        lower.set(xlabel="time [s]", ylabel=f"tendon {tendon + 1} [N]")
    axes[0, 0].legend(frameon=False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "17_swing.png", dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="folder of the plot")
    main(parser.parse_args().out)
