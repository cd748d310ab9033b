# SPDX-License-Identifier: Apache-2.0
"""A three-segment robot with known geometry, recordings computed from it without the code under test, real data."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

LENGTHS_M = (0.06, 0.0625, 0.064)
RADIUS_M = 0.0045


def marker_by_small_steps(bending, marker, base=(0, 0, 0), tilt=(0, 0, 0), steps=400):
    """Marker of a chain of arcs with bending vectors theta (cos phi, sin phi), by many short chords."""
    pose, position = Rotation.identity(), np.zeros(3)
    for (x, y), length in zip(bending, LENGTHS_M, strict=True):
        half = Rotation.from_rotvec(np.array([-y, x, 0.0]) / steps / 2)
        for _ in range(steps):
            pose = pose * half
            position = position + pose.apply([0, 0, length / steps])
            pose = pose * half
    in_base = position + pose.apply(marker)
    return Rotation.from_rotvec(tilt).apply(in_base) + np.asarray(base)


def tendon_pull_rows(
    offsets_rad, columns, signs, rng, *, marker, base=(0, 0, 0), tilt=(0, 0, 0), response=1.0, noise_m=0.0
):
    """CSV rows of one tendon at a time pulled, the others 10 mm paid out; ``columns`` in tendon order."""
    rows = []
    released = -0.010
    for tendon, name in enumerate(columns):
        segment, number = divmod(tendon, 3)
        angle = offsets_rad[segment] + 2 * np.pi * number / 3
        fraction = np.array(LENGTHS_M[: segment + 1]) / sum(LENGTHS_M[: segment + 1])
        for pulled in [-0.006, *np.linspace(0, 0.0035, 8), *np.linspace(0.003, 0, 4)]:
            theta = response * max(pulled, 0.0) / RADIUS_M
            bending = np.zeros((3, 2))
            bending[: segment + 1] = theta * fraction[:, None] * [np.cos(angle), np.sin(angle)]
            position = marker_by_small_steps(bending, marker, base, tilt, steps=30) + noise_m * rng.normal(size=3)
            displacement = np.full(9, released)
            displacement[tendon] = pulled
            cells = {other: 1e3 * signs[j] * displacement[j] for j, other in enumerate(columns)}
            rows.append((f"rep1_tendon{tendon}_id{name.split('_')[1]}_pull", cells, 1e3 * position))
    return rows


def write_csv(path, columns, rows):
    lines = [",".join(["timestamp", "pattern_label", *columns, "tip_x", "tip_y", "tip_z"])]
    for index, (label, cells, marker) in enumerate(rows):
        numbers = [f"{cells[name]:.6f}" for name in columns] + [f"{value:.6f}" for value in marker]
        lines.append(",".join([f"{index * 0.5:.3f}", label, *numbers]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
