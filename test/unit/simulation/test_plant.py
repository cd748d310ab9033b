# SPDX-License-Identifier: Apache-2.0
"""The plant: statics against an independent solver, energy, order of the integrator, slack, limits, broken parts."""

import dataclasses

import numpy as np
import pytest

from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import equilibrium
from continuum_robot.simulation.plant import Plant

ROBOT = load_robot("opencr_five_tendon")
TENSION = np.array([4.0, 2.0, 1.0, 1.0, 2.5])


def changed(robot=ROBOT, damping=None, simulation=None, actuators=None, **fields):
    if damping is not None:
        fields["segments"] = tuple(dataclasses.replace(one, bending_damping_nms=damping) for one in robot.segments)
    if simulation:
        fields["simulation"] = dataclasses.replace(robot.simulation, **simulation)
    if actuators:
        fields["actuators"] = dataclasses.replace(robot.actuators, **actuators)
    return dataclasses.replace(robot, **fields)


SMOOTH = changed(actuators={"cogging_amplitude_nm": 0.0, "coulomb_friction_nm": 0.0})


@pytest.fixture(scope="module")
def smooth():
    return Plant(SMOOTH)


def total_energy(plant, rod):
    state = plant.state
    stretch = np.maximum(plant.displacement - plant.rod_displacement, 0.0)
    return (
        rod.energies(state.c, state.c_rate).total_j
        + plant.motor.mass_kg / 2 * state.motor_velocity_m_per_s @ state.motor_velocity_m_per_s
        + plant.robot.tendon_stiffness_n_per_m / 2 * stretch @ stretch
    )


