# SPDX-License-Identifier: Apache-2.0
"""ROS 2 client: bring a robot up, move it with calls that wait, and watch what the stack measures."""

import argparse
import time
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from continuum_robot.client import Robot


def main(out: Path) -> None:
    """Bend, draw a circle, straighten: a simulated robot; with simulated=False it is the real one."""
    np.set_printoptions(suppress=True)  # 200 mm beside 0.1 mm would be printed as 2.e+02
    trail, begun_s = [], time.monotonic()

    def circle(time_s: float) -> np.ndarray:
        """Clarke coordinates by the time; called for each reference, so it can look at the robot too."""
        trail.append(robot.state.clarke_m.copy())
        return 0.006 * np.array([np.cos(2 * np.pi * time_s / 3), np.sin(2 * np.pi * time_s / 3)])

    with Robot("opencr_five_tendon", visualize=False) as robot:
        print(f"up after              {time.monotonic() - begun_s:.1f} s")
        bent = robot.bend(1, np.radians(40), direction_rad=np.radians(90))
        tip_mm = 1e3 * robot.state.tip_position_m
        print(f"bent by 40 degrees    in {bent.duration_s:.1f} s, tip at {np.round(tip_mm, 1)} mm")
        robot.follow(circle, duration_s=3.0)
        robot.straighten()
        state = robot.state
        print(f"straight again        tip at {np.round(1e3 * state.tip_position_m, 1)} mm")
        print(f"tensions              {np.round(state.tension_n, 1)} N, faults: {state.faults or 'none'}")

    measured_mm = 1e3 * np.array(trail[1:])  # the first call asks where the circle begins
    figure, axis = plt.subplots(figsize=(5, 5), layout="constrained")
    angle = np.linspace(0, 2 * np.pi, 100)
    axis.plot(6 * np.cos(angle), 6 * np.sin(angle), "--", label="desired")
    axis.plot(*measured_mm.T, label="measured")
    axis.set(xlabel="q_Re [mm]", ylabel="q_Im [mm]", aspect="equal")
    axis.legend(frameon=False, loc="center")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "09_ros2_client.png", dpi=110)
    print(f"plot                  {out / '09_ros2_client.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="folder of the plot")
    main(parser.parse_args().out)
