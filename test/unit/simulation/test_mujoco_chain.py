# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's chain of links: statics against closed forms, path lengths, energy, motors, faults, determinism."""

from __future__ import annotations

import dataclasses
import importlib

import numpy as np
import pytest

from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.inertia import section_stiffness
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.rod import Rod
from continuum_robot.simulation.bodies.rod_body import Drive
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.mujoco.body import ChainBody, MujocoPlant, chain_equilibrium
from continuum_robot.simulation.mujoco.chain import Chain
from continuum_robot.simulation.mujoco.library import mujoco_library
from continuum_robot.simulation.mujoco.rows import solve_rows
from continuum_robot.simulation.plant import Plant

pytest.importorskip("mujoco", reason="mujoco is not installed: the extra mujoco")

ROBOT = load_robot("opencr_five_tendon")
WEIGHTLESS = ROBOT.changed(gravity_m_per_s2=(0.0, 0.0, 0.0))
STIFFNESS_NM2 = section_stiffness(ROBOT, 0)[1]
LENGTH_M = ROBOT.length_m


def smooth(robot):
    """Without cogging and dry friction: at rest its tensions are the commanded ones."""
    actuators = dataclasses.replace(robot.actuators, cogging_amplitude_nm=0.0, coulomb_friction_nm=0.0)
    return robot.changed(actuators=actuators)


def undamped(robot):
    return robot.changed(segments=tuple(dataclasses.replace(one, bending_damping_nms=0.0) for one in robot.segments))


def test_the_tip_of_a_cantilever_approaches_euler_and_bernoulli_with_the_square_of_the_links():
    force_n = 1e-3  # the tip moves by less than 1 mm of 200 mm: large deflections do not matter yet
    exact_m = force_n * LENGTH_M**3 / (3 * STIFFNESS_NM2)
    errors = []
    for links in (10, 20, 40):
        body = ChainBody(WEIGHTLESS, None, links=links)
        chain_equilibrium(body, wrenches=[PointWrench(s_m=LENGTH_M, force_n=(force_n, 0.0, 0.0))])
        errors.append(abs(body.kinematics.poses((), [LENGTH_M])[0, 0, 3] / exact_m - 1))
    assert errors[2] < 1e-3
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.2)
    assert errors[1] / errors[2] == pytest.approx(4, rel=0.2)


def test_a_tip_moment_bends_the_chain_to_an_arc():
    """M = E I kappa at any size: the tip turns by M l / (E I), here 1.4 rad."""
    body = ChainBody(WEIGHTLESS, None)
    moment_nm = 0.02
    chain_equilibrium(body, wrenches=[PointWrench(s_m=LENGTH_M, moment_nm=(0.0, moment_nm, 0.0))])
    kappa = moment_nm / STIFFNESS_NM2
    np.testing.assert_allclose(body.c, [0.0, kappa], rtol=1e-7, atol=1e-7)
    tip = body.kinematics.poses((), [LENGTH_M])[0]
    expected = [(1 - np.cos(kappa * LENGTH_M)) / kappa, 0.0, np.sin(kappa * LENGTH_M) / kappa]
    np.testing.assert_allclose(tip[:3, 3], expected, atol=2e-4 * LENGTH_M)


def test_between_disks_the_backbone_is_a_column_under_the_tendons_tension():
    """Tendons run straight from disk to disk, a distance l apart: a beam-column under P, the sum of tensions, of which
    the ends turn by M l / (E I) tan(u) / u, u = l / 2 sqrt(P / (E I)); Timoshenko and Gere.
    """
    tension = np.array([2.4, 2.0, 2.0, 2.0, 2.0])
    apart_m = LENGTH_M / ROBOT.segments[0].disks.count
    u = apart_m / 2 * np.sqrt(tension.sum() / STIFFNESS_NM2)
    unguided = 0.4 * ROBOT.segments[0].tendons.pitch_radius_m / STIFFNESS_NM2  # M / (E I), of the tension's excess
    errors = []
    for links in (20, 40, 80):
        body = ChainBody(WEIGHTLESS, None, links=links)
        chain_equilibrium(body, tension)
        errors.append(body.c[1] / (unguided * np.tan(u) / u) - 1)
    # The softening itself is 17 %.
    assert np.tan(u) / u > 1.1
    assert abs(errors[2]) < 0.01
    assert abs(errors[0]) > abs(errors[1]) > abs(errors[2])


