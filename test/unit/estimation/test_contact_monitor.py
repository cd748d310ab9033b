# SPDX-License-Identifier: Apache-2.0
"""The contact monitor and the Kalman disturbance observer on a simulated segment."""

import dataclasses
import functools
import itertools
import math

import numpy as np
import pytest
from contact_oracles import PlainBudgets, PlainPlaces, filter_cycle

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact import location as contact_location
from continuum_robot.estimation.contact import monitor as contact_monitor
from continuum_robot.estimation.contact.error_budget import BudgetAlgebra
from continuum_robot.estimation.contact.free_motion import Floor
from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.contact.observers import DisturbanceObserver, StateTerms
from continuum_robot.estimation.contact.settings import KALMAN, METHODS, MonitorSettings
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.backbone import Hysteresis
from continuum_robot.rod.contact.functions import ContactFunctions, ContactTerms
from continuum_robot.rod.description import DRIVEN, WITH_CAPSTANS
from continuum_robot.rod.friction.capstan_friction import CapstanFriction
from continuum_robot.rod.friction.capstans import drives
from continuum_robot.rod.friction.resistance import Resistance
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import coefficients_from_clarke, tendon_matrix

DT = 2e-3
NOISE = np.eye(6) * 1e-8
PLACE_M = 0.254


@pytest.fixture(scope="module")
def robot():
    return load_robot("vanderbilt_segment")


@pytest.fixture(scope="module")
def dynamics(robot):
    return Rod(robot, parts=WITH_CAPSTANS)


@pytest.fixture(scope="module")
def without_friction(robot):
    return CapstanFriction(robot, coefficients=[0.0, 0.0])


@pytest.fixture(scope="module")
def monitor_of(robot, without_friction):
    """A monitor without tendon friction; all share the terms of the rod."""
    functions = ContactMonitor(robot).functions
    return functools.partial(ContactMonitor, robot, functions=functions, friction=without_friction)


def simulate(dynamics, force_at, tension_at, duration_s, place_m=PLACE_M):
    """Coefficients, rates, accelerations and tensions every DT, by Runge-Kutta of order 4; without tendon friction."""
    n, lever = dynamics.n, dynamics.displacement_gradient(np.zeros(dynamics.n))

    def acceleration(c, v, t):
        generalised, force = lever.T @ tension_at(t), force_at(t)
        if force.any():
            generalised = generalised + dynamics.jacobian(c, place_m)[:2].T @ force
        return dynamics.acceleration(c, v, generalised)

    c, v, rows, h = np.zeros(n), np.zeros(n), [], DT / 2
    for k in range(round(duration_s / DT) + 1):
        t = k * DT
        rows.append((c, v, acceleration(c, v, t), tension_at(t)))
        for i in range(2):
            at = t + i * h
            a1 = acceleration(c, v, at)
            a2 = acceleration(c + h / 2 * v, v + h / 2 * a1, at + h / 2)
            a3 = acceleration(c + h / 2 * v + h**2 / 4 * a1, v + h / 2 * a2, at + h / 2)
            a4 = acceleration(c + h * v + h**2 / 2 * a2, v + h * a3, at + h)
            c, v = c + h * v + h**2 / 6 * (a1 + a2 + a3), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
    assert dynamics.tendon_count == len(rows[0][3])
    return [np.array(column) for column in zip(*rows, strict=True)]


def push(start_s, force):
    """A force that comes within 50 ms."""
    return lambda t: np.asarray(force, dtype=float) * min(max((t - start_s) / 0.05, 0.0), 1.0)


def swing(t):
    """Tensions that bend the segment to and fro."""
    return 60 + 40 * np.array([math.sin(3 * t), math.sin(2 * t), -math.sin(3 * t), -math.sin(2 * t)])


@pytest.fixture(scope="module")
def free_motion(dynamics):
    return simulate(dynamics, lambda _: np.zeros(2), swing, 1.6)


@pytest.fixture(scope="module")
def pushed(dynamics):
    return simulate(dynamics, push(0.8, [14.0, -9.0]), swing, 1.6)


def run(monitor, motion, noise=0.0, seed=0, **more):
    generator, estimates = np.random.default_rng(seed), []
    for c, v, a, tension in zip(*motion, strict=True):
        measured = c + noise * generator.normal(size=c.size)
        covariance = NOISE + noise**2 * np.eye(c.size)
        estimates.append(monitor.update(measured, v, covariance, DT, tension=tension, c_acceleration=a, **more))
    return estimates


