# SPDX-License-Identifier: Apache-2.0
"""Tip control: reachable targets are met in the model, others as near as can be, within the limits of the tendons."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from continuum_robot.control.delay_margin import SHAPE_PERIOD_S
from continuum_robot.control.tip.control import TipControl, TipSettings
from continuum_robot.errors import ParameterError
from continuum_robot.geometry import so3
from continuum_robot.geometry.arcs import backbone_poses
from continuum_robot.geometry.clarke import arc_from_clarke
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod

NAMES = ("opencr_five_tendon", "two_segment", "vanderbilt_segment", "vanderbilt_two_segment")
ROBOTS = {name: load_robot(name) for name in NAMES}
UNIT = st.lists(st.floats(-1, 1), min_size=4, max_size=4)
FRACTION = TipSettings().limit_fraction


@functools.cache
def control_of(name: str) -> TipControl:
    return TipControl(ROBOTS[name])


def radii(name: str) -> np.ndarray:
    return np.repeat([segment.tendons.pitch_radius_m for segment in ROBOTS[name].segments], 2)


def inside(control: TipControl, name: str, unit: list[float], angle: float = 2.5) -> np.ndarray:
    """Coordinates within the limits."""
    clarke = angle * radii(name) * np.array(unit[: len(radii(name))])
    while max(control.use_of_limits(clarke).values()) > 0.98 * FRACTION:
        clarke = 0.9 * clarke
    return clarke


@pytest.mark.parametrize("name", NAMES)
@given(UNIT)
@example([1.0, 0.0, -1.0, 0.0])
@example([0.0, 0.0, 0.0, 0.0])
def test_every_reachable_target_is_reached_in_the_model_within_the_limits(name, unit):
    control = control_of(name)
    target = control.kinematics.place(inside(control, name, unit))[0]
    solution = control.solve(target)
    assert solution.reachable
    assert solution.distance_m < 1e-4
    np.testing.assert_allclose(control.kinematics.place(solution.clarke)[0], solution.goal, atol=1e-12)
    assert max(control.use_of_limits(solution.clarke).values()) <= FRACTION * (1 + 1e-9)


@pytest.mark.parametrize("place", [(0.0, 0.0, 0.0), (1.5, 0.3, 0.4), (-0.1, 0.2, -0.9), (0.0, 0.0, 3.0)])
@pytest.mark.parametrize("name", NAMES)
def test_no_other_place_within_the_limits_is_nearer_to_a_target_out_of_reach(name, place):
    control = control_of(name)
    target = np.array(place) * ROBOTS[name].length_m
    solution = control.solve(target)
    assert max(control.use_of_limits(solution.clarke).values()) <= FRACTION * (1 + 1e-9)
    assert solution.reachable == (solution.distance_m <= 1e-4)
    random = np.random.default_rng(1)
    scale = radii(name)
    trials = [solution.clarke + size * scale * random.normal(size=scale.size) for size in 6 * (1e-3, 1e-2, 0.1)]
    trials += [3 * scale * random.uniform(-1, 1, scale.size) for _ in range(50)]
    for trial in trials:
        if max(control.use_of_limits(trial).values()) <= FRACTION:
            there = control.kinematics.place(trial)[0]
            assert np.linalg.norm(there - target) >= solution.distance_m - 1e-4 * ROBOTS[name].length_m


@pytest.mark.parametrize("name", NAMES[:2])
@given(UNIT)
def test_the_tip_is_that_of_arcs_of_constant_curvature(name, unit):
    """Another way to the same tip: closed form instead of the rod engine."""
    control, robot = control_of(name), ROBOTS[name]
    clarke = inside(control, name, unit)
    phi, theta = arc_from_clarke(
        clarke.reshape(-1, 2), np.array([segment.tendons.pitch_radius_m for segment in robot.segments])
    )
    lengths = [segment.length_m for segment in robot.segments]
    tip = backbone_poses(phi, theta, lengths, [robot.length_m])[0]
    np.testing.assert_allclose(control.kinematics.pose(clarke), tip, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
@given(UNIT)
@settings(max_examples=10)
def test_the_jacobian_is_the_derivative(name, unit):
    control = control_of(name)
    clarke = inside(control, name, unit)
    jacobian = control.kinematics.place(clarke)[1]
    step = 1e-7
    for index in range(clarke.size):
        change = np.zeros(clarke.size)
        change[index] = step
        there = [control.kinematics.place(clarke + sign * change)[0] for sign in (1, -1)]
        slope = (there[0] - there[1]) / (2 * step)
        np.testing.assert_allclose(jacobian[:, index], slope, rtol=1e-5, atol=1e-5)


@given(UNIT)
@settings(max_examples=5)
def test_the_predicted_tensions_hold_the_robot_there(unit):
    """The static equilibrium of the rod under these tensions."""
    name = "two_segment"
    control, robot = control_of(name), ROBOTS[name]
    clarke = inside(control, name, unit)
    rod = Rod(robot)
    state = rod.equilibrium(control.tension(clarke), start=control.kinematics.shape @ clarke, settle=False)
    reached = clarke_manifold(robot).clarke(rod.displacement(state.c))
    np.testing.assert_allclose(reached, clarke, atol=1e-6)


def test_of_many_solutions_it_takes_one_that_bends_the_segments_evenly():
    control = control_of("two_segment")
    even = np.array([0.004, 0.002, 0.004, 0.002])
    target = control.kinematics.place(even)[0]
    for start in (np.array([0.008, 0.0, -0.002, 0.004]), np.zeros(4)):
        np.testing.assert_allclose(control.solve(target, start).clarke, even, atol=2e-5)


def test_limits_are_named_that_keep_the_tip_from_a_target():
    robot = load_robot("opencr_five_tendon")
    tight = TipControl(robot.changed(limits=_changed(robot.limits, maximum_displacement_m=0.004)))
    solution = tight.solve([0.15, 0.0, 0.05])
    assert solution.limited_by == ("displacement",)
    assert solution.distance_m > 0.05
    weak = TipControl(robot.changed(limits=_changed(robot.limits, maximum_n=4.0)))
    assert weak.solve([0.15, 0.0, 0.05]).limited_by == ("tension",)
    assert weak.tension(weak.solve([0.15, 0.0, 0.05]).clarke).max() <= 4.0


def _changed(limits, **values):
    return type(limits)(**{name: values.get(name, getattr(limits, name)) for name in limits.__dataclass_fields__})


@pytest.mark.parametrize("bad", [[np.nan, 0.0, 0.1], [np.inf, 0.0, 0.1], [0.0, 0.1]])
def test_a_target_that_is_not_finite_is_refused_and_the_one_before_stays(bad):
    control = TipControl(load_robot("opencr_five_tendon"))
    before = control.set_target([0.05, 0.0, 0.18])
    with pytest.raises(ParameterError, match="target"):
        control.set_target(bad)
    assert control.solution is before


def test_mechanisms_and_robots_without_limits_are_refused():
    with pytest.raises(ParameterError, match="mechanism"):
        TipControl(load_robot("rolling_five_link"))
    with pytest.raises(ParameterError, match="limits"):
        TipControl(load_robot("opencr_five_tendon").changed(limits=None))


class _Plant:
    """A robot whose tip is not where the model has it, and whose coordinates follow with a lag."""

    def __init__(self, control: TipControl, gain: float, offset_m: np.ndarray, lag_s: float = 0.1) -> None:
        self.control, self.gain, self.offset_m, self.lag_s = control, gain, offset_m, lag_s
        self.clarke = np.zeros(offset_m.size)

    def step(self, desired: np.ndarray, dt: float) -> np.ndarray:
        self.clarke = self.clarke + dt / self.lag_s * (desired - self.clarke)
        return self.control.kinematics.place(self.gain * self.clarke + self.offset_m)[0]


@given(st.floats(0.85, 1.1), st.lists(st.floats(-3e-4, 3e-4), min_size=4, max_size=4))
@settings(max_examples=4)
def test_the_steady_error_of_a_robot_that_the_model_does_not_know_vanishes(gain, offset):
    control = control_of("two_segment")
    control.reset(np.zeros(4))
    solution = control.set_target([0.1, 0.05, 0.33])
    plant = _Plant(control, gain, np.array(offset))
    tip = plant.step(np.zeros(4), 0.01)
    for _ in range(1000):
        output = control.update(tip, plant.clarke, 0.01)
        tip = plant.step(output.reference.position, 0.01)
    assert np.linalg.norm(tip - solution.target) < 1e-5
    assert output.arrived
    assert not output.moving


@given(st.floats(0.85, 1.1), st.lists(st.floats(-3e-4, 3e-4), min_size=4, max_size=4))
@settings(max_examples=4)
def test_a_tip_that_is_kept_stays_although_the_model_has_it_elsewhere(gain, offset):
    control = control_of("two_segment")
    clarke = np.array([2e-3, -1e-3, 1e-3, 2e-3])
    plant = _Plant(control, gain, np.array(offset))
    plant.clarke = clarke.copy()
    kept = plant.step(clarke, 0.01)
    control.reset(clarke)
    control.keep(control.solve(kept, clarke, search=False), clarke)
    tip = kept
    for cycle in range(300):
        output = control.update(tip, plant.clarke, 0.01)
        if cycle == 0:
            np.testing.assert_allclose(output.reference.position, clarke, atol=1e-6)
        tip = plant.step(output.reference.position, 0.01)
        assert np.linalg.norm(tip - kept) < 1e-4
    assert output.arrived
    plant.offset_m = plant.offset_m + 1e-4  # a load
    for _ in range(800):
        output = control.update(tip, plant.clarke, 0.01)
        tip = plant.step(output.reference.position, 0.01)
    assert np.linalg.norm(tip - kept) < 1e-5


@pytest.mark.parametrize("known", [True, False])
def test_a_controller_that_is_stuck_does_not_wind_the_correction_up(known):
    """Limits of the tensions let it go no further: what the model has ahead counts as done, or is not known at all."""
    control = control_of("two_segment")
    control.reset(np.zeros(4))
    solution = control.set_target([0.1, 0.05, 0.33])
    stuck = 0.9 * solution.clarke
    tip = control.kinematics.place(stuck)[0]
    for _ in range(800):
        output = control.update(tip, stuck if known else None, 0.01)
    assert np.linalg.norm(output.reference.position - solution.clarke) < 1e-6
    assert not output.arrived
    assert output.error_m > control.tolerance_m


@pytest.mark.parametrize("tip", [None, np.full(3, np.nan)])
def test_without_an_estimate_it_goes_where_the_model_says_and_does_not_say_that_it_arrived(tip):
    control = TipControl(load_robot("opencr_five_tendon"))
    control.reset(np.zeros(2))
    solution = control.set_target([0.06, 0.02, 0.18])
    for _ in range(500):
        output = control.update(tip, None, 0.01)
    np.testing.assert_allclose(output.reference.position, solution.clarke, atol=1e-12)
    assert np.isnan(output.error_m)
    assert not output.arrived


def test_the_limits_hold_on_the_whole_way_with_a_correction_that_pushes_against_them():
    control = TipControl(load_robot("opencr_five_tendon"))
    control.reset(np.zeros(2))
    solution = control.set_target([0.2, 0.0, -0.2])
    motion = control.motion.limits
    before = np.zeros(2)
    for _ in range(1000):
        # The tip never comes as far as it should.
        output = control.update(0.8 * solution.goal, before, 0.01)
        assert max(control.use_of_limits(output.reference.position).values()) <= FRACTION * (1 + 1e-6)
        step = np.linalg.norm(output.reference.position - before)
        assert step <= 2 * motion.speed_m_per_s * 0.01 * (1 + 1e-9)
        before = output.reference.position
    assert output.limited


@pytest.mark.long
@pytest.mark.parametrize("name", ["opencr_five_tendon", "two_segment"])
def test_a_moving_tip_is_corrected_without_the_delay_of_an_integral(name):
    """A robot that bends a tenth less: after some rounds the tip is on its path."""
    control = TipControl(load_robot(name))
    size = load_robot(name).coordinate_count
    control.reset(np.zeros(size))
    plant, dt, omega = _Plant(control, 0.9, np.zeros(size), lag_s=0.02), 0.01, 2 * np.pi / 8
    scale = 0.004 * np.eye(size)[:2]

    def path(time_s):
        at = np.array([np.sin(omega * time_s), np.sin(2 * omega * time_s)])
        rate = omega * np.array([np.cos(omega * time_s), 2 * np.cos(2 * omega * time_s)])
        place, jacobian = control.kinematics.place(at @ scale)
        return place, jacobian @ (rate @ scale)

    tip, errors = control.kinematics.place(np.zeros(size))[0], []
    for k in range(6400):
        place, velocity = path(k * dt)
        output = control.follow(place, velocity, tip, plant.clarke, dt)
        # The plant is where its reference will be after its lag.
        tip = plant.step(output.reference.position + plant.lag_s * output.reference.velocity, dt)
        errors.append(np.linalg.norm(tip - path((k + 1) * dt)[0]))
    first, last = np.sqrt(np.mean(np.square(errors[:800]))), np.sqrt(np.mean(np.square(errors[-800:])))
    assert last < 0.1 * first  # not so with an integral alone, nor spread evenly over the monomials
    assert output.moving


@pytest.mark.parametrize("lower_m", [0.0, 1.5e-3])
def test_a_path_by_the_stretched_robot_does_not_swing(lower_m):
    """Three segments are redundant, and next to the straight pose nothing moves the tip up and down."""
    robot = load_robot("three_segment_servo")
    control, count, dt = TipControl(robot), robot.coordinate_count, 0.01
    control.reset(np.zeros(count))
    amplitude, omega = 5e-3 * np.linspace(0.8, 0.3, count), 2 * np.pi * np.linspace(0.08, 0.15, count)
    turn = so3.exp(np.array([0.0084, -0.0053, 0.0]))  # by so much the base of an identified robot is turned
    missed_m, hurried = 0.0, 0
    for k in range(800):
        phase, entry = omega * k * dt + 2.4 * np.arange(count), min(k * dt / 3.0, 1.0)
        place, jacobian = control.kinematics.place(entry * amplitude * np.sin(phase))
        rate = turn.T @ jacobian @ (entry * amplitude * omega * np.cos(phase))
        desired = turn.T @ (place - [0.0, 0.0, lower_m])
        reference = control.follow(desired, rate, None, None, dt).reference
        missed_m = max(missed_m, float(np.linalg.norm(control.kinematics.place(reference.position)[0] - desired)))
        hurried += np.linalg.norm(reference.acceleration) > 0.99 * control.motion.limits.acceleration_m_per_s2
    assert missed_m < 5e-3  # 20 mm where the motion always turned at its full acceleration
    assert hurried < 100


def test_what_seems_left_of_held_displacements_is_no_reason_to_be_elsewhere():
    """The loads of servos have the friction of their gears: measured coordinates are a quarter of a millimetre off."""
    robot = load_robot("three_segment_servo")
    control, dt = TipControl(robot), 0.01
    control.reset(np.zeros(robot.coordinate_count))
    solution = control.set_target([0.12, 0.05, 0.25])
    plant = _Plant(control, 0.95, np.zeros(robot.coordinate_count), lag_s=0.03)
    tip = plant.step(np.zeros(robot.coordinate_count), dt)
    for _ in range(700):
        output = control.update(tip, plant.clarke - 2.5e-4, dt)
        tip = plant.step(output.reference.position, dt)
    assert np.linalg.norm(tip - solution.goal) < 1e-4
    assert output.arrived


@pytest.mark.parametrize("dt", [0.01, 0.005])
def test_what_the_bus_of_servos_delays_is_not_learned_as_an_error_of_the_model(dt):
    """A robot as its file states whose tip is known late: it stays on its path, nothing is corrected."""
    robot = load_robot("three_segment_servo")
    control, count = TipControl(robot), robot.coordinate_count
    control.reset(np.zeros(count))
    amplitude, omega = 4e-3 * np.linspace(0.5, 0.9, count), 2 * np.pi * np.linspace(0.17, 0.1, count)
    late = round((2 / robot.actuators.cycle_hz + SHAPE_PERIOD_S) / dt)
    told, corrected_m = [np.zeros(count)] * late, 0.0
    for k in range(round(6 / dt)):
        phase, entry = omega * k * dt + np.arange(count), min(k * dt / 2.0, 1.0)
        place, jacobian = control.kinematics.place(entry * amplitude * np.sin(phase))
        rate = jacobian @ (entry * amplitude * omega * np.cos(phase))
        tip = control.kinematics.place(told[-late])[0]
        output = control.follow(place, rate, tip, told[-late], dt)
        told.append(output.reference.position)
        corrected_m = max(corrected_m, float(np.abs(told[-1] - control.motion.reference.position).max()))
    assert corrected_m < 1e-6  # 0.03 mm, a millimetre of the tip, where the delay counted as an error


def test_a_path_beyond_the_limits_lets_the_reference_stand():
    control = TipControl(load_robot("opencr_five_tendon"))
    control.reset(np.zeros(2))
    limit = 0.025
    for k in range(3000):
        clarke = np.array([min(1.4 * limit, k * 2e-5), 0.0])
        output = control.follow(control.kinematics.place(clarke)[0], np.zeros(3), None, None, 0.01)
        assert max(control.use_of_limits(output.reference.position).values()) <= 1 + 1e-6
    assert output.limited
