# SPDX-License-Identifier: Apache-2.0
"""The section of what lies between motors and tendons where these are not one to one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from continuum_robot.robot.schema import quantity, refuse

Vector: TypeAlias = NDArray[np.float64]

_RANK = 1e-9  # smallest singular value that counts, of the largest
_NOTHING = 1e-300  # whose logarithm is finite


@dataclass(frozen=True, slots=True, kw_only=True)
class Transmission:
    """How motors pull tendons that they share, or on spools that grow. Motors' entries have ``column`` then."""

    matrix: tuple[tuple[float, ...], ...] = quantity(
        "a row for each tendon with an entry for each motor: tendon that is pulled in per metre that the motor winds;"
        " none: a motor for each tendon",
        default=(),
        ge=-100,
        le=100,
    )
    preload_n: float = quantity(
        "tension of every tendon with the robot straight and the motors at zero, as it was mounted; where there are"
        " fewer motors than tendons",
        default=0.0,
        ge=0,
        le=1e5,
    )
    layer_m: tuple[float, ...] = quantity(
        "of each motor: by how much the radius at which the tendon winds grows in a turn, from the spool's radius at"
        " the motor's zero: the tendon's thickness where each turn lies on the one before; none: it does not grow",
        default=(),
        ge=0,
        le=0.02,
    )

    def coupling(self, tendon_count: int) -> Vector:
        """T, (N, M): displacements of the tendons for those that the motors wind."""
        return np.array(self.matrix) if self.matrix else np.eye(tendon_count)

    def motors(self, tendon_count: int) -> NDArray[np.intp]:
        """The motor whose current stands for each tendon's, (N,): that which moves it most, and each for
        some tendon.
        """
        size = np.abs(self.coupling(tendon_count))
        found = size.argmax(axis=1)
        tendons, motors = linear_sum_assignment(np.log(np.maximum(size, _NOTHING)), maximize=True)
        found[tendons] = motors
        return np.asarray(found)

    def check(self, tendon_count: int) -> None:
        """Refuse what does not fit a robot of ``tendon_count`` tendons."""
        if not (self.matrix or self.layer_m):
            raise refuse("transmission", "neither matrix nor layer_m", "one of them, or no transmission")
        if self.matrix and len(self.matrix) != tendon_count:
            raise refuse("transmission.matrix", len(self.matrix), f"{tendon_count} rows, one a tendon")
        for row, entries in enumerate(self.matrix):
            if len(entries) != len(self.matrix[0]):
                expected = f"{len(self.matrix[0])} entries, one a motor, as the first row has"
                raise refuse(f"transmission.matrix[{row}]", list(entries), expected)
            if not any(entries):
                raise refuse(f"transmission.matrix[{row}]", list(entries), "a motor that pulls this tendon")
        matrix = self.coupling(tendon_count)
        motors = matrix.shape[1]
        if not motors or np.linalg.matrix_rank(matrix, _RANK * np.abs(matrix).max()) < motors:
            expected = "columns that are independent: a motor whose motion the others can undo moves no tendon"
            raise refuse("transmission.matrix", [list(row) for row in self.matrix], expected)
        if len(self.layer_m) not in (0, motors):
            raise refuse("transmission.layer_m", self.layer_m, f"{motors} values, one a motor")
        if (self.preload_n > 0) != (motors < tendon_count):
            expected = (
                f"above 0 N: {motors} motors hold {tendon_count} tendons tight by the preload alone"
                if motors < tendon_count
                else "0, since there is a motor for each tendon: control.pretension_n is what they hold"
            )
            raise refuse("transmission.preload_n", self.preload_n, expected)
