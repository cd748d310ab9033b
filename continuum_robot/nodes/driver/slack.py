# SPDX-License-Identifier: Apache-2.0
"""Waiting for the tendons beside the running loop: slack is taken up, tensions ramp down, the robot comes to rest."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.identification.procedures.procedure import TakeUp, TakeUpSettings
from continuum_robot.nodes.driver.loop import DriverLoop

SETTLE_TIMEOUT_S = 1.0
REST_M_PER_S = 2e-3
TAKE_UP_PERIOD_S = 0.005
_TAKE_UP = TakeUpSettings(rest_time_s=0.1, timeout_s=4.0)


def take_up_slack(loop: DriverLoop, share: float, warn: Callable[[str], object]) -> None:
    """Pull all tendons in slowly until they rest, with a tension that falls to zero at a low speed.

    A tendon that is slack when the controller begins would be pulled in at full speed, and jerk when it is tight.
    More than the safe tension may be needed, since friction and cogging hold a motor against it. Whether it worked
    is checked by the activation that follows, which says what is wrong when it did not.

    Parameters
    ----------
    loop : runs, its devices enabled
    share : the tension, of what a tendon may carry when all carry the same
    warn : told what went wrong
    """
    safety, limits, count = loop.safety, loop.safety.limits, loop.tendon_count
    share_n = min(limits.maximum_n, limits.total_n / count)
    level_n = max(limits.safe_n, limits.minimum_n, share * share_n)
    if safety.faults:
        return
    take_up = TakeUp(np.full(count, level_n), loop.robot.tendon_names, _TAKE_UP)
    last_s, tight = time.monotonic(), False
    while not tight and loop.running and not safety.faults:
        reading = loop.reading
        now_s = time.monotonic()
        if reading is not None and np.isfinite(reading.velocity_m_per_s).all():
            try:
                loop.take_up, tight = take_up.update(reading, now_s - last_s)
            except ContinuumRobotError as error:
                warn(str(error))
                return
            last_s = now_s
        elif now_s - last_s > SETTLE_TIMEOUT_S:
            return
        time.sleep(TAKE_UP_PERIOD_S)


def wait_for_ramp(loop: DriverLoop, warn: Callable[[str], object]) -> None:
    """Wait until the tensions have reached the safe one, a bounded time.

    Parameters
    ----------
    loop : deactivated
    warn : told when they did not
    """
    safety, limits = loop.safety, loop.safety.limits
    end_s = time.monotonic() + limits.maximum_n / limits.safe_rate_n_per_s + 0.5
    while time.monotonic() < end_s:
        if safety.released:
            return
        time.sleep(2.0 * loop.period_s)
    warn("the tensions did not reach the safe value in time; the torque goes off now")


def wait_for_rest(loop: DriverLoop) -> None:
    """Wait until the tendons stand still under the safe tension, a second at most.

    Parameters
    ----------
    loop : its tensions have reached the safe one
    """
    end_s, quiet_s = time.monotonic() + SETTLE_TIMEOUT_S, time.monotonic()
    while time.monotonic() < end_s:
        if not _at_rest(loop.reading):
            quiet_s = time.monotonic()
        elif time.monotonic() - quiet_s > 0.05:
            return
        time.sleep(0.01)


def _at_rest(reading: TendonReading | None) -> bool:
    return reading is not None and bool(np.all(np.abs(reading.velocity_m_per_s) < REST_M_PER_S))