@pytest.mark.parametrize("method", METHODS)
def test_free_motion_raises_nothing_and_a_push_is_detected(method, robot, monitor_of, free_motion, pushed):
    monitor = monitor_of(MonitorSettings(method=method))
    assert {estimate.state for estimate in run(monitor, free_motion, 1e-4)} == {"clear"}
    monitor.reset()
    found = run(monitor, pushed, 1e-4)
    first = next(k for k, estimate in enumerate(found) if estimate.in_contact)
    assert 0.8 <= first * DT <= 1.0
    last = found[-1]
    assert last.in_contact
    assert last.location.observable, last.location.reason
    assert last.location.arc_length_m == pytest.approx(PLACE_M, abs=0.1 * robot.length_m)
    np.testing.assert_allclose(last.wrench.wrench[:2], [14, -9], atol=2.5)
    assert not last.wrench_location_assumed


def test_known_place_gives_the_force(monitor_of, pushed):
    settings = MonitorSettings(method="kalman_disturbance_observer", known_arc_length_m=PLACE_M)
    found = run(monitor_of(settings), pushed)
    errors = np.array([estimate.wrench.wrench[:2] for estimate in found[450:]]) - [14, -9]
    assert math.sqrt(np.mean(errors**2)) < 0.5
    assert found[-1].wrench_arc_length_m == PLACE_M


@pytest.mark.long
def test_stronger_forces_are_collisions(dynamics, monitor_of):
    motion = simulate(dynamics, push(0.2, [0.0, 45.0]), lambda _: np.full(4, 60.0), 0.8)
    monitor = monitor_of(MonitorSettings(collision_force_steady_n=30.0, collision_force_accelerating_n=35.0))
    states = [estimate.state for estimate in run(monitor, motion)]
    assert states.index("contact") <= states.index("collision")
    assert states[-1] == "collision"


def test_contact_is_left_after_the_force_and_not_at_once(dynamics, monitor_of):
    motion = simulate(
        dynamics, lambda t: np.array([12.0, 0.0]) if 0.2 < t < 0.6 else np.zeros(2), lambda _: np.full(4, 60.0), 1.4
    )
    settings = MonitorSettings(clear_after_s=0.1)
    states = [e.state for e in run(monitor_of(settings), motion)]
    last = max(k for k, state in enumerate(states) if state != "clear")
    assert 0.6 + 0.09 <= last * DT <= 1.2
    assert states[-1] == "clear"
    changes = sum(a != b for a, b in itertools.pairwise(states))
    assert changes <= 4  # up and down once, by way of the collision at most


def test_tare_takes_a_bias_away(monitor_of):
    bias = np.array([0.2, -0.1, 0.02, 0.0, 0.0, 0.01])
    monitor = monitor_of(MonitorSettings(method="gmo", tare_s=0.4))
    rest = (np.zeros(6), np.zeros(6), NOISE, DT)

    def still(cycles):
        return [monitor.update(*rest, tension=np.full(4, 60.0), other_force=-bias) for _ in range(cycles)]

    assert still(400)[-1].in_contact
    monitor.tare()
    during = still(200)
    assert {estimate.state for estimate in during} == {"taring"}
    np.testing.assert_allclose(monitor.tare_residual, bias, atol=1e-3)
    after = still(300)[-1]
    assert after.state == "clear"
    np.testing.assert_allclose(after.residual, 0, atol=1e-3)
    monitor.clear_tare()
    assert not monitor.tare_residual.any()
    assert still(50)[-1].in_contact


def test_learnt_floor_covers_what_was_seen(monitor_of):
    settings = MonitorSettings(method="gmo", coefficient_error_per_m=0.0, rate_noise_per_m_s=0.0)
    monitor = monitor_of(settings)
    bias = np.full(6, 0.05)
    monitor.learn_floor(True)
    for _ in range(800):
        monitor.update(np.zeros(6), np.zeros(6), NOISE, DT, tension=np.full(4, 60.0), other_force=-bias)
    monitor.learn_floor(False)
    found = monitor.update(np.zeros(6), np.zeros(6), NOISE, DT, tension=np.full(4, 60.0), other_force=-bias)
    np.testing.assert_allclose(found.contact_threshold, 1.2 * 0.05, rtol=0.01)


def test_what_touches_while_the_floor_is_learnt_is_detected_as_before(monitor_of):
    settings = MonitorSettings(method="gmo", coefficient_error_per_m=0.0, rate_noise_per_m_s=0.0)
    monitor = monitor_of(settings)
    bias = np.full(6, 0.05)

    def touched(cycles):
        monitor.reset()
        rest = (np.zeros(6), np.zeros(6), NOISE, DT)
        return [monitor.update(*rest, tension=np.full(4, 60.0), other_force=-bias) for _ in range(cycles)][-1]

    assert touched(400).in_contact
    monitor.learn_floor(True)
    assert touched(400).in_contact
    monitor.learn_floor(False)
    assert not touched(400).in_contact
    monitor.use_floor(None)
    assert touched(400).in_contact