def test_with_tendons_guided_everywhere_the_chain_is_where_the_rod_is():
    """Helical tendons, which bend and twist: two models that share the section's stiffness and no formula of a rod."""
    robot = load_robot("rucker_helical")
    rod, body, tension = Rod(robot), ChainBody(robot, None), np.array([2.0, 0.5, 0.5, 0.5])
    c = rod.equilibrium(tension).c
    chain_equilibrium(body, tension)
    places = np.linspace(0.05, robot.length_m, 6)
    there = body.kinematics.poses((), places)
    assert np.linalg.norm(there[-1, :2, 3]) > 0.04
    np.testing.assert_allclose(there[:, :3, 3], rod.poses(c, places)[:, :3, 3], atol=2e-4)
    np.testing.assert_allclose(there[:, :3, :3], rod.poses(c, places)[:, :3, :3], atol=0.02)


@pytest.mark.parametrize("name", ["opencr_five_tendon", "rucker", "mixed_routing", "two_segment"])
def test_lengths_of_straight_tendons_are_those_of_their_paths(name):
    """Straight pieces between guides against the arc length of the description's path, by its derivatives."""
    robot = load_robot(name)
    body = ChainBody(robot.changed(gravity_m_per_s2=(0.0, 0.0, 0.0)), None)
    paths = [*robot.tendon_paths, *(string.path for string in robot.strings)]
    for path, length_m in zip(paths, body.straight_lengths_m, strict=True):
        s = np.linspace(path.start_m, path.end_m, 20001)
        _, _, dx, dy = path.at((s[1:] + s[:-1]) / 2)
        exact_m = np.sum(np.sqrt(1 + dx**2 + dy**2)) * (s[1] - s[0])
        assert length_m == pytest.approx(exact_m, rel=2e-5 if path.parallel else 2e-3)


def test_displacements_of_the_bent_chain_approach_those_of_the_rod():
    """Of an arc: r theta cos(psi - phi), less what straight pieces between disks leave out."""
    c = np.array([1.5, 3.0])
    rod = Rod(ROBOT)
    body = ChainBody(WEIGHTLESS, None, links=80)
    body.reset(c)
    theta = np.linalg.norm(c) * LENGTH_M / ROBOT.segments[0].disks.count
    chord = 2 * np.sin(theta / 2) / theta  # of each stretch between disks
    displacement = rod.displacement(c)
    expected = LENGTH_M - (LENGTH_M - displacement) * chord
    np.testing.assert_allclose(body.rod_displacement, expected, atol=2e-6)
    np.testing.assert_allclose(body.c, c, rtol=1e-12)
    np.testing.assert_allclose(body.string_extension, rod.strings.displacement(c), atol=2e-4)


def test_the_rates_of_tendons_are_the_derivatives_of_their_lengths():
    plant = MujocoPlant(load_robot("mixed_routing"), actuation="ideal")
    plant.advance(np.linspace(1, 3, plant.tendon_count), 0.02)
    before = plant.rod_displacement
    rate = plant.chain.rod_velocity
    plant.chain.data.qpos[:] += 1e-6 * plant.chain.data.qvel
    importlib.import_module("mujoco").mj_forward(plant.chain.mujoco_model, plant.chain.data)
    np.testing.assert_allclose((plant.rod_displacement - before) / 1e-6, rate, rtol=1e-4, atol=1e-7)


