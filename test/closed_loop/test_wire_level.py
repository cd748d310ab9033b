# SPDX-License-Identifier: Apache-2.0
"""The controlled robot behind simulated wires, in virtual time: the shipped drivers, byte by byte, and their faults."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from virtual_loop import VirtualLoop, rmse

from continuum_robot.drivers.safety.tendon_faults import DEVICE_FAULT
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.identification.procedures.homing import Homing
from continuum_robot.identification.procedures.procedure import ProcedureRun
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.wire.hardware import SimulatedHardware, catalog, wired

ROBOT = load_robot("opencr_five_tendon")
PERIOD_S = 1e-3


def wire_loop(robot=ROBOT, **options):
    return VirtualLoop(robot, hardware=SimulatedHardware(robot, **options))


@pytest.fixture
def active():
    loop = wire_loop()
    loop.activate()
    yield loop
    loop.close()


def test_tracking_over_the_wires_is_as_good_as_without(active):
    direct = VirtualLoop(ROBOT)
    direct.activate()
    record, without = active.run(3.5), direct.run(3.5)
    assert not active.faults
    # A reading is a cycle older and quantised by the encoder's counts.
    np.testing.assert_allclose(rmse(record), rmse(without), atol=30e-6)
    assert record["tension"][500:].min() > 0.1
    counters = active.actuators.counters()
    assert set(counters) == {"can0", "can1", "can2"}
    assert all(counter["frames_in"] > 10000 for counter in counters.values())
    assert all(counter["bad_frames"] == 0 == counter["send_errors"] for counter in counters.values())


def test_the_same_seed_gives_the_same_run_to_the_last_bit():
    runs = []
    for _ in range(2):
        loop = wire_loop()
        loop.activate()
        runs.append(loop.run(0.5))
        loop.close()
    np.testing.assert_array_equal(runs[0]["tension"], runs[1]["tension"])


@pytest.mark.parametrize(
    ("fault", "tendon", "magnitude", "expected"),
    [
        ("board.silent", 0, 0.0, DEVICE_FAULT),
        pytest.param("board.bus_off", 2, 0.0, DEVICE_FAULT, marks=pytest.mark.long),
        pytest.param("board.estop", 1, 0.0, DEVICE_FAULT, marks=pytest.mark.long),
        ("board.reboot", 3, 0.0, DEVICE_FAULT),
        pytest.param("board.open_phase", 4, 0.0, DEVICE_FAULT, marks=pytest.mark.long),
        ("board.position_jump", 0, 1.0, "displacement_jump"),
        ("board.frozen_position", 3, 0.0, "frozen_reading"),
        ("snapped_tendon", 2, 0.0, "inconsistent_displacement"),
        pytest.param("stuck_motor", 1, 0.0, "frozen_reading", marks=pytest.mark.long),
    ],
)
def test_each_fault_ends_in_the_safe_state(active, fault, tendon, magnitude, expected):
    peak_before = active.run(0.5)["tension"].max()
    active.hardware.inject(fault, tendon, magnitude)
    record = active.run(1.5)
    names = {name for _, name in active.faults}
    assert expected in names or DEVICE_FAULT in names, names
    assert record["state"][-1] == "safe"
    assert record["command"][-1] == pytest.approx(np.full(5, ROBOT.limits.safe_n))
    assert record["tension"].max() < max(ROBOT.limits.maximum_n, peak_before)


def test_a_dead_host_leaves_the_boards_to_their_own_timeout(active):
    active.run(0.2)
    hardware, now_s = active.hardware, active.now_s
    assert all(board.system_enabled for board in hardware.boards.values())
    for step in range(1, 400):
        hardware.step(now_s + step * PERIOD_S)
        if not any(board.system_enabled for board in hardware.boards.values()):
            break
    timeout_s = ROBOT.hardware.tendon_actuators.receive_timeout_ms / 1000
    assert step * PERIOD_S == pytest.approx(timeout_s, abs=0.003)
    assert all(board.timeouts == 1 for board in hardware.boards.values())


def test_a_stall_is_lived_through_in_short_steps():
    """After 0.5 s without the host, a board must have let go at its timeout, not at the end."""
    loop = wire_loop()
    loop.activate()
    loop.run(0.2)
    hardware = loop.hardware
    hardware.step(loop.now_s + 0.5)
    assert all(board.timeouts == 1 for board in hardware.boards.values())
    assert hardware.plant.current == pytest.approx(np.zeros(5), abs=1e-6)
    assert hardware.skipped_s == 0
    hardware.step(loop.now_s + 3.0)
    assert hardware.skipped_s == pytest.approx(1.5)


def test_homing_after_power_on_aligns_takes_up_slack_and_finds_the_straight_pose():
    slack_m = np.array([0.004, 0.0, 0.009, 0.002, 0.006])
    hardware = SimulatedHardware(ROBOT, aligned=False, alignment_s=1.0, strings=True, zeroed=False)
    loop = VirtualLoop(ROBOT, hardware=hardware)
    for tendon, value in enumerate(slack_m):
        hardware.inject("slack_tendon", tendon, float(value))
    strings = hardware.string_encoders(answer_timeout_s=0.0)
    strings.open()
    assert not loop.actuators.aligned
    loop.driver.switch_on()
    assert loop.actuators.aligned
    procedure = Homing(ROBOT)
    run = ProcedureRun(procedure, loop.safety)
    loop.driver.begin_procedure(run)
    strings.request_zero()
    measured = []

    def read_strings(loop):
        extension = strings.read(loop.now_s).extension_m
        if procedure.measuring:
            measured.append(extension)

    assert loop.wait(lambda: run.finished, 60.0, read_strings)
    assert run.succeeded, run.problem
    # The tendons' stretch under the tension, 0.15 mm, is in the zero, as it is whenever the robot is driven.
    np.testing.assert_allclose(procedure.result.zero_m, slack_m, atol=5e-4)
    np.testing.assert_allclose(np.mean(measured, axis=0), 0.0, atol=3e-4)
    strings.close()
    loop.close()


def test_every_robot_can_be_wired():
    plain = load_robot("two_segment")
    assert plain.hardware is None
    robot = wired(plain)
    robot.check_hardware()
    assert len(robot.hardware.tendon_actuators.channels) == 5
    assert robot.file_name == plain.file_name
    assert wired(ROBOT) is ROBOT
    with pytest.raises(ParameterError, match="actuators"):
        wired(dataclasses.replace(plain, actuators=None))


def test_what_is_not_simulated_cannot_be_broken():
    hardware = SimulatedHardware(ROBOT)
    hardware.open()
    with pytest.raises(DeviceError, match="string-encoder board"):
        hardware.inject("strings.reboot")
    with pytest.raises(DeviceError, match="force sensor"):
        hardware.inject("force.freeze")
    with pytest.raises(ParameterError, match=r"board\.silent"):
        hardware.inject("gremlins")
    with pytest.raises(ParameterError, match="0 to 4"):
        hardware.inject("board.silent", 5)
    hardware.close()
    with pytest.raises(DeviceError, match="not open"):
        hardware.step(0.0)


def test_the_catalog_has_every_kind_of_device():
    names = catalog()
    assert {"slack_tendon", "board.lost_frames", "strings.reboot", "strings.flip", "force.overrange"} <= set(names)
    assert len(names) > 40
    assert all(names.values())
