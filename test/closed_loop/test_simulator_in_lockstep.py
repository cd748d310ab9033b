# SPDX-License-Identifier: Apache-2.0
"""The driver and the controller against a simulator in lock-step, behind sockets and without: as good as one object."""

from __future__ import annotations

import pytest
from virtual_loop import VirtualLoop

from continuum_robot.drivers.assumed_wiring import wired
from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
from continuum_robot.drivers.safety.tendon_faults import DEVICE_FAULT
from continuum_robot.drivers.simulated_link.actuators import SimulatedLinkActuators
from continuum_robot.drivers.simulated_wires import SimulatedWires
from continuum_robot.errors import DeviceError
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.devices.tendon_actuators import RECEIVE_TIMEOUT_S
from continuum_robot.simulation.simulator import Simulator
from continuum_robot.simulation.wire.hardware import SimulatedHardware

ROBOT = load_robot("opencr_five_tendon")


class Rig:
    """Stands where :class:`SimulatedHardware` stands in a virtual loop: simulator, and sockets or ``own_driver``."""

    def __init__(self, level, namespace, *, own_driver=False):
        self.level, self.namespace, self.own_driver = level, namespace, own_driver
        self.motors = True  # switched on: a step moves them
        self.simulator = Simulator(ROBOT, level, namespace=namespace, own_driver=own_driver)

    @property
    def plant(self):
        return self.simulator.plant

    def open(self):
        self.simulator.open()
        self.simulator.advance_to(0)

    def close(self):
        self.simulator.close()

    def step(self, now_s):
        self.simulator.advance_to(round(now_s * 1e9))

    def tendon_actuators(self, *, clock, sleep):
        wires = SimulatedWires(self.namespace, ROBOT.name, wait_s=0.0, on_connect=self.simulator.accept)
        if self.level == "wire":
            robot = wired(ROBOT)
            return OdriTendonActuators(
                robot,
                robot.hardware.tendon_actuators,
                socket_factory=wires.open_channel,
                clock=clock,
                sleep=sleep,
                simulated=True,
            )
        if self.own_driver:
            return self.simulator.own_actuators(
                ROBOT.tendon_count, takes_displacements=False, receive_timeout_s=RECEIVE_TIMEOUT_S
            )
        return SimulatedLinkActuators(ROBOT.tendon_count, wires.open_link)


@pytest.fixture
def rig(tmp_path):
    made = []

    def make(level, **options):
        made.append(Rig(level, f"{tmp_path.name}_{len(made)}", **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def run(rig, duration_s):
    loop = VirtualLoop(ROBOT, hardware=rig)
    loop.activate()
    record = loop.run(duration_s)
    loop.actuators.close()
    assert not loop.faults
    return record


@pytest.mark.parametrize("level", ["dynamics", "wire"])
def test_sockets_change_nothing_about_the_loop_to_the_last_bit(rig, level):
    direct = run(SimulatedHardware(ROBOT) if level == "wire" else None, 0.5)
    first, second = run(rig(level), 0.5), run(rig(level), 0.5)
    for name in ("clarke", "command", "tension"):
        assert first[name].tobytes() == second[name].tobytes() == direct[name].tobytes()


def test_a_driver_in_the_simulators_thread_needs_no_socket_and_gets_the_same_to_the_last_bit(rig):
    behind_sockets, beside = run(rig("dynamics"), 0.5), run(rig("dynamics", own_driver=True), 0.5)
    for name in ("clarke", "command", "tension"):
        assert beside[name].tobytes() == behind_sockets[name].tobytes()


def test_the_own_actuators_name_another_robot_and_a_simulator_that_ended(rig):
    simulator = rig("dynamics", own_driver=True).simulator
    simulator.open()
    options = {"takes_displacements": False, "receive_timeout_s": RECEIVE_TIMEOUT_S}
    with pytest.raises(DeviceError, match=f"have {ROBOT.tendon_count} tendons instead of 4"):
        simulator.own_actuators(4, **options).open()
    actuators = simulator.own_actuators(ROBOT.tendon_count, **options)
    actuators.open()
    simulator.advance_to(0)
    assert actuators.read(0.0).stamp_s == 0.0
    simulator.close()
    with pytest.raises(DeviceError, match="the simulator ended"):
        actuators.read(0.001)
    with pytest.raises(DeviceError, match="wires at level wire"):
        rig("wire").simulator.own_actuators(ROBOT.tendon_count, **options)


def test_boards_that_are_gone_end_in_the_safe_state(rig):
    one = rig("wire")
    loop = VirtualLoop(ROBOT, hardware=one)
    loop.activate()
    loop.run(0.2)
    for board in one.simulator.hardware.boards.values():
        board.wire.close()
    record = loop.run(0.3)
    assert DEVICE_FAULT in {name for _, name in loop.faults}
    assert record["state"][-1] == "safe"
    loop.actuators.close()