def test_a_free_undamped_chain_keeps_its_energy():
    """Let go from an arc, under gravity across: the error of the integrator falls with its step, and does not grow."""
    robot = undamped(ROBOT.changed(gravity_m_per_s2=(9.81, 0.0, 0.0)))
    errors = []
    for substep_s in (1e-4, 5e-5):
        simulation = dataclasses.replace(robot.simulation, substep_s=substep_s)
        body = ChainBody(robot.changed(simulation=simulation), None, links=10)
        body.reset(np.array([2.0, 4.0]))
        zero = np.zeros(5)
        drive = Drive(zero, np.zeros(2), zero, np.ones(5), np.ones(5), np.ones(5), 0.0, 0.0)
        begin, energies = body.energy(), []
        for _ in range(100):
            body.advance(drive, 5e-3)
            energies.append(body.energy())
        assert max(energy.kinetic_j for energy in energies) > 0.003
        misses = np.array([abs(energy.total_j - begin.total_j) for energy in energies])
        assert misses[50:].max() < 1.5 * misses[:50].max()
        errors.append(misses.max())
    assert errors[1] < 5e-5
    assert errors[1] < 0.8 * errors[0]


def test_the_motors_come_to_rest_with_the_commanded_tensions():
    robot = smooth(load_robot("opencr_five_tendon"))
    plant, command = MujocoPlant(robot, links=10), np.array([4.0, 2.0, 2.0, 2.0, 2.5])
    plant.advance(command, 2.5)
    np.testing.assert_allclose(plant.tension, command, rtol=2e-3)
    np.testing.assert_allclose(plant.current, command / plant.motor.newton_per_ampere, rtol=1e-6)
    stretch_m = plant.displacement - plant.rod_displacement
    np.testing.assert_allclose(stretch_m, plant.tension / robot.tendon_stiffness_n_per_m, rtol=2e-3)
    body = ChainBody(robot, None, links=10)
    chain_equilibrium(body, plant.tension)
    np.testing.assert_allclose(plant.c, body.c, rtol=5e-3, atol=1e-3)


def test_motors_are_those_of_the_other_plant():
    """With the chain held by its own stiffness the spools' first milliseconds depend on the motor model alone."""
    command = np.array([4.0, 2.0, 2.0, 2.0, 2.5])
    plants = [make(ROBOT, rng=np.random.default_rng(4)) for make in (Plant, MujocoPlant)]
    for plant in plants:
        plant.advance(command, 0.004)
    np.testing.assert_allclose(plants[1].velocity, plants[0].velocity, rtol=0.06)
    np.testing.assert_allclose(plants[1].current, plants[0].current, rtol=0.2)


def test_broken_parts():
    plant, command = MujocoPlant(smooth(ROBOT), links=10), np.full(5, 3.0)
    plant.stiffness_fraction = np.array([0.0, 1, 1, 1, 1])
    plant.motor_free = np.array([1.0, 0, 1, 1, 1])
    plant.tendon_offset_m = np.array([0, 0, 0, 0.004, 0.0])
    plant.current_limit_a = np.array([3.0, 3, 0.05, 3, 3])
    plant.advance(command, 0.05)
    assert plant.tension[0] == 0
    assert plant.displacement[1] == 0
    assert plant.limited.tolist() == [False, False, True, False, False]
    assert plant.displacement[3] > plant.displacement[4] + 0.001
    assert np.isfinite(plant.c).all()


def test_the_same_seed_gives_the_same_bytes():
    runs = []
    for _ in range(2):
        plant = MujocoPlant(ROBOT, rng=np.random.default_rng(7), links=10)
        for k in range(30):
            plant.advance(3.0 + np.sin(0.2 * k + np.arange(5)), 1e-3)
        runs.append(np.concatenate([plant.c, plant.tension, plant.displacement, plant.string_extension]))
    assert runs[0].tobytes() == runs[1].tobytes()