def test_a_floor_of_another_robot_is_refused(monitor_of):
    monitor = monitor_of(MonitorSettings(method="gmo"))
    with pytest.raises(ParameterError, match="bound for 6 channels"):
        monitor.use_floor(Floor(np.ones(4), None))
    assert monitor.floor is None


def test_learning_from_free_motion_takes_errors_of_the_model_off(robot, without_friction, free_motion, pushed):
    """Stiffnesses that are 8 % off: what they make of the residual of free motion goes, and the force is nearer."""
    segment = robot.segments[0]
    backbone = dataclasses.replace(
        segment.backbone,
        bending_stiffness_x_nm2=1.08 * segment.backbone.bending_stiffness_x_nm2,
        bending_stiffness_y_nm2=0.92 * segment.backbone.bending_stiffness_y_nm2,
    )
    wrong = dataclasses.replace(robot, segments=(dataclasses.replace(segment, backbone=backbone),))
    settings = MonitorSettings(
        method="kalman_disturbance_observer", known_arc_length_m=PLACE_M, contact_factor_accelerating=1.0
    )
    monitor = ContactMonitor(wrong, settings, friction=without_friction)
    before = run(monitor, pushed, 1e-4)
    monitor.reset()
    rows = list(zip(*free_motion, strict=True))
    run(monitor, list(zip(*rows[:100], strict=True)), 1e-4)
    monitor.learn_floor(True)
    untaught = run(monitor, list(zip(*rows[100:], strict=True)), 1e-4)
    monitor.learn_floor(False)
    monitor.reset()
    taught = run(monitor, free_motion, 1e-4, seed=1)[150:]
    assert {estimate.state for estimate in taught} == {"clear"}
    sizes = [np.sqrt(np.mean([e.residual**2 for e in found], axis=0)) for found in (untaught[50:], taught)]
    assert np.all(sizes[1][:2] < 0.4 * sizes[0][:2]), sizes
    monitor.reset()
    after = run(monitor, pushed, 1e-4)
    first = next(k for k, estimate in enumerate(after) if k > 150 and estimate.in_contact)
    assert 0.8 <= first * DT <= 0.9

    # Another monitor of the same robot takes what was learnt over, and finds the same.
    other = ContactMonitor(wrong, settings, friction=without_friction)
    other.use_floor(monitor.floor)
    np.testing.assert_array_equal([e.wrench.wrench for e in run(other, pushed, 1e-4)], [e.wrench.wrench for e in after])

    def error(found):
        return math.sqrt(np.mean([np.sum((e.wrench.wrench[:2] - [14, -9]) ** 2) for e in found[500:]]))

    assert error(after) < 1.0
    assert error(after) < 0.8 * error(before)
    monitor.with_settings(dataclasses.replace(settings, method="gmo"))
    np.testing.assert_allclose(monitor.update(*rows[0][:2], NOISE, DT, tension=rows[0][3]).residual, 0, atol=1e-6)


# --- bad input


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("broken", ["c", "rate", "covariance", "tension", "dt"])
def test_what_is_not_a_number_blinds_and_is_named(method, broken, monitor_of):
    monitor = monitor_of(MonitorSettings(method=method))
    c, rate, noise, tension, dt = np.zeros(6), np.zeros(6), NOISE.copy(), np.full(4, 60.0), DT
    monitor.update(c, rate, noise, dt, tension=tension)
    bad = {"c": c, "rate": rate, "covariance": noise, "tension": tension}
    if broken == "dt":
        dt = math.nan
    else:
        bad[broken] = bad[broken].copy()
        bad[broken].flat[0] = math.nan
    found = monitor.update(bad["c"], bad["rate"], bad["covariance"], dt, tension=bad["tension"])
    if method == "kalman_disturbance_observer" and broken == "rate":  # it does not look at rates
        assert found.state == "clear"
        return
    assert found.state == "invalid"
    assert "not a number" in found.reason
    assert np.isnan(found.residual).all()
    assert math.isnan(found.ratio)
    later = monitor.update(c, rate, noise, DT, tension=tension)
    assert later.state == "invalid"
    assert later.reason == found.reason
    monitor.reset()
    assert monitor.update(c, rate, noise, DT, tension=tension).state == "clear"


