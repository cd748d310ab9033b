# SPDX-License-Identifier: Apache-2.0
"""The moving chain of cross-sections against frequencies of beams, the static solver, and itself on finer grids."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.geometry import so3
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.segments.lumped_masses import LumpedMass
from continuum_robot.rod.cosserat.conversion import inertias
from continuum_robot.rod.cosserat.description import CosseratRod, CosseratTendon, round_section
from continuum_robot.rod.cosserat.motion import SectionInertia, cross_sections, simulate
from continuum_robot.rod.cosserat.paths import HolePath, PolarPath
from continuum_robot.rod.cosserat.statics import solve
from continuum_robot.rod.loads import DistributedLoad, PointWrench
from continuum_robot.rod.strain.rod import RodSegment, StrainRod

LENGTH, RADIUS, MODULUS, DENSITY = 0.242, 0.4e-3, 229.6e9, 7800.0
AREA, SECOND_MOMENT = math.pi * RADIUS**2, math.pi / 4 * RADIUS**4
STEEL = round_section(LENGTH, youngs_modulus_pa=MODULUS, poisson_ratio=0.3125, radius_m=RADIUS)
ROTARY = DENSITY * SECOND_MOMENT
INERTIA = [SectionInertia(mass_kg_per_m=DENSITY * AREA, rotary_kg_m=(ROTARY, ROTARY, 2 * ROTARY))]
BARE = CosseratRod(sections=(STEEL,))
HELICAL = CosseratRod(
    sections=(STEEL,),
    tendons=(CosseratTendon(path=PolarPath((0.008,), (0.0, 2 * math.pi / LENGTH)), end_m=LENGTH),),
)


def free(_: float) -> list[float]:
    return []


def held(rod: CosseratRod, elements: int, tension, loads) -> tuple[np.ndarray, np.ndarray]:
    shape = solve(rod, tension, loads).at(cross_sections(rod, elements))
    return shape.position_m, np.array([so3.quaternion_from_matrix(rotation) for rotation in shape.rotation])


def angular_frequency(values: np.ndarray, step_s: float) -> float:
    turns = np.flatnonzero(values[1:] * values[:-1] < 0)
    crossings = turns + values[turns] / (values[turns] - values[turns + 1])
    return math.pi / (float(np.mean(np.diff(crossings))) * step_s)


def test_a_plucked_rod_swings_at_the_frequency_of_its_first_mode():
    step_s = 1e-3
    start = held(BARE, 16, [], [PointWrench(s_m=LENGTH, force_n=(2e-3, 0.0, 0.0))])
    motion = simulate(BARE, INERTIA, step_s * np.arange(250), free, elements=16, step_s=step_s, start=start)
    expected = 3.51602 * math.sqrt(MODULUS * SECOND_MOMENT / (DENSITY * AREA * LENGTH**4))
    assert angular_frequency(motion.position_m[:, -1, 0], step_s) == pytest.approx(expected, rel=1e-2)
    assert motion.position_m[:, :, 1] == pytest.approx(np.zeros((250, 17)), abs=1e-12)
    assert np.ptp(motion.energy_j) < 1e-4 * motion.kinetic_j.max()


@pytest.mark.parametrize(
    ("force", "moment", "speed"),
    [
        ((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), math.sqrt(MODULUS / DENSITY)),
        ((0.0, 0.0, 0.0), (0.0, 0.0, 1e-4), math.sqrt(MODULUS / (2 * 1.3125 * DENSITY))),
    ],
)
def test_stretch_and_twist_travel_at_the_speed_of_sound(force, moment, speed):
    """A load put on the tip swings about its static effect with the quarter-wave frequency."""
    step_s = LENGTH / speed / 40
    loads = [PointWrench(s_m=LENGTH, force_n=force, moment_nm=moment)]
    motion = simulate(BARE, INERTIA, step_s * np.arange(400), free, loads, elements=32, step_s=step_s)
    stretch = motion.position_m[:, -1, 2] - LENGTH
    twist = 2 * np.arctan2(motion.quaternion[:, -1, 3], motion.quaternion[:, -1, 0])
    moved = stretch if any(force) else twist
    static = force[2] * LENGTH / (MODULUS * AREA) + moment[2] * LENGTH / STEEL.bending_torsion_nm2[2]
    assert angular_frequency(moved - static, step_s) == pytest.approx(math.pi / 2 * speed / LENGTH, rel=5e-3)
    assert moved.max() == pytest.approx(2 * static, rel=0.1)


def test_a_damped_rod_comes_to_rest_in_the_static_shape():
    loads = [
        DistributedLoad(force_n_per_m=(-0.47, 0.0, 0.0)),
        PointWrench(s_m=LENGTH, force_n=(0.0, 0.1, 0.0), moment_nm=(1e-3, 0.0, 2e-3), frame="body"),
    ]
    expected = solve(HELICAL, [3.0], loads).tip_m
    errors = []
    for elements in (8, 16):
        start = held(HELICAL, elements, [2.9], loads)
        motion = simulate(
            HELICAL,
            INERTIA,
            [0.0, 0.2],
            lambda _: [3.0],
            loads,
            elements=elements,
            step_s=1e-3,
            damping_s=0.03,
            start=start,
        )
        errors.append(np.linalg.norm(motion.position_m[-1, -1] - expected))
    assert errors[1] < 3e-3 * LENGTH
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.3)


def test_grid_and_step_are_of_second_order():
    """A tension that comes on smoothly: what is left of the motion's error falls by four."""
    times = [0.0, 4e-3, 8e-3]

    def tension(t: float) -> list[float]:
        return [1.0 * math.sin(min(t / 4e-3, 1.0) * math.pi / 2) ** 2]

    ends = [
        simulate(HELICAL, INERTIA, times, tension, elements=8 * k, step_s=2e-4 / k, damping_s=2e-5).position_m[-1, -1]
        for k in (1, 2, 4)
    ]
    errors = [np.linalg.norm(b - a) for a, b in pairwise(ends)]
    assert np.linalg.norm(ends[0] - [0, 0, LENGTH]) > 0.005
    assert errors[1] < 0.002 * LENGTH
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.5)