def test_reset_brings_the_same_motion_again():
    plant = MujocoPlant(ROBOT, links=10)
    shapes = []
    for _ in range(2):
        plant.reset()
        plant.advance(np.array([5.0, 2, 2, 2, 2]), 0.05)
        shapes.append(plant.c)
    np.testing.assert_array_equal(*shapes)


def test_a_hand_and_a_contact_file_push_on_the_chain():
    """A push of a file and the same by hand; then a wall stops it, with the force that is missing."""
    robot = smooth(ROBOT)
    force = (0.08, 0.0, 0.0)
    push = Contact(name="push", kind="push", arc_length_m=0.2, force_n=force, ramp_s=0.0)
    filed, by_hand = MujocoPlant(robot, links=10, contacts=[push]), MujocoPlant(robot, links=10)
    by_hand.push(0.2, force)
    command = np.full(5, 2.0)
    for plant in (filed, by_hand):
        plant.advance(command, 0.1)
    np.testing.assert_allclose(filed.c, by_hand.c, rtol=1e-9, atol=1e-12)
    (load,) = filed.contact_loads
    np.testing.assert_allclose(load.force_in_base_n, force)
    wall = Contact(
        name="wall", kind="wall", disk=10, point_m=(0.003, 0.0, 0.0), normal=(-1.0, 0.0, 0.0), friction_coefficient=0.3
    )
    held = MujocoPlant(robot, links=10, contacts=[wall], actuation="ideal")
    held.push(0.2, (0.2, 0.0, 0.0))
    held.advance(np.zeros(5), 1.0)
    (load,) = held.contact_loads
    assert held.pose(0.2)[0, 3] == pytest.approx(0.003, abs=2e-4)
    # A force at the same place, of which the wall takes all but what bends the tip by 3 mm.
    bending_n = 3 * STIFFNESS_NM2 * 0.003 / LENGTH_M**3
    assert -load.force_in_base_n[0] == pytest.approx(0.2 - bending_n, abs=0.01)


def test_tendons_that_stiffen_are_refused():
    stiffening = dataclasses.replace(ROBOT.simulation, tendon_stiffening_per_n=0.1)
    with pytest.raises(ParameterError, match="tendon_stiffening_per_n"):
        MujocoPlant(dataclasses.replace(ROBOT, simulation=stiffening), links=4)


def test_capstans_rub():
    robot = load_robot("vanderbilt_segment")
    plant = MujocoPlant(robot, links=6)
    plant.advance(np.array([300.0, 208, 116, 208]), 0.1)
    assert (plant.friction_torque[0] > 0).all()
    assert plant.chain.chain.dof_count == 12


def rubbing(robot, damping_nms, **tendons):
    def other(one):
        return dataclasses.replace(
            one, bending_damping_nms=damping_nms, tendons=dataclasses.replace(one.tendons, **tendons)
        )

    return robot.changed(segments=tuple(other(one) for one in robot.segments))


def settled(plant, *tensions_n):
    """Bends of the tip after the first tendon alone was pulled by these tensions, one after the other, rad."""
    before, bends = 0.0, []
    for tension_n in tensions_n:
        for level in (*np.linspace(before, tension_n, 30), *np.full(25, tension_n)):
            plant.advance(np.array([level, 0.0, 0.0, 0.0, 0.0]), 0.02)
        before = tension_n
        bends.append(float(np.arccos(plant.pose(LENGTH_M)[2, 2])))
    return bends