def test_covariance_of_the_rates_widens_the_thresholds_and_is_checked(monitor_of):
    monitor = monitor_of(MonitorSettings(method="gmo"))
    rest = (np.zeros(6), np.zeros(6), NOISE, DT)
    found = {}
    for fraction in (0.5, 2.0):
        monitor.reset()
        rates = np.eye(6) * (fraction * monitor.settings.rate_noise_per_m_s) ** 2
        found[fraction] = monitor.update(*rest, tension=np.full(4, 60.0), c_rate_covariance=rates).contact_threshold
    assert np.all(found[2.0] > found[0.5])
    with pytest.raises(ParameterError, match="c_rate_covariance"):
        monitor.update(*rest, tension=np.full(4, 60.0), c_rate_covariance=np.eye(5))
    invalid = monitor.update(*rest, tension=np.full(4, 60.0), c_rate_covariance=np.full((6, 6), np.nan))
    assert invalid.state == "invalid"
    assert "covariance of the rates" in invalid.reason


def test_a_jump_of_a_coefficient_blinds(monitor_of):
    monitor = monitor_of()
    monitor.update(np.zeros(6), np.zeros(6), NOISE, DT, tension=np.full(4, 60.0))
    found = monitor.update(np.array([0, 0, 3.0, 0, 0, 0]), np.zeros(6), NOISE, DT, tension=np.full(4, 60.0))
    assert found.state == "invalid"
    assert "coefficient 2 jumped" in found.reason


def test_frozen_coefficients_under_changing_tensions_invalid(monitor_of):
    monitor = monitor_of(MonitorSettings(frozen_s=0.1))
    states = [
        monitor.update(np.zeros(6), np.zeros(6), NOISE, DT, tension=60 + np.array([k, 0.0, -k, 0.0]) / 4)
        for k in range(120)
    ]
    assert states[-1].state == "invalid"
    assert "frozen" in states[-1].reason
    monitor.reset()
    still = [monitor.update(np.zeros(6), np.zeros(6), NOISE, DT, tension=np.full(4, 60.0)) for _ in range(120)]
    assert still[-1].state == "clear"


def test_a_fault_of_the_shape_blinds(monitor_of):
    monitor = monitor_of()
    found = monitor.update(np.zeros(6), np.zeros(6), NOISE, DT, tension=np.full(4, 60.0), fault="string_2 snapped")
    assert (found.state, found.reason) == ("invalid", "string_2 snapped")


def test_a_suspect_holds_a_contact_back_and_blinds_in_the_end(monitor_of, pushed):
    monitor = monitor_of(MonitorSettings(suspect_s=0.2))
    found = run(monitor, pushed, suspects=("string_2",))
    states = [estimate.state for estimate in found]
    assert not any(estimate.in_contact for estimate in found)
    first, last = states.index("settling"), states.index("invalid")
    assert "string_2" in found[first].reason
    assert 0.19 <= (last - first) * DT <= 0.4
    assert set(states[last:]) == {"invalid"}
    assert found[-1].reason.startswith("string_2 frozen")


def test_a_suspect_changes_nothing_without_a_contact_nor_one_that_is_reported(monitor_of, pushed):
    monitor = monitor_of()
    found = run(monitor, pushed)
    plain = [estimate.state for estimate in found]
    quiet = next(k for k, estimate in enumerate(found) if estimate.ratio > 1)
    assert 0 < quiet < plain.index("contact")
    monitor.reset()
    early = [estimate.state for estimate in run(monitor, [column[:quiet] for column in pushed], suspects=("string_2",))]
    assert early == plain[:quiet]
    monitor.reset()
    run(monitor, pushed)
    end = [column[-1:] for column in pushed]
    assert all(estimate.in_contact for estimate in run(monitor, end, suspects=("string_2",)))


def test_unusable_arguments_are_refused(monitor_of):
    monitor = monitor_of()
    zero = np.zeros(6)
    with pytest.raises(ParameterError, match="one of the two"):
        monitor.update(zero, zero, NOISE, DT)
    with pytest.raises(ParameterError, match="one of the two"):
        monitor.update(zero, zero, NOISE, DT, tension=np.zeros(4), capstan_torque=np.zeros(2))
    with pytest.raises(ParameterError, match="shapes"):
        monitor.update(np.zeros(5), zero, NOISE, DT, tension=np.zeros(4))
    with pytest.raises(ParameterError, match="dt"):
        monitor.update(zero, zero, NOISE, -DT, tension=np.zeros(4))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("method", "guess"),
        ("gain_per_s", (0.0,)),
        ("gain_per_s", (10.0, -1.0)),
        ("gain_per_s", ()),
        ("contact_type", "none"),
        ("sigma", math.nan),
        ("hysteresis", 2.0),
        ("contact_factor_steady", 100.0),
        ("contact_force_accelerating_n", 1e4),
    ],
)
def test_settings_out_of_range_are_refused(key, value):
    with pytest.raises(ParameterError, match=key):
        MonitorSettings(**{key: value})


