# SPDX-License-Identifier: Apache-2.0
"""Axioms of rate-independent friction, and of a robot whose tendons rub."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ways import PATHS, refined

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.tendons import DisplacedTendons
from continuum_robot.rod.displaced_statics import DisplacedStatics
from continuum_robot.rod.friction.maxwell_slip import moved_anchor, stop_force
from continuum_robot.rod.rod import Rod

LIMIT, STIFFNESS = np.array([0.7]), np.array([3.0])


def forces(path: list[float], anchor: float = 0.0) -> list[float]:
    """Force after every corner of a way."""
    found, state = [], np.array([anchor])
    for position in path:
        found.append(float(stop_force([position], state, LIMIT, STIFFNESS).force[0]))
        state = moved_anchor([position], state, LIMIT, STIFFNESS)
    return found


@given(PATHS, st.integers(2, 7))
def test_force_depends_on_the_way_not_on_the_steps(path, pieces):
    start = [0.0, *path]
    assert np.allclose(forces(refined(start, pieces))[pieces - 1 :: pieces], forces(start)[1:], atol=1e-12)


@given(PATHS)
def test_force_is_bounded_and_anchors_follow_at_the_limit(path):
    state = np.zeros(1)
    for position in path:
        force = stop_force([position], state, LIMIT, STIFFNESS)
        assert abs(force.force[0]) <= LIMIT[0] + 1e-12
        moved = moved_anchor([position], state, LIMIT, STIFFNESS)
        again = stop_force([position], moved, LIMIT, STIFFNESS)
        assert again.force == pytest.approx(force.force, abs=1e-12)
        state = moved


@given(PATHS, st.floats(-2, 2), st.floats(-2, 2))
def test_a_loop_closes_from_its_first_return_on(path, low, high):
    loops = forces([0.0, *path, low, high, low, high, low, high])
    assert loops[-4:-2] == pytest.approx(loops[-2:], abs=1e-12)


@given(st.floats(0.5, 2), st.floats(0, 1), st.floats(0, 1))
def test_a_small_loop_is_forgotten_at_its_corner(peak, inner, fraction):
    """Return-point memory: an excursion that comes back to where it left the way leaves no trace."""
    turn = -peak + 2 * peak * inner
    back = turn + (peak - turn) * fraction
    plain = forces([0.0, peak, turn, -peak, peak])
    looped = forces([0.0, peak, turn, back, turn, -peak, peak])
    assert looped[-2:] == pytest.approx(plain[-2:], abs=1e-12)
    assert looped[4] == pytest.approx(plain[2], abs=1e-12)


@given(st.floats(-2, 2), st.floats(-2, 2))
def test_force_is_the_slope_of_the_energy(position, anchor):
    step = 1e-6
    up, down = (stop_force([position + s], [anchor], LIMIT, STIFFNESS).energy for s in (step, -step))
    force = stop_force([position], [anchor], LIMIT, STIFFNESS).force[0]
    assert (up - down) / (2 * step) == pytest.approx(force, abs=1e-5)


@given(PATHS)
def test_a_closed_loop_never_gives_energy(path):
    """What the force takes along a way that goes again and again around the same loop."""
    loop = refined([*path, path[0]], 8)
    way = np.array([path[0], *loop, *loop])
    work = np.cumsum(np.array(forces(way.tolist()))[1:] * np.diff(way))
    assert work[-1] - work[len(loop) - 1] >= -1e-9


def test_no_friction_where_the_limit_is_zero():
    found = stop_force([0.3], [0.0], [0.0], [2.0])
    assert found.force[0] == 0
    assert not found.sticking[0]
    assert found.energy == 0
    assert moved_anchor([0.3], [0.0], [0.0], [2.0])[0] == 0.3


def rubbing(fraction: float = 0.1, zero_m: float = 3e-4, **changes: object) -> Robot:
    robot = load_robot("ftdcr_v4")
    count = robot.tendon_count
    tendons = DisplacedTendons(
        stiffness_n_per_m=(2e4,) * count,
        zero_m=(zero_m,) * count,
        gain=(1.0,) * count,
        friction_fraction=(fraction,) * count,
    )
    segments = tuple(
        replace(
            segment,
            backbone=replace(segment.backbone, bending_stiffness_x_nm2=0.008, bending_stiffness_y_nm2=0.008),
        )
        for segment in robot.segments
    )
    return robot.changed(segments=segments, displaced_tendons=tendons, **changes)


def yielding(robot: Robot, compliance_per_n: float) -> Robot:
    """With a backbone that gives way along itself by a fraction of its length a newton."""
    segments = tuple(
        replace(one, basis=one.basis.extended, backbone=replace(one.backbone, axial_stiffness_n=1 / compliance_per_n))
        for one in robot.segments
    )
    return robot.changed(segments=segments)


def bent(amplitude_m: float, fractions: np.ndarray) -> np.ndarray:
    """All segments' first tendons pulled by a fraction of an amplitude, the others paid out."""
    pattern = np.array([1.0, -0.5, -0.5])
    return amplitude_m * fractions[:, None] * np.concatenate([pattern, pattern, pattern])


