# SPDX-License-Identifier: Apache-2.0
"""A shape estimator and a contact observer of another package in the stack, with their settings; and a payload."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import TendonStates
from ros_contact import touched_stack

from continuum_robot.nodes.topics import conversions
from continuum_robot.robot import doors
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendons import tendon_matrix

pytestmark = [pytest.mark.ros, pytest.mark.long]

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "own_estimators"
PUSH = """
contacts:
  - {name: hand, kind: push, disk: 8, force_n: [1.5, 0.0, 0.0], ramp_s: 0.2, start_s: 3.0, end_s: 5.0}
"""
SIGMA_M = 1e-3
PAYLOAD_KG = 0.03


@pytest.fixture(scope="module")
def stack(domain, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        own = importlib.import_module("own_estimators")
        offered = {
            doors.SHAPE_ESTIMATORS: [SimpleNamespace(name="least_squares", value="", load=lambda: own.LeastSquares)],
            doors.CONTACT_OBSERVERS: [SimpleNamespace(name="at_rest", value="", load=lambda: own.AtRest)],
        }
        patch.setattr(doors, "entry_points", lambda *, group: offered.get(group, []))
        parameters = {
            "shape_estimator": {"estimator": "least_squares", "least_squares.tendon_sigma_m": SIGMA_M},
            "contact_monitor": {"method": "at_rest", "at_rest.smoothing_s": 0.05},
        }
        folder = tmp_path_factory.mktemp("own")
        with touched_stack("two_segment", PUSH, folder, parameters, start_motion=False, payload_kg=PAYLOAD_KG) as (
            stack,
            probe,
        ):
            probe.listen(TendonStates, "tendon_states_decimated")
            yield stack, probe


def test_the_shape_is_that_of_the_estimator(stack):
    _, probe = stack
    probe.wait(lambda: len(probe.received["shape"]) > 100)
    shape = probe.newest("shape")
    assert list(shape.value_names) == ["largest_residual_m"]
    assert 0 <= shape.values[0] < 1e-3
    inverse = np.linalg.pinv(tendon_matrix(load_robot("two_segment")))
    variance = SIGMA_M**2 * np.diag(inverse @ inverse.T)
    covariance = np.reshape(conversions.vector(shape.covariance), (inverse.shape[0], -1))
    np.testing.assert_allclose(np.diag(covariance), variance, rtol=1e-9)


@pytest.mark.long
def test_contacts_are_those_of_the_observer(stack):
    _, probe = stack
    contacts, truth = probe.received["contact"], probe.received["simulated_contact"]
    probe.wait(lambda: any(message.in_contact for message in truth), 20.0, "nothing touched")
    probe.wait(lambda: not truth[-1].in_contact, 10.0, "the push did not end")
    assert {message.method for message in contacts} == {"at_rest"}
    assert any(message.in_contact for message in contacts), max(message.ratio for message in contacts)
    newest = contacts[-1]
    assert list(newest.value_names) == ["largest_force_nm2"]
    assert newest.values[0] == pytest.approx(np.abs(conversions.vector(newest.residual)).max(), rel=1e-9)
    assert probe.faults() == []


def test_a_payload_for_one_run_is_in_all_models(stack):
    composed, _ = stack
    assert load_robot("two_segment").payload_kg == 0
    for name in ("simulator", "tendon_driver", "clarke_controller", "shape_estimator", "contact_monitor"):
        assert composed.nodes[name].load_robot().payload_kg == PAYLOAD_KG
