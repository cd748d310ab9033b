# SPDX-License-Identifier: Apache-2.0
"""My own controller in the loop: a class of yours closes the 1 kHz loop of a simulated robot, in virtual time."""

import argparse
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from continuum_robot.control.tendon_forces import distribute
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.plant import Plant

CYCLE_S = 0.001


class MyController:
    """PI on the Clarke coordinates with damping by their rate: displacements and velocities in, tensions out."""

    def __init__(self, manifold, p=8000.0, i=40000.0, d=250.0):
        self.manifold, self.p, self.i, self.d = manifold, p, i, d
        self.sum = np.zeros(manifold.coordinate_count)

    def update(self, displacement_m, velocity_m_per_s, desired_m, desired_m_per_s):
        """One cycle; never pull with less than 3 N, for slack tendons do not steer."""
        error = desired_m - self.manifold.clarke(displacement_m)
        self.sum += CYCLE_S * error
        rate_error = desired_m_per_s - self.manifold.clarke(velocity_m_per_s)
        force = self.p * error + self.i * self.sum + self.d * rate_error
        return distribute("shift", force, self.manifold, pretension_n=3.0)


def main(out: Path) -> None:
    """Draw a circle of 8 mm in the Clarke plane in 2 s, and plot it beside what was desired."""
    robot = load_robot("opencr_five_tendon")
    plant, manifold, controller = Plant(robot), clarke_manifold(robot), MyController(clarke_manifold(robot))
    time_s = CYCLE_S * np.arange(2500)
    circle_m = 0.008 * np.stack([np.cos(np.pi * time_s), np.sin(np.pi * time_s)], axis=1)
    desired_m = np.minimum(time_s / 0.5, 1.0)[:, None] * circle_m
    measured_m = np.zeros_like(desired_m)
    for k, (desired, rate) in enumerate(zip(desired_m, np.gradient(desired_m, CYCLE_S, axis=0), strict=True)):
        measured_m[k] = manifold.clarke(plant.displacement)
        plant.advance(controller.update(plant.displacement, plant.velocity, desired, rate), CYCLE_S)
    rmse_mm = 1e3 * np.sqrt(np.mean((desired_m - measured_m)[500:] ** 2, axis=0))
    print(f"RMSE after 0.5 s      q_Re {rmse_mm[0]:.3f} mm, q_Im {rmse_mm[1]:.3f} mm")

    figure, axis = plt.subplots(figsize=(5, 5), layout="constrained")
    axis.plot(*(1e3 * desired_m.T), "--", label="desired")
    axis.plot(*(1e3 * measured_m.T), label="measured")
    axis.set(xlabel="q_Re [mm]", ylabel="q_Im [mm]", aspect="equal")
    axis.legend(frameon=False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "03_my_controller.png", dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="folder of the plot")
    main(parser.parse_args().out)