def test_robot_goes_up_and_down_on_two_ways_and_closes_its_loop():
    up, down = np.linspace(0, 1, 21), np.linspace(1, 0, 21)
    fractions = np.concatenate([up, down, up, down])
    shown = DisplacedStatics(rubbing()).replay(bent(4e-3, fractions)).tip[:, :3, 3]
    first_down, second_up, second_down = shown[21:42], shown[42:63], shown[63:]
    apart = np.linalg.norm(first_down[::-1] - second_up, axis=1)
    assert apart[5:16].min() > 3e-4
    assert np.abs(second_down - first_down).max() < 1e-9
    free = DisplacedStatics(rubbing(), friction=False).replay(bent(4e-3, fractions)).tip[:, :3, 3]
    assert np.abs(free[21:42][::-1] - free[42:63]).max() < 1e-9


def test_robot_knows_no_time_and_hardly_the_steps():
    fractions = np.concatenate([np.linspace(0, 1, 41), np.linspace(1, 0.3, 29)])
    fine = DisplacedStatics(rubbing()).replay(bent(4e-3, fractions)).tip[:, :3, 3]
    coarse = DisplacedStatics(rubbing()).replay(bent(4e-3, fractions)[::4]).tip[:, :3, 3]
    assert np.abs(fine[::4] - coarse).max() < 2e-4
    held = DisplacedStatics(rubbing()).replay(np.repeat(bent(4e-3, fractions), 3, axis=0)).tip[2::3, :3, 3]
    # The limit depends on the tension of the step before, which a second look at the same reading renews.
    assert np.abs(fine - held).max() < 2e-4


def test_stiff_tendons_without_weight_bend_as_their_displacement_says():
    robot = rubbing(fraction=0.0, zero_m=0.0, gravity_m_per_s2=(0.0, 0.0, 0.0))
    stiff = replace(robot.displaced_tendons, stiffness_n_per_m=(1e8,) * 9)
    readings = bent(3e-3, np.array([0.0, 0.5, 1.0]))
    path = DisplacedStatics(robot.changed(displaced_tendons=stiff)).replay(readings).path
    assert np.abs(path[:, :3] - readings[:, :3]).max() < 2e-6


def test_shape_is_that_of_the_general_rod():
    """The other solver, an active set on the general rod with torsion left out, knows the same elastic tendons."""
    robot = rubbing(fraction=0.0)
    rod = Rod(robot)
    rng = np.random.default_rng(3)
    readings = 3e-3 * rng.uniform(-1, 1, (4, 9))
    found = DisplacedStatics(robot).replay(readings)
    for reading, c, tension in zip(readings, found.c, found.tension, strict=True):
        held = rod.equilibrium(stiffness=2e4, spooled=reading + 3e-4)
        assert c == pytest.approx(held.c, abs=1e-5)
        assert tension == pytest.approx(held.tension, abs=1e-4)


def test_sensitivities_are_derivatives():
    robot = rubbing()
    tendons = replace(robot.displaced_tendons, spiral_rad_per_m=2.0, straight_over_m=0.02)
    robot = yielding(robot.changed(displaced_tendons=tendons), 3e-6)
    fractions = np.concatenate([np.linspace(0.03, 1, 15), np.linspace(0.93, 0.1, 12)])
    readings = bent(4e-3, fractions) + 1e-4 * np.sin(np.arange(27)[:, None] + np.arange(9))
    model = DisplacedStatics(robot)
    found = model.replay(readings, point_m=(0.001, 0.002, 0.003), sensitivities=True)

    def changes(others: list[Robot], width: float) -> tuple[np.ndarray, np.ndarray]:
        """Slopes of the point and of the tensions by differences of two robots."""
        both = [DisplacedStatics(one).replay(readings, point_m=(0.001, 0.002, 0.003)) for one in others]
        return (both[0].point - both[1].point) / width, (both[0].tension - both[1].tension) / width

    def changed(key: str, value: object) -> Robot:
        return robot.changed(displaced_tendons=replace(tendons, **{key: value}))

    # Of tendon 4, or of all; the step is relative for logarithms.
    stiffness = tendons.stiffness_n_per_m[4]
    cases = {}
    for name, key, value, step, unit in (
        ("zero_m", "zero_m", 3e-4, 1e-7, 1.0),
        ("gain", "gain", 1.0, 1e-5, 1.0),
        ("friction_fraction", "friction_fraction", 0.1, 1e-5, 1.0),
        ("log_tendon_stiffness", "stiffness_n_per_m", stiffness, 1e-4, stiffness),
    ):
        each = [changed(key, (*(value,) * 4, value + s * unit, *(value,) * 4)) for s in (step, -step)]
        cases[name] = model.parameters[name].start + 4, changes(each, 2 * step)
    for name, key, value, unit in (
        ("spiral_rad_per_m", "spiral_rad_per_m", 2.0, 1.0),
        ("log_straight_over", "straight_over_m", 0.02, 0.02),
    ):
        each = [changed(key, value + s * unit) for s in (1e-4, -1e-4)]
        cases[name] = model.parameters[name].start, changes(each, 2e-4)
    each = [yielding(robot, 3e-6 * (1 + step)) for step in (1e-4, -1e-4)]
    cases["log_compliance"] = model.parameters["log_compliance"].start, changes(each, 2e-4)
    for name, (column, numeric) in cases.items():
        for by_differences, exact in zip(numeric, (found.sensitivity, found.tension_slope), strict=True):
            error = np.abs(by_differences - exact[:, :, column]).max()
            assert error < 2e-3 * np.abs(by_differences).max(), name


