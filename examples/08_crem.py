# SPDX-License-Identifier: Apache-2.0
"""CREM: a thin wire in one backbone, pushed in by millimetres, moves the tip of a bent segment by micrometres."""

import argparse
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from continuum_robot.mechanisms.equilibrium_modulation.equilibrium import modulated_equilibrium
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import end_pose
from continuum_robot.mechanisms.equilibrium_modulation.segment import make_moment_error, make_segment, modulation_of
from continuum_robot.mechanisms.equilibrium_modulation.turning_point import turning_point
from continuum_robot.robot.loading import load_robot


def main(out: Path) -> None:
    """Push the wire from 0 to 40 mm into a segment that is bent by 30, 45 and 60 degrees, and plot the tip's path."""
    mechanism = modulation_of(load_robot("crem_segment"))
    segment, moment_error = make_segment(mechanism), make_moment_error(mechanism)
    insertion_m = np.linspace(0.0, 0.04, 200)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for bend_degrees in (30, 45, 60):
        theta_rad = np.radians(90 - bend_degrees)  # theta is 90 degrees for the straight segment
        state = modulated_equilibrium(segment, theta_rad, 0.0, insertion_m, moment_error)
        tip_m = end_pose(state, segment)[:, :3, 3]
        moved_um = 1e6 * (tip_m - tip_m[0])
        turn_m = turning_point(segment, theta_rad, moment_error)
        at = "no turning point" if turn_m is None else f"it turns back at {1e3 * turn_m:.1f} mm"
        way_um = np.linalg.norm(moved_um[-1])
        print(f"bent by {bend_degrees} degrees: 40 mm of wire move the tip by {way_um:.0f} µm; {at}")
        left.plot(1e3 * insertion_m, np.linalg.norm(moved_um, axis=1), label=f"{bend_degrees} degrees")
        right.plot(moved_um[:, 0], moved_um[:, 2])
    left.set(xlabel="wire pushed in [mm]", ylabel="tip moved [µm]")
    left.legend(title="bent by", frameon=False)
    right.set(xlabel="tip along x [µm]", ylabel="tip along z [µm]", aspect="equal")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "08_crem.png", dpi=110)
    print(f"plot: {out / '08_crem.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="folder of the plot")
    main(parser.parse_args().out)
