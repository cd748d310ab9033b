# SPDX-License-Identifier: Apache-2.0
"""A reading that comes again over the topic keeps its time, so that the controller answers it as before."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.nodes.clarke_controller import ClarkeControllerNode


def test_a_reading_that_comes_again_has_the_same_time_to_the_last_digit() -> None:
    given_s: list[float] = []
    node: Any = SimpleNamespace(
        _pending=None, _active=True, _driver_active=True, _commanded=[3.0], _limited=False, _sequence=0, _stamp_ns=0,
        _desired=None, _reading=SimpleNamespace(stamp_s=0.0), _thinning=SimpleNamespace(due=lambda _ns: False),
        _execution=SimpleNamespace(add=lambda _ns: None),
    )  # fmt: skip

    def answer(reading: Any, *_rest: Any) -> bool:
        given_s.append(reading.stamp_s)
        return False

    def read(data: bytes) -> bool:
        node._stamp_ns = int(data)
        return True

    node._controller, node._read = SimpleNamespace(answer=answer), read
    begin_ns = 1_795_940_743_000_000_000
    for cycle in range(200):
        now_ns = begin_ns + cycle * 1_000_003
        node.clock = SimpleNamespace(monotonic_s=partial(float, 1e-9 * now_ns), now_ns=partial(int, now_ns))
        ClarkeControllerNode._on_states(node, b"%d" % (begin_ns + cycle // 2 * 2_000_000))
    assert given_s[0::2] == given_s[1::2]
    assert len(set(given_s)) == 100
