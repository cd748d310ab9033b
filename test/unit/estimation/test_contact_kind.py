# SPDX-License-Identifier: Apache-2.0
"""The kinds of contacts, on motions that are made to be of one kind by linear algebra on the rod's own Jacobians."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from continuum_robot.estimation.contact.kind import (
    ACCIDENTAL,
    BODY_BLOCKED,
    NO_CONTACT,
    SEGMENT_BLOCKED,
    SEVERAL,
    SLIDING,
    SUSTAINED,
    TIP_BLOCKED,
    UNKNOWN,
    ContactKind,
    ContactKinds,
    kind_of,
)
from continuum_robot.estimation.contact.states import CLEAR, CONTACT, SETTLING, TARING, ContactEstimate
from continuum_robot.estimation.contact.wrench import WrenchEstimate
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import coefficients_from_clarke, controlled_manifold

DT = 0.01


class Touched:
    """The kinds that are reported of a segment whose motion and contact are given."""

    def __init__(self) -> None:
        self.robot = load_robot("vanderbilt_segment")
        self.rod = Rod(self.robot)
        self.shapes = coefficients_from_clarke(self.robot)
        self.manifold = controlled_manifold(self.robot)
        self.kinds = ContactKinds(self.robot, lambda c, s: self.rod.poses(c, [s])[0])
        self.onto = self.manifold.clarke_matrix @ self.rod.displacement_gradient(np.zeros(self.rod.n))
        self.size = self.robot.coefficient_count
        self.reported: list[ContactKind] = []

    def jacobian(self, c: np.ndarray, fraction: float) -> np.ndarray:
        """Of the place of the backbone, in the axes of the base, (3, n), m^2."""
        s_m = fraction * self.robot.length_m
        pose = self.rod.poses(c, [s_m])[0]
        return pose[:3, :3] @ self.rod.jacobian(c, s_m)[:3]

    def feel(self, c, clarke, force=(-3.0, 0.0, 0.0), *, fraction=1.0, state=CONTACT, chi_square=1.0, assumed=False):
        """One cycle with a force in the base frame."""
        s_m = fraction * self.robot.length_m
        there = self.rod.poses(c, [s_m])[0][:3, :3].T @ np.asarray(force, dtype=float)
        wrench = WrenchEstimate(
            np.concatenate([there, np.zeros(3)]), np.eye(6), np.ones(6, bool), np.zeros(6, bool), 2, chi_square, 4
        )
        nothing = np.zeros(self.size)
        estimate = ContactEstimate(
            state, "", False, nothing, np.eye(self.size), nothing, nothing, 2.0, wrench, s_m, assumed, None
        )
        self.reported.append(self.kinds.update(estimate, c, self.manifold.displacement(clarke), DT))
        return self.reported[-1].name


@pytest.fixture(scope="module")
def segment() -> Touched:
    return Touched()


@pytest.fixture
def touched(segment: Touched) -> Touched:
    segment.kinds.reset()
    segment.reported.clear()
    return segment


def driven(touched: Touched, held_fraction: float | None, steps: int = 60, **contact) -> list[str]:
    """Pull along the first coordinate, with the motion of one place held at zero; None: of the whole backbone."""
    clarke, c = np.array([0.01, 0.0]), touched.shapes @ np.array([0.01, 0.0])
    for _ in range(steps):
        change = np.array([4e-4, 0.0])
        clarke = clarke + change
        if held_fraction is not None:
            # Of least energy under two conditions: tendons as they are pulled, and the place across the backbone held.
            rows = np.vstack([touched.onto, touched.jacobian(c, held_fraction)[:2]])
            compliant = np.linalg.solve(touched.rod.arrays.stiffness, rows.T)
            c = c + compliant @ np.linalg.lstsq(rows @ compliant, np.concatenate([change, np.zeros(2)]), rcond=None)[0]
        touched.feel(c, clarke, **contact)
    return [kind.name for kind in touched.reported]


def into(touched: Touched, fraction: float) -> np.ndarray:
    """Force against the way that a place takes when the first coordinate grows."""
    c = touched.shapes @ np.array([0.015, 0.0])
    way = touched.jacobian(c, fraction) @ touched.shapes @ np.array([1.0, 0.0])
    return -3.0 * way / np.linalg.norm(way)


def test_a_tip_that_is_held_while_the_body_bows_out(touched):
    reported = driven(touched, 1.0, force=into(touched, 1.0))
    assert reported[0] == UNKNOWN
    assert reported[-1] == TIP_BLOCKED
    assert SEGMENT_BLOCKED not in reported


def test_a_body_that_is_held_while_the_tip_goes_on(touched):
    assert driven(touched, 0.6, force=into(touched, 0.6), fraction=0.6)[-1] == BODY_BLOCKED


def test_a_segment_of_which_nothing_moves(touched):
    assert driven(touched, None, force=into(touched, 1.0))[-1] == SEGMENT_BLOCKED


def test_blocked_stays_so_while_nothing_moves_and_ends_with_drawing_back(touched):
    driven(touched, 1.0, force=into(touched, 1.0))
    c, clarke = touched.shapes @ np.array([0.015, 0.0]), np.array([0.034, 0.0])
    for _ in range(150):
        name = touched.feel(c, clarke, into(touched, 1.0))
    assert name == TIP_BLOCKED
    for step in range(100):
        back = np.array([1e-4 * step, 0.0])
        name = touched.feel(c - touched.shapes @ back, clarke - back, into(touched, 1.0))
    assert name == SUSTAINED


def test_a_motion_across_the_force_slides(touched):
    for step in range(60):
        clarke = np.array([0.01, 4e-4 * step])
        name = touched.feel(touched.shapes @ clarke, clarke, (-3.0, 0.0, 0.0))
    assert name == SLIDING


def test_a_motion_with_the_force_is_given_way_to(touched):
    for step in range(120):
        clarke = np.array([0.02 - 2e-4 * step, 0.0])
        name = touched.feel(touched.shapes @ clarke, clarke, into(touched, 1.0))
    assert name == SUSTAINED


def test_at_rest_a_contact_is_sustained_after_a_while(touched):
    c, clarke = touched.shapes @ np.array([0.01, 0.0]), np.array([0.01, 0.0])
    names = [touched.feel(c, clarke) for _ in range(120)]
    begun = names.index(SUSTAINED) * DT
    assert set(names) == {UNKNOWN, SUSTAINED}
    assert begun == pytest.approx(touched.kinds.settings.sustained_s, abs=0.15)


def test_what_is_over_soon_was_accidental_and_is_forgotten(touched):
    c, clarke = touched.shapes @ np.array([0.01, 0.0]), np.array([0.01, 0.0])
    for _ in range(20):
        assert touched.feel(c, clarke) == UNKNOWN
    names = [touched.feel(c, clarke, state=CLEAR) for _ in range(150)]
    assert names[:95] == [ACCIDENTAL] * 95
    assert names[-1] == NO_CONTACT
    assert "0.2 s" in touched.reported[30].reason


@pytest.mark.parametrize("state", [SETTLING, TARING])
def test_a_contact_that_is_lost_from_sight_is_not_over(touched, state):
    c, clarke = touched.shapes @ np.array([0.01, 0.0]), np.array([0.01, 0.0])
    for _ in range(20):
        touched.feel(c, clarke)
    assert [touched.feel(c, clarke, state=state) for _ in range(20)] == [NO_CONTACT] * 20


def test_a_residual_that_one_contact_does_not_explain(touched):
    c, clarke = touched.shapes @ np.array([0.01, 0.0]), np.array([0.01, 0.0])
    assert [touched.feel(c, clarke, chi_square=60.0) for _ in range(150)][-1] == SEVERAL


def test_where_the_place_is_assumed_a_misfit_tells_nothing(touched):
    c, clarke = touched.shapes @ np.array([0.01, 0.0]), np.array([0.01, 0.0])
    assert [touched.feel(c, clarke, chi_square=60.0, assumed=True) for _ in range(150)][-1] == SUSTAINED


def test_a_force_that_is_not_known_tells_nothing(touched):
    c, clarke = touched.shapes @ np.array([0.01, 0.0]), np.array([0.01, 0.0])
    assert [touched.feel(c, clarke, (math.nan, 0.0, 0.0)) for _ in range(150)][-1] == UNKNOWN


def test_a_kind_has_to_be_seen_for_a_while(touched):
    c, clarke = touched.shapes @ np.array([0.01, 0.0]), np.array([0.01, 0.0])
    for _ in range(120):
        touched.feel(c, clarke)
    moved = np.array([0.01, 0.008])
    assert touched.feel(touched.shapes @ moved, moved) == SUSTAINED  # one jump of a reading is no sliding


def test_settings_may_change_between_two_cycles(touched):
    before = touched.kinds.settings
    touched.kinds.settings = dataclasses.replace(before, sustained_s=0.3)
    c, clarke = touched.shapes @ np.array([0.01, 0.0]), np.array([0.01, 0.0])
    names = [touched.feel(c, clarke) for _ in range(60)]
    touched.kinds.settings = before
    assert names[-1] == SUSTAINED


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ([], NO_CONTACT),
        ([NO_CONTACT, NO_CONTACT], NO_CONTACT),
        ([UNKNOWN, UNKNOWN], UNKNOWN),
        ([UNKNOWN, ACCIDENTAL, NO_CONTACT], ACCIDENTAL),
        ([UNKNOWN, SLIDING, TIP_BLOCKED, SLIDING, ACCIDENTAL, ACCIDENTAL, ACCIDENTAL], SLIDING),
    ],
)
def test_the_kind_of_a_whole_contact(names, kind):
    assert kind_of(names) == kind
