# SPDX-License-Identifier: Apache-2.0
"""Several devices as the actuators of one robot: who gets what, and what one of them may do to the others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from continuum_robot.drivers.joined_actuators import JoinedActuators
from continuum_robot.drivers.protocols import Aborted, CountsFromPowerOn, TendonActuators, TendonReading, never
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.runtime.cycle.loop_reports import EnabledInSteps

LONGEST_S = 60.0


class Device:
    """Tells what it was asked to do; each channel reads what was written to it."""

    simulated = True

    def __init__(self, name: str, count: int, *, displacements: bool = False) -> None:
        self.name, self.tendon_count, self.takes_displacements = name, count, displacements
        self.calls: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.written: list[np.ndarray] = []
        self.stamp_s, self.age_s = 0.0, np.zeros(count)
        self.place = np.arange(count) + 0.5
        self.faults: tuple[str, ...] = ()

    def _do(self, call: str) -> None:
        self.calls.append(call)
        if call in self.fails:
            raise self.fails[call]

    def open(self) -> None:
        self._do("open")

    def enable(self, aborted: Aborted = never) -> None:
        self._do("enable")

    def read(self, now_s: float) -> TendonReading:
        self._do("read")
        own = {"d": 1.0, "s": 2.0}[self.name[0]]
        rows = [self.place, *(np.full(self.tendon_count, own * k) for k in (10.0, 100.0, 1000.0))]
        return TendonReading(
            self.stamp_s, *rows, np.full(self.tendon_count, np.nan), self.age_s.copy(), device_faults=self.faults
        )  # fmt: skip

    def write(self, command: Any, now_s: float) -> None:
        self._do("write")
        self.written.append(np.array(command))

    def disable(self) -> None:
        self._do("disable")

    def close(self) -> None:
        self._do("close")

    def clear_faults(self) -> None:
        self._do("clear_faults")


class Counting(Device):
    """One that counts from its power-on."""

    aligned = True

    @property
    def zero_lost(self) -> np.ndarray:
        return np.arange(self.tendon_count) == 1

    def counters(self) -> dict[str, dict[str, Any]]:
        return {self.name: {"rounds": 3}}


class Boards(Device):
    """Boards that need some steps until they are on."""

    steps = 3

    def begin_enable(self, now_s: float) -> None:
        self._do("begin_enable")

    def continue_enable(self, now_s: float) -> bool:
        self._do("continue_enable")
        self.steps -= 1
        return self.steps <= 0


NUMBERS = ((4, 1), (2, 3, 5))


def pair(kinds: tuple[type[Device], type[Device]] = (Device, Device), **options: Any) -> tuple[Any, Any, Any]:
    displacements = options.pop("displacements", False)
    first, second = kinds[0]("d", 2, displacements=displacements), kinds[1]("s", 3, displacements=displacements)
    given = {"stepped": True, "sleep": lambda _s: None, **options}
    return first, second, JoinedActuators([first, second], [sorted(one) for one in NUMBERS], **given)


def test_commands_are_split_and_readings_are_joined_by_the_numbers_of_the_motors() -> None:
    first, second, both = pair()
    assert isinstance(both, TendonActuators)
    assert isinstance(both, EnabledInSteps)
    both.write(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 0.0)
    assert first.written[0].tolist() == [1.0, 4.0]
    assert second.written[0].tolist() == [2.0, 3.0, 5.0]
    found = both.read(0.0)
    assert found.displacement_m.tolist() == [0.5, 0.5, 1.5, 1.5, 2.5]
    assert found.velocity_m_per_s.tolist() == [10.0, 20.0, 20.0, 10.0, 20.0]
    assert found.tension_n.tolist() == [100.0, 200.0, 200.0, 100.0, 200.0]
    assert found.current_a.tolist() == [1000.0, 2000.0, 2000.0, 1000.0, 2000.0]
    assert np.isnan(found.temperature_c).all()


def test_each_value_is_as_old_as_it_is_at_the_newest_stamp() -> None:
    first, second, both = pair()
    first.stamp_s, first.age_s = 1.000, np.array([0.0, 0.002])
    second.stamp_s, second.age_s = 1.004, np.array([0.001, 0.0, np.inf])
    found = both.read(1.005)
    assert found.stamp_s == 1.004
    np.testing.assert_allclose(found.age_s, [0.004, 0.001, 0.0, 0.006, np.inf])


def test_faults_of_all_are_told_with_their_devices() -> None:
    first, second, both = pair()
    first.faults, second.faults = ("d servo 1: silent_servo",), ("s: receive_timeout",)
    assert both.read(0.0).device_faults == ("d servo 1: silent_servo", "s: receive_timeout")


def test_a_device_that_cannot_be_read_is_a_fault_and_the_others_go_on() -> None:
    first, _, both = pair()
    first.fails["read"] = DeviceError("d", "is gone", "Plug it in.")
    found = both.read(0.0)
    assert np.isnan(found.displacement_m).tolist() == [True, False, False, True, False]
    assert np.isinf(found.age_s).tolist() == [True, False, False, True, False]
    assert found.device_faults == (str(first.fails["read"]),)


def test_where_none_can_be_read_the_reason_is_told() -> None:
    first, second, both = pair()
    first.fails["read"] = second.fails["read"] = DeviceError("d", "is not open", "Open it first.")
    with pytest.raises(DeviceError, match="is not open"):
        both.read(0.0)


def test_all_are_opened_or_none_and_every_one_that_is_not_there_is_named() -> None:
    first, second, both = pair()
    second.fails["open"] = DeviceError("s", "is not there", "Plug it in.")
    with pytest.raises(DeviceError, match="s: is not there"):
        both.open()
    assert first.calls == ["open", "close"]
    first.fails["open"] = DeviceError("d", "is not there either", "Plug it in.")
    with pytest.raises(DeviceError, match="d: is not there either; s: is not there"):
        both.open()


@pytest.mark.parametrize("method", ["disable", "close", "clear_faults"])
@pytest.mark.parametrize("bad", [0, 1])
def test_what_ends_something_is_done_to_all_also_where_one_raises(method: str, bad: int) -> None:
    first, second, both = pair()
    (first, second)[bad].fails[method] = DeviceError("bus", "is gone", "Plug it in.")
    with pytest.raises(DeviceError, match="is gone"):
        getattr(both, method)()
    assert first.calls == [method] == second.calls


@pytest.mark.parametrize("bad", [0, 1])
def test_a_command_reaches_the_others_where_one_raises(bad: int) -> None:
    first, second, both = pair()
    (first, second)[bad].fails["write"] = DeviceError("bus", "is gone", "Plug it in.")
    with pytest.raises(DeviceError, match="is gone"):
        both.write(np.ones(5), 0.0)
    assert first.calls == ["write"] == second.calls


def test_a_command_that_is_none_reaches_nobody() -> None:
    first, second, both = pair()
    for command in (np.ones(4), np.array([1, 2, 3, 4, np.nan])):
        with pytest.raises(ParameterError, match="5 finite"):
            both.write(command, 0.0)
    assert not first.calls
    assert not second.calls


def test_one_that_is_on_before_the_others_hears_that_it_shall_rest() -> None:
    first, second, both = pair((Boards, Boards))
    second.steps = 6
    both.enable()
    assert [one.tolist() for one in first.written] == [[0.0, 0.0]] * 3
    assert not second.written
    both.enable()
    assert len(first.written) == 3, "enabling twice changes nothing"


def test_servos_are_switched_on_after_boards_and_hold_where_they_stand() -> None:
    first, second, both = pair((Boards, Device), displacements=True)
    both.begin_enable(0.0)
    assert not second.calls, "boards take time"
    assert [both.continue_enable(0.0) for _ in range(4)] == [False, False, True, True]
    assert second.calls == ["enable", "read"]
    first, second, both = pair((Boards, Boards), displacements=True)
    second.steps = 4
    both.enable()
    assert first.written[-1].tolist() == first.place.tolist()


def test_where_one_cannot_be_switched_on_all_are_off() -> None:
    first, second, both = pair()
    second.fails["enable"] = DeviceError("s", "reports an overload", "Remove the cause.")
    with pytest.raises(DeviceError, match="overload"):
        both.enable()
    assert first.calls[-1] == second.calls[-1] == "disable"
    assert not first.written


def test_in_real_time_they_are_switched_on_side_by_side_and_an_abort_ends_it() -> None:
    class Slow(Device):
        entered, left = threading.Event(), threading.Event()

        def enable(self, aborted: Aborted = never) -> None:
            self.entered.set()
            while not aborted():
                self.left.wait(0.001)
            self.left.set()
            raise DeviceError(self.name, "was stopped", "")

    first, second, both = pair((Slow, Slow), stepped=False)
    both.begin_enable(0.0)
    assert first.entered.wait(LONGEST_S)
    assert not both.continue_enable(0.0)
    both.disable()
    assert first.left.is_set()
    assert first.calls[-1] == second.calls[-1] == "disable"
    with pytest.raises(DeviceError, match="stopped"):
        both.continue_enable(0.0)


def test_an_abort_while_it_waits_switches_all_off() -> None:
    first, second, both = pair((Boards, Device))
    answers: Callable[[], bool] = iter([False, False, True]).__next__
    with pytest.raises(DeviceError, match="were stopped"):
        both.enable(answers)
    assert first.calls[-1] == second.calls[-1] == "disable"
    assert "enable" not in second.calls


def test_what_those_know_that_count_from_power_on_is_joined() -> None:
    _, second, both = pair((Counting, Counting))
    assert isinstance(both, CountsFromPowerOn)
    assert both.aligned
    assert both.zero_lost.tolist() == [False, False, True, True, False]
    assert both.counters() == {"d": {"rounds": 3}, "s": {"rounds": 3}}
    second.aligned = False
    assert not both.aligned
    _, _, both = pair((Device, Counting))
    assert both.zero_lost.tolist() == [False, False, True, False, False]
    assert both.counters() == {"s": {"rounds": 3}}


def test_a_driver_that_counts_the_robots_tendons_instead_of_its_sections_motors_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"tendon_actuators\[1\].motors = 3 -- expected 2 channels"):
        JoinedActuators([Device("d", 3), Device("s", 3)], [(1, 2, 3), (4, 5)])
