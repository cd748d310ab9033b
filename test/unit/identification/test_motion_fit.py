# SPDX-License-Identifier: Apache-2.0
"""Dynamics from chirps: the equation of motion in parts, the procedure, the fit of a robot unlike its file."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import ParameterError, RecordingError
from continuum_robot.identification.motion.equations import DrivenRod, TensionEquations
from continuum_robot.identification.motion.fit import fit_forces, fit_motion
from continuum_robot.identification.motion.parameters import (
    MotionFitSettings,
    check_driven_rod,
    chord_per_m,
    in_file,
    kinds_in_file,
)
from continuum_robot.identification.procedures.chirps import Chirps, ChirpSettings, at_rest, chirp
from continuum_robot.identification.procedures.procedure import ProcedureError
from continuum_robot.identification.recorded_motion import (
    RecordedMotion,
    read_recorded_motion,
    write_recorded_motion,
)
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.identification.robot_keys import (
    DAMPING,
    KINDS,
    MASS,
    file_keys,
    segment_key,
    with_factor,
    with_values,
)
from continuum_robot.identification.simulated_motion import RodParts
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.backbone import Hysteresis
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.plants import ROD
from continuum_robot.testing.virtual_stack import VirtualStack
from validation.drives.chirped_robot import UnlikeSettings, chirped_robot

ROBOT = load_robot("opencr_five_tendon")
TWO = load_robot("two_segment")


# --- the equation of motion in parts


def in_parts(robot):
    kinds = kinds_in_file(robot)["rod"]
    return kinds.keys, RodParts(robot, kinds.keys, kinds.scale)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["two_segment", "mixed_routing"])
@pytest.mark.parametrize("index", [0, 1])
def test_the_parts_add_up_to_the_forces_of_a_changed_robot(name, kind, index):
    robot, rng = load_robot(name), np.random.default_rng(3)
    keys, parts = in_parts(robot)
    changed = Rod(with_factor(robot, kind, index, 1.37))
    state = rng.normal(size=(3, 4, changed.n)) / changed.scale
    factors = np.ones(len(keys))
    factors[keys.index(segment_key(kind, index))] = 1.37
    found = np.tensordot(np.append(factors, 1.0), parts.forces(*state), 1)
    for row, (c, rate, acceleration) in zip(found, state.transpose(1, 0, 2), strict=True):
        forces = changed.terms(c, rate, acceleration).bias
        expected = forces + changed.arrays.stiffness @ c + changed.arrays.damping @ rate
        assert row == pytest.approx(expected, rel=1e-9, abs=1e-9 * np.abs(expected).max())


def test_a_payload_is_no_mass_of_a_segment():
    state = np.ones((3, 1, 2)) * np.array([0.5, 0.0, 0.0])[:, None, None]
    plain, with_it = (in_parts(robot)[1].forces(*state) for robot in (ROBOT, ROBOT.changed(payload_kg=0.05)))
    assert with_it[:-1] == pytest.approx(plain[:-1])
    assert np.abs(with_it[-1] - plain[-1]).max() > 1e-4


def test_damping_that_the_file_has_not_has_a_usual_size():
    undamped = ROBOT.changed(segments=(dataclasses.replace(ROBOT.segments[0], bending_damping_nms=0.0),))
    parameters = in_file(undamped)
    place = parameters.keys.index("segments[0].bending_damping_nms")
    assert parameters.expected[place] == 0.0
    assert with_factor(undamped, DAMPING, 0, 1.0).segments[0].bending_damping_nms == parameters.scale[place] > 0


@pytest.mark.parametrize("gaps", [4, 10])
def test_chords_between_disks_shorten_a_tendon_by_beta(gaps):
    disks = dataclasses.replace(ROBOT.segments[0].disks, count=gaps)
    segment = dataclasses.replace(ROBOT.segments[0], disks=disks)
    theta = 0.6
    arc_m, radius_m = segment.length_m / gaps, segment.length_m / theta
    chord_m = 2 * radius_m * math.sin(theta / gaps / 2)
    coordinate_m = segment.tendons.pitch_radius_m * theta
    assert chord_per_m(ROBOT.changed(segments=(segment,)), 0) * coordinate_m**2 == pytest.approx(
        gaps * (arc_m - chord_m), rel=2e-3
    )


@pytest.mark.parametrize("name", ["rolling_five_link", "vanderbilt_segment"])
def test_other_robots_are_refused_with_what_is_expected(name):
    with pytest.raises(ParameterError, match=name):
        check_driven_rod(load_robot(name))


def test_hysteresis_of_a_rod_under_routed_tendons_is_refused():
    robot = load_robot("mixed_routing")
    lagging = dataclasses.replace(robot.segments[1], hysteresis=Hysteresis(moment_nm=1e-3, curvature_per_m=1.0))
    with pytest.raises(ParameterError, match=r"segments\[1\]\.hysteresis"):
        check_driven_rod(robot.changed(segments=(robot.segments[0], lagging)))


# --- the procedure


def reading(displacement, stamp_s=0.0, velocity=0.0):
    """Of five tendons."""
    values = np.full(5, 0.0)
    return TendonReading(
        stamp_s, values + displacement, values + velocity, values + 9.0, values + 0.5, values + 30, values
    )


def begun(settings=None):
    """Chirps whose tendons are tight."""
    chirps = Chirps(ROBOT, settings)
    for step in range(400):
        chirps.update(reading(0.0, 1e-3 * step), 1e-3)
    return chirps


def test_a_robot_that_does_not_follow_ends_it():
    chirps = begun(ChirpSettings(lag_m=1e-3))

    def blocked():
        for step in range(20_000):
            chirps.update(reading(0.0, 1e-3 * step), 1e-3)

    with pytest.raises(ProcedureError, match="lags"):
        blocked()


def test_the_phase_of_a_chirp_is_the_integral_of_its_frequency():
    times = np.arange(0, 30, 0.001)
    hz, phase = np.array([chirp(time_s, 7.0, 0.1, 4.0) for time_s in times]).T
    assert hz.min() == pytest.approx(0.1, rel=1e-3)
    assert hz.max() == pytest.approx(4.0, rel=1e-3)
    assert np.diff(phase) / 0.001 / (2 * np.pi) == pytest.approx((hz[1:] + hz[:-1]) / 2, rel=1e-3)


def test_the_robot_moves_over_a_part_of_its_displacements_only():
    chirps = Chirps(TWO, ChirpSettings(duration_s=30.0))
    pull = np.asarray(controlled_manifold(TWO).displacement_matrix)
    reached = max(float(np.abs(pull @ chirps.reference(time_s)[0]).max()) for time_s in np.arange(0, 30, 0.01))
    assert 0.002 < reached < 0.5 * TWO.limits.maximum_displacement_m


def test_no_room_above_the_least_tension_is_refused():
    with pytest.raises(ParameterError, match="minimum_n"):
        Chirps(ROBOT, ChirpSettings(tension_n=ROBOT.limits.minimum_n))
    with pytest.raises(ParameterError, match="together"):
        Chirps(ROBOT, ChirpSettings(tension_n=ROBOT.limits.maximum_n))


def test_capstans_are_moved_by_their_motors_and_weigh_once():
    robot = load_robot("vanderbilt_segment")
    own = robot.segments[0]
    capstans = dataclasses.replace(own.capstans, inertia_kg_m2=10 * own.capstans.inertia_kg_m2)
    heavier = robot.changed(segments=(dataclasses.replace(own, capstans=capstans),))
    assert at_rest(heavier, 20.0)[0] == pytest.approx(at_rest(robot, 20.0)[0])


def test_it_ends_when_it_is_stopped():
    chirps = begun()
    chirps.stop()
    assert chirps.update(reading(0.0), 1e-3).done
    assert chirps.result is None


# --- the fit


def before(robot):
    parameters = in_file(robot)
    return parameters.values(parameters.expected)


@pytest.fixture(scope="module")
def unlike():
    """A simulated robot that is not as its file says, and what its motors measured in chirps."""
    parameters = in_file(ROBOT)
    factors = np.array([1.2, 1.1, 0.8, 0.85, 1.1, 1.3, 0.9, 1.25])
    truth = factors * before(ROBOT)
    robot = with_values(ROBOT, dict(zip(parameters.keys, truth.tolist(), strict=True)))
    robot = robot.changed(
        simulation=dataclasses.replace(robot.simulation, current_noise_a=0.02),
        actuators=dataclasses.replace(robot.actuators, cogging_amplitude_nm=0.001),
    )
    stack = VirtualStack(robot, Plant(robot, rng=np.random.default_rng(5)), believed=ROBOT, seed=6)
    stack.loop.safety.positions_known = False
    chirps = Chirps(ROBOT, ChirpSettings(duration_s=24.0))
    stack.drive(chirps)
    stack.close()
    return truth, chirps.result


@pytest.fixture(scope="module")
def found(unlike):
    """What the fit makes of it."""
    return fit_motion(ROBOT, unlike[1])


def test_values_that_the_file_has_not_are_found_within_three_deviations(unlike, found):
    truth, fit = unlike[0], found
    assert np.abs((fit.values - truth) / fit.deviations).max() < 3
    for name, percent in (("inertia", 3), ("coulomb", 4), ("stiffness_n_per_m", 2), ("bending_stiffness", 4)):
        place = next(index for index, full in enumerate(fit.names) if name in full)
        assert fit.values[place] == pytest.approx(truth[place], rel=percent / 100)
        assert fit.shown[place]
    assert fit.cogging_nm == pytest.approx(0.001, abs=4 * fit.cogging_deviation_nm)
    assert fit.residual_n < 0.1 * np.sqrt(np.mean(fit.measured_n**2))


def test_a_rod_that_is_simulated_under_its_tendons_gives_the_same_values(unlike, found):
    """The equations for routed tendons hold for parallel ones, too: another way to the same."""
    _, samples = unlike
    settings = MotionFitSettings(step_s=8e-3)
    by_tensions = fit_forces(
        ROBOT, [TensionEquations(ROBOT, samples.even(), settings, DrivenRod(ROBOT, 48.0))], settings
    )
    apart = np.abs(by_tensions.values - found.values)
    assert (apart / np.hypot(by_tensions.deviations, found.deviations)).max() < 2
    shown = by_tensions.shown & found.shown
    assert shown.sum() >= 6
    assert (apart / found.values)[shown].max() < 0.15


def test_what_chirps_do_not_show_keeps_the_deviation_that_it_had(found):
    place = found.names.index("actuators.viscous_friction_nms")
    assert not found.shown[place]
    assert found.deviations[place] > 0.5 * found.priors[place]
    assert "actuators.viscous_friction_nms" not in file_keys(ROBOT, found.found)


def test_a_fitted_file_reads_back_with_what_was_found(unlike, tmp_path):
    whole, data = unlike[1], tmp_path / "chirps.csv"
    first = slice(len(whole.time_s) // 2)
    samples = RecordedMotion(whole.time_s[first], whole.displacement_m[first], whole.effort[first])
    read = write_recorded_motion(ROBOT, samples, data)
    assert read.effort == pytest.approx(samples.effort, rel=1e-8)
    fit = fit_motion(ROBOT, read)
    fitted = write_fitted_robot(ROBOT, fit, tmp_path / "fitted.yaml")
    again = before(fitted)
    assert again[fit.shown] == pytest.approx(fit.values[fit.shown], rel=1e-4)
    assert again[~fit.shown] == pytest.approx(fit.before[~fit.shown])
    (source,) = fitted.provenance
    assert source.sha256 == read.sha256
    assert [one.key for one in source.values] == list(fit.names)
    assert "actuators.rotor_inertia_kg_m2" not in fitted.assumed


def test_a_second_segment_and_a_file_without_a_simulation_section(tmp_path):
    values = dict(zip(in_file(TWO).keys, 1.1 * before(TWO), strict=True))
    changed = with_values(TWO, values)
    assert before(changed) == pytest.approx(list(values.values()))
    assert changed.segments[1].disks.mass_kg == pytest.approx(1.1 * TWO.segments[1].disks.mass_kg)
    keys = file_keys(TWO, values)
    assert keys["segments[1].disks.mass_kg"] == pytest.approx(changed.segments[1].disks.mass_kg)
    assert len([key for key in keys if "mass" in key]) == 2


def test_individual_disks_keep_their_proportions():
    robot = load_robot("vanderbilt_segment")
    heavier = with_factor(robot, MASS, 0, 2.0).segments[0]
    for one, two in zip(robot.segments[0].disks.individual, heavier.disks.individual, strict=True):
        assert two.mass_kg == pytest.approx(2 * one.mass_kg)
        assert two.inertia_kg_m2 == pytest.approx([2 * value for value in one.inertia_kg_m2])


# --- samples


def samples(count=3000):
    """A robot at rest."""
    return RecordedMotion(1e-3 * np.arange(count), np.zeros((count, 5)), np.ones((count, 5)))


def test_a_lost_reading_is_bridged_and_many_are_refused():
    whole = samples()
    kept = np.ones(3000, dtype=bool)
    kept[[500, 501, 1800]] = False
    even = RecordedMotion(whole.time_s[kept], whole.displacement_m[kept], whole.effort[kept]).even()
    assert np.diff(even.time_s) == pytest.approx(1e-3)
    assert len(even.time_s) == pytest.approx(3000, abs=2)
    kept[::20] = False
    with pytest.raises(ParameterError, match="gaps"):
        RecordedMotion(whole.time_s[kept], whole.displacement_m[kept], whole.effort[kept]).even()
    with pytest.raises(ParameterError, match="at least"):
        samples(100).even()


def test_a_file_of_another_robot_is_refused(tmp_path):
    file = tmp_path / "other.csv"
    write_recorded_motion(ROBOT, samples(), file)
    with pytest.raises(RecordingError, match=r"other\.csv"):
        read_recorded_motion(TWO, file)


@pytest.mark.long  # half a minute of chirps, and the fit goes to and fro about knots
@pytest.mark.parametrize("seed", [3, 4])
def test_a_past_that_the_file_has_with_other_values_is_found(seed):
    """Friction that builds up over a travel and a backbone that lags, each with values that the fit does not know.

    With a past that is looked for from the first step on, robot 4 ends at one that is twice too long.
    """
    own = Hysteresis(moment_nm=2e-3, curvature_per_m=1.0)
    robot = ROBOT.changed(
        actuators=dataclasses.replace(ROBOT.actuators, coulomb_friction_nm=0.0015, friction_travel_m=2e-4),
        segments=(dataclasses.replace(ROBOT.segments[0], hysteresis=own),),
    )
    case = chirped_robot(robot, ROD, seed, UnlikeSettings(duration_s=30.0), lambda _: None)
    names = case.fit.names
    assert names[-3:] == (
        "actuators.friction_travel_m",
        "segments[0].hysteresis.moment_nm",
        "segments[0].hysteresis.curvature_per_m",
    )
    assert np.abs(case.score).max() < 3.5
    for name, percent in (("coulomb", 3), ("friction_travel", 3), ("moment_nm", 20), ("hysteresis.curvature", 20)):
        place = next(index for index, full in enumerate(names) if name in full)
        assert case.fit.shown[place]
        assert abs(case.error[place]) < percent / 100
    assert case.found(robot).segments[0].hysteresis.moment_nm == case.fit.values[-2]
    keys = file_keys(robot, case.fit.found)
    assert keys["segments[0].hysteresis.moment_nm"] == case.fit.values[-2]
    assert keys["actuators.friction_travel_m"] == case.fit.values[-3]


def test_a_segment_with_equilibrium_modulation_shows_modulus_guides_inertia_and_friction():
    robot = load_robot("crem_segment")
    case = chirped_robot(robot, ROD, 3, UnlikeSettings(robot="crem_segment", duration_s=10.0), lambda _: None)
    assert case.names == (
        "actuators.rotor_inertia_kg_m2",
        "actuators.coulomb_friction_nm",
        "mechanism.guide_damping_ns_per_m",
        "mechanism.youngs_modulus_pa",
    )
    assert case.shown.all()
    assert (np.abs(case.error) < [0.04, 0.03, 0.25, 0.01]).all(), case.error
    keys = file_keys(robot, case.fit.found)
    assert keys["mechanism.youngs_modulus_pa"] == case.fit.values[3]
    assert before(case.found(robot)) == pytest.approx(case.values)


def test_rolling_joints_show_their_damping_inertia_and_friction():
    robot = load_robot("rolling_five_link")
    case = chirped_robot(robot, ROD, 3, UnlikeSettings(robot="rolling_five_link", duration_s=10.0), lambda _: None)
    assert case.names == (
        "actuators.rotor_inertia_kg_m2",
        "actuators.coulomb_friction_nm",
        "mechanism.joint_damping_nms",
    )
    assert (np.abs(case.error) < [0.04, 0.04, 0.5]).all(), case.error
    assert (np.abs(case.error) < 3 * case.deviations / case.truth).all()
    assert before(case.found(robot))[:2] == pytest.approx(case.values[:2])


def test_a_coordinate_that_goes_one_way_stays_on_its_side():
    chirps = Chirps(load_robot("crem_segment"))
    times = np.linspace(0, 60, 3001)
    insertion_m = np.array([chirps.reference(time_s)[0][2] for time_s in times])
    assert insertion_m.min() >= 0
    assert insertion_m.max() > 5e-4
