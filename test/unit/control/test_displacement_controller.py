# SPDX-License-Identifier: Apache-2.0
"""Displacements that hold a reference, against the rod's equilibria with held tendons."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from changed_robots import LIMITS, fitted, stiffer, with_servos, with_tendons

from continuum_robot.control import displacement_controller
from continuum_robot.control.displacement_controller import BLEND_S, DisplacementController
from continuum_robot.control.tendon_forces import distribute
from continuum_robot.control.tip.inverse import TipKinematics
from continuum_robot.drivers.ndi_serial.settings import NdiSerial
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.robot.control_settings import BY_LOAD, STATICS_LAW, ControlSettings
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.tendons import String
from continuum_robot.rod.displaced_statics import DisplacedStatics
from continuum_robot.rod.holding_force import HeldTendons, clarke_feedforward
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Balance, Held, at_rest
from continuum_robot.rod.tendons import coefficients_from_clarke
from continuum_robot.runtime.cycle.controller_cycle import ControllerCycle
from continuum_robot.runtime.cycle.foreign_controller import ForeignController, controller_of
from continuum_robot.runtime.cycle.forms import INTERPRETED
from continuum_robot.runtime.cycle.reference_input import ReferenceInput

DT = 0.005
PLACES_M = {
    "two_segment": [0.006, -0.003, 0.004, 0.008],
    "mixed_routing": [0.003, 0.001, -0.001, 0.002],
    "ftdcr_v4": [0.002, 0.001, -0.001, 0.0015, 0.001, -0.0005],
}


@pytest.fixture(autouse=True)
def rigid_servos(monkeypatch):
    """Servos that are where they are told to be: what the statics make of a reference shows by itself."""
    monkeypatch.setattr(displacement_controller, "_of_servos", lambda robot: (np.zeros(robot.tendon_count), 0.0))


class Loop:
    """A controller at rest at zero displacements, and how it is stepped."""

    def __init__(self, robot, start=None):
        self.control = DisplacementController(robot)
        self.robot, self.count, self.size = robot, robot.tendon_count, robot.coordinate_count
        self.reading = np.zeros(self.count) if start is None else np.asarray(start)
        self.still = [0.0] * self.size
        assert self.control.observe(self.reading.tolist(), [0.0] * self.count)
        self.start = np.array(self.control.clarke)
        self.control.begin(self.reading.tolist(), self.control.clarke, self.still, self.still)

    def step(self, place, dt=DT):
        assert self.control.step(list(place), self.still, self.still, [np.nan] * self.count, True, dt)
        return np.array(self.control.command)

    def go(self, place, duration_s=2.0):
        """To a place within a second, and wait; all commands."""
        steps = round(duration_s / DT)
        ways = np.minimum(1.0, np.arange(1, steps + 1) * DT)
        return np.array([self.step(self.start + way * (np.array(place) - self.start)) for way in ways])


def held(robot, command):
    """The rod at rest with its tendons held at a command."""
    tendons = HeldTendons.of(robot)
    return Rod(robot).equilibrium(stiffness=tendons.stiffness_n_per_m, spooled=tendons.spooled(command))


class Follows:
    """As :func:`held`, from the shape of the call before; shape and tensions."""

    def __init__(self, robot):
        self.tendons, self.rod = HeldTendons.of(robot), Rod(robot)
        self.balance = Balance(self.rod)
        self.c = self.rod.equilibrium().c

    def at(self, command):
        k, spooled = self.tendons.stiffness_n_per_m, self.tendons.spooled(command)
        self.c = at_rest(self.balance, self.c, Held(k, spooled)).c
        path = np.array(self.rod.displacement(self.c))
        return path, k * np.maximum(spooled - path, 0.0)


@pytest.mark.parametrize("strategy", ["shift", "least_sum"])
@pytest.mark.parametrize("name", PLACES_M)
def test_held_displacements_bring_the_reference_and_the_pretension(name, strategy):
    robot = with_servos(name, tendon_forces=strategy)
    if name == "ftdcr_v4":
        robot = fitted(friction_fraction=0.0, tendon_forces=strategy)
    loop = Loop(robot)
    found = held(robot, loop.go(PLACES_M[name])[-1])
    shown = loop.control.manifold.clarke(found.displacement)
    np.testing.assert_allclose(shown, PLACES_M[name], atol=2e-9)
    assert found.stable
    np.testing.assert_allclose(found.tension, loop.control.tension, atol=1e-4)
    assert found.tension.min() == pytest.approx(robot.control.pretension_n, abs=1e-4)
    assert loop.control.unsolved == 0


@pytest.mark.parametrize("strategy", ["shift", "redistribute", "least_sum"])
def test_parallel_tendons_get_force_shifting_and_their_stretch(strategy):
    """muhmann (4) and (13), and the tensions of (26) and (28) for the force that holds the shape, each over k."""
    robot = with_servos(tendon_forces=strategy)
    loop = Loop(robot)
    command, place = loop.go(PLACES_M["two_segment"])[-1], np.array(PLACES_M["two_segment"])
    manifold = loop.control.manifold
    tension = distribute(strategy, sum(clarke_feedforward(robot)(place)), manifold, robot.control.pretension_n)
    stretch = tension / robot.tendon_stiffness_n_per_m
    np.testing.assert_allclose(command, manifold.displacement(place) + stretch, atol=1e-9)
    np.testing.assert_allclose(loop.control.coefficients, coefficients_from_clarke(robot) @ place, atol=1e-6)


def test_friction_of_the_paths_is_that_of_the_fit():
    """The model of recordings, led through the commands to and fro, shows the references on the way."""
    robot = fitted(friction_fraction=0.15)
    place = np.array(PLACES_M["ftdcr_v4"])
    loop = Loop(robot)
    rest = loop.start
    loop.go(rest, 3.0)
    ways = [*np.linspace(0, 1, 60), *np.linspace(1, -0.5, 90), *np.linspace(-0.5, 0.2, 40)]
    places = [rest + way * (place - rest) for way in ways]
    commands = np.array([loop.step(one) for one in places])
    shown = DisplacedStatics(robot).replay(commands).path @ loop.control.manifold.clarke_matrix.T
    frictionless = fitted(friction_fraction=0.0)
    without = Loop(frictionless)
    without.go(rest, 3.0)
    bare = np.array([without.step(one) for one in places])
    missed = DisplacedStatics(robot).replay(bare).path @ loop.control.manifold.clarke_matrix.T
    after = slice(30, None)  # the replay starts without history
    error, error_without = np.abs(shown - places)[after].max(), np.abs(missed - places)[after].max()
    assert error < 2e-5
    assert error < error_without / 10


@pytest.mark.parametrize("start_m", [-2e-3, 0.0, 1e-3])
def test_the_first_command_is_the_one_that_was_and_none_jumps(start_m):
    robot = with_servos()
    start = start_m * np.linspace(0.5, 1.0, robot.tendon_count)
    loop = Loop(robot, start)
    first = loop.step(loop.start)
    np.testing.assert_allclose(first, start, atol=1e-12)
    commands = np.array([first, *(loop.step(loop.start) for _ in range(round(BLEND_S / DT) + 2))])
    assert np.abs(np.diff(commands, axis=0)).max() < 2 * np.abs(commands[-1] - start).max() * DT / BLEND_S + 1e-12
    assert held(robot, commands[-1]).tension.min() == pytest.approx(robot.control.pretension_n, abs=1e-4)


def test_measured_loads_and_the_model_show_the_same_shape():
    robot = with_servos()
    loop = Loop(robot)
    command = loop.go(PLACES_M["two_segment"])[-1]
    assert loop.control.observe(command.tolist(), [0.0] * loop.count)
    by_model = np.array(loop.control.clarke)
    loop.control._measured_n = held(robot, command).tension
    assert loop.control.observe(command.tolist(), [0.0] * loop.count)
    np.testing.assert_allclose(loop.control.clarke, by_model, atol=1e-8)
    np.testing.assert_allclose(by_model, PLACES_M["two_segment"], atol=1e-8)
    bare = loop.control.manifold.clarke(command)
    assert np.abs(bare - by_model).max() > 3e-5, "the stretch counts"
    assert not loop.control.observe([np.nan, *command[1:]], [0.0] * loop.count)


def test_pretension_rises_at_its_rate_and_leaves_the_shape_alone():
    robot = with_servos(pretension_rate_n_per_s=5.0)
    loop = Loop(robot)
    place = PLACES_M["two_segment"]
    loop.go(place)
    loop.control.ask_pretension(9.0)
    commands = [loop.step(place) for _ in range(round(1.1 / DT))]
    most_m = 5.0 * DT / robot.tendon_stiffness_n_per_m
    assert np.abs(np.diff(commands, axis=0)).max() < 1.001 * most_m
    found = held(robot, commands[-1])
    assert found.tension.min() == pytest.approx(9.0, abs=1e-4)
    np.testing.assert_allclose(loop.control.manifold.clarke(found.displacement), place, atol=1e-8)


def test_payload_is_borne():
    robot = with_servos()
    loop = Loop(robot)
    place = PLACES_M["two_segment"]
    loop.go(place)
    loop.control.ask_payload(0.02)
    command = [loop.step(place) for _ in range(round(1.5 / DT))][-1]
    found = held(robot.carrying(0.02), command)
    np.testing.assert_allclose(loop.control.manifold.clarke(found.displacement), place, atol=1e-8)


def seen(robot, **control):
    strings = (String(name="one", anchor_m=0.2, pitch_radius_m=0.007, angle_rad=0.0),)
    return robot.changed(strings=strings, control=replace(robot.control, **control))


def tracked(robot, **control):
    hardware = load_robot("three_segment_servo").hardware
    tracker = NdiSerial(kind="ndi_serial", port="/dev/tracker")
    control = replace(robot.control, **control)
    return robot.changed(hardware=replace(hardware, tracker=tracker), control=control)


@pytest.mark.parametrize("of_tip", [False, True])
def test_the_integral_brings_a_robot_of_other_stiffness_to_the_reference(of_tip):
    robot = with_tendons((tracked if of_tip else seen)(with_servos(), integral_per_s=3.0), 2e3)
    true, place = with_tendons(stiffer(robot, 1.2), 1.8e3), np.array(PLACES_M["two_segment"])
    desired, loop, missed_m, dt = TipKinematics(robot).place(place)[0], Loop(robot), [], 4 * DT
    body = Follows(true)
    for k in range(200):
        loop.control._stamp_s = k * dt
        shown = loop.control.manifold.clarke(body.at(loop.step(place, dt))[0])
        tip = body.rod.moved(body.c)[0][:3, 3]
        missed_m.append(np.linalg.norm(tip - desired) if of_tip else np.abs(shown - place).max())
        loop.control.see_tip(tip, k * dt) if of_tip else loop.control.see(shown, k * dt)
    assert missed_m[-1] < (1e-5 if of_tip else 2e-7)
    assert missed_m[60] > 5 * missed_m[-1]  # the start blends in for a second
    stays = loop.control.terms().i_term
    loop.control.see(np.full(4, np.nan), 200 * dt)
    loop.control.see_tip(np.full(3, np.nan), 200 * dt)
    loop.step(place)
    np.testing.assert_allclose(loop.control.terms().i_term, stays, atol=1e-12)


@pytest.mark.parametrize("name", PLACES_M)
def test_pretension_by_measured_loads_tightens_together_the_tendons_of_a_segment(name):
    """Force shifting (28) by what was measured: slack that nobody knows is taken up, and the shape stays."""
    robot = fitted(friction_fraction=0.0) if name == "ftdcr_v4" else with_servos(name)
    robot = robot.changed(control=replace(robot.control, pretension_by=BY_LOAD))
    place, loop = np.array(PLACES_M[name]), Loop(robot)
    tight = loop.go(place)[-1]
    modelled, body, other = held(robot, tight), Follows(robot), Loop(robot)
    first = loop.control.manifold.tendon_slices[0]
    other.control._common_n[first] = 1.5
    slack = other.go(place)[-1] - tight
    for _ in range(200):
        command = loop.step(place, 0.03)
        assert bool(loop.control.problem) == bool(np.isnan(loop.control._measured_n).any())
        loop.control._measured_n = body.at(command - slack)[1]
    found = held(robot, command - slack)
    np.testing.assert_allclose(found.tension, modelled.tension, atol=1e-3)
    np.testing.assert_allclose(loop.control.manifold.clarke(found.displacement), place, atol=2e-7)
    for _ in range(150):  # and given back where it is not needed
        loop.control._measured_n = body.at(loop.step(place, 0.03))[1]
    np.testing.assert_allclose(loop.control._measured_n, modelled.tension, atol=0.02)


def test_a_moving_reference_is_compared_as_it_was_when_the_shape_was_seen():
    loop = Loop(seen(with_servos(), integral_per_s=3.0))
    way = np.array(PLACES_M["two_segment"])
    late = 20
    for k in range(400):
        loop.control._stamp_s = k * DT
        loop.step(way * k / 400)
        if k >= late:
            loop.control.see(way * (k - late) / 400, (k - late) * DT)
    assert np.abs(loop.control._integral).max() < 1e-12


def test_the_integral_does_not_wind_up_against_a_limit():
    robot = seen(with_servos(), integral_per_s=3.0)
    loop = Loop(robot)
    place = np.array(PLACES_M["two_segment"])
    loop.go(place)
    stands = np.array(loop.control.command)
    for k in range(1000):
        loop.control._stamp_s = k * DT
        loop.step(place)
        loop.control.see(0.5 * place, k * DT)  # something holds it
        loop.control.realise(stands.tolist())
    wound = loop.control.terms().i_term
    assert np.abs(wound).max() < 3 * 3.0 * DT * np.abs(place).max()
    for k in range(1000, 3000):  # nothing limits it: the bound does
        loop.control._stamp_s = k * DT
        loop.step(place)
        loop.control.see(0.5 * place, k * DT)
    assert np.abs(loop.control.terms().i_term).max() <= 0.2 * LIMITS.maximum_displacement_m + 1e-12


def test_a_reference_that_no_tensions_hold_leaves_the_command():
    loop = Loop(with_servos())
    before = loop.go(PLACES_M["two_segment"])[-1]
    after = loop.step([0.5, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(after, before, atol=1e-9)
    assert loop.control.unsolved == 1
    assert loop.control.terms().saturated.all()


def test_options_without_effect_are_refused():
    tension = load_robot("two_segment")
    assert with_servos().control.law == STATICS_LAW
    for changes, key in (
        ({"gains": tension.control.gains}, "control.gains"),
        ({"feedforward_gravity": 1.0}, "control.feedforward_gravity"),
        ({"law": "inverse_dynamics"}, "control.law"),
        ({"integral_per_s": 1.0}, "control.integral_per_s"),
        ({"tendon_forces": "clip"}, "control.tendon_forces"),
    ):
        with pytest.raises(RobotFileError, match=key):
            with_servos(**changes)
    for key, value in (("integral_per_s", 1.0), ("pretension_by", BY_LOAD)):
        with pytest.raises(RobotFileError, match=key):
            tension.changed(control=replace(tension.control, **{key: value}))
    with pytest.raises(RobotFileError, match=r"control\.gains"):
        tension.changed(control=ControlSettings())
    with pytest.raises(ParameterError, match="displacement"):
        DisplacementController(tension)


class Servos:
    """A driver that hands readings of servos at rest to the controller's cycle."""

    def __init__(self, robot, controller):
        self.cycle = ControllerCycle(controller, ReferenceInput(robot.coordinate_count), 0.1, DT)
        self.buffer, self.count, self.number = ReadingBuffer(robot.tendon_count), robot.tendon_count, 0

    def state(self, displacement, commanded, after_s=DT):
        self.number += 1
        nothing = np.zeros(self.count)
        now_s = 100.0 + self.number * after_s
        self.buffer.set(
            TendonReading(now_s, displacement, nothing, nothing * np.nan, nothing * np.nan, nothing, nothing)
        )
        answered = self.cycle.answer_state(self.buffer, commanded, True, now_s, self.number)
        return np.array(self.cycle.command) if answered else None


