# SPDX-License-Identifier: Apache-2.0
"""Figures of docs/explanation, each computed by the code that it explains.

In docs/, ``python -m pages.figures`` draws them.

They show robots of config/robots, and come out the same every time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.tendon_forces import distribute, initial_tension
from continuum_robot.estimation.contact.observers import MomentumObserver
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, figure
from continuum_robot.geometry.arcs import backbone_poses
from continuum_robot.geometry.clarke import clarke_from_arc
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import coefficients_from_clarke, string_matrix

Array = NDArray[np.float64]
Drawn = Callable[[Path], Path]

IMAGES = Path(__file__).resolve().parents[1] / "images"
_MM = 1e3


def frames_and_coordinates(folder: Path) -> Path:
    """One bent segment with its base and tip frame, its tendons, direction phi and angle theta.

    Parameters
    ----------
    folder : where the picture goes
    """
    robot = load_robot("opencr_five_tendon")
    segment = robot.segments[0]
    phi, theta, length_m = np.array([np.pi / 5]), np.array([1.2]), segment.length_m
    poses = backbone_poses(phi, theta, [length_m], np.linspace(0, length_m, 60))
    angles = segment.tendons.angles_rad
    around = segment.tendons.pitch_radius_m * np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=-1)
    file = folder / "concepts_frames.png"
    options: dict[str, Any] = {"size": (8.6, 3.9), "width_ratios": [1.5, 1], "subplot_kw": {}}
    with figure(file, "Frames, tendons, direction and angle (robot opencr_five_tendon)", 1, 2, **options) as (
        drawing,
        axes,
    ):
        axes[0].remove()
        space = drawing.add_subplot(1, 2, 1, projection="3d")
        path = poses[:, :3, 3] * _MM
        space.plot(*path.T, color=REFERENCE, linewidth=2.5)
        for index, place in enumerate(around):
            tendon = (poses[:, :3, 3] + poses[:, :3, :3] @ place) * _MM
            space.plot(*tendon.T, color=COLOURS[index], linewidth=1)
        for pose, name in ((poses[0], "base"), (poses[-1], "tip")):
            for axis, label, colour in zip(range(3), "xyz", ("#D62728", "#2CA02C", "#1F77B4"), strict=True):
                start, end = pose[:3, 3] * _MM, pose[:3, 3] * _MM + 45 * pose[:3, axis]
                space.plot(*np.stack([start, end]).T, color=colour)
                space.text(*end, label, color=colour)
            space.text(*(pose[:3, 3] * _MM + 12), name)
        space.set(xlabel="x / mm", ylabel="y / mm", zlabel="z / mm")
        space.set_aspect("equal")
        space.locator_params(nbins=4)
        space.view_init(18, -70)
        plane = axes[1]
        circle = np.linspace(0, 2 * np.pi, 200)
        radius = segment.tendons.pitch_radius_m * _MM
        plane.plot(radius * np.cos(circle), radius * np.sin(circle), color="#999999", linewidth=0.8)
        for index, place in enumerate(around * _MM):
            plane.plot(*place[:2], "o", color=COLOURS[index], markersize=9)
            plane.annotate(
                f"tendon {index + 1}", place[:2], xytext=(1.35 * place[0], 1.3 * place[1]), ha="center", va="center"
            )
        plane.annotate("", (radius * np.cos(phi[0]), radius * np.sin(phi[0])), (0, 0), arrowprops={"arrowstyle": "-|>"})
        plane.set(
            aspect="equal",
            xlabel="x / mm",
            ylabel="y / mm",
            title="cross-section, seen from the tip;\nthe arrow is φ, towards which the tip moves",
        )
        plane.set_xlim(-1.8 * radius, 1.9 * radius)
        plane.set_ylim(-1.5 * radius, 1.5 * radius)
    return file


def clarke_plane(folder: Path) -> Path:
    """A circle in the Clarke plane, and the displacements of five tendons that it stands for.

    Parameters
    ----------
    folder : where the picture goes
    """
    robot = load_robot("opencr_five_tendon")
    tendons = robot.segments[0].tendons
    manifold = clarke_manifold(robot)
    phi = np.linspace(0, 2 * np.pi, 200)
    clarke = clarke_from_arc(phi, np.full_like(phi, 1.0), tendons.pitch_radius_m)
    displacement = manifold.displacement(clarke)
    file = folder / "concepts_clarke.png"
    with figure(file, "Two numbers instead of five: the Clarke plane", 1, 2, size=(8.4, 3.4)) as (_, axes):
        axes[0].plot(*clarke.T * _MM, color=COLOURS[0])
        axes[0].plot(*clarke[25] * _MM, "o", color=REFERENCE)
        axes[0].plot([0, clarke[25, 0] * _MM], [0, clarke[25, 1] * _MM], color=REFERENCE, linewidth=0.8)
        axes[0].annotate("r θ, at angle φ", clarke[25] * _MM / 2, xytext=(4, -10), textcoords="offset points")
        axes[0].set(aspect="equal", xlabel="q_Re / mm", ylabel="q_Im / mm", title="θ = 1 rad, φ once around")
        for index, line in enumerate(displacement.T):
            axes[1].plot(np.rad2deg(phi), line * _MM, color=COLOURS[index], label=f"tendon {index + 1}")
        axes[1].plot(np.rad2deg(phi), displacement.sum(axis=1) * _MM, color=REFERENCE, linestyle=":", label="their sum")
        axes[1].set(xlabel="φ / °", ylabel="displacement / mm, pulled in positive", title="q_j = r θ cos(ψ_j − φ)")
        axes[1].set_ylim(-11.5, 7.6)
        axes[1].legend(ncols=3, loc="lower center")
    return file


def force_shifting(folder: Path) -> Path:
    """Tendon forces for one generalised force by the three strategies.

    Parameters
    ----------
    folder : where the picture goes
    """
    robot = load_robot("opencr_five_tendon")
    tendons = robot.segments[0].tendons
    manifold = clarke_manifold(robot)
    desired, pretension_n = np.array([4.0, 2.0]), 1.0
    plain = initial_tension(desired, manifold)  # muhmann (26)
    shown = {
        "as the Clarke transform gives them": plain,
        **{name: distribute(name, desired, manifold, pretension_n) for name in ("clip", "redistribute", "shift")},
    }
    file = folder / "concepts_forces.png"
    title = f"Tendon forces for w = ({desired[0]:g}, {desired[1]:g}) N, pretension {pretension_n:g} N"
    with figure(file, title, 1, 4, size=(9.6, 2.9), sharey=True) as (_, axes):
        for axis, (name, force) in zip(axes, shown.items(), strict=True):
            axis.bar(np.arange(1, tendons.count + 1), force, color=COLOURS[: tendons.count])
            axis.axhline(0, color=REFERENCE, linewidth=0.8)
            got = manifold.generalized_force(force)
            axis.set_title(f"{name}\ngives ({got[0]:.2f}, {got[1]:.2f}) N")
            axis.set_xlabel("tendon")
        axes[0].set_ylabel("force / N")
    return file


def shape_from_strings(folder: Path) -> Path:
    """A pose of a segment with strings, what tendons alone make of it, and what strings add.

    Parameters
    ----------
    folder : where the picture goes
    """
    robot = load_robot("vanderbilt_segment")
    rod = Rod(robot)
    c = np.zeros(rod.n)
    c[[1, 3, 5]] = 2.2, -1.6, 0.9  # a shape like that under a side load: not an arc of constant curvature
    s_m = np.linspace(0, robot.length_m, 80)
    displacement, strings = rod.displacement(c), string_matrix(robot) @ c
    arc = coefficients_from_clarke(robot) @ clarke_manifold(robot).clarke(displacement)
    estimator = ShapeEstimator(robot)
    for _ in range(60):
        estimate = estimator.update(displacement, np.zeros_like(displacement), strings, 0.01)
    lines = {
        "true": rod.poses(c, s_m),
        "constant curvature, from the tendons": rod.poses(arc, s_m),
        "estimated, from tendons and strings": rod.poses(estimate.coefficients, s_m),
    }
    file = folder / "concepts_shape.png"
    with figure(file, "Shape from tendons and from strings (robot vanderbilt_segment)", 1, 2, size=(8.4, 3.4)) as (
        _,
        axes,
    ):
        for index, (name, poses) in enumerate(lines.items()):
            style = {"color": REFERENCE, "linewidth": 3} if name == "true" else {"color": COLOURS[index]}
            axes[0].plot(poses[:, 0, 3] * _MM, poses[:, 2, 3] * _MM, label=name, **style)
            if name != "true":
                error = np.linalg.norm(poses[:, :3, 3] - lines["true"][:, :3, 3], axis=1)
                axes[1].plot(s_m * _MM, error * _MM, color=COLOURS[index], label=name)
        axes[0].set(xlabel="x / mm", ylabel="z / mm")
        axes[1].set(xlabel="arc length / mm", ylabel="distance from the true shape / mm")
        axes[1].legend()
    return file


def momentum_observer(folder: Path) -> Path:
    """What the momentum observer makes of a force that rises, stays and goes: first-order lag, and its threshold.

    Parameters
    ----------
    folder : where the picture goes
    """
    gain_per_s, dt = 25.0, 1e-3
    time_s = np.arange(0, 1.2, dt)
    force = np.interp(time_s, [0.2, 0.4, 0.8, 0.9], [0, 1, 1, 0])
    # A body on which nothing but the contact acts: its momentum is the integral of the force.
    momentum = np.cumsum(force) * dt
    observer = MomentumObserver(gain_per_s, size=1)
    residual = np.array([observer.update([p], [0.0], dt)[0] for p in momentum])
    bound = 0.3
    first = int(np.argmax(residual > bound))
    file = folder / "concepts_contact.png"
    with figure(file, "A contact as the momentum observer sees it, K_o = 25 1/s", 1, 1, size=(7.4, 2.9)) as (_, axis):
        axis.plot(time_s, force, color=REFERENCE, label="force of the contact")
        axis.plot(time_s, residual, color=COLOURS[0], label="residual")
        axis.axhline(bound, color=COLOURS[1], linestyle="--", label="threshold: what errors can make")
        axis.axvspan(time_s[first], time_s[np.flatnonzero(residual > bound)[-1]], color=COLOURS[1], alpha=0.12)
        axis.set(xlabel="time / s", ylabel="fraction of the force")
        axis.legend()
    return file


def strains_and_routings(folder: Path) -> Path:
    """Functions of a strain, the shape that each coefficient makes alone, and paths of three kinds of tendons.

    Parameters
    ----------
    folder : where the picture goes
    """
    robot = load_robot("rucker")
    rod, length_m = Rod(robot), robot.length_m
    s_m = np.linspace(0, length_m, 120)
    turns = rod.jacobian(np.zeros(rod.n), 0.01 * length_m)[4]
    about_y = np.flatnonzero(np.abs(turns) > 1e-9)  # coefficients of bending about y, in the order of their functions
    file = folder / "rod_strains.png"
    with figure(file, "Strain functions, shapes and tendon paths (robot rucker)", 1, 3, size=(9.6, 3.5)) as (_, axes):
        for order in range(4):
            values = np.polynomial.chebyshev.chebval(2 * s_m / length_m - 1, np.eye(4)[order])
            c = np.zeros(rod.n)
            c[about_y[order]] = 5.0
            place = rod.poses(c, s_m)[:, :3, 3] * _MM
            axes[0].plot(s_m * _MM, values, color=COLOURS[order])
            axes[1].plot(place[:, 0], place[:, 2], color=COLOURS[order], label=f"order {order}")
        axes[0].set(xlabel="arc length / mm", ylabel="function", title="Chebyshev functions")
        axes[1].set(xlabel="x / mm", ylabel="z / mm", aspect="equal", title="coefficient 5 /m of one function")
        axes[1].legend()
        for index, (tendon, name) in enumerate(((0, "straight"), (4, "helical"), (5, "polynomial"))):
            x_m, _, _, _ = robot.tendon_paths[tendon].at(s_m)
            axes[2].plot(x_m * _MM, s_m * _MM, color=COLOURS[index], label=name)
        axes[2].axvline(0, color=REFERENCE, linewidth=2)
        axes[2].set(
            xlabel="x / mm", ylabel="z / mm", xlim=(-10, 24), title="tendons of the straight rod, from the side"
        )
        axes[2].legend(loc="center right")
    return file


BOXES: dict[str, tuple[float, float, str]] = {
    "motors": (0.0, 2.0, "motors,\nor a plant"),
    "driver": (2.0, 2.0, "tendon_driver\n1 kHz clock, limits"),
    "controller": (4.4, 3.0, "clarke_controller"),
    "source": (6.8, 3.0, "reference_source"),
    "strings": (0.0, 0.6, "string\nencoders"),
    "encoder": (2.0, 0.6, "string_encoder"),
    "shape": (4.4, 1.2, "shape_estimator"),
    "contact": (6.8, 1.2, "contact_monitor"),
    "view": (8.9, 2.1, "view, rviz,\nrecorder, yours"),
}
ARROWS = (
    ("motors", "driver", "", True),
    ("driver", "controller", "tendon_states", False),
    ("controller", "driver", "tendon_commands", False),
    ("source", "controller", "clarke_reference", False),
    ("strings", "encoder", "", False),
    ("encoder", "shape", "string_lengths", False),
    ("driver", "shape", "tendon_states\n_decimated", False),
    ("shape", "contact", "shape", False),
    ("contact", "view", "contact", False),
)
LABELS = {
    "tendon_states": (-0.45, 0.42),
    "tendon_commands": (0.55, -0.42),
    "tendon_states\n_decimated": (0.45, 0.14),
    "contact": (-0.2, 0.16),
}


def nodes(folder: Path) -> Path:
    """The nodes and their topics.

    Parameters
    ----------
    folder : where the picture goes
    """
    file = folder / "concepts_nodes.png"
    with figure(file, "Nodes and topics; the supervisor brings all of them up and down", 1, 1, size=(9.6, 3.6)) as (
        _,
        axis,
    ):
        drawn = {}
        for name, (x, y, text) in BOXES.items():
            box = {"boxstyle": "round,pad=0.45", "facecolor": "#EAF2FA", "edgecolor": COLOURS[0]}
            drawn[name] = axis.text(x, y, text, ha="center", va="center", bbox=box, zorder=3)
        for begin, end, text, both in ARROWS:
            (x, y, _), (x_1, y_1, _) = BOXES[begin], BOXES[end]
            bend = -0.2 if text in ("tendon_states", "tendon_commands") else 0.0
            arrow = {
                "arrowstyle": "<|-|>" if both else "-|>",
                "patchA": drawn[begin].get_bbox_patch(),
                "patchB": drawn[end].get_bbox_patch(),
                "color": REFERENCE,
                "connectionstyle": f"arc3,rad={bend}",
            }
            # Drawn after the boxes, which have their place only then.
            axis.annotate("", (x_1, y_1), (x, y), arrowprops=arrow, zorder=4)
            right, up = LABELS.get(text, (0.0, 0.16))
            axis.text((x + x_1) / 2 + right, (y + y_1) / 2 + up, text, ha="center", va="center", fontsize=7.5)
        axis.set_xlim(-0.8, 9.9)
        axis.set_ylim(0.1, 3.5)
        axis.axis("off")
    return file


FIGURES: tuple[Drawn, ...] = (
    frames_and_coordinates,
    clarke_plane,
    force_shifting,
    shape_from_strings,
    momentum_observer,
    strains_and_routings,
    nodes,
)


if __name__ == "__main__":
    for draw in FIGURES:
        sys.stdout.write(f"{draw(IMAGES)}\n")
