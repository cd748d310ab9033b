# SPDX-License-Identifier: Apache-2.0
"""A rod built in Python, without a robot file: statics, motion, and a payload changed between two calls."""

import argparse
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.backbone import Backbone, Disks
from continuum_robot.robot.segments.segment import Segment
from continuum_robot.robot.segments.tendons import Tendons
from continuum_robot.rod import Rod


def finger() -> Robot:
    """A silicone finger of 15 cm with three tendons, which bends, twists and stretches."""
    segment = Segment(
        name="finger",
        length_m=0.15,
        backbone=Backbone(
            youngs_modulus_pa=1.2e6, poisson_ratio=0.48, density_kg_per_m3=1070, outer_diameter_m=0.02
        ),
        disks=Disks(count=0, radius_m=0.01),
        tendons=Tendons(count=3, pitch_radius_m=0.008),
        basis=Basis(kind="chebyshev", bending_order=2, torsion_order=0, extension_order=0),
        bending_damping_nms=2e-3,
    )
    return Robot(name="finger", segments=(segment,), gravity_m_per_s2=(0.0, 0.0, 9.81))


def main(out: Path) -> None:
    """Pull at the first tendon, load the tip, and let go."""
    rod = Rod(finger())
    places_m, still = np.linspace(0, 0.15, 60), np.zeros((1, rod.n))
    figure, axis = plt.subplots(layout="constrained")
    for payload_kg in (0.0, 0.01, 0.02):
        rod.payload_kg = payload_kg
        c = rod.equilibrium([4.0, 0.0, 0.0]).c
        shape_mm = 1e3 * rod.poses(c, places_m)[:, :3, 3]
        print(f"{1e3 * payload_kg:.0f} g at the tip: {np.round(shape_mm[-1], 2)} mm")
        axis.plot(shape_mm[:, 0], shape_mm[:, 2], label=f"{1e3 * payload_kg:.0f} g")
    for after_s in (0.05, 0.2, 1.0):
        end, _ = rod.motions(c[None], still, np.zeros((1, round(after_s / 1e-3), 3)), 1e-3)
        print(f"{after_s:.2f} s after release: {np.round(1e3 * rod.poses(end[0], 0.15)[0, :3, 3], 2)} mm")
    axis.set(xlabel="x [mm]", ylabel="z [mm]", aspect="equal")
    axis.legend(title="at the tip", frameon=False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "13_rod_in_python.png", dpi=110)
    print(f"plot: {out / '13_rod_in_python.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="folder of the plot")
    main(parser.parse_args().out)
