# SPDX-License-Identifier: Apache-2.0
"""The motors' forces (motion/motors.py) against what a segment with equilibrium modulation asks for.

D^T T = D^T d D x' + E K x, q = D x, of links without mass and drives that do not stretch. The motors' viscous friction
is that of the file: guides resist as it does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.identification.motion.equations import ForceEquations
from continuum_robot.identification.motion.mechanisms import stiffness_at_rest
from continuum_robot.identification.motion.parameters import LAG_S, MotionFitSettings
from continuum_robot.identification.recorded_motion import RecordedMotion
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]


class ModulationEquations(ForceEquations):
    """Forces on the coordinates of a segment.

    Parameters
    ----------
    robot : with equilibrium modulation and a motor on each drive
    samples, settings : as of :class:`~.equations.ForceEquations`
    """

    def __init__(self, robot: Robot, samples: RecordedMotion, settings: MotionFitSettings) -> None:
        super().__init__(robot, samples, settings)
        motors = self.motors
        self._kept = motors.kept(motors.period_s)
        self.time_s = samples.time_s[self._kept]
        self._pull = np.asarray(clarke_manifold(robot).displacement_matrix)
        self._bent = motors.place_m @ np.linalg.pinv(self._pull).T @ stiffness_at_rest(robot, 0.0)
        self._pulled = motors.force_n @ self._pull
        self.pulled = self._pulled[self._kept]
        self.forces = self.pulled - self.pulled.mean(axis=0)

    def left(self, x: Vector) -> Vector:
        """What is left of the forces, (T, 3), N.

        Parameters
        ----------
        x : parameters, shape (P,)
        """
        motors, at, values = self.motors, self.parameters.at, self.parameters.values(x)
        guided = values[at["guide_damping_ns_per_m"]] * motors.rate_m_per_s
        asked = (motors.resisting(x, late=False) + guided) @ self._pull + x[at["youngs_modulus_pa"]] * self._bent
        # Late by a lag is what the model asks for: of the measured forces' slope the noise would count as well.
        late = LAG_S * x[at["lag"]] * motors.slope(asked)
        return np.asarray((self._pulled - asked + late)[self._kept])
