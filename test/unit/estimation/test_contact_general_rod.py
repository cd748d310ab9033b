# SPDX-License-Identifier: Apache-2.0
"""The contact monitor on rods with torsion, shear and extension and tendons on any path, from what its sensors read."""

from dataclasses import replace

import numpy as np
import pytest

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.contact.settings import contact_channels, default_settings
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.rod import Rod
from continuum_robot.simulation.plant import Plant

DT_S = 0.01
REST_N = 2.0
TIP_N, MIDDLE_N = np.array([0.03, 0.01, 0.0]), np.array([0.1, 0.0, 0.0])


class Detected:
    """A plant, the shape from its tendons and strings, and a monitor that knows the tendons' tensions."""

    def __init__(self, name, **settings):
        self.robot = load_robot(name)
        self.plant = Plant(self.robot)
        self.estimator = ShapeEstimator(self.robot)
        self.rod = Rod(self.robot)
        self.monitor = ContactMonitor(self.robot, replace(default_settings(self.robot), **settings))
        self.tension = np.full(self.robot.tendon_count, REST_N)
        self.plant.advance(self.tension, 3.0)
        self.run(1.0)

    def run(self, duration_s, push=None):
        """Estimates; ``push``: arc length and force."""
        if push is not None:
            self.plant.push(*push)
        return [self.cycle() for _ in range(round(duration_s / DT_S))]

    def cycle(self):
        plant, robot = self.plant, self.robot
        plant.advance(self.tension, DT_S)
        spooled = self.rod.displacement(plant.c) + plant.tension / robot.tendon_stiffness_n_per_m
        shape = self.estimator.update(
            spooled, np.zeros(len(spooled)), self.rod.strings.displacement(plant.c), DT_S, plant.tension
        )
        rates = slice(self.rod.n, 2 * self.rod.n)
        return self.monitor.update(
            shape.coefficients,
            shape.coefficient_rates,
            shape.covariance,
            DT_S,
            tension=plant.tension,
            c_rate_covariance=shape.motion.covariance[rates, rates],
        )

    def in_body(self, place_m, force_n):
        return self.rod.poses(self.plant.c, place_m)[0][:3, :3].T @ force_n


@pytest.mark.parametrize("name", [pytest.param("rucker_helical", marks=pytest.mark.long), "mixed_routing"])
def test_a_push_at_the_tip_is_detected_and_placed_and_free_motion_is_not(name):
    detected = Detected(name, raise_after_s=0.1)
    length_m = detected.robot.length_m
    detected.tension[0] += 1.5  # it moves
    assert {estimate.state for estimate in detected.run(2.0)} == {"clear"}
    detected.plant.push(length_m, TIP_N)
    errors = []
    for k in range(300):
        estimate = detected.cycle()
        assert estimate.in_contact or k < 100
        errors.append(estimate.wrench.wrench[:2] - detected.in_body(length_m, TIP_N)[:2])
    assert estimate.wrench.sensed.tolist() == [True, True, False, False, False, False]
    assert np.abs(np.mean(errors[200:], axis=0)).max() < 0.1 * np.linalg.norm(TIP_N)
    assert abs(estimate.location.arc_length_m - length_m) < 0.05 * length_m


@pytest.mark.parametrize("method", ["jfd", pytest.param("kalman_disturbance_observer", marks=pytest.mark.long)])
def test_every_method_finds_a_push_in_the_middle(method):
    detected = Detected("rucker_helical", method=method)
    length_m = detected.robot.length_m
    found = detected.run(4.0, (length_m / 2, MIDDLE_N))[300:]
    assert np.mean([estimate.in_contact for estimate in found]) > 0.9
    placed = [estimate.location.arc_length_m for estimate in found if estimate.location.observable]
    assert abs(np.median(placed) - length_m / 2) < 0.06 * length_m
    force = np.median([estimate.wrench.wrench[:2] for estimate in found], axis=0)
    np.testing.assert_allclose(force, detected.in_body(length_m / 2, MIDDLE_N)[:2], atol=0.02)


def at_equilibrium(robot, tension, *loads, **settings):
    """What the monitor reports of a robot that rests under loads."""
    estimator = ShapeEstimator(robot)
    rod = Rod(robot)
    c = rod.loaded(loads).equilibrium(tension).c
    spooled = rod.displacement(c) + tension / robot.tendon_stiffness_n_per_m
    monitor = ContactMonitor(robot, replace(default_settings(robot), known_arc_length_m=robot.length_m, **settings))
    for _ in range(100):
        shape = estimator.update(spooled, np.zeros(len(spooled)), rod.strings.displacement(c), DT_S, tension)
        estimate = monitor.update(shape.coefficients, np.zeros(rod.n), shape.covariance, DT_S, tension=tension)
    return estimate


