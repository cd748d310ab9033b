# SPDX-License-Identifier: Apache-2.0
"""Shape of a robot with helical tendons from their displacements: the statics' own answer, slack, unknown tendons."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from changed_robots import fitted, stiffer, with_servos, with_tendons

from continuum_robot.control.displacement_controller import DisplacementController
from continuum_robot.errors import ParameterError
from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.models.making import robot_model
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.tendons import DisplacedTendons, String
from continuum_robot.rod.holding_force import HeldTendons
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import controlled_manifold

ROBOT = replace(load_robot("rucker_helical"), strings=())
WITH_STRINGS = load_robot("rucker_helical")
REST = np.zeros(ROBOT.tendon_count)
TENSION = np.array([2.0, 0.5, 0.7, 0.5])


def spooled(estimator: ShapeEstimator, tension: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients at tensions, and how far the spools have to turn for them."""
    rod = Rod(ROBOT)
    c = rod.equilibrium(tension).c
    return c, rod.displacement(c) + tension / ROBOT.tendon_stiffness_n_per_m


def test_it_finds_the_equilibrium_that_made_the_displacements():
    estimator = robot_model(ROBOT).shape_estimator(WatchSettings())
    assert isinstance(estimator, ShapeEstimator)
    c, displacement = spooled(estimator, TENSION)
    found = estimator.update(displacement, REST)
    assert found.coefficients == pytest.approx(c, abs=1e-4 * np.abs(c).max())
    assert found.tip == pytest.approx(estimator.fit.rod.poses(c, [ROBOT.length_m])[0], abs=1e-6)
    assert found.sensor_count == 4
    assert not found.is_unobservable


def test_rates_and_covariance_are_the_slope_by_the_displacements():
    estimator = ShapeEstimator(ROBOT)
    _, displacement = spooled(estimator, TENSION)
    velocity, step = np.array([0.01, -0.02, 0.005, 0.0]), 1e-3
    found = estimator.update(displacement, velocity)
    ends = [estimator.update(displacement + fraction * step * velocity, REST).coefficients for fraction in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * step)
    assert found.coefficient_rates == pytest.approx(slope, abs=1e-3 * np.abs(slope).max())
    assert np.linalg.eigvalsh(found.covariance)[-1] > 0
    assert found.covariance == pytest.approx(found.covariance.T)


@pytest.mark.parametrize("name", ["rucker_helical", "ftdcr_v6"])
def test_displacements_alone_leave_open_what_a_contact_may_do(name):
    """Of tendons fewer than coefficients the readings' errors alone have a covariance without an inverse."""
    robot = replace(load_robot(name), strings=(), fiber=None)
    estimator, count = ShapeEstimator(robot), robot.tendon_count
    reading = np.linspace(1.0, 2.0, count) * 1e-3
    free = estimator.update(reading, np.zeros(count))
    assert np.linalg.eigvalsh(free.covariance)[0] > 0
    push = PointWrench(s_m=robot.length_m, force_n=(2e-3, 1e-3, 0.0))
    tendons, rod = HeldTendons.of(robot), Rod(robot, loads=(push,))
    held = {"stiffness": tendons.stiffness_n_per_m, "spooled": tendons.spooled(reading)}
    moved = rod.equilibrium(**held).c - Rod(robot).equilibrium(**held).c
    pose, body = estimator.fit.rod.moved(free.coefficients)
    force = (pose[:3, :3] @ body[:3]).T @ push.force_n
    likely = force @ np.linalg.solve(rod.arrays.stiffness, force) / estimator.fit.modes.energy_j
    assert 0.5 * likely < moved @ np.linalg.solve(free.covariance, moved) < 1.1 * likely


def test_without_tensions_and_velocities_the_shape_is_found_and_its_rates_are_not():
    estimator = ShapeEstimator(ROBOT)
    found = estimator.update(spooled(estimator, TENSION)[1], None)
    assert np.isfinite(found.coefficients).all()
    assert np.isnan(found.coefficient_rates).all()


def test_a_slack_tendon_tells_nothing_but_that_it_is_slack():
    estimator = ShapeEstimator(ROBOT)
    c, displacement = spooled(estimator, np.array([2.0, 0.0, 0.0, 0.0]))
    displacement[1:] -= 5e-3
    assert estimator.update(displacement, REST).coefficients == pytest.approx(c, abs=1e-4 * np.abs(c).max())


