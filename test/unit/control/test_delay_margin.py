# SPDX-License-Identifier: Apache-2.0
"""The delay margin against a closed form, against the eigenvalues of the delayed loop, and its limit cases."""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from changed_robots import with_servos

from continuum_robot.control.delay_margin import BOARD_VELOCITY_FILTER_S, delay_margin_s, late_latency_s, sampled_loop
from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.tendons import String
from continuum_robot.simulation.devices.tendon_actuators import VELOCITY_FILTER_S

SHIPPED = (
    "opencr_five_tendon",
    "two_segment",
    "vanderbilt_segment",
    "vanderbilt_two_segment",
    "crem_segment",
    "rolling_five_link",
)


def with_gains(robot, **gains):
    entries = tuple(dataclasses.replace(one, **gains) for one in robot.control.gains)
    return dataclasses.replace(robot, control=dataclasses.replace(robot.control, gains=entries))


def test_pd_on_a_mass_has_the_closed_form() -> None:
    """|p + j d w| = M w^2 at the crossover, and the phase margin there is atan(d w / p)."""
    p, d = 3000.0, 250.0
    robot = with_gains(load_robot("rolling_five_link"), p=p, i=0.0, d=d, derivative_filter_time=0.0)
    actuators = dataclasses.replace(robot.actuators, current_time_constant_s=1e-5, viscous_friction_nms=0.0)
    robot = dataclasses.replace(robot, actuators=actuators)
    mass = 2 * actuators.reflected_mass_kg  # half the difference of two tendons moves both motors
    square = (d**2 + math.sqrt(d**4 + 4 * mass**2 * p**2)) / (2 * mass**2)
    crossover, phase = math.sqrt(square), math.atan(d * math.sqrt(square) / p)
    found = delay_margin_s(robot, computing_cycles=0, period_s=2e-5, velocity_filter_s=0.0)
    assert found.plant == "motors"
    assert found.crossover_hz == pytest.approx(crossover / (2 * math.pi), rel=1e-3)
    assert found.phase_margin_rad == pytest.approx(phase, rel=5e-3)
    assert found.margin_s == pytest.approx(phase / crossover, rel=5e-3)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_loop_is_stable_up_to_the_margin_and_not_beyond_it(name: str) -> None:
    """The eigenvalues of the loop with whole cycles of delay are the judge."""
    robot = load_robot(name)
    found = delay_margin_s(robot)
    whole = math.floor(found.margin_s / 1e-3)
    assert sampled_loop(robot, computing_cycles=1 + whole).is_stable()
    assert not sampled_loop(robot, computing_cycles=2 + whole).is_stable()
    loop = sampled_loop(robot)
    assert loop.is_stable(0.99 * found.gain_margin)
    assert not loop.is_stable(1.01 * found.gain_margin)
    assert loop.is_stable(np.exp(-0.99j * found.phase_margin_rad))
    assert not loop.is_stable(np.exp(-1.01j * found.phase_margin_rad))
    assert 0 <= found.coordinate < robot.coordinate_count


@pytest.mark.parametrize("cycles", [0, 2, 4])
def test_what_the_loop_computes_longer_it_has_less_of(cycles: int) -> None:
    robot = load_robot("opencr_five_tendon")
    found, usual = delay_margin_s(robot, computing_cycles=cycles), delay_margin_s(robot)
    total = [one.margin_s + one.computing_delay_s for one in (found, usual)]
    assert total[0] == pytest.approx(total[1], abs=1e-9)


def test_an_unstable_loop_has_no_margin() -> None:
    robot = load_robot("opencr_five_tendon")
    gain = robot.control.gains[0]
    found = delay_margin_s(with_gains(robot, p=10 * gain.p, d=10 * gain.d))
    assert found.margin_s == 0
    assert math.isnan(found.crossover_hz)
    assert math.isnan(found.gain_margin)


def test_a_loop_that_hardly_acts_stands_any_delay() -> None:
    found = delay_margin_s(with_gains(load_robot("opencr_five_tendon"), p=1.0, i=0.0, d=0.0))
    assert found.margin_s == math.inf
    assert math.isnan(found.phase_margin_rad)


def test_higher_gains_leave_less() -> None:
    robot = load_robot("vanderbilt_segment")
    gain = robot.control.gains[0]
    margins = [delay_margin_s(with_gains(robot, p=f * gain.p, d=f * gain.d)).margin_s for f in (0.7, 1.0, 2.0, 4.0)]
    assert margins == sorted(margins, reverse=True)


@pytest.mark.parametrize("name", ["ftdcr_v4", "rucker_helical"])
def test_a_robot_without_control_is_refused(name: str) -> None:
    robot = load_robot(name).changed(control=None)
    with pytest.raises(ParameterError, match="actuators and control"):
        delay_margin_s(robot)


@pytest.mark.parametrize("name", ["rucker", "rucker_helical", "mixed_routing"])
def test_control_by_tendon_modes_has_room_for_a_cycle(name: str) -> None:
    assert 2e-3 < delay_margin_s(load_robot(name)).margin_s < 20e-3


@pytest.mark.parametrize("wrong", [{"computing_cycles": -1}, {"period_s": 0.0}, {"velocity_filter_s": math.nan}])
def test_numbers_outside_their_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        delay_margin_s(load_robot("opencr_five_tendon"), **wrong)  # type: ignore[arg-type]


def test_the_simulated_boards_filter_is_the_one_that_is_counted() -> None:
    assert BOARD_VELOCITY_FILTER_S == VELOCITY_FILTER_S


def test_the_integral_of_servos_is_unstable_beyond_its_margins():
    """The loop of servo, integral and delays, stepped in time, by another formulation."""
    robot = with_servos()
    strings = (String(name="one", anchor_m=0.2, pitch_radius_m=0.007, angle_rad=0.0),)
    robot = robot.changed(strings=strings, control=replace(robot.control, integral_per_s=8.0))
    found = delay_margin_s(robot)
    w, dt = 2 * math.pi * robot.actuators.servo.bandwidth_hz, 1e-4

    def grows(rate: float, delay_s: float) -> bool:
        place = speed = integral = 0.0
        seen = deque([1.0] * round(delay_s / dt))
        sizes = []
        for _ in range(round(20 / dt)):
            integral -= rate * dt * seen.popleft()
            speed += dt * (w**2 * (integral - place) - 2 * w * speed)
            place += dt * speed
            seen.append(place)
            sizes.append(abs(place))
        return max(sizes[-20000:]) > max(sizes[20000:40000])

    for factor, expected in ((0.9, False), (1.1, True)):
        assert grows(8.0, found.computing_delay_s + factor * found.margin_s) == expected
        assert grows(8.0 * factor * found.gain_margin, found.computing_delay_s) == expected
    assert math.isinf(delay_margin_s(with_servos()).margin_s), "without it no loop is closed"
    assert late_latency_s(robot) is None
