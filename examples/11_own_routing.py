# SPDX-License-Identifier: Apache-2.0
"""A tendon routing of your own: one class, a name in the robot file, and both rods, statics and drawings take it."""

import argparse
import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.robot.segments.routing import TendonRouting
from continuum_robot.rod.cosserat.description import cosserat_rod
from continuum_robot.rod.cosserat.statics import solve
from continuum_robot.rod.rod import Rod


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveRouting(TendonRouting):
    """To and fro. As entry point "wave" of continuum_robot.tendon_routings files take {kind: wave, swing_rad: 0.4}."""

    kind: str = quantity("to and fro", default="wave", choices=("wave",))
    swing_rad: float = quantity("largest angle from its own", "rad", ge=-3, le=3)

    def at(self, s_m, length_m, pitch_radius_m, angle_rad):
        """x, y and their derivatives by the arc length."""
        per_m = 2 * np.pi / length_m
        angle = angle_rad + self.swing_rad * np.sin(per_m * s_m)
        turning = self.swing_rad * per_m * np.cos(per_m * s_m)
        x, y = pitch_radius_m * np.cos(angle), pitch_radius_m * np.sin(angle)
        return x, y, -y * turning, x * turning


def main(out: Path) -> None:
    """Pull one tendon that winds to and fro; where is the tip by strain coefficients, and by the Cosserat rod?"""
    robot = load_robot("rucker")
    figure, axis = plt.subplots(layout="constrained")
    for swing_rad in (0.0, 0.4, 0.8):
        routing = WaveRouting(swing_rad=swing_rad)
        tendon = dataclasses.replace(robot.routed_tendons[0], name="wave", routing=routing)
        rod = Rod(robot.changed(routed_tendons=(tendon,)))
        tension_n = [0, 0, 0, 0, 3]
        shape = rod.poses(rod.equilibrium(tension_n).c, np.linspace(0, rod.length_m, 61))[:, :3, 3]
        apart_mm = 1e3 * np.linalg.norm(shape[-1] - solve(cosserat_rod(rod.description), tension_n).tip_m)
        print(f"swing {swing_rad} rad: tip at {1e3 * shape[-1].round(4)} mm, by Cosserat {apart_mm:.4f} mm away")
        axis.plot(1e3 * shape[:, 1], 1e3 * shape[:, 2], label=f"swing {swing_rad} rad")
    axis.set(xlabel="y [mm]", ylabel="z [mm]", aspect="equal", title="3 N on a winding tendon")
    figure.legend(frameon=False, loc="outside right upper")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "11_own_routing.png", dpi=110)
    print("plot:", out / "11_own_routing.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="folder of the plot")
    main(parser.parse_args().out)