def test_settings_change_while_it_runs(monitor_of):
    monitor = monitor_of(MonitorSettings(method="gmo"))
    rest = {"tension": np.full(4, 60.0)}
    for _ in range(200):
        before = monitor.update(np.zeros(6), np.zeros(6), NOISE, DT, other_force=-np.full(6, 1e-4), **rest)
    monitor.with_settings(dataclasses.replace(monitor.settings, gain_per_s=(60.0,)))
    after = monitor.update(np.zeros(6), np.zeros(6), NOISE, DT, other_force=-np.full(6, 1e-4), **rest)
    np.testing.assert_allclose(after.residual, before.residual, atol=1e-3)
    with pytest.raises(ParameterError, match="gain"):
        monitor.with_settings(dataclasses.replace(monitor.settings, gain_per_s=(1.0, 2.0)))
    with pytest.raises(ParameterError, match="known_arc_length_m"):
        monitor.with_settings(dataclasses.replace(monitor.settings, known_arc_length_m=5.0))
    assert monitor.settings.gain_per_s == (60.0,)
    for method in METHODS:
        monitor.with_settings(dataclasses.replace(monitor.settings, method=method))
        found = monitor.update(np.zeros(6), np.zeros(6), NOISE, DT, **rest)
        assert found.state == "clear"


def test_any_robot_is_monitored_and_constant_curvature_says_no_place():
    monitor = ContactMonitor(load_robot("opencr_five_tendon"))
    for k in range(300):
        push_now = -np.array([0.1, 0.2]) * (k > 100)
        found = monitor.update(np.zeros(2), np.zeros(2), np.eye(2) * 1e-8, DT, tension=np.ones(5), other_force=push_now)
    assert found.in_contact
    assert not found.location.observable
    assert found.wrench_location_assumed
    assert found.wrench_arc_length_m == monitor.robot.length_m


def test_torques_and_tensions_are_the_same(robot):
    one = ContactMonitor(robot, MonitorSettings(method="gmo"))
    other = ContactMonitor(robot, MonitorSettings(method="gmo"), functions=one.functions)
    c, rate = np.array([0.5, 0.1, 0, 0, 0, 0]), np.array([0.2, -0.1, 0, 0, 0, 0])
    # A torque is that of wires around the file's pretension, johnston (32) with half of what it prints.
    drive = drives(robot)[0]
    strands, pretension_n = drive.strands, drive.capstans.pretension_n
    radius_m = drive.capstans.wire_per_radian_m
    for k in range(20):
        torque = np.array([0.3 + 0.01 * k, -0.2])
        tension = strands * (pretension_n + np.array([1, 1, -1, -1]) * np.tile(torque, 2) / radius_m / 2)
        first = one.update(c, rate, NOISE, DT, tension=tension)
        second = other.update(c, rate, NOISE, DT, capstan_torque=torque)
    np.testing.assert_allclose(first.residual, second.residual, atol=1e-9)


# --- Kalman disturbance observer on a linear oscillator, where everything is known


def oscillator(mass, stiffness, damping):
    def evaluate(c, v):
        n = len(c)
        zero = np.zeros((n, n))
        terms = ContactTerms(
            mass @ v,
            -stiffness @ c - damping @ v,
            mass,
            zero,
            -stiffness,
            -damping,
            np.tile(np.eye(6)[:, :n], (3, 1, 1)),
        )
        return StateTerms(terms, np.zeros(n))

    return evaluate


def test_disturbance_of_a_linear_system_is_found_without_a_rate():
    mass, stiffness = np.diag([0.1, 0.003]), np.array([[0.3, 0.02], [0.02, 0.11]])
    damping, force = 0.02 * np.eye(2), np.array([0.5, -0.2])
    observer = DisturbanceObserver(2, np.eye(6)[:, :2], 5.0)
    evaluate, c, v = oscillator(mass, stiffness, damping), np.zeros(2), np.zeros(2)
    h = 1e-4
    for k in range(20000):
        if k % 10 == 0:
            found = observer.update(c, np.eye(2) * 1e-10, evaluate, 10 * h)
        v = v + h * np.linalg.solve(mass, force - stiffness @ c - damping @ v)
        c = c + h * v
    np.testing.assert_allclose(found, force, atol=0.01)
    np.testing.assert_allclose(observer.rates, v, atol=0.02)
    np.testing.assert_allclose(observer.coefficients, c, atol=1e-3)
    assert np.linalg.eigvalsh(observer.covariance).min() > 0


