# SPDX-License-Identifier: Apache-2.0
"""Clarke in five lines: five tendons of one segment are two coordinates, and back."""

import argparse
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from continuum_robot.geometry.clarke import ClarkeTransform, arc_from_clarke, clarke_from_arc


def main(out: Path) -> None:
    """Bend towards 40 degrees by 60 degrees, print all forms of it, and plot the tendons while the direction turns."""
    pitch_radius_m = 0.007
    transform = ClarkeTransform(count=5)
    clarke_m = clarke_from_arc(np.radians(40), np.radians(60), pitch_radius_m)
    displacement_m = transform.backward(clarke_m)
    phi_rad, theta_rad = arc_from_clarke(transform.forward(displacement_m), pitch_radius_m)

    print(f"Clarke coordinates    {np.round(1e3 * clarke_m, 3)} mm")
    print(f"tendons pulled in     {np.round(1e3 * displacement_m, 3)} mm, sum {1e3 * displacement_m.sum():.1e} mm")
    print(f"back to the arc       towards {np.degrees(phi_rad):.1f} degrees by {np.degrees(theta_rad):.1f} degrees")

    turn_rad = np.linspace(0, 2 * np.pi, 200)
    all_m = transform.backward(clarke_from_arc(turn_rad, np.full(200, theta_rad), pitch_radius_m))
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    axis.plot(np.degrees(turn_rad), 1e3 * all_m, label=[f"tendon {j}" for j in range(1, 6)])
    axis.set_xlabel("direction of the bend [degrees]")
    axis.set_ylabel("displacement, pulled in [mm]")
    axis.legend(ncols=5, loc="upper center", bbox_to_anchor=(0.5, 1.12), frameon=False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "01_clarke.png", dpi=110)
    print(f"plot                  {out / '01_clarke.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="folder of the plot")
    main(parser.parse_args().out)
