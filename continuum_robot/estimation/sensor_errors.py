# SPDX-License-Identifier: Apache-2.0
"""The sensors of a rod's shape, tendons, strings and the curvatures of a fibre, and how far each is trusted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.shape_estimate import ShapeSettings
from continuum_robot.robot.description import Robot
from continuum_robot.rod.fiber import curvature_lever_m2

Vector = NDArray[np.float64]


def sensor_names(robot: Robot) -> tuple[str, ...]:
    """Of all readings: tendons, strings, then curvatures.

    Parameters
    ----------
    robot : a rod
    """
    curvatures = () if robot.fiber is None else robot.fiber.names
    return (*robot.tendon_names, *(string.name for string in robot.strings), *curvatures)


def sensor_sigma_m(robot: Robot, settings: ShapeSettings, string_sigma_m: float | None = None) -> Vector:
    """Standard deviation of every sensor's systematic error, curvatures times their lever, (m,), m.

    Parameters
    ----------
    robot : a rod
    settings : how much the sensors are trusted
    string_sigma_m : instead of that of the settings, m
    """
    of_strings_m = settings.string_sigma_m if string_sigma_m is None else string_sigma_m
    return _of_sensors(
        robot, settings.tendon_sigma_m, of_strings_m, 0.0 if robot.fiber is None else robot.fiber.sigma_per_m
    )


def sensor_noise_m(robot: Robot, settings: ShapeSettings) -> Vector:
    """Standard deviation of every sensor's noise from sample to sample, curvatures times their lever, (m,), m.

    Parameters
    ----------
    robot : a rod
    settings : how much the sensors are trusted
    """
    of_fiber_per_m = 0.0 if robot.fiber is None else robot.fiber.noise_per_m
    return _of_sensors(robot, settings.tendon_noise_m, settings.string_noise_m, of_fiber_per_m)


def expected_string_sigma_m(robot: Robot, settings: ShapeSettings) -> float:
    """Standard deviation of a string's systematic error, or its mean error in the simulation where that is more, m.

    Parameters
    ----------
    robot : with strings
    settings : how much the sensors are trusted
    """
    return max(settings.string_sigma_m, robot.simulation.string_mean_error_m)


def _of_sensors(robot: Robot, tendon_m: float, string_m: float, curvature_per_m: float) -> Vector:
    known = np.repeat([tendon_m, string_m], [robot.tendon_count, len(robot.strings)])
    return np.concatenate([known, curvature_per_m * curvature_lever_m2(robot)])