def test_the_cycle_starts_from_the_commanded_place_else_from_the_measured_one():
    robot = with_servos()
    measured, commanded = np.full(10, 1e-4), np.linspace(0, 2e-4, 10)
    for given, expected in ((commanded, commanded), (np.full(10, np.nan), measured)):
        servos = Servos(robot, controller_of(robot, INTERPRETED, None))
        np.testing.assert_allclose(servos.state(measured, given), expected, atol=1e-12)
        assert servos.cycle.restarts == 1


class Follower:
    """A controller of another package: it commands where it started, and 1 mm more."""

    def reset(self, reading, command, reference):
        self.start = command

    def update(self, reading, reference, dt):
        return self.start + 1e-3


def test_a_controller_of_another_package_gives_displacements():
    robot = with_servos()
    servos = Servos(robot, ForeignController(Follower(), robot))
    np.testing.assert_allclose(servos.state(np.full(10, 5e-4), np.full(10, np.nan)), 1.5e-3)
    assert np.isnan(servos.cycle.generalized_force).all()


def servo_commands(robot, place, velocity, monkeypatch, *, rigid):
    """Commands at a place that is passed with a velocity, after the blend from the start."""
    if rigid:
        monkeypatch.setattr(displacement_controller, "_of_servos", lambda robot: (np.zeros(robot.tendon_count), 0.0))
    loop = Loop(robot)
    for _ in range(round(1.5 * BLEND_S / DT)):
        assert loop.control.step(list(place), list(velocity), loop.still, [np.nan] * loop.count, True, DT)
    return np.array(loop.control.command), loop.control.load.copy()


