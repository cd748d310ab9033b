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
from continuum_robot.identification.motion.unknowns import MotionFitSettings, Unknowns, weights
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
        D, count = np.asarray(clarke_manifold(robot).displacement_matrix), robot.tendon_count
        place, rate = motors.place_m[kept], motors.rate_m_per_s[kept]
        inertia, _, dry = motors.moving[:, kept]
        own = np.eye(count)
        # Every column as forces on the coordinates, (T, 3); the last two of the parameters by a factor on the file's.
        units, scales = parameters.motor_units, parameters.scales
        columns = [inertia @ D * units[0] * scales[0], dry @ D * units[DRY] * scales[1]]
        columns += [modulation_of(robot).guide_damping_ns_per_m * rate @ D]
        columns += [place @ np.linalg.pinv(D).T @ stiffness_at_rest(robot, 0.0)]
        columns += [wave[kept][:, [j]] * own[j] @ D for wave in motors.waves for j in range(count)]
        columns += [np.tile(own[j] @ D, (len(place), 1)) for j in range(count)]
        columns.append(motors.late[kept] @ D)
        self._columns = np.stack(columns, axis=2)
        self.pulled = (motors.force_n[kept] - actuators.viscous_ns_per_m * rate) @ D
        self.forces = self.pulled - self.pulled.mean(axis=0)

    def linearised(self, unknowns: Vector) -> tuple[Vector, Vector, Vector]:
        """What is left of the forces (T, 3), its slopes (T, 3, U) and weights (3,), 1/N.

        Parameters
        ----------
        unknowns : shape (U,)
        """
        rows = self.pulled - self._columns @ unknowns
        return rows, -self._columns, weights(rows, self.forces)

    def fraction(self, _unknowns: Vector, _step: Vector) -> float:
        """All of it; arguments as of :class:`~.ForceEquations`."""
        return 1.0