@pytest.mark.parametrize("spiral_rad_per_m", [0.0, 1e-3, -3.0, 40.0])
def test_a_spiral_turns_the_lever_along_the_way(spiral_rad_per_m: float):
    """Paths of taut tendons without friction against the integral of their length over the bent robot."""
    robot = rubbing(0.0)
    tendons = replace(robot.displaced_tendons, spiral_rad_per_m=spiral_rad_per_m)
    found = DisplacedStatics(robot.changed(displaced_tendons=tendons)).replay(bent(2e-3, np.array([1.0])))
    starts, owner = robot.segment_starts_m, np.repeat(np.arange(3), 3)
    for j, own in enumerate(owner):
        segment = robot.segments[own]
        angle = segment.tendons.angle_offset_rad + 2 * np.pi * (j - 3 * own) / 3
        path = 0.0
        for k in range(own + 1):
            s = starts[k] + robot.segments[k].length_m * (np.arange(2000) + 0.5) / 2000
            psi = angle + spiral_rad_per_m * (s - starts[own] - segment.length_m / 2)
            kappa_x, kappa_y = found.c[0, 2 * k : 2 * k + 2]
            radius = segment.tendons.pitch_radius_m
            lever = radius * (kappa_y * np.cos(psi) - kappa_x * np.sin(psi))
            rise = radius * spiral_rad_per_m
            path += robot.segments[k].length_m * (np.hypot(1, rise) - np.hypot(1 - lever, rise).mean())
        assert found.path[0, j] == pytest.approx(path, rel=1e-6, abs=1e-10)


def test_tendons_run_straight_between_the_disks():
    """Paths of taut tendons against the distances between the holes of the disks of the bent robot."""
    robot, count = rubbing(0.0, gravity_m_per_s2=(0.0, 0.0, 0.0)), 6
    readings = bent(2e-3, np.array([1.0]))
    for own in (0, 2):
        segment = robot.segments[own]
        straight = replace(robot.displaced_tendons, straight_over_m=segment.length_m / count)
        found = DisplacedStatics(robot.changed(displaced_tendons=straight)).replay(readings)
        arc = DisplacedStatics(robot).replay(readings)
        kappa = np.hypot(*found.c[0, 2 * own : 2 * own + 2])
        # Of the tendon in the middle of the bent backbone the holes lie on the backbone's own arc.
        chord = count * 2 / kappa * np.sin(kappa * segment.length_m / count / 2)
        both = (Rod(robot.changed(displaced_tendons=one)) for one in (straight, robot.displaced_tendons))
        after, ahead = (rod.displacement(found.c[0]) for rod in both)
        shorter = after - ahead
        before = shorter[3 * own - 1] if own else 0.0
        assert shorter[3 * own] - before == pytest.approx(segment.length_m - chord, rel=2e-3)
        assert np.linalg.norm(found.tip[0, :3, 3] - arc.tip[0, :3, 3]) > 1e-4


def test_the_backbone_gives_way_under_the_sum_of_the_tensions():
    """On a straight robot: three equal springs on a bar, which takes what they lose."""
    robot = rubbing(0.0, zero_m=4e-4, gravity_m_per_s2=(0.0, 0.0, 0.0))
    compliance = 2e-6
    found = DisplacedStatics(yielding(robot, compliance)).replay(np.zeros((1, 9)))
    tension = found.tension[0].reshape(3, 3).mean(axis=1)
    lengths = np.array([segment.length_m for segment in robot.segments])
    load = 3 * np.cumsum(tension[::-1])[::-1]  # of the segment's own tendons and of all that go on
    lost = np.cumsum(compliance * lengths * load)
    assert tension == pytest.approx(2e4 * (4e-4 - lost), rel=1e-9)
    assert found.path[0].reshape(3, 3) == pytest.approx(np.tile(lost[:, None], 3), rel=1e-9)
    assert lost[-1] > 1e-5


def test_bad_input_is_named():
    with pytest.raises(ParameterError, match="displaced_tendons"):
        DisplacedStatics(load_robot("ftdcr_v4"))
    with pytest.raises(ParameterError, match=r"\(T, 9\)"):
        DisplacedStatics(rubbing()).replay(np.zeros((3, 4)))
    with pytest.raises(ParameterError, match="finite"):
        DisplacedStatics(rubbing()).replay(np.full((3, 9), np.nan))
