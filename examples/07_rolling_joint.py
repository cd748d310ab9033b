# SPDX-License-Identifier: Apache-2.0
"""Rolling joint: links that roll on each other, held by two tendons, and how stiff they are."""

import argparse
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from continuum_robot.mechanisms.rolling_joint.building import make_linkage, rolling_joint_of
from continuum_robot.mechanisms.rolling_joint.statics import Load, RollingStatics
from continuum_robot.mechanisms.rolling_joint.unloaded_curve import RollingParts
from continuum_robot.robot.loading import load_robot


def main(out: Path) -> None:
    """Pull more and more at the left tendon, push at the last link, and plot the poses."""
    robot = load_robot("rolling_five_link")
    drawing = RollingParts(robot)
    statics = RollingStatics(make_linkage(rolling_joint_of(robot)))
    last = statics.linkage.joint_count + 1
    figure, axis = plt.subplots(figsize=(6, 6), layout="constrained")
    for number, left_n in enumerate((3.0, 4.0, 6.0)):
        free = statics.solve_tension((left_n, 3.0))
        pushed = statics.solve_tension((left_n, 3.0), [Load(link=last, force_n=(0.05, 0.0))])
        moved_mm = 1e3 * np.linalg.norm(pushed.poses[-1, :2] - free.poses[-1, :2])
        print(
            f"left {left_n:.0f} N, right 3 N: the last link at {np.degrees(free.poses[-1, 2]):.1f} degrees, "
            f"0.05 N push it by {moved_mm:.2f} mm, friction of {pushed.needed_friction:.2f} keeps it from slipping"
        )
        for at, style in ((free, "-"), (pushed, ":")):
            for outline in drawing.outlines(at.contact_m):
                axis.plot(1e3 * outline[:, 0], 1e3 * outline[:, 2], style, color=f"C{number}", lw=1)
    axis.set(xlabel="x [mm]", ylabel="z [mm]", aspect="equal", title="dotted: with a push of 0.05 N")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "07_rolling_joint.png", dpi=110)
    print(f"plot: {out / '07_rolling_joint.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="folder of the plot")
    main(parser.parse_args().out)