def test_strings_measure_how_far_it_is_off():
    string = String(name="s", start_m=0.0, anchor_m=ROBOT.length_m, pitch_radius_m=0.008, angle_rad=0.3)
    estimator = ShapeEstimator(replace(ROBOT, strings=(string,)))
    c, displacement = spooled(estimator, TENSION)
    extension = estimator.fit.rod.displacement(c)[4:]
    assert estimator.update(displacement, REST, extension).residual_m == pytest.approx(0.0, abs=1e-6)
    assert estimator.update(displacement, REST, extension + 1e-3).residual_m == pytest.approx(1e-3, rel=1e-2)


def test_an_unknown_tendon_makes_it_unobservable_and_it_recovers():
    estimator = ShapeEstimator(ROBOT)
    c, displacement = spooled(estimator, TENSION)
    unobservable = estimator.update(np.array([np.nan, *displacement[1:]]), REST)
    assert unobservable.is_unobservable
    assert np.isnan(unobservable.coefficients).all()
    assert np.isnan(unobservable.tip).all()
    assert estimator.update(displacement, REST).coefficients == pytest.approx(c, abs=1e-4 * np.abs(c).max())
    with pytest.raises(ParameterError, match="displacement"):
        estimator.update(displacement[:2], REST)


def pushed(estimator, *loads):
    """Coefficients under loads, and what the sensors read."""
    c = Rod(ROBOT, loads=loads).equilibrium(TENSION).c
    taken, extension = np.split(estimator.fit.rod.displacement(c), [4])
    return c, taken + TENSION / ROBOT.tendon_stiffness_n_per_m, extension


def missed_m(estimator, found, c):
    tips = [estimator.fit.rod.poses(shape, [ROBOT.length_m])[0][:3, 3] for shape in (found.coefficients, c)]
    return np.linalg.norm(tips[0] - tips[1])


PUSH = PointWrench(s_m=ROBOT.length_m, force_n=(0.05, 0.03, 0.0))


def test_a_push_does_not_falsify_the_shape_where_the_tensions_are_known():
    estimator = ShapeEstimator(WITH_STRINGS)
    c, displacement, extension = pushed(estimator, PUSH)
    free, _, _ = pushed(estimator)
    tips = estimator.fit.rod.poses(c, [ROBOT.length_m])[0] - estimator.fit.rod.poses(free, [ROBOT.length_m])[0]
    moved_m = np.linalg.norm(tips[:3, 3])
    assert moved_m > 0.02
    known = estimator.update(displacement, REST, extension, 0.01, TENSION)
    assert missed_m(estimator, known, c) < 0.1 * moved_m
    unobservable = estimator.update(displacement, REST, extension, 0.01)
    assert missed_m(estimator, unobservable, c) > 3 * missed_m(estimator, known, c)


def test_errors_of_the_sensors_stay_errors_and_do_not_bend_the_rod():
    """Sensors that contradict each other were fitted by shapes that no rod has, or by none."""
    robot = load_robot("mixed_routing")
    estimator, rod = ShapeEstimator(robot), Rod(robot)
    tension = np.full(robot.tendon_count, 2.0)
    c = rod.equilibrium(tension).c
    spooled = rod.displacement(c) + tension / robot.tendon_stiffness_n_per_m
    rng, sigma_m = np.random.default_rng(5), estimator.fit.modes.sigma_m
    errors = []
    for _ in range(40):
        noise = sigma_m * rng.normal(size=len(sigma_m))
        drawn = rod.strings.displacement(c) + noise[8:]
        found = estimator.update(spooled + noise[:8], np.zeros(8), drawn, 0.01, tension)
        assert not found.is_unobservable
        difference = found.coefficients - c
        errors.append(difference @ np.linalg.solve(found.covariance, difference))
    assert np.mean(errors) < 2 * estimator.fit.modes.count  # of the size that the covariance states


def test_without_a_string_what_it_shows_is_named():
    estimator = ShapeEstimator(WITH_STRINGS)
    _, displacement, extension = pushed(estimator, PUSH)
    assert not estimator.update(displacement, REST, extension, 0.01, TENSION).is_unobservable
    lost = estimator.update(displacement, REST, np.array([*extension[:4], np.nan]), 0.01, TENSION)
    if lost.is_unobservable:
        assert "helical" in lost.unobservable[0]
    none = estimator.update(displacement, REST, None, 0.01, TENSION)
    assert none.is_unobservable
    assert all(name in none.unobservable[0] for name in ("mode_", "proximal_x", "helical"))
    assert not estimator.update(displacement, REST, extension, 0.01, TENSION).is_unobservable


