# SPDX-License-Identifier: Apache-2.0
"""Strain functions of your own: one class, a name, and the rod, its tendons and its statics take it."""

import argparse
import dataclasses
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from continuum_robot.robot.basis import Basis, register
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod


class Sines:
    """A constant, a ramp, and half waves along the segment."""

    def values(self, ratio: float, order: int) -> list[float]:
        """The order + 1 functions at one place."""
        return [1.0, ratio, *(np.sin(np.pi * k * ratio) for k in range(1, order))][: order + 1]

    def breaks(self, _order: int) -> list[float]:
        """Where a function jumps: nowhere."""
        return []

    def degree(self, order: int) -> int:
        """As what the quadrature shall take them: they are no polynomials."""
        return 8 + 4 * order


def main(out: Path) -> None:
    """Bend a robot by its helical tendon; how far is the tip from where many polynomials have it?"""
    register("sines", Sines)
    robot = load_robot("rucker")

    def tip_m(kind: str, order: int) -> np.ndarray:
        basis = Basis(kind=kind, bending_order=order, torsion_order=order, extension_order=order)
        rod = Rod(robot.changed(segments=(dataclasses.replace(robot.segments[0], basis=basis),)))
        return rod.poses(rod.equilibrium([0, 0, 0, 0, 3, 0]).c, robot.length_m)[0, :3, 3]

    orders, limit_m = (2, 4, 6), tip_m("chebyshev", 12)
    figure, axis = plt.subplots(layout="constrained")
    for kind in ("chebyshev", "legendre", "b_spline", "piecewise_constant", "sines"):
        apart_mm = [1e3 * np.linalg.norm(tip_m(kind, order) - limit_m) for order in orders]
        print(f"{kind}:", ", ".join(f"{apart:.6f} mm" for apart in apart_mm), f"with {orders} + 1 functions a strain")
        axis.semilogy(orders, apart_mm, marker="o", label=kind)
    axis.set(xlabel="order", ylabel="tip from that with 13 polynomials [mm]")
    axis.legend(frameon=False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "10_own_basis.png", dpi=110)
    print("plot:", out / "10_own_basis.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="folder of the plot")
    main(parser.parse_args().out)
