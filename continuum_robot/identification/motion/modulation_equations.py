# SPDX-License-Identifier: Apache-2.0
"""The motors' forces against what a segment with equilibrium modulation asks for: linear in what is looked for.

F_j(t) = T_j + m q_j'' + b q_j' + F_c h(q_j) + a_j sin(w q_j) + b_j cos(w q_j) + o_j

as in motion/coordinate_equations.py, with D^T T = D^T d D x' + E K x, q = D x, of links without mass and drives that do
not stretch. The motors' viscous friction is that of the file: guides resist as it does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.identification.motion.mechanisms import stiffness_at_rest
from continuum_robot.identification.motion.motors import DRY, Motors
from continuum_robot.identification.motion.samples import DriveSamples
from continuum_robot.identification.motion.unknowns import LAG_S, MotionFitSettings, Unknowns, weights
from continuum_robot.identification.procedures.procedure import driven_parts
from continuum_robot.mechanisms.equilibrium_modulation.building import modulation_of
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]


class ModulationEquations:
    """Forces on the coordinates of a segment; see :class:`~.unknowns.ForceEquations` for what it shares with others.

    Parameters
    ----------
    robot : with equilibrium modulation and a motor on each drive
    samples : at even times
    settings : how they are used
    """

    def __init__(self, robot: Robot, samples: DriveSamples, settings: MotionFitSettings) -> None:
        self.unknowns = Unknowns.of(robot, float(np.abs(samples.force_n).mean()), settings.prior)
        parameters, (actuators, _) = self.unknowns.parameters, driven_parts(robot)
        motors = Motors(robot, samples, parameters, settings.stretching_hz)
        kept = motors.kept(settings.samples_hz)
        self.time_s = samples.time_s[kept]
        D = np.asarray(clarke_manifold(robot).displacement_matrix)
        inertia, rate, dry = motors.moving
        # Every column as forces on the coordinates, (T, 3); the last two of the parameters by a factor on the file's.
        units, scales = parameters.motor_units, parameters.scales
        columns = [inertia @ D * units[0] * scales[0], dry @ D * units[DRY] * scales[1]]
        columns += [modulation_of(robot).guide_damping_ns_per_m * rate @ D]
        columns += [motors.place_m @ np.linalg.pinv(D).T @ stiffness_at_rest(robot, 0.0)]
        columns += [column @ D for column in motors.of_each()]
        columns.append(np.zeros((len(rate), 3)))
        asked = np.stack(columns, axis=2)
        self._columns, self._late = asked[kept], LAG_S * motors.slope(asked)[kept]
        self.pulled = ((motors.force_n - actuators.viscous_ns_per_m * rate) @ D)[kept]
        self.forces = self.pulled - self.pulled.mean(axis=0)

    def linearised(self, unknowns: Vector) -> tuple[Vector, Vector, Vector]:
        """What is left of the forces (T, 3), its slopes (T, 3, U) and weights (3,), 1/N.

        Parameters
        ----------
        unknowns : shape (U,)
        """
        lag = self.unknowns.lag
        # Late by a lag is what the model asks for: of the measured forces' slope the noise would count as well.
        columns, late = self._columns - unknowns[lag] * self._late, self._late @ unknowns
        rows, slopes = self.pulled - columns @ unknowns, -columns
        slopes[:, :, lag] = late
        return rows, slopes, weights(rows, self.forces)

    def fraction(self, _unknowns: Vector, _step: Vector) -> float:
        """All of it; arguments as of :class:`~.ForceEquations`."""
        return 1.0