def test_stated_covariance_is_that_of_the_errors():
    """White noise on c alone: the estimate scatters as the filter reports it does."""
    generator = np.random.default_rng(6)
    mass, stiffness, sigma = np.eye(1) * 0.05, np.eye(1) * 0.3, 1e-3
    evaluate, walk, h = oscillator(mass, stiffness, np.eye(1) * 0.05), 2.0, 1e-3
    observer = DisturbanceObserver(1, np.eye(6)[:, :1], walk)
    c, v, d, errors, stated = np.zeros(1), np.zeros(1), np.zeros(1), [], []
    spread = walk * math.sqrt(1.5)  # of three Jacobians, the first of which is the base's
    for k in range(12000):
        found = observer.update(c + sigma * generator.normal(size=1), np.eye(1) * sigma**2, evaluate, h)
        if k > 500:
            errors.append(float(found[0] - d[0]))
            stated.append(float(observer.covariance[0, 0]))
        v = v + h * (d - stiffness @ c - 0.05 * v) / 0.05
        c = c + h * v
        d = d + spread / math.sqrt(1.5) * math.sqrt(h) * generator.normal(size=1)
    assert np.mean(np.square(errors)) == pytest.approx(np.mean(stated), rel=0.35)


def test_disturbance_observer_refuses_and_blinds():
    with pytest.raises(ParameterError, match="force_walk"):
        DisturbanceObserver(2, np.eye(6)[:, :2], 0.0)
    observer, evaluate = DisturbanceObserver(1, np.eye(6)[:, :1]), oscillator(np.eye(1), np.eye(1), np.eye(1))
    with pytest.raises(ParameterError, match="observer"):
        _ = observer.model
    assert np.isnan(observer.coefficients).all()
    observer.update([0.0], [[1e-6]], evaluate, DT)
    with pytest.raises(ParameterError, match="dt"):
        observer.update([0.0], [[1e-6]], evaluate, -DT)
    assert np.isnan(observer.update([math.nan], [[1e-6]], evaluate, DT)).all()
    assert np.isnan(observer.update([0.0], [[1e-6]], evaluate, DT)).all()
    assert observer.invalid_reason


@pytest.mark.long
def test_noise_experiment_of_johnston(robot, dynamics, monitor_of):
    """Section 11.2 at 500 Hz: the Kalman observer halves the paper's error of the momentum observer at noise 0.01."""
    motion = simulate(
        dynamics, lambda t: np.array([10.0, -10.0]) * min(t, 1.0), lambda _: np.zeros(4), 2.0, robot.length_m
    )
    truth = np.minimum(np.arange(len(motion[0])) * DT, 1)[:, None] * [10, -10]
    functions = ContactFunctions(robot)
    errors = {}
    for method, amplitude in (
        ("gmo", 0.0),
        ("jfd", 0.0),
        ("kalman_disturbance_observer", 0.0),
        ("kalman_disturbance_observer", 0.01),
    ):
        settings = MonitorSettings(method=method, gain_per_s=(10.0,), known_arc_length_m=robot.length_m)
        monitor = monitor_of(settings, functions=functions)
        generator = np.random.default_rng(2)
        found = []
        for c, v, a, tension in zip(*motion, strict=True):
            noisy = c + amplitude * generator.uniform(-0.5, 0.5, 6)
            covariance = np.eye(6) * max(amplitude**2 / 12, 1e-12)
            estimate = monitor.update(noisy, v, covariance, DT, tension=tension, c_acceleration=a)
            found.append(estimate.wrench.wrench[:2])
        errors[method, amplitude] = np.sqrt(np.mean((np.array(found) - truth) ** 2, axis=0))
    np.testing.assert_allclose(errors["gmo", 0.0], 0.67, atol=0.03)
    assert errors["jfd", 0.0].max() < 1e-4
    assert errors["kalman_disturbance_observer", 0.0].max() < 0.1
    assert np.all(errors["kalman_disturbance_observer", 0.01] < [1.6, 1.8])


# --- machine code and NumPy


@pytest.fixture(scope="module", params=["vanderbilt_segment", "vanderbilt_two_segment", "opencr_five_tendon"])
def monitors(request):
    """A monitor, and one whose algebra is NumPy's and the oracles'."""
    robot = load_robot(request.param)
    quick = ContactMonitor(robot)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contact_monitor, "BudgetAlgebra", PlainBudgets)
        patch.setattr(contact_location, "LocationAlgebra", PlainPlaces)
        yield quick, ContactMonitor(robot, functions=quick.functions)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("dt", "contact_type"), [(1e-3, "point"), (7e-3, "point"), (2e-3, "bending")])
