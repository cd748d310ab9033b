# SPDX-License-Identifier: Apache-2.0
"""Motors that tendons share, in the driver's cycle: an antagonist pair on one servo, and coupled gears."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from changed_robots import PRELOAD_N, pair, pair_values, tension_values
from robot_files import made
from virtual_loop import VirtualLoop

from continuum_robot.control.displacement_controller import DisplacementController
from continuum_robot.drivers.assumed_wiring import wired
from continuum_robot.errors import ParameterError
from continuum_robot.robot.actuation import DisplacementLimits, PositionServo
from continuum_robot.robot.control_settings import ControlSettings
from continuum_robot.robot.coupling import coupling_of
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.transmission import Transmission
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.wire.hardware import SimulatedHardware


def followed(robot, duration_s=3.0, *, after_s=2.0, hardware=None):
    loop = VirtualLoop(robot, hardware=hardware)
    loop.activate()
    rows = []

    def look(running):
        plant = running.body.plant
        shown = running.controller.manifold.clarke(plant.rod_displacement)[0]
        rows.append((running.now_s, shown, running.desired.position[0], *plant.tension, *running.safety.commanded))

    loop.run(duration_s, look)
    rows = np.array(rows)
    return loop, rows[rows[:, 0] > after_s]


def test_a_pair_on_one_servo_follows_in_its_plane_and_keeps_its_preload():
    robot = pair()
    loop, rows = followed(robot)
    assert not loop.faults
    assert loop.controller.unsolved == 0
    # 0.02 N.m of dry friction at 28 kg and 12 Hz are 0.07 mm; its turns let the strip swing.
    assert np.sqrt(np.mean((rows[:, 1] - rows[:, 2]) ** 2)) < 2e-4
    np.testing.assert_allclose(rows[:, 3] + rows[:, 4], 2 * PRELOAD_N, atol=0.05)
    coupling = coupling_of(robot)
    np.testing.assert_allclose((rows[:, 5:] - coupling.offset_m) @ coupling.missed, 0.0, atol=1e-9)


def test_coupled_gears_do_what_two_servos_do():
    values = pair_values([[1.0, 0.0], [0.3, 1.0]], 0.0)
    values["control"]["pretension_n"] = 3.0
    loop, rows = followed(made(values))
    assert not loop.faults
    assert np.sqrt(np.mean((rows[:, 1] - rows[:, 2]) ** 2)) < 2e-4
    assert rows[:, 3:5].min() > 1.5


def test_a_stop_leads_the_pair_to_the_straight_robot_within_its_range():
    robot = pair()
    loop, rows = followed(robot, 2.6)
    assert abs(rows[-1, 1]) > 1e-3
    loop.attend(on=False)
    commands = []
    loop.run(2.0, lambda running: commands.append(np.array(running.safety.commanded)))
    assert [name for _, name in loop.faults] == ["command_timeout"]
    coupling, commands = coupling_of(robot), np.array(commands)
    commands = commands[np.isfinite(commands).all(axis=1)]
    np.testing.assert_allclose((commands - coupling.offset_m) @ coupling.missed, 0.0, atol=1e-9)
    np.testing.assert_allclose(commands[-1], coupling.offset_m, atol=1e-6)
    assert loop.body.plant.tension.min() > 1.0


def test_a_motor_that_goes_off_leaves_both_tendons_and_is_a_fault():
    loop, _ = followed(pair(), 1.5)
    loop.body.inject("device_fault", 0)
    loop.run(1.0)
    assert [name for _, name in loop.faults] == ["device_fault"]
    # No servo holds the strip any more: it springs back, but for the motor's dry friction.
    assert abs(loop.controller.manifold.clarke(loop.body.plant.rod_displacement)[0]) < 3e-3
    assert np.isfinite(loop.body.plant.displacement).all()


@pytest.mark.parametrize("coulomb_friction_nm", [0.05, 0.8])
def test_the_plant_bears_any_friction_and_commands_that_jump(coulomb_friction_nm):
    values, rng = pair_values(), np.random.default_rng(1)
    values["actuators"]["coulomb_friction_nm"] = coulomb_friction_nm
    robot = made(values)
    plant, coupling = Plant(robot), coupling_of(robot)
    for k in range(150):
        place = coupling.tendons(rng.uniform(-6e-3, 6e-3, 1)) if k % 7 else np.full(2, np.nan)
        plant.advance(place, 0.005)
    assert np.abs(plant.displacement).max() < 8e-3


def test_motors_that_cannot_follow_a_coordinate_are_refused():
    with pytest.raises(ParameterError, match=r"transmission.matrix .* cannot follow 1"):
        DisplacementController(pair([[1.0], [1.0]]))


def test_a_preload_too_low_for_the_shape_leaves_the_command():
    controller = DisplacementController(pair(preload_n=0.1))
    rest, zero = coupling_of(pair(preload_n=0.1)).offset_m.tolist(), [0.0]
    assert controller.observe(rest, [0.0, 0.0])
    controller.begin(rest, zero, zero, zero)
    assert controller.step([6e-3], zero, zero, [np.nan] * 2, True, 0.005)
    assert controller.unsolved == 1
    assert controller.terms().saturated.all()


def swing(robot, goal):
    """A plant on its way to displacements, (k, 2)."""
    plant = Plant(robot)
    plant.advance(goal[0], 0.3)
    rows = []
    for _ in range(60):
        plant.advance(goal[1], 0.005)
        rows.append(np.concatenate([plant.displacement, plant.rod_displacement, plant.tension / 1e4]))
    return np.array(rows)


def test_the_simulated_motors_agree_with_those_of_the_kernel():
    """A transmission that only turns the second motor round is the robot without one."""
    values = pair_values([[1.0, 0.0], [0.0, -1.0]], 0.0)
    values["simulation"]["substep_s"] = 1e-4
    plain = pair_values()
    del plain["transmission"]
    plain["simulation"]["substep_s"] = 1e-4
    goal = np.array([[4e-4, 4e-4], [3.4e-3, -2.4e-3]])
    shared, kernel = swing(made(values), goal), swing(made(plain), goal)
    moved = np.abs(kernel[:, :2]).max()
    np.testing.assert_allclose(shared[:, :4], kernel[:, :4], atol=0.01 * moved)
    np.testing.assert_allclose(shared[-1], kernel[-1], atol=1e-5)


def johnstons(**fields):
    """The robot of the paper with servos; its tendons by default on a servo each, half of a capstan's motor."""
    robot = load_robot("vanderbilt_segment")
    servo = PositionServo(bandwidth_hz=8.0, maximum_speed_rad_per_s=600.0)
    actuators = replace(robot.actuators, command="displacement", servo=servo, **fields.pop("actuators", {}))
    limits = DisplacementLimits(
        maximum_n=900.0,
        maximum_displacement_m=0.12,
        speed_m_per_s=0.03,
        acceleration_m_per_s2=0.5,
        pay_out_m=0.02,
        pay_out_speed_m_per_s=0.02,
    )
    return robot.changed(
        actuators=actuators, limits=limits, control=ControlSettings(**fields.pop("control", {})), **fields
    )