def test_rates_follow_the_readings_at_a_constant_speed():
    estimator = ShapeEstimator(WITH_STRINGS)
    rod = Rod(WITH_STRINGS)
    slow, fast = (rod.equilibrium(TENSION + pull).c for pull in (0.0, np.array([0.3, 0.0, 0.0, 0.0])))
    for k in range(200):
        fraction = k / 200
        c = slow + fraction * (fast - slow)
        pull = TENSION + fraction * np.array([0.3, 0.0, 0.0, 0.0])
        spooled = rod.displacement(c) + pull / ROBOT.tendon_stiffness_n_per_m
        found = estimator.update(spooled, REST, rod.strings.displacement(c), 0.01, pull)
    modes = estimator.fit.modes.coordinates
    rate = modes @ (fast - slow) / 2.0
    np.testing.assert_allclose(modes @ found.coefficient_rates, rate, atol=0.02 * np.abs(rate).max())
    assert found.motion.covariance.shape == (72, 72)


def test_a_fit_of_the_tendons_is_known_to_the_estimator():
    """Spiral, straight runs, a backbone that gives way and each tendon's stiffness, as `identify` writes them."""
    tendons = DisplacedTendons(
        stiffness_n_per_m=tuple(2e4 + 1e3 * k for k in range(9)),
        zero_m=(0.0,) * 9,
        gain=(1.0,) * 9,
        friction_fraction=(0.0,) * 9,
        spiral_rad_per_m=2.0,
        straight_over_m=0.02,
    )
    robot = load_robot("ftdcr_v4").changed(displaced_tendons=tendons)
    assert "displaced_tendons" in robot.traits.nonlinear_lengths
    segments = tuple(
        replace(one, basis=one.basis.extended, backbone=replace(one.backbone, axial_stiffness_n=1 / 3e-6))
        for one in robot.segments
    )
    robot = robot.changed(segments=segments)
    rod = Rod(robot)
    wound = 3e-3 * np.random.default_rng(4).uniform(-1, 1, 9)
    rest = rod.equilibrium(stiffness=tendons.stiffness_n_per_m, spooled=wound)
    for tension in (None, rest.tension):
        found = ShapeEstimator(robot).update(wound, np.zeros(9), None, 0.01, tension)
        assert found.coefficients == pytest.approx(rest.c, abs=2e-3)
        assert found.tip == pytest.approx(rod.moved(rest.c)[0], abs=1e-5)
    plain = ShapeEstimator(robot.changed(displaced_tendons=None)).update(wound, np.zeros(9))
    assert np.linalg.norm(plain.tip[:3, 3] - found.tip[:3, 3]) > 1e-3


def test_strings_see_what_held_tendons_do_not():
    """Other stiffness of rod and tendons than the file's, and no load measured: the strings show the shape."""
    strings = tuple(
        String(name=f"{anchor_m}/{angle_rad}", anchor_m=anchor_m, pitch_radius_m=0.008, angle_rad=angle_rad)
        for anchor_m in (0.2, 0.4)
        for angle_rad in (0.1, 1.7)
    )
    robot = with_tendons(with_servos().changed(strings=strings), 2e3)
    true = Rod(with_tendons(stiffer(robot, 1.2), 1.6e3))
    displacement = controlled_manifold(robot).displacement([0.006, -0.003, 0.004, 0.008]) + 3 / 2e3
    c = true.equilibrium(stiffness=1.6e3, spooled=displacement).c
    extension = Rod(robot, paths=[one.path for one in strings]).displacement(c)
    seen, blind = (ShapeEstimator(robot).update(displacement, np.zeros(10), one, 0.01) for one in (extension, None))
    assert seen.coefficients == pytest.approx(c, abs=1e-5)
    assert np.abs(blind.coefficients - c).max() > 0.1


def test_readings_of_servos_count_with_gain_and_zero():
    robot = fitted(friction_fraction=0.0)
    control = DisplacementController(robot)
    reading = np.full(9, 1e-3)
    assert control.observe(reading.tolist(), [0.0] * 9)
    found = ShapeEstimator(robot).update(reading, np.zeros(9))
    assert found.coefficients == pytest.approx(control._held, abs=1e-6)