def test_machine_code_gives_what_numpy_gives(method, monitors, dt, contact_type):
    """State after state the same residual, errors, place and wrench; steps longer than the filter's series too.

    The Kalman filter's covariance spans ten decades and more, so rounding adds up in what it finds.
    """
    close = 1e-6 if method == "kalman_disturbance_observer" else 1e-10
    (quick, plain), robot = monitors, monitors[0].robot
    settings = MonitorSettings(
        method=method,
        contact_type=contact_type,
        friction_error_fraction=0.2,
        rate_error_per_m_s=0.01,
        smoothing_points=3,
    )
    for monitor in monitors:
        monitor.with_settings(settings)
        monitor.reset()
    assert type(plain._budgets) is PlainBudgets
    assert isinstance(plain.locator.algebra, PlainPlaces)
    assert type(quick._budgets) is BudgetAlgebra
    generator, n = np.random.default_rng(3), quick.size
    wave, push = 0.3 * generator.normal(size=n), generator.normal(size=n)
    noise = 1e-6 * np.diag(generator.uniform(0.5, 2.0, n))
    for k in range(40):
        phase = 3 * k * dt
        c, rate = wave * np.sin(phase), 3 * wave * np.cos(phase)
        load = {"tension": np.full(robot.tendon_count, 20.0), "other_force": -push * min(k / 20, 1.0)}
        one, other = quick.update(c, rate, noise, dt, **load), plain.update(c, rate, noise, dt, **load)
        assert (one.state, one.accelerating) == (other.state, other.accelerating)
        for field in ("residual", "residual_covariance", "contact_threshold", "collision_threshold"):
            first, second = getattr(one, field), getattr(other, field)
            np.testing.assert_allclose(first, second, rtol=close, atol=close * np.abs(second).max(), err_msg=field)
        np.testing.assert_allclose(
            one.location.log_likelihood, other.location.log_likelihood, rtol=100 * close, atol=1e-5
        )
        np.testing.assert_allclose(one.location.segment_probability, other.location.segment_probability, atol=1e-5)
        assert one.location.observable == other.location.observable
        np.testing.assert_allclose(one.location.interval_m, other.location.interval_m, atol=1e-6)
        np.testing.assert_allclose(one.location.sigma_m, other.location.sigma_m, rtol=1e-4)
        size = np.abs(other.wrench.wrench).max()
        np.testing.assert_allclose(one.wrench.wrench, other.wrench.wrench, rtol=1e-5, atol=1e-5 * size)
        np.testing.assert_array_equal(one.wrench.sensed, other.wrench.sensed)


def test_one_cycle_of_the_filter_is_the_same_in_machine_code(monitors):
    plain = monitors[1]
    n, generator = plain.size, np.random.default_rng(4)
    noise, load = 1e-6 * np.diag(generator.uniform(0.5, 2.0, n)), 0.1 * generator.normal(size=n)
    observer, filtered = (DisturbanceObserver(n, np.eye(6)[:, :2]) for _ in range(2))
    observer._filter = filter_cycle
    assert filtered._filter is not filter_cycle

    def evaluate(c, rate):
        return StateTerms(plain.functions(c, rate), load)

    for k, dt in enumerate([1e-3] * 10 + [5e-3] * 5 + [0.03] * 2):
        measured = 0.3 * np.sin(0.01 * (k + np.arange(n))) + 1e-3 * generator.normal(size=n)
        for field in ("_state", "_P", "_walk", "_model", "_cycle"):
            setattr(filtered, field, getattr(observer, field))
        one, other = (which.update(measured, noise, evaluate, dt) for which in (filtered, observer))
        np.testing.assert_allclose(one, other, atol=1e-9 * np.abs(other).max())
        np.testing.assert_allclose(filtered.coefficients, observer.coefficients, atol=1e-10)
        np.testing.assert_allclose(filtered.covariance, observer.covariance, atol=1e-9 * observer.covariance.max())


# --- what resists by the past of the motion


def with_past(robot):
    """Motors whose dry friction builds up over 0.2 mm and a backbone that lags, without cogging."""
    own = Hysteresis(moment_nm=2e-3, curvature_per_m=1.0)
    actuators = dataclasses.replace(
        robot.actuators, coulomb_friction_nm=0.0015, friction_travel_m=2e-4, cogging_amplitude_nm=0.0
    )
    segments = tuple(dataclasses.replace(segment, hysteresis=own) for segment in robot.segments)
    return robot.changed(actuators=actuators, segments=segments)


