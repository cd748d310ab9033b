# SPDX-License-Identifier: Apache-2.0
"""A lost device is tried twice a second, and reports meanwhile why it is not there."""

from __future__ import annotations

import pytest

from continuum_robot.drivers.reconnection import PERIOD_S, Reconnection
from continuum_robot.errors import DeviceError


def test_a_device_that_is_there_is_not_opened_again() -> None:
    def never() -> None:
        raise AssertionError("opened")

    assert not Reconnection().attempt(0.0, never)


def test_a_lost_device_is_tried_twice_a_second_until_it_is_there() -> None:
    reconnection, tried = Reconnection(), []

    def fail() -> None:
        tried.append(1)
        raise DeviceError("port", f"attempt {len(tried)} failed", "Plug it in.")

    reconnection.lose(DeviceError("port", "was pulled out", "Plug it in."), 10.0)
    for now_s, said in (
        (10.1, "was pulled out"),
        (10.0 + PERIOD_S, "attempt 1 failed"),
        (10.1 + PERIOD_S, "attempt 1 failed"),
        (10.0 + 2 * PERIOD_S, "attempt 2 failed"),
    ):
        with pytest.raises(DeviceError, match=said):
            reconnection.attempt(now_s, fail)
    assert len(tried) == 2
    assert reconnection.attempt(20.0, lambda: None)
    assert reconnection.lost is None
    assert not reconnection.attempt(20.0, fail)