def test_servos_are_told_what_they_stay_behind(monkeypatch):
    robot = with_servos()
    servo, still = robot.actuators.servo, np.zeros(robot.coordinate_count)
    w = 2 * np.pi * servo.bandwidth_hz
    stiffness = robot.actuators.reflected_mass_kg * w**2
    place, velocity = np.array(PLACES_M["two_segment"]), np.array([0.01, -0.02, 0.005, 0.01])
    with monkeypatch.context() as patch:
        held, load = servo_commands(robot, place, still, patch, rigid=True)
    with monkeypatch.context() as patch:
        passed, loaded = servo_commands(robot, place + velocity * 2 / w, still, patch, rigid=True)
    monkeypatch.undo()
    assert load.min() > 1.0
    resting, _ = servo_commands(robot, place, still, monkeypatch, rigid=False)
    np.testing.assert_allclose(resting, held + load / stiffness, atol=1e-9)
    moving, _ = servo_commands(robot, place, velocity, monkeypatch, rigid=False)
    np.testing.assert_allclose(moving, passed + loaded / stiffness, atol=1e-9)


def test_slack_tendons_show_no_shape_whatever_their_servos_measure():
    """The first place is that of the rod, not of spools that are let out by chance."""
    robot = with_servos()
    loop = Loop(robot)
    loose = -np.linspace(2e-3, 8e-3, 10)
    for load_n in (np.zeros(10), np.full(10, np.nan), np.full(10, 0.2)):
        loop.control._measured_n = load_n
        assert loop.control.observe(loose.tolist(), [0.0] * 10)
        np.testing.assert_allclose(loop.control.clarke, 0.0, atol=1e-9)


