# SPDX-License-Identifier: Apache-2.0
"""Functions that wait for a loop are called in their order, or refused at its end."""

from __future__ import annotations

import pytest

from continuum_robot.errors import DeviceError
from continuum_robot.runtime.control_thread import PendingCalls


def test_calls_are_made_in_their_order_with_results_and_errors():
    calls, order = PendingCalls("loop"), []
    first, second = calls.add(lambda: order.append(1)), calls.add(lambda: 1 / 0)
    third = calls.add(lambda: order.append(3) or "third")
    assert calls
    assert not first.done()
    calls.answer()
    assert not calls
    assert order == [1, 3]
    assert third.result(0) == "third"
    with pytest.raises(ZeroDivisionError):
        second.result(0)


def test_a_call_that_was_given_up_is_not_made():
    calls, made = PendingCalls("loop"), []
    calls.add(lambda: made.append(1)).cancel()
    calls.answer()
    assert not made


def test_at_the_end_who_waits_is_told():
    calls = PendingCalls("tendon_driver")
    waiting, given_up = calls.add(lambda: None), calls.add(lambda: None)
    given_up.cancel()
    calls.refuse()
    calls.refuse()
    with pytest.raises(DeviceError, match=r"tendon_driver.*has ended"):
        waiting.result(0)