class SlowTurns:
    """A prototype with a past in slow turns, by its own model: what its tensions are."""

    def __init__(self):
        self.plain = load_robot("opencr_five_tendon")
        self.robot = with_past(self.plain)
        self.lever, self._shape = tendon_matrix(self.robot), coefficients_from_clarke(self.robot)
        self.resistance = Resistance(self.robot)
        self._rod = Rod(self.robot, parts=DRIVEN)
        both, actuators = self.lever.T @ self.lever, self.plain.actuators
        self._viscous = actuators.viscous_ns_per_m * both

    def at(self, time_s):
        """Coefficients, their rates and the tensions."""
        turn, shape = 2 * np.pi * 0.25, self._shape
        sine, cosine = math.sin(turn * time_s), math.cos(turn * time_s)
        c = shape @ (5e-3 * np.array([1 - cosine, sine]))
        rate = shape @ (5e-3 * turn * np.array([sine, cosine]))
        acceleration = shape @ (5e-3 * turn**2 * np.array([cosine, -sine]))
        arrays = self._rod.arrays
        force = self._rod.terms(c, rate, acceleration).bias + arrays.stiffness @ c + arrays.damping @ rate
        force = force + self._viscous @ rate + self.resistance.move(c, self.lever @ c)
        return c, rate, np.linalg.pinv(self.lever.T) @ force + 10.0


def feel(monitor, turns, time_s):
    c, rate, tension = turns.at(time_s)
    noise = 1e-8 * np.eye(2)
    return monitor.update(c, rate, noise, 0.01, tension=tension, tendon_displacement=turns.lever @ c)


@pytest.fixture(scope="module")
def slow_turns():
    """What a monitor that knows the past, and one that does not, make of slow turns."""
    robot = with_past(load_robot("opencr_five_tendon"))
    without = dataclasses.replace(robot.actuators, friction_travel_m=0.0)
    elastic = tuple(dataclasses.replace(segment, hysteresis=None) for segment in robot.segments)
    known = {"known": robot, "unknown": robot.changed(actuators=without, segments=elastic)}
    monitors = {name: ContactMonitor(one, motors=True) for name, one in known.items()}
    found = {}
    for name, monitor in monitors.items():
        turns = SlowTurns()
        found[name] = [feel(monitor, turns, 0.01 * k) for k in range(1200)]
    return found, monitors


def test_a_learnt_floor_does_not_take_an_unknown_past_for_a_contact():
    """The observer of all channels together learns free motion with a known past; then it starts at another one."""
    robot = with_past(load_robot("opencr_five_tendon"))
    monitor, turns = ContactMonitor(robot, MonitorSettings(method=KALMAN), motors=True), SlowTurns()
    for k in range(1600):
        if k == 400:
            monitor.learn_floor(True)
        feel(monitor, turns, 0.01 * k)
    monitor.learn_floor(False)
    assert monitor.floor.motion is not None
    monitor.reset()
    # Held where the motors' friction pulls the other way than after the turns.
    turns.resistance.move(np.full(2, -50.0), turns.lever @ np.full(2, -50.0))
    found = [feel(monitor, turns, 16.0) for _ in range(200)]
    assert not any(one.in_contact for one in found)
    residual, learnt = found[-1].residual, monitor.floor.motion
    assert residual @ learnt.information @ residual > 2 * learnt.evidence  # which alone would be a contact
    for k in range(400):
        feel(monitor, turns, 16.0 + 0.01 * k)
    assert not monitor._rod.past_unknown  # a turn is more than the last element holds


def test_what_resists_by_the_past_is_no_contact(slow_turns):
    found, _ = slow_turns
    largest = {name: np.abs([one.residual for one in of[300:]]).max() for name, of in found.items()}
    assert largest["known"] < 0.05 * largest["unknown"]


def test_the_threshold_falls_when_the_past_is_known(slow_turns):
    found, monitors = slow_turns
    first, last = (found["known"][k].contact_threshold for k in (0, -1))
    assert np.all(last < 0.6 * first)
    least = {name: monitors[name].least_tip_force_n(found[name][-1]) for name in found}
    assert least["known"] < 0.6 * least["unknown"]


def test_after_a_reset_the_past_is_unknown_again(slow_turns):
    found, monitors = slow_turns
    monitor = monitors["known"]
    monitor.reset()
    again = monitor.update(np.zeros(2), np.zeros(2), 1e-8 * np.eye(2), 0.01, tension=np.full(5, 10.0))
    assert again.contact_threshold == pytest.approx(found["known"][0].contact_threshold, rel=0.1)


def test_displacements_that_are_not_known_leave_no_trace_and_of_another_robot_are_refused(slow_turns):
    _, monitors = slow_turns
    monitor, c = monitors["known"], np.full(2, 1.0)
    state = {"c_rate": np.zeros(2), "c_covariance": 1e-8 * np.eye(2), "dt": 0.01, "tension": np.full(5, 10.0)}
    monitor.reset()
    monitor.update(c, **state, tendon_displacement=np.full(5, np.nan))
    after = monitor.update(c, **state, tendon_displacement=tendon_matrix(monitor.robot) @ c)
    assert np.isfinite(after.residual).all()
    with pytest.raises(ParameterError, match="tendon_displacement"):
        monitor.update(c, **state, tendon_displacement=np.zeros(4))