@pytest.mark.parametrize("name", ["rucker", "rucker_helical", "mixed_routing"])
@pytest.mark.parametrize("pulled_n", [0.0, 4.0])
def test_at_rest_the_force_is_exact_however_the_rod_is_bent(name, pulled_n):
    """The plant of these tests is the estimator's own rod: what is left is what the modes leave out."""
    robot = load_robot(name)
    tension = np.full(robot.tendon_count, REST_N)
    tension[0] += pulled_n
    assert at_equilibrium(robot, tension).ratio < 0.05
    estimate = at_equilibrium(robot, tension, PointWrench(s_m=robot.length_m, force_n=tuple(TIP_N), frame="body"))
    assert estimate.in_contact
    np.testing.assert_allclose(estimate.wrench.wrench[:2], TIP_N[:2], atol=0.02 * np.linalg.norm(TIP_N))


@pytest.mark.parametrize(("name", "moment_nm", "rank"), [("mixed_routing", 0.005, 5), ("rucker_helical", 0.003, 6)])
def test_torsion_is_detected_and_what_cannot_be_told_is_named(name, moment_nm, rank):
    """Helical tendons and strings show a moment about the backbone. Force along the tip of a rod that cannot shorten
    does not show."""
    robot = load_robot(name)
    tension = np.full(robot.tendon_count, REST_N)
    twisted = PointWrench(s_m=robot.length_m, moment_nm=(0.0, 0.0, moment_nm), frame="body")
    estimate = at_equilibrium(robot, tension, twisted, contact_type="any")
    assert estimate.wrench.wrench[5] == pytest.approx(moment_nm, rel=0.02)
    assert np.abs(estimate.wrench.wrench[[3, 4]]).max() < 0.02 * moment_nm
    assert estimate.wrench.rank == rank
    assert estimate.wrench.sensed.tolist() == [True, True, rank == 6, True, True, True]


def test_forces_elsewhere_that_are_known_are_no_contact():
    detected = Detected("mixed_routing")
    plant, place_m = detected.plant, detected.robot.length_m
    plant.push(place_m, TIP_N)
    pushed = detected.run(3.0)[-1]
    assert pushed.in_contact
    jacobian = detected.rod.jacobian(plant.c, place_m)
    other = jacobian[:3].T @ detected.in_body(place_m, TIP_N)
    estimator, monitor = detected.estimator, detected.monitor
    monitor.reset()
    spooled = detected.rod.displacement(plant.c) + plant.tension / detected.robot.tendon_stiffness_n_per_m
    for _ in range(100):
        shape = estimator.update(spooled, np.zeros(8), detected.rod.strings.displacement(plant.c), DT_S, plant.tension)
        known = monitor.update(
            shape.coefficients, np.zeros(16), shape.covariance, DT_S, tension=plant.tension, other_force=other
        )
    assert known.state == "clear"
    assert np.abs(known.residual).max() < 0.1 * np.abs(pushed.residual).max()


def test_levers_that_hang_on_the_shape_are_those_of_the_rod():
    """With the tendons' forces at the straight rod a bent one would seem to be touched."""
    detected = Detected("mixed_routing")
    detected.tension[[0, 5]] = 7.0
    detected.run(1.0)
    estimates = detected.run(5.0)
    assert np.linalg.norm(detected.plant.pose(detected.robot.length_m)[:2, 3]) > 0.05
    assert estimates[-1].state == "clear"
    elastic = detected.monitor.modes.shapes.T @ detected.rod.arrays.stiffness @ detected.plant.c
    assert abs(estimates[-1].residual).max() < 0.05 * abs(elastic).max()


def test_channels_are_modes_and_shapes_have_all_coefficients():
    robot = load_robot("rucker_helical")
    monitor = ContactMonitor(robot)
    assert (monitor.size, monitor.coefficient_count) == (contact_channels(robot).count, robot.coefficient_count)
    assert monitor.size < robot.coefficient_count
    n = robot.coefficient_count
    tension = np.full(4, REST_N)
    estimate = monitor.update(np.zeros(n), np.zeros(n), np.eye(n) * 1e-8, DT_S, tension=tension)
    assert estimate.residual.shape == (monitor.size,)
    with pytest.raises(ParameterError, match=r"\(24,\)"):
        monitor.update(np.zeros(monitor.size), np.zeros(monitor.size), np.eye(monitor.size), DT_S, tension=tension)
    with pytest.raises(ParameterError, match="no capstans"):
        monitor.update(np.zeros(n), np.zeros(n), np.eye(n), DT_S, capstan_torque=np.zeros(2))