@pytest.mark.parametrize("speed_m_per_s", [0.0, 0.002])
def test_what_dry_friction_hides_of_a_servos_place_is_told_it(speed_m_per_s, monkeypatch):
    """Servos a first-order lag and friction behind, which droop: their readings come to what holds the reference."""
    monkeypatch.undo()
    robot = with_servos()
    loop = Loop(robot)
    control, count_m = loop.control, robot.actuators.meter_per_count
    w, hidden_m = 2 * np.pi * robot.actuators.servo.bandwidth_hz, 1e-4 * np.linspace(-1, 1, robot.tendon_count)
    way, reading, missed = speed_m_per_s * np.eye(robot.coordinate_count)[0], loop.reading, []
    for k in range(700):
        control._stamp_s, place = k * DT, loop.start + way * k * DT
        assert control.observe(reading.tolist(), [0.0] * loop.count)
        assert control.step(list(place), list(way), loop.still, [np.nan] * loop.count, True, DT)
        if k in (int(BLEND_S / DT / 2), 699):
            tension = distribute("shift", sum(clarke_feedforward(robot)(place)), control.manifold, 4.0)
            holds = control.manifold.displacement(place) + tension / robot.tendon_stiffness_n_per_m
            missed.append(np.abs(reading - holds).max())
        goal = np.array(control.command) - control._give_m_per_n * control.load - hidden_m
        reading = reading + (1 - np.exp(-w / 2 * DT)) * (goal - reading)
    assert missed[0] > 4 * count_m
    assert missed[-1] < 1.1 * count_m


@pytest.mark.parametrize("limited", [False, True])
def test_a_servo_that_something_holds_is_not_told_more_and_more(limited, monkeypatch):
    monkeypatch.undo()
    robot = with_servos()
    loop = Loop(robot)
    for k in range(1500):
        loop.control._stamp_s = k * DT
        command = loop.step(PLACES_M["two_segment"])  # the readings stay where they were
        if limited:
            loop.control.realise((0.9 * command).tolist())
    largest_m = 0.2 * LIMITS.maximum_n * loop.control._give_m_per_n[0]
    assert np.abs(loop.control._trim).max() <= largest_m + 1e-12
    pulled = command > 1e-4
    assert (loop.control._trim[pulled].max() < largest_m / 10) == limited
