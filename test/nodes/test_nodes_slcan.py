# SPDX-License-Identifier: Apache-2.0
"""The driver node over serial CAN adapters: the whole way from tendon_commands to a pseudo-terminal."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import TendonCommands
from ros_device_ports import LABORATORY, stand
from ros_probe import PATIENT, Probe

from continuum_robot.nodes.base.spinning import Spinner
from continuum_robot.nodes.tendon_driver import TendonDriver

pytestmark = [pytest.mark.ros, pytest.mark.real_time]

LOOPBACK = "0100007F:"


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    with stand(tmp_path_factory.mktemp("slcan")) as file_and_desk:
        yield file_and_desk


@pytest.fixture
def desk(standing):
    return standing[1]


class Opened:
    """Devices and sockets that Python opens while :attr:`watching`; an audit hook stays for ever."""

    def __init__(self):
        self.watching, self.devices, self.bound = False, set(), []
        sys.addaudithook(self._hear)

    def _hear(self, event, arguments):
        if not self.watching:
            return
        if event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
            path = os.fsdecode(arguments[0])
            with contextlib.suppress(OSError):
                if stat.S_ISCHR(os.stat(path).st_mode):
                    self.devices.add(path)
        elif event in ("socket.bind", "socket.connect"):
            self.bound.append(arguments[1])


@pytest.fixture(scope="module")
def opened():
    return Opened()


@pytest.fixture(scope="module")
def driver(context, standing, opened):
    own = {"robot": str(standing[0]), "use_fake_hardware": False, "homing": "ignored"}
    patient = {**PATIENT, "safety.activation_grace_s": 30.0, "safety.current_mismatch_time_s": 2.0}
    driver = TendonDriver(context=context, overrides={**own, **patient, "rate_hz": 250.0})
    spinner = Spinner([driver], context)
    spinner.start()
    opened.watching = True
    spinner.run(driver.trigger_configure)
    opened.watching = False
    assert driver.state == "inactive", driver.last_error
    yield driver
    spinner.stop()
    driver.destroy_node()


@pytest.fixture(scope="module")
def probe(driver):
    with Probe() as probe:
        probe.listen_to_stack()
        yield probe


def activate(driver, probe):
    """Again and again: a busy machine that steps the boards late makes them look silent."""

    def is_active():
        if driver.state == "active" and not driver.faults:
            return True
        if driver.state == "active":
            probe.transition("tendon_driver", "deactivate")
        return probe.trigger("reset_estop").success and probe.transition("tendon_driver", "activate")

    probe.wait(is_active, 120.0, driver.last_error)


def listening_tcp():
    """Local addresses of this process on which it takes TCP connections."""
    own = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            own.add(str(descriptor.readlink()))
    tables = [Path("/proc/self/net", kind).read_text() for kind in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table.splitlines()[1:]]
    return [line[1] for line in lines if f"socket:[{line[9]}]" in own and line[3] == "0A"]


@pytest.mark.skipif(bool(LABORATORY), reason="python-can opens sockets there")
def test_only_the_configured_ports_are_opened(driver, desk, opened):
    names = {adapter.port for adapter in desk.adapters}
    assert opened.devices - {"/dev/null", "/dev/urandom"} == names
    # Names that hold a channel for this process are no connection to anything.
    assert [name for name in opened.bound if not str(name).startswith("\0continuum_robot-")] == []
    # What pytest itself listens to is on the loopback too.
    assert all(address.startswith(LOOPBACK) for address in listening_tcp())


def test_commands_reach_the_motors_and_readings_come_back(driver, probe, desk):
    hardware = desk.hardware
    activate(driver, probe)
    before = probe.wait_for_message("tendon_states")
    assert not before.simulated
    assert np.isfinite([*before.displacement, *before.current]).all()
    desired = np.array([9.0, 6.0, 4.0, 4.0, 6.0])

    def commanded():
        activate(driver, probe)
        command = TendonCommands(sequence=probe.newest("tendon_states").sequence)
        command.tension.extend(desired)
        probe.publish(TendonCommands, "tendon_commands", command)
        return np.abs(hardware.motors.plant.tension - desired).max() < 2.0

    probe.wait(commanded, 60.0)
    probe.wait(lambda: commanded() and np.allclose(probe.newest("tendon_states").tension, desired, atol=0.5), 60.0)
    counters = driver.loop.actuators.counters().values()
    assert len(counters) == 3
    for board in counters:
        assert board["frames_in"] > 100
        assert board["frames_out"] > 10
        assert board["bad_frames"] == board["refused_frames"] == 0
    assert probe.transition("tendon_driver", "deactivate")


@pytest.mark.skipif(bool(LABORATORY), reason="only a pseudo-terminal is pulled out by a program")
def test_an_adapter_that_is_pulled_out_is_a_fault_and_plugged_in_again_no_restart(driver, probe, desk):
    adapter = desk.adapters[1]
    activate(driver, probe)
    try:
        adapter.pty.hang_up()
        probe.wait_for_fault("device_fault", 60.0)
        probe.wait(lambda: any("bus_error" in fault for fault in driver.newest_reading.device_faults), 60.0)
        assert probe.transition("tendon_driver", "deactivate")
    finally:
        adapter.pty.plug_in()
    activate(driver, probe)
    assert probe.transition("tendon_driver", "deactivate")