OPPOSITE = Transmission(matrix=((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)), preload_n=416.0)


def bent(robot, given_way_m):
    """Half of the difference of opposite tendons, spools and rod, on a way to a bend and back by half, (k, 4), m."""
    plant, rows = Plant(robot), []
    rest, goal = coupling_of(johnstons(transmission=OPPOSITE)).offset_m + given_way_m, np.array([0.02, -0.012])
    plant.advance(rest, 0.5)
    for way in np.concatenate([np.linspace(0, 1, 22), np.linspace(1, 0.5, 14)]):
        plant.advance(rest + np.concatenate([way * goal, -way * goal]), 0.06)
        places = plant.displacement, plant.rod_displacement
        rows.append(np.concatenate([(one[:2] - one[2:]) / 2 for one in places]))
    return np.array(rows)


def test_johnstons_robot_moves_on_its_two_motors_as_on_four_halves():
    """Both halves of a capstan under opposite commands, with the wires' friction of johnston (37) by the kernel."""
    halves = johnstons()
    inertia = 2 * halves.actuators.rotor_inertia_kg_m2
    motors = johnstons(transmission=OPPOSITE, actuators={"rotor_inertia_kg_m2": inertia})
    # Servos of their own give way to the preload, which a motor on both does not feel.
    loop_n_per_m = halves.actuators.reflected_mass_kg * (2 * np.pi * 8.0) ** 2
    kernel, shared = bent(halves, OPPOSITE.preload_n / loop_n_per_m), bent(motors, 0.0)
    smooth = bent(motors.changed(segments=tuple(replace(one, capstans=None) for one in motors.segments)), 0.0)
    missed = np.abs(shared - kernel).max()
    assert missed < 3e-5, "of 20 mm"
    assert np.abs(smooth - kernel).max() > 4 * missed, "the friction shows"


