# SPDX-License-Identifier: Apache-2.0
"""The doors for shape estimators and contact observers of other packages, with those of the examples."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact import own_observer
from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.contact.settings import default_settings
from continuum_robot.robot import doors
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.rod import Rod

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "own_estimators"
ROBOT = load_robot("two_segment")
CYCLE_S = 0.01


def offer(monkeypatch: pytest.MonkeyPatch, group: str, name: str, load) -> None:
    entry = SimpleNamespace(name=name, value=f"somebody:{name}", load=load)
    monkeypatch.setattr(doors, "entry_points", lambda *, group: [entry] if group == offered else [])
    offered = group


@pytest.fixture
def own(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("own_estimators")


def monitor_with(method: str, settings=None) -> ContactMonitor:
    return ContactMonitor(
        ROBOT, dataclasses.replace(default_settings(ROBOT), method=method), observer_settings=settings
    )


def held(monitor, force_n: float, cycles: int = 60):
    """The newest estimate of a robot at rest whose tip is pulled."""
    rod, tension = Rod(ROBOT), np.linspace(1.0, 3.0, ROBOT.tendon_count)
    load = [PointWrench(s_m=ROBOT.length_m, force_n=(force_n, 0.0, 0.0))]
    c = rod.loaded(load).equilibrium(tension).c
    nothing, noise = np.zeros(rod.n), 1e-8 * np.eye(rod.n)
    for _ in range(cycles):
        estimate = monitor.update(c, nothing, noise, CYCLE_S, tension=tension)
    return estimate


def test_an_observer_of_another_package_feels_a_push(own, monkeypatch):
    offer(monkeypatch, doors.CONTACT_OBSERVERS, "at_rest", lambda: own.AtRest)
    monitor = monitor_with("at_rest")
    free = held(monitor, 0.0)
    assert free.state == "clear"
    monitor.reset()  # the next shape is another one at once
    pushed = held(monitor, 0.3)
    assert pushed.in_contact
    assert pushed.named_values["largest_force_nm2"] == pytest.approx(np.abs(pushed.residual).max(), rel=1e-12)
    # The same force by the momentum observer, which is another way to it.
    other = held(monitor_with("gmo"), 0.3)
    np.testing.assert_allclose(pushed.residual, other.residual, atol=0.05 * np.abs(other.residual).max())
    assert other.named_values == {}


def test_its_settings_are_asked_for(own, monkeypatch):
    offer(monkeypatch, doors.CONTACT_OBSERVERS, "at_rest", lambda: own.AtRest)
    asked = []

    def settings(name, defaults):
        asked.append((name, defaults))
        return dataclasses.replace(defaults, error_fraction=1.0)

    bound = held(monitor_with("at_rest", settings), 0.0, 2).contact_threshold
    assert asked == [("at_rest", own.AtRestSettings())]
    assert (bound > held(monitor_with("at_rest"), 0.0, 2).contact_threshold).all()


@pytest.mark.parametrize("field", ["force", "bound", "covariance"])
def test_a_finding_of_another_size_is_refused(monkeypatch, field):
    class Wrong:
        def __init__(self, _robot, size):
            self._size = size

        def reset(self):
            pass

        def update(self, _cycle, _state):
            right = {"force": np.zeros(self._size), "bound": np.ones(self._size), "covariance": np.eye(self._size)}
            return own_observer.Finding(**right | {field: np.zeros(3)})

    offer(monkeypatch, doors.CONTACT_OBSERVERS, "wrong", lambda: Wrong)
    with pytest.raises(ParameterError, match=rf"{field} of Wrong = \(3,\) .* expected shape"):
        held(monitor_with("wrong"), 0.0, 1)


def test_names_that_nobody_offers_are_refused_with_those_there_are(own, monkeypatch):
    offer(monkeypatch, doors.CONTACT_OBSERVERS, "at_rest", lambda: own.AtRest)
    with pytest.raises(ParameterError, match="one of gmo, jfd, kalman_disturbance_observer, at_rest"):
        monitor_with("at_sea")


def test_a_package_that_cannot_be_imported_is_named(monkeypatch):
    def load():
        raise ImportError("no module named somebody")

    offer(monkeypatch, doors.CONTACT_OBSERVERS, "broken", load)
    with pytest.raises(ParameterError, match="somebody:broken: no module named somebody"):
        monitor_with("broken")


def test_the_shape_by_least_squares(own):
    rod = Rod(ROBOT)
    c = np.linspace(2.0, -1.0, rod.n)
    estimate = own.LeastSquares(ROBOT, own.LeastSquaresSettings()).update(
        rod.displacement(c), np.zeros(ROBOT.tendon_count), None, CYCLE_S
    )
    np.testing.assert_allclose(estimate.coefficients, c, atol=1e-9)
    np.testing.assert_allclose(estimate.tip, rod.poses(c, [rod.length_m])[0], atol=1e-9)