@pytest.mark.parametrize("actuation", ["ideal", "motors"])
def test_it_settles_where_the_statics_say(actuation):
    """Critically damped it is at rest after a few seconds; the equilibrium comes from Newton's method."""
    robot = changed(SMOOTH, damping=0.005)
    plant = Plant(robot, actuation=actuation)
    plant.advance(TENSION, 8.0)
    rest = equilibrium(Rod(robot), TENSION)
    np.testing.assert_allclose(plant.c, rest.c, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(plant.tension, TENSION, rtol=1e-5)
    if actuation == "motors":
        stretch = plant.displacement - plant.rod_displacement
        np.testing.assert_allclose(stretch, TENSION / robot.tendon_stiffness_n_per_m, rtol=1e-4)
        np.testing.assert_allclose(plant.current, TENSION / plant.motor.newton_per_ampere)


def test_without_any_loss_the_energy_stays():
    """By the midpoint rule; tendons go slack and tight again on the way, which are kinks that it steps over."""
    robot = changed(
        SMOOTH,
        damping=0.0,
        simulation={"tendon_damping_ns_per_m": 0.0, "method": "midpoint", "substep_s": 2e-4},
        actuators={"viscous_friction_nms": 0.0},
    )
    plant, rod = Plant(robot), Rod(robot)
    plant.reset(np.array([2.0, -4.0]))
    before = total_energy(plant, rod)
    for _ in range(20):
        plant.advance(np.zeros(5), 0.05)
        assert total_energy(plant, rod) == pytest.approx(before, rel=1e-3)
    assert np.abs(plant.c - [2.0, -4.0]).max() > 0.1


def test_with_losses_the_energy_only_falls(smooth):
    rod = Rod(SMOOTH)
    smooth.reset(np.array([3.0, 5.0]))
    energies = []
    for _ in range(400):
        smooth.advance(np.zeros(5), 5e-3)
        energies.append(total_energy(smooth, rod))
    assert np.all(np.diff(energies) <= 1e-12)
    assert energies[-1] < energies[0] / 2


@pytest.mark.parametrize("method", ["sdirk", "midpoint"])
def test_the_integrator_is_of_second_order(method):
    results = []
    for substep_s in (1e-3, 5e-4, 3.125e-5):
        plant = Plant(changed(SMOOTH, simulation={"substep_s": substep_s, "method": method}), actuation="ideal")
        assert plant.substep_s == substep_s
        for _ in range(20):
            plant.advance(TENSION, 5e-3)
        results.append(np.concatenate([plant.c, plant.c_rate]))
    coarse, fine = (np.abs(result - results[-1]).max() for result in results[:2])
    assert 3 < coarse / fine < 5


def test_a_duration_in_pieces_gives_nearly_the_same(smooth):
    results = []
    for pieces in ([0.05], [0.02, 0.0301, -0.0001 + 1e-4, 0.0], [0.0123] * 4 + [0.0008]):
        smooth.reset()
        for piece in pieces:
            smooth.advance(TENSION, max(0.0, piece))
        results.append((smooth.state.time_s, smooth.c))
    assert results[0][0] == pytest.approx(0.05)
    np.testing.assert_allclose(results[2][1], results[0][1], rtol=1e-4)


def test_bending_goes_towards_the_pulled_tendon(smooth):
    smooth.reset()
    tension = np.ones(5)
    tension[0] = 3.0  # at psi = 0: towards +x
    smooth.advance(tension, 0.5)
    assert smooth.displacement[0] > 1e-3
    assert smooth.c[1] > 0.1
    assert abs(smooth.c[0]) < 1e-6
    assert smooth.string_extension[0] > 0  # the string at 0.3 rad leaves the body


def test_a_slack_tendon_has_no_tension_until_it_is_spooled_up(smooth):
    smooth.reset()
    smooth.tendon_offset_m[2] = 0.004
    smooth.advance(np.full(5, 1.0), 0.02)
    assert smooth.tension[2] == 0.0
    assert smooth.tension[0] > 0.3
    smooth.advance(np.full(5, 1.0), 2.0)
    assert smooth.tension[2] > 0.5
    assert smooth.displacement[2] - smooth.rod_displacement[2] == pytest.approx(0.004, abs=2e-4)


def test_tendons_never_push(smooth):
    smooth.reset(np.array([4.0, 0.0]))
    for _ in range(100):
        smooth.advance(np.full(5, -3.0), 2e-3)
        assert smooth.tension.min() >= 0.0


def test_commands_beyond_the_motors_are_limited_and_reported(smooth):
    smooth.reset()
    largest = SMOOTH.actuators.maximum_tension_n
    smooth.advance(np.array([1.0, 2 * largest, 1, 1, 1]), 1e-2)
    assert list(smooth.limited) == [False, True, False, False, False]
    assert smooth.current.max() <= SMOOTH.actuators.maximum_current_a
    ideal = Plant(ROBOT, actuation="ideal")
    ideal.advance(np.array([-1.0, 1, 1, 1, 1]), 1e-3)
    assert list(ideal.limited) == [True, False, False, False, False]
    assert ideal.tension[0] == 0.0


def test_the_current_lags_as_the_robot_file_says(smooth):
    smooth.reset()
    smooth.advance(np.full(5, 2.0), SMOOTH.actuators.current_time_constant_s)
    np.testing.assert_allclose(smooth.current * smooth.motor.newton_per_ampere, 2.0 * (1 - np.exp(-1)), rtol=2e-3)


def test_dry_friction_and_cogging_hold_a_motor(smooth):
    """A force below them does not turn a motor by more than a cog."""
    plant = Plant(ROBOT)
    pitch_m = 2 * np.pi / plant.motor.cogging_rad_per_m[0]
    plant.advance(np.full(5, 0.3), 0.5)
    smooth.reset()
    smooth.advance(np.full(5, 0.3), 0.5)
    assert np.abs(plant.displacement).max() < pitch_m
    assert len(set(plant.motor.cogging_phase_rad)) == 5


def test_stuck_motors_and_cut_tendons(smooth):
    smooth.reset()
    smooth.advance(TENSION, 0.2)
    held = smooth.displacement
    smooth.motor_free[0] = 0.0
    smooth.stiffness_fraction[1] = 0.0
    smooth.advance(TENSION[::-1].copy(), 0.3)
    assert abs(smooth.displacement[0] - held[0]) < 1e-3
    before = smooth.displacement[0]
    smooth.advance(TENSION, 0.2)
    assert smooth.displacement[0] == pytest.approx(before, abs=1e-12)
    assert smooth.tension[1] == 0.0
    smooth.reset()
    assert smooth.motor_free.min() == 1.0
    assert smooth.stiffness_fraction.min() == 1.0


def test_each_tendon_has_the_stiffness_of_the_file():
    stiffness = (1e4, 2e4, 3e4, 4e4, 5e4)
    tendons = dataclasses.replace(SMOOTH.segments[0].tendons, stiffness_n_per_m=stiffness)
    robot = SMOOTH.changed(segments=(dataclasses.replace(SMOOTH.segments[0], tendons=tendons),))
    np.testing.assert_array_equal(robot.tendon_stiffnesses_n_per_m, stiffness)
    np.testing.assert_array_equal(SMOOTH.tendon_stiffnesses_n_per_m, SMOOTH.tendon_stiffness_n_per_m)
    plant = Plant(robot)
    for _ in range(3000):
        plant.advance(np.full(5, 4.0), 1e-3)
    stretch = plant.displacement - plant.rod_displacement
    np.testing.assert_allclose(stretch * stiffness, plant.tension, rtol=1e-3)


def test_tendons_however_stiff_need_no_shorter_steps():
    plant = Plant(changed(tendon_stiffness_n_per_m=2e6, simulation={"substep_s": 2e-3}))
    for _ in range(50):
        plant.advance(TENSION, 2e-3)
    stretch = plant.displacement - plant.rod_displacement
    np.testing.assert_allclose(np.maximum(2e6 * stretch, 0), plant.tension, rtol=0.05, atol=0.05)
    assert plant.tension.max() > 1.0


def test_it_starts_at_rest_where_gravity_bends_it():
    sideways = changed(SMOOTH, gravity_m_per_s2=(9.81, 0.0, 0.0))
    plant = Plant(sideways)
    start = plant.c
    assert np.abs(start).max() > 0.05
    assert plant.tension.max() == 0.0
    plant.advance(np.zeros(5), 0.1)
    np.testing.assert_allclose(plant.c, start, atol=1e-6)


def test_the_generator_alone_decides_on_the_rotors():
    one, same, other = (Plant(ROBOT, rng=np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert np.array_equal(one.motor.cogging_phase_rad, same.motor.cogging_phase_rad)
    assert not np.array_equal(one.motor.cogging_phase_rad, other.motor.cogging_phase_rad)


def test_an_external_force_bends_it(smooth):
    smooth.reset()
    smooth.advance(np.full(5, 1.0), 0.3, generalized_force=np.array([0.0, 1e-3]))
    pushed = smooth.c[1]
    smooth.reset()
    smooth.advance(np.full(5, 1.0), 0.3)
    assert pushed > smooth.c[1] + 0.05


@pytest.mark.parametrize(
    "call",
    [
        lambda plant: plant.advance(np.full(5, np.nan), 1e-3),
        lambda plant: plant.advance(np.ones(4), 1e-3),
        lambda plant: plant.advance(np.ones(5), -1e-3),
        lambda plant: plant.reset(np.array([np.nan, 0.0])),
        lambda _plant: Plant(ROBOT, actuation="springs"),
        lambda _plant: Plant(load_robot("opencr_five_tendon").changed(actuators=None, hardware=None)),
    ],
)
def test_bad_input_is_refused(smooth, call):
    smooth.reset()
    with pytest.raises(ParameterError):
        call(smooth)


def test_divergence_is_an_error_and_leaves_the_last_good_state(smooth):
    smooth.reset()
    with pytest.raises(ContinuumRobotError, match="diverged"):
        smooth.advance(np.ones(5), 0.01, generalized_force=np.array([1e200, 1e200]))
    assert np.isfinite(smooth.c).all()


def test_tendons_that_stiffen_pull_as_the_law_of_their_stiffness_says():
    """dT/ds = k (1 + a T), integrated independently, at rest; none pushes."""
    robot = changed(SMOOTH, damping=0.02, simulation={"tendon_stiffening_per_n": 0.1})
    plant = Plant(robot)
    plant.advance(TENSION, 8.0)
    stretch, steps = plant.displacement - plant.rod_displacement, 20000
    tension = np.zeros(5)
    for _ in range(steps):
        tension += robot.tendon_stiffness_n_per_m * (1 + 0.1 * tension) * stretch / steps
    np.testing.assert_allclose(plant.tension, tension, rtol=1e-3)
    plant.advance(np.zeros(5), 0.3)
    assert plant.tension.min() >= 0.0