def test_johnstons_robot_follows_on_its_two_motors():
    doubled = 2 * load_robot("vanderbilt_segment").actuators.rotor_inertia_kg_m2
    loop, rows = followed(johnstons(transmission=OPPOSITE, actuators={"rotor_inertia_kg_m2": doubled}), 4.0)
    assert not loop.faults
    assert loop.controller.unsolved == 0
    assert np.sqrt(np.mean((rows[:, 1] - rows[:, 2]) ** 2)) < 2e-4


def test_one_motor_that_takes_tensions_follows_and_keeps_the_preload():
    loop, rows = followed(made(tension_values()), 3.0, after_s=1.5)
    assert not loop.faults
    # 0.02 N.m of dry friction are 2 N, beside 2.4 N that bend the strip.
    assert np.sqrt(np.mean((rows[:, 1] - rows[:, 2]) ** 2)) < 1e-3
    np.testing.assert_allclose(rows[:, 3] + rows[:, 4], 2 * PRELOAD_N, atol=0.05)
    np.testing.assert_allclose(rows[:, 5] + rows[:, 6], 2 * PRELOAD_N, atol=1e-9)
    with pytest.raises(ParameterError, match="keep their preload"):
        loop.controller.ask_pretension(12.0)


@pytest.mark.parametrize(
    ("fault", "tendon", "magnitude", "found", "within_s"),
    [
        ("", 0, 0.0, "command_timeout", 0.11),
        ("device_fault", 2, 0.0, "device_fault", 0.01),
        ("freeze_sensor", -1, 0.0, "frozen_reading", 0.2),
        ("saturate_current", 1, 0.02, "current_mismatch", 0.1),
    ],
)
def test_faults_of_johnstons_motors_leave_them_idle_and_the_wires_at_their_preload(
    fault, tendon, magnitude, found, within_s
):
    loop = VirtualLoop(load_robot("vanderbilt_two_motors"))
    loop.activate()
    loop.run(0.6)
    begin_s, tensions = loop.now_s, []
    if fault:
        loop.body.inject(fault, tendon, magnitude)
    else:
        loop.attend(on=False)
    loop.run(0.5, lambda running: tensions.append(running.body.plant.tension))
    assert [name for _, name in loop.faults] == [found]
    assert loop.faults[0][0] - begin_s < within_s
    np.testing.assert_allclose(loop.safety.commanded, 416.0)
    assert loop.safety.released
    np.testing.assert_allclose(np.array(tensions), 416.0, atol=30.0)


@pytest.mark.parametrize(
    ("robot", "rmse_m"),
    [(load_robot("vanderbilt_two_motors"), 1e-3), (pair(layer_m=[1e-3]), 3e-4)],
    ids=["boards", "servos"],
)
def test_a_transmission_stands_before_emulated_devices_too(robot, rmse_m):
    """Motor boards that take currents and servos that hold places, with their true bytes, one channel a motor."""
    robot = wired(robot)
    loop, rows = followed(robot, 1.5, after_s=1.0, hardware=SimulatedHardware(robot))
    assert loop.actuators.actuators.tendon_count == robot.motor_count
    assert not loop.faults
    assert np.sqrt(np.mean((rows[:, 1] - rows[:, 2]) ** 2)) < rmse_m
    loop.body.inject("stuck_motor", robot.tendon_count - 1)
    loop.run(0.4)
    assert [name for _, name in loop.faults] == ["frozen_reading"]
    loop.close()


def test_johnstons_robot_bends_under_two_currents_as_under_those_of_four_halves():
    """The kernel's motors, one a tendon, under the same tensions: the wires' friction hangs on these alone."""
    halves, motors = load_robot("vanderbilt_segment"), load_robot("vanderbilt_two_motors")
    motors = motors.changed(simulation=replace(motors.simulation, substep_s=5e-4))
    plants, rows, change = (Plant(halves), Plant(motors)), [], np.array([60.0, -40.0])
    plants[0].advance(np.full(4, 416.0), 3.0)
    for way in np.concatenate([np.linspace(0, 1, 30), np.linspace(1, 0.3, 20)]):
        for plant in plants:
            plant.advance(416.0 + way * np.concatenate([change, -change]), 0.03)
        rows.append([plant.rod_displacement for plant in plants])
    kernel, shared = np.array(rows).transpose(1, 0, 2)
    assert np.abs(kernel).max() > 0.01
    np.testing.assert_allclose(shared, kernel, atol=0.02 * np.abs(kernel).max())


def test_a_plant_refuses_what_its_motors_cannot_make():
    plant = Plant(pair())
    with pytest.raises(ParameterError, match=r"transmission\.matrix"):
        plant.advance(np.array([1e-3, 1e-3]), 0.001)