def test_a_jump_of_the_tension_is_stepped_over():
    motion = simulate(HELICAL, INERTIA, [0.0, 1e-3], lambda _: [5.0], elements=16, step_s=1e-3)
    assert np.isfinite(motion.position_m).all()
    assert np.linalg.norm(motion.position_m[1, -1] - [0, 0, LENGTH]) > 5e-3


def test_cross_sections_stand_where_something_ends():
    holes = HolePath((0.0, 0.1, 0.2), (0.008, 0.0, 0.008), (0.0, 0.008, 0.0))
    rod = CosseratRod(sections=(STEEL,), tendons=(CosseratTendon(path=holes, begin_m=0.03, end_m=0.2),))
    loads = [PointWrench(s_m=0.15), DistributedLoad(start_m=0.01, end_m=0.05)]
    places = cross_sections(rod, 10, loads)
    for place in (0.0, 0.01, 0.03, 0.05, 0.1, 0.15, 0.2, LENGTH):
        assert np.abs(places - place).min() < 1e-12
    assert np.diff(places).max() < LENGTH / 10 + 1e-9


def test_bad_input_is_named():
    with pytest.raises(ParameterError, match="time_s"):
        simulate(BARE, INERTIA, [0.0, 1.5e-4], free, step_s=1e-4)
    with pytest.raises(ParameterError, match="time_s"):
        simulate(BARE, INERTIA, [], free)
    with pytest.raises(ParameterError, match="step_s"):
        simulate(BARE, INERTIA, [0.0], free, step_s=0.0)
    with pytest.raises(ParameterError, match="tension_n"):
        simulate(HELICAL, INERTIA, [0.0], lambda _: [-1.0], elements=8)
    with pytest.raises(ParameterError, match="offset_m"):
        simulate(BARE, INERTIA, [0.0], free, [PointWrench(s_m=LENGTH, offset_m=(0.01, 0, 0))], elements=8)
    with pytest.raises(ParameterError, match="start"):
        simulate(BARE, INERTIA, [0.0], free, elements=8, start=(np.zeros((3, 3)), np.zeros((3, 4))))
    with pytest.raises(ParameterError, match="inertia"):
        simulate(BARE, [], [0.0], free)
    with pytest.raises(ParameterError, match="inertia"):
        SectionInertia(mass_kg_per_m=0.0, rotary_kg_m=(1.0, 1.0, 1.0))
    with pytest.raises(ConvergenceError, match="time step"):
        simulate(HELICAL, INERTIA, [0.0, 1.0], lambda _: [1e9], elements=8, step_s=1.0)


def test_inertia_comes_with_a_strain_rod():
    segment = RodSegment(
        length_m=0.1,
        basis=Basis(),
        stiffness=(1.0,) * 6,
        linear_density_kg_per_m=0.02,
        rotary_inertia_kg_m=(1e-9, 1e-9, 2e-9),
    )
    (found,) = inertias(StrainRod([segment]))
    assert found == SectionInertia(mass_kg_per_m=0.02, rotary_kg_m=(1e-9, 1e-9, 2e-9))
    with pytest.raises(ParameterError, match="masses"):
        inertias(StrainRod([segment], masses=[LumpedMass(s_m=0.1, mass_kg=1.0)]))
