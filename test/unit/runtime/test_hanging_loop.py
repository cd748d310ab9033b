# SPDX-License-Identifier: Apache-2.0
"""A cycle that does not end is noticed from outside, and nothing is called done that it would have to do."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import DeviceError
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.control_thread import ControlThread
from continuum_robot.runtime.cycle.assembly import QuietWatcher, make_loop
from continuum_robot.runtime.hang_watch import LOOK_S, OWN_GAP_S, HangWatch

ROBOT = load_robot("opencr_five_tendon")
N = ROBOT.tendon_count
PATIENCE_S = 60.0


class Looked:
    """A watch that looks at the times of a test."""

    def __init__(self):
        self.cycles, self.now_s, self.changes = 0, 100.0, []
        self.watch = HangWatch(lambda: self.cycles, 0.5, lambda: self.changes.append(self.watch.hangs))

    def look(self, duration_s, *, cycles, step_s=LOOK_S):
        for _ in range(round(duration_s / step_s)):
            self.now_s += step_s
            self.cycles += cycles
            self.watch.look(self.now_s)


def test_a_loop_hangs_once_no_cycle_has_begun_for_its_limit_and_until_one_does():
    looked = Looked()
    looked.look(2.0, cycles=50)
    looked.look(0.45, cycles=0)
    assert looked.changes == []
    looked.look(0.2, cycles=0)
    assert looked.changes == [True]
    assert looked.watch.standing_s == pytest.approx(0.65)
    looked.look(LOOK_S, cycles=1)
    assert looked.changes == [True, False]


def test_a_program_that_stood_itself_blames_no_cycle_and_forgives_none():
    looked = Looked()
    looked.look(1.0, cycles=50)
    looked.look(4.0, cycles=0, step_s=4.0)
    looked.look(0.4, cycles=0)
    assert looked.changes == []
    looked.look(0.2, cycles=0)
    assert looked.changes == [True]
    looked.look(2 * OWN_GAP_S, cycles=0, step_s=2 * OWN_GAP_S)
    assert looked.watch.hangs


class Device:
    """Actuators whose reading waits as long as the test wants."""

    simulated, tendon_count = True, N

    def __init__(self):
        self.goes_on, self.entered, self.off = threading.Event(), threading.Event(), threading.Event()
        self.goes_on.set()
        self.tension_n, self.flicker = np.full(N, 2.0), 0

    def read(self, now_s):
        if not self.goes_on.is_set():
            self.entered.set()
            assert self.goes_on.wait(PATIENCE_S)
        self.flicker ^= 1
        zeros = np.zeros(N)
        current_a = self.tension_n / ROBOT.newton_per_ampere
        return TendonReading(now_s, zeros + 1e-9 * self.flicker, zeros, self.tension_n, current_a, zeros + 30, zeros)

    def write(self, tension_n, now_s):
        self.tension_n = tension_n

    def enable(self, aborted=lambda: False):
        """Nothing to wait for."""

    def disable(self):
        self.off.set()

    def clear_faults(self):
        """There are none."""

    def close(self):
        """Nothing is open."""


class Heard(QuietWatcher):
    """Waits for what happens."""

    def __init__(self):
        self.hang, self.faults, self.latched = threading.Semaphore(0), [], threading.Event()

    def on_hang(self):
        self.hang.release()

    def on_change(self, new_faults):
        self.faults += new_faults
        if new_faults:
            self.latched.set()


@pytest.fixture
def loop():
    device, heard = Device(), Heard()
    loop = make_loop(ROBOT, device, heard, ControlThread("tendon_driver", 0.002))
    loop.start()
    loop.heard = heard
    assert loop.pace.wait(lambda: loop.reading is not None, PATIENCE_S)
    loop.switch_on()
    loop.obey()
    loop.call(lambda: loop.cycle.hold_now(on=True, now_s=loop.pace.now_s()))
    yield loop
    device.goes_on.set()
    loop.stop()
    loop.close()


def test_an_e_stop_is_confirmed_when_a_cycle_has_latched_it_and_not_while_none_can(loop):
    device = loop.actuators
    device.goes_on.clear()
    assert device.entered.wait(PATIENCE_S)
    assert loop.heard.hang.acquire(timeout=PATIENCE_S)
    assert loop.hangs
    assert not loop.estop("button")
    assert loop.safety.faults == ()
    with pytest.raises(DeviceError, match="nothing was done"):
        loop.call(lambda: pytest.fail("it was refused"), timeout_s=0.01)
    assert loop.past(loop.disable)
    assert device.off.is_set()
    device.goes_on.set()
    assert loop.heard.hang.acquire(timeout=PATIENCE_S)
    assert loop.heard.latched.wait(PATIENCE_S)
    assert loop.safety.faults[:2] == ("loop_hangs", "estop")
    assert loop.call(loop.safety.reset, timeout_s=PATIENCE_S) == ()
    assert loop.estop("button"), "latched within a cycle"
    assert loop.safety.faults == ("estop",)


def test_a_device_that_does_not_answer_past_the_loop_either_is_waited_for_in_vain_but_not_for_ever(loop):
    assert not loop.past(threading.Event().wait)
    assert loop.stop()
