# SPDX-License-Identifier: Apache-2.0
"""What every way into the safe state has in common, and the way out of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
from continuum_robot.srv import ManageStack
from ros_probe import Probe

from continuum_robot.robot.loading import load_robot

ROBOT = load_robot("opencr_five_tendon")
SAFE_N = ROBOT.limits.safe_n


def recover(probe: Probe) -> None:
    """Up again in the same process, without a fault, and commanded."""
    response = probe.manage(ManageStack.Request.RESET)
    assert response.success, response.message
    probe.wait(lambda: probe.stack_state() == "up" and probe.driver_state() == "active")
    assert probe.faults() == []
    before = probe.newest("tendon_states").sequence
    probe.wait(lambda: probe.newest("tendon_commands").sequence > before, what="nobody commands after the recovery")


@contextlib.contextmanager
def recovered(probe: Probe) -> Iterator[None]:
    """The stack is up before a test, and the test recovers it in the same process, without the faults it injected."""
    if probe.stack_state() != "up":
        recover(probe)
    probe.wait(lambda: probe.driver_state() == "active")
    yield
    probe.inject("")
    recover(probe)


def check_safe_state(probe: Probe, fault: str) -> None:
    """Latched, named in three places, tensions at the safe value, commands ignored."""
    probe.wait_for_fault(fault)
    probe.wait(lambda: any(fault in f for f in probe.newest("stack_status").faults), what="not in stack_status")
    assert probe.newest("stack_status").last_fault
    probe.wait(lambda: fault in probe.health("/tendon_driver: driver"), what="not named in /diagnostics")
    assert probe.diagnostics["/tendon_driver: driver"].level == b"\x02"
    probe.wait(
        lambda: np.allclose(probe.newest("tendon_states").commanded_tension, SAFE_N, atol=1e-9),
        what="the tensions did not reach the safe value",
    )
    probe.pause(0.3)
    assert fault in probe.faults()  # it latches
    np.testing.assert_allclose(probe.newest("tendon_states").commanded_tension, SAFE_N, atol=1e-9)
    assert not probe.transition("tendon_driver", "activate")  # from active there is no such transition
