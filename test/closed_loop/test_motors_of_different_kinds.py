# SPDX-License-Identifier: Apache-2.0
"""Robots whose motors differ in kind, each kind on a bus of its own, to the byte: the loop, and a bus that is lost."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import numpy as np
import pytest
from changed_robots import pair_values
from robot_files import changed_robot, made, robot_values, written
from virtual_loop import VirtualLoop, rmse

from continuum_robot.drivers import backends
from continuum_robot.drivers.joined_actuators import JoinedActuators, Transmitted
from continuum_robot.drivers.safety.tendon_faults import DEVICE_FAULT
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.identification.procedures.homing import Homing
from continuum_robot.identification.procedures.procedure import ProcedureRun
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.wire.device_ports import DevicePorts, robot_on_ports
from continuum_robot.simulation.wire.hardware import SimulatedHardware

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HELD = load_robot(str(EXAMPLES / "dynamixel_and_feetech.yaml"))
LONGEST_S = 60.0
MOTEUS = {
    "kind": "moteus",
    "port": "/dev/fdcanusb",
    # The same pull from another motor: a spool and a torque constant of its own.
    "motors": [
        {"id": 1, "tendon": 4, "spool_radius_m": 0.02, "torque_constant_nm_per_a": 0.6},
        {"id": 2, "tendon": 2, "spool_radius_m": 0.02, "torque_constant_nm_per_a": 0.6, "polarity": -1},
    ],
}


def pulled():
    """Servos in current mode on three tendons, controllers with torques on two."""
    values = robot_values(robot=EXAMPLES / "five_servos.yaml")
    servos = values["hardware"]["tendon_actuators"]
    servos["motors"] = [entry for entry in servos["motors"] if entry["tendon"] not in (2, 4)]
    return changed_robot({"hardware.tendon_actuators": [servos, MOTEUS]}, EXAMPLES / "five_servos.yaml")


def boarded():
    """Motor boards on three tendons, controllers with torques on two."""
    boards = {"kind": "odri_can", "channels": ["can0", "can1"], "motors": []}
    for tendon, (channel, motor) in zip((1, 3, 5), (("can0", 1), ("can0", 2), ("can1", 1)), strict=True):
        boards["motors"].append({"channel": channel, "motor": motor, "tendon": tendon})
    motors = [{"id": 1, "tendon": 4}, {"id": 2, "tendon": 2}]  # gears inside: as strong as the boards' with theirs
    motors = [entry | {"torque_constant_nm_per_a": 0.141} for entry in motors]
    return changed_robot({"hardware.tendon_actuators": [boards, {**MOTEUS, "motors": motors}]})


def loop_of(robot, **options):
    loop = VirtualLoop(robot, hardware=SimulatedHardware(robot, **options))
    assert isinstance(loop.actuators, JoinedActuators)
    return loop


@pytest.fixture(params=[HELD, pulled(), boarded()], ids=["displacements", "tensions", "boards"])
def active(request):
    loop = loop_of(request.param)
    loop.activate()
    yield loop
    loop.close()


def test_tracking_is_that_of_the_robot_without_wires(active):
    direct = VirtualLoop(active.robot)
    direct.activate()
    record, without = active.run(1.2), direct.run(1.2)
    assert not active.faults
    assert not direct.faults
    np.testing.assert_allclose(rmse(record, 0.6), rmse(without, 0.6), atol=2e-4)


def test_runs_are_the_same_to_the_last_bit():
    runs = []
    for _ in range(2):
        loop = loop_of(HELD)
        loop.activate()
        runs.append(loop.run(0.3))
        loop.close()
    for name in ("tension", "command"):
        np.testing.assert_array_equal(runs[0][name], runs[1][name])


@pytest.mark.parametrize("lost", [0, 1])
def test_where_a_bus_falls_silent_the_others_motors_do_what_the_file_states(active, lost):
    active.run(0.3)
    before = np.array(active.safety.commanded)
    key, section = list(active.robot.hardware.motor_sections.items())[lost]
    tendons = np.array([entry.tendon for entry in section.motors]) - 1
    others = np.setdiff1d(np.arange(active.robot.tendon_count), tendons)
    for tendon in tendons:
        active.hardware.inject("servo.silent" if hasattr(section, "port") else "board.silent", int(tendon))
    record = active.run(1.5)
    assert DEVICE_FAULT in {name for _, name in active.faults}
    told = active.driver.devices.device_faults
    place = getattr(section, "port", "can")
    assert told, key
    assert all(fault.startswith(place) for fault in told), told
    assert record["state"][-1] == "safe"
    limits = active.robot.limits
    if active.robot.takes_displacements:
        paid_out = before[others] - limits.pay_out_m
        np.testing.assert_allclose(record["command"][-1][others], np.minimum(paid_out, before[others]), atol=0.02)
        plant = active.hardware.plant
        np.testing.assert_allclose(plant.displacement[others], record["command"][-1][others], atol=2e-3)
    else:
        np.testing.assert_allclose(record["command"][-1][others], limits.safe_n)
        assert active.hardware.plant.tension[others].max() < limits.safe_n + 2.0


def test_a_dead_host_leaves_each_kind_to_its_own_timeout():
    loop = loop_of(pulled())
    loop.activate()
    loop.run(0.3)
    begin_s, off_s = loop.now_s, {}
    for step in range(1, 400):
        loop.hardware.step(begin_s + 1e-3 * step)
        for name, line in loop.hardware.lines.items():
            if max(abs(servo.motor.desired_a) for servo in line.servos.servos.values()) < 1e-9:
                off_s.setdefault(name, 1e-3 * step)
    assert set(off_s) == {"servos", "servos2"}
    for number, section in enumerate(loop.robot.hardware.tendon_actuators):
        assert list(off_s.values())[number] == pytest.approx(section.receive_timeout_ms / 1000, abs=0.03)
    loop.close()


def test_boards_may_align_their_rotors_while_the_others_wait():
    loop = loop_of(boarded(), aligned=False, alignment_s=1.0)
    assert not loop.actuators.aligned
    for fault, tendon in (("servo.silent", 0), ("board.silent", 1)):
        with pytest.raises(ParameterError, match=r"a servo pulls|of a motor board"):
            loop.hardware.inject(fault, tendon)
    loop.activate()
    loop.run(0.5)
    assert not loop.faults
    loop.close()


def test_a_procedure_that_a_device_stops_names_it():
    loop = loop_of(pulled())
    loop.driver.switch_on()
    run = ProcedureRun(Homing(loop.robot), loop.safety)
    loop.driver.begin_procedure(run)
    loop.run(0.2)
    loop.hardware.inject("servo.overheating", 3)
    assert loop.wait(lambda: run.finished, 10.0)
    assert "/dev/fdcanusb servo 1: hardware_error" in run.problem
    loop.close()


def test_motors_of_two_kinds_may_share_tendons_by_gears():
    values = pair_values([[1.0, 0.2], [0.0, 1.0]], 0.0)
    sections = [
        {"kind": "feetech", "port": "/dev/far", "motors": [{"id": 3, "column": 2}]},
        {"kind": "dynamixel", "port": "/dev/near", "model": "XL430-W250", "motors": [{"id": 1, "column": 1}]},
    ]
    values |= {"hardware": {"serial_number": "1", "tendon_actuators": sections}, "control": {"pretension_n": 3.0}}
    robot = made(values)
    hardware, now_s = SimulatedHardware(robot), 0.0
    hardware.open()
    driver = hardware.tendon_actuators(clock=lambda: now_s)
    assert isinstance(driver, Transmitted)
    assert isinstance(driver.actuators, JoinedActuators)
    driver.open()
    driver.enable()
    start = driver.read(0.0).displacement_m
    spooled = hardware.plant.displacement.copy()
    goal = start + np.array([2e-3, -1e-3])
    for _ in range(800):
        now_s += 1e-3
        reading = driver.read(now_s)
        driver.write(goal, now_s)
    assert not reading.device_faults
    np.testing.assert_allclose(reading.displacement_m, goal, atol=4e-4)
    np.testing.assert_allclose(hardware.plant.displacement - spooled, goal - start, atol=4e-4)
    driver.close()
    hardware.close()


@pytest.mark.real_time
def test_a_bus_that_is_pulled_out_leaves_the_other_in_hand(tmp_path):
    """On pseudo-terminals in real time, by the file that names them."""
    values = robot_on_ports(HELD, tmp_path)
    for section in values["hardware"]["tendon_actuators"]:
        section["receive_timeout_ms"] = 2500
    file = written(values, tmp_path)
    robot = load_robot(file)

    def patient(_number, settings, _form):
        return backends.device_of(settings.kind).make(robot, settings, answer_margin_s=0.5)

    with DevicePorts(SimulatedHardware(HELD, folder=tmp_path), tmp_path, 0.005) as desk:
        driver = backends.joined(robot, patient, None)
        driver.open()
        driver.enable()
        try:
            held = driver.read(time.monotonic()).displacement_m

            def until(happened):
                end_s = time.monotonic() + LONGEST_S
                while not happened(reading := driver.read(time.monotonic())):
                    assert time.monotonic() < end_s, reading
                    driver.write(held, time.monotonic())
                    time.sleep(0.01)

            until(lambda reading: reading.age_s.max() < 0.5)
            distal, proximal = desk.hardware.lines["servos2"], desk.hardware.lines["servos"]
            distal.pty.hang_up()
            until(lambda reading: any("silent" in fault for fault in reading.device_faults))
            faults = driver.read(time.monotonic()).device_faults
            assert all(fault.startswith(str(tmp_path / "servos2")) for fault in faults), faults
            assert all(proximal.servos.torque_enabled)
            until(lambda reading: reading.age_s.max() > 0.5)
            distal.pty.plug_in()
            until(lambda reading: reading.age_s.max() < 0.5)
            driver.clear_faults()
            assert not driver.read(time.monotonic()).device_faults
            proximal.pty.hang_up()
            with contextlib.suppress(DeviceError):  # that of the bus which is gone
                driver.disable()
            until_s = time.monotonic() + LONGEST_S
            while any(distal.servos.torque_enabled):
                assert time.monotonic() < until_s
                time.sleep(0.01)
            assert all(proximal.servos.torque_enabled)
            proximal.pty.plug_in()
            while any(proximal.servos.torque_enabled):
                assert time.monotonic() < until_s
                time.sleep(0.01)
        finally:
            driver.close()


def test_where_a_port_is_not_there_none_is_open(tmp_path):
    robot = load_robot(written(robot_on_ports(HELD, tmp_path), tmp_path))
    hardware = SimulatedHardware(HELD, folder=tmp_path)
    hardware.open()
    (tmp_path / "servos2").unlink()
    try:
        driver = backends.tendon_actuators(robot)
        with pytest.raises(DeviceError, match="servos2"):
            driver.open()
        with pytest.raises(DeviceError, match="not open"):
            driver.devices[0].read(0.0)
    finally:
        hardware.close()
