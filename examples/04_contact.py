# SPDX-License-Identifier: Apache-2.0
"""Contact: something pushes at a robot that holds still, and its motors and string encoders alone show it."""

import argparse
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.references import ClarkeReference
from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.holding_force import clarke_feedforward
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.plant import Plant


def main(out: Path) -> None:
    """Push at the fifth disk from 1 s to 2 s, and plot what the monitor feels of it in virtual time."""
    robot = load_robot("vanderbilt_segment")
    push = Contact(name="push", kind="push", disk=5, force_n=(-35.0, 0, 0), ramp_s=0.2, start_s=1.0, end_s=2.0)
    plant = Plant(robot, contacts=[push])
    estimator, monitor = ShapeEstimator(robot), ContactMonitor(robot)
    controller = ClarkeController(robot, clarke_feedforward(robot))
    controller.reset(plant.displacement, np.full(robot.tendon_count, 104.0))
    time_s = 0.01 * np.arange(300)
    rows = []
    for _ in time_s:
        for _ in range(10):
            output = controller.update(plant.displacement, plant.velocity, ClarkeReference.at_rest(np.zeros(2)), 0.001)
            plant.advance(np.clip(output.command, 0.0, robot.limits.maximum_n), 0.001)
        shape = estimator.update(plant.displacement, plant.velocity, plant.string_extension, 0.01)
        sensed = (shape.coefficients, shape.coefficient_rates, shape.covariance)
        found = monitor.update(*sensed, 0.01, tension=plant.tension)
        known = found.in_contact and found.location.observable
        arc_length_m = found.location.arc_length_m if known else np.nan
        rows.append((found.ratio, found.wrench.wrench[0] if known else np.nan, 1e3 * arc_length_m, found.in_contact))
    ratio, force_n, place_mm, touched = np.array(rows).T
    truth = {"residual / threshold": 1.0, "force along x [N]": -35.0, "location [mm]": 1e3 * push.location_m(robot)}
    touched_s = time_s[touched > 0]
    print(f"detected              from {touched_s[0]:.2f} s to {touched_s[-1]:.2f} s, truly 1 s to 2 s")
    print(f"force along x         {np.nanmedian(force_n):.1f} N, truly -35.0 N")
    print(f"location                 {np.nanmedian(place_mm):.0f} mm, truly {truth['location [mm]']:.0f} mm")
    figure, axes = plt.subplots(3, 1, figsize=(8, 7), sharex=True, layout="constrained")
    for axis, values, (label, true) in zip(axes, (ratio, force_n, place_mm), truth.items(), strict=True):
        axis.plot(time_s, values)
        axis.axhline(true, color="0.5", ls="--")
        axis.axvspan(push.start_s, push.end_s, color="0.92")
        axis.set_ylabel(label)
    axes[2].set_xlabel("time [s]  (grey: pushed; dashed: threshold, truth)")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "04_contact.png", dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="folder of the plot")
    main(parser.parse_args().out)