def test_a_tendon_that_slides_obeys_the_capstan_law_along_the_bent_chain():
    """Of a moment E I theta' = r T exp(-mu (turn + theta)) along the rod: exp(mu theta) = 1 + mu a, a as without mu.

    Pulled in, and let out again beyond where it sticks, where the tension grows along it. Between disks, h apart, the
    chain is a column, which bends by T h^2 / (12 E I) more.
    """
    coefficient, turn = 0.3, 0.5
    radius_m = ROBOT.segments[0].tendons.pitch_radius_m
    levels_n = np.array([1.0, 0.35]) * STIFFNESS_NM2 / radius_m / LENGTH_M
    robot = rubbing(WEIGHTLESS, 1e-3, friction_coefficient=coefficient, guide_turn_rad=turn)
    plant = MujocoPlant(robot, actuation="ideal", links=20)
    found, sense = settled(plant, *levels_n), np.array([1.0, -1.0])
    free = levels_n * radius_m * LENGTH_M / STIFFNESS_NM2 * np.exp(-sense * coefficient * turn)
    column = 1 + levels_n * (LENGTH_M / ROBOT.segments[0].disks.count) ** 2 / (12 * STIFFNESS_NM2)
    np.testing.assert_allclose(
        found, column * np.log(1 + sense * coefficient * free) / (sense * coefficient), rtol=0.01
    )
    turned = plant.chain.rubbing.turns_rad(plant.chain.data)[0, -1]
    assert turned == pytest.approx(turn + found[1], rel=0.05)


def test_a_tendon_loses_in_its_guide_what_it_loses_on_the_rod():
    """Two plants with nothing of their friction in common: the rod's tendon has the tension of its end everywhere."""
    robot = rubbing(WEIGHTLESS, 1.5e-3, friction_coefficient=0.05, guide_turn_rad=8.0)
    levels_n = np.array([2.0, 1.6])
    plants = Plant(robot, actuation="ideal"), MujocoPlant(robot, actuation="ideal", links=20)
    rod, chain = (settled(plant, *levels_n) for plant in plants)
    np.testing.assert_allclose(chain, rod, rtol=0.04)
    assert chain[1] == pytest.approx(chain[0], rel=0.01)  # it sticks
    free = levels_n * ROBOT.segments[0].tendons.pitch_radius_m * LENGTH_M / STIFFNESS_NM2
    assert chain[0] < 0.75 * free[0]


def test_motors_hold_tendons_that_rub_at_rest():
    robot = rubbing(smooth(ROBOT), 2e-3, friction_coefficient=0.2, guide_turn_rad=0.5)
    plant, command = MujocoPlant(robot, links=10), np.array([4.0, 2.0, 2.0, 2.0, 2.5])
    plant.advance(command, 1.5)
    angles = plant.chain.data.qpos.copy()
    plant.advance(command, 0.1)
    np.testing.assert_allclose(plant.chain.data.qpos, angles, atol=1e-5)
    np.testing.assert_allclose(plant.tension, command, rtol=2e-3)
    assert plant.chain.rubbing.acting[0] > 0.9
    assert (np.abs(plant.chain.rubbing.acting) <= 1 + 1e-9).all()


def test_a_mechanism_has_no_chain():
    with pytest.raises(ParameterError, match="a robot that is a rod"):
        Chain(load_robot("rolling_five_link"))
    with pytest.raises(ParameterError, match="links"):
        Chain(ROBOT, links=0)


def test_a_missing_package_is_named_with_the_command(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mujoco", None)
    with pytest.raises(ContinuumRobotError, match="pip install"):
        mujoco_library()


def test_rows_that_only_push_are_solved_as_a_complementarity_problem():
    """Against the definition, for rows drawn at random."""
    random = np.random.default_rng(2)
    for _ in range(200):
        size = int(random.integers(1, 9))
        root = random.normal(size=(size, size))
        coupling, slope = root @ root.T, random.uniform(0, 1e4, size)
        level, compliance = random.normal(size=size) * 10, random.uniform(0, 1, size)
        one_sided, free = random.uniform(size=size) < 0.8, random.normal(size=size)
        found = solve_rows(level, slope, compliance, one_sided, free, coupling)
        answer = level - slope * (free + coupling @ found + compliance * found)
        expected = np.where(one_sided, np.maximum(answer, 0), answer)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(level).max())
