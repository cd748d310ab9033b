# SPDX-License-Identifier: Apache-2.0
"""The transport over python-can: bad frames, lines that break, and errors that say what to do."""

from __future__ import annotations

import errno
import itertools
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import can
import numpy as np
import pytest
import serial
from board_peers import PythonCanWire
from odri_stand import five_tendons, wiring

from continuum_robot.drivers.can_bus import bus_of, explain_can
from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
from continuum_robot.drivers.odri_can.channel import Channel
from continuum_robot.drivers.odri_can.emulator import SimulatedOdriBoard
from continuum_robot.drivers.odri_can.telemetry import Telemetry
from continuum_robot.drivers.serial_port import PortInUseError
from continuum_robot.errors import DeviceError
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.wire.can_wire import SlcanAdapter
from continuum_robot.simulation.wire.plant_motors import PlantMotors
from continuum_robot.simulation.wire.ports import Pacer
from continuum_robot.stepped.system_calls import CanFrame

_NAMES = itertools.count()
Frames = list[tuple[int, bytes]]


def until(happened: Callable[[], bool], timeout_s: float = 5.0) -> None:
    end_s = time.monotonic() + timeout_s
    while not happened():
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.002)


class Received(Telemetry):
    """Keeps the frames of a channel."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: Frames = []

    def take_usual(self, _frame: CanFrame, _stamp_s: float) -> bool:
        return False

    def take(self, identifier: int, length: int, first: int, second: int, _stamp_s: float) -> None:
        self.frames.append((identifier, struct.pack(">ii", first, second)[:length]))


class Line:
    """A channel, and a bus at its other end."""

    def __init__(self) -> None:
        name = f"line{next(_NAMES)}"
        self.received = Received()
        self.other = can.Bus(interface="virtual", channel=name)
        self.channel = Channel("virtual", name, 1_000_000)
        self.channel.open()

    def frames(self) -> Frames:
        self.channel.port.drain(self.received, 0.0)
        return self.received.frames

    def close(self) -> None:
        self.channel.close()
        self.other.shutdown()


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.close()


@pytest.fixture
def adapter() -> Iterator[SlcanAdapter]:
    made = SlcanAdapter()
    yield made
    made.close()


def slcan(adapter: SlcanAdapter) -> Channel:
    channel = Channel("slcan", adapter.port, 1_000_000)
    channel.open()

    def is_read() -> bool:
        adapter.receive()
        time.sleep(0.01)  # a pseudo-terminal hands over what was written a little later
        return adapter.is_open and not adapter.pty.receive()

    until(is_read)
    return channel


def test_frames_pass_both_ways_and_are_counted(line: Line) -> None:
    line.other.send(can.Message(arbitration_id=0x20, data=b"12345678", is_extended_id=False))
    assert line.frames() == [(0x20, b"12345678")]
    assert line.channel.port.send(0x005, 1, -1)
    message = line.other.recv(1.0)
    assert message is not None
    assert (message.arbitration_id, bytes(message.data)) == (5, bytes.fromhex("00000001ffffffff"))
    assert not message.is_extended_id
    assert (line.channel.counters["frames_in"], line.channel.counters["frames_out"]) == (1, 1)
    assert not line.channel.port.failed


def test_frames_of_other_kinds_are_refused(line: Line) -> None:
    wrong_length = can.Message(arbitration_id=0x20, data=b"12", is_extended_id=False)
    wrong_length.dlc = 8  # what python-can makes of a torn slcan line
    for message in (
        wrong_length,
        can.Message(arbitration_id=0x20, data=b"12345678", is_extended_id=True),
        can.Message(arbitration_id=0x20, is_remote_frame=True, dlc=8, is_extended_id=False),
    ):
        line.other.send(message)
    assert line.frames() == []
    assert line.channel.counters["refused_frames"] == 3
    line.other.send(can.Message(arbitration_id=0x40, is_error_frame=True, data=bytes(8)))
    line.frames()
    assert line.channel.port.bus_off
    line.other.send(can.Message(arbitration_id=0x10, data=b"\x01", is_extended_id=False))
    line.frames()
    assert not line.channel.port.bus_off
    assert line.channel.counters["error_frames"] == 1


def test_close_may_be_repeated(line: Line) -> None:
    line.channel.close()
    line.channel.close()
    assert not line.channel.is_open
    assert line.channel.port.failed
    assert not line.channel.port.send(0x005, 0, 0)
    line.channel.open()
    assert not line.channel.port.failed


def test_garbage_on_a_serial_line_costs_no_later_frame(adapter: SlcanAdapter) -> None:
    received = Received()
    channel = slcan(adapter)
    rng = np.random.default_rng(3)
    for number in range(200):
        if number % 4 == 0:
            # Ended by a carriage return: otherwise it would swallow the beginning of the next line.
            adapter.pty.send(rng.bytes(9).replace(b"\r", b"x") + b"\r")
        if number % 4 == 2:
            adapter.pty.send((b"t0308G0000000FFFFFFFF\r", b"t0309\r", b"\xff\xfe\r", b"t\r")[number // 4 % 4])
        adapter.send(0x030, number.to_bytes(8, "big"))
        channel.port.drain(received, 0.0)
    until(lambda: (channel.port.drain(received, 0.0), received.frames[-1][1] == (199).to_bytes(8, "big"))[1])
    assert [data for _, data in received.frames] == [number.to_bytes(8, "big") for number in range(200)]
    assert channel.counters["receive_errors"] > 0
    assert not channel.port.failed
    channel.close()


def test_the_answers_of_an_adapter_hide_no_frame_behind_them(adapter: SlcanAdapter) -> None:
    """One reading takes all that waits: an adapter answers each frame that it sends."""
    received = Received()
    channel = slcan(adapter)
    for answer in (b"z\r", b"\r", b"\a", b"V1013\r", b"N0001\r", b"F00\r", b"zz\r"):
        adapter.pty.send(answer)
        adapter.send(0x010, b"\x01")
    time.sleep(0.05)  # a pseudo-terminal hands over what was written a little later
    channel.port.drain(received, 0.0)
    assert received.frames == [(0x010, b"\x01")] * 7
    assert channel.counters["receive_errors"] == 0
    channel.close()


@pytest.mark.parametrize(
    "line",
    [
        b"t9101" + b"1F",  # 11 bits end at 7FF
        b"TFFFFFFFF0",  # 29 bits at 1FFFFFFF
        b"t-1011F",
        b"t+1011F",
        b"t1_01F",
        b"t 1011F",
        b"t0109" + b"00" * 9,
        b"r0101FF",  # a remote frame has no data
        b"t0102FF",
        b"t0101 F",
        b"t0101F",
        b"t010",
        b"t",
        b"T00000000",
        "t0101é".encode(),
        b"\xff\xfe\x80",
    ],
)
def test_a_line_that_no_bus_carries_reaches_no_board(adapter: SlcanAdapter, line: bytes) -> None:
    channel, telemetry = slcan(adapter), Telemetry()
    adapter.pty.send(line + b"\r")
    adapter.send(0x030, bytes(8))
    until(lambda: (channel.port.drain(telemetry, 0.0), telemetry.positions == 1)[1])
    assert not telemetry.has_status
    assert not any((telemetry.zero_lost, telemetry.jumped, telemetry.other_host))
    channel.close()


def test_an_adapter_that_is_unplugged_is_taken_up_again(adapter: SlcanAdapter) -> None:
    received = Received()
    channel = slcan(adapter)
    adapter.pty.hang_up()
    adapter.is_open = False
    channel.port.drain(received, 0.0)
    assert channel.port.failed
    assert channel.counters["receive_errors"] > 0
    assert not channel.port.send(0x005, 0, 0)
    channel.reopen()
    adapter.pty.plug_in()

    def is_back() -> bool:
        channel.reopen()
        channel.port.drain(received, 0.0)
        adapter.receive()
        adapter.send(0x010, b"\x01")
        return bool(received.frames) and not channel.port.failed

    until(is_back)
    assert channel.counters["reopened"] == 1
    # And where sending had failed before, which a board that is off is not tried again with.
    adapter.pty.hang_up()
    for _ in range(10):
        channel.port.send(0x005, 0, 0)
    assert channel.port.failed
    adapter.pty.plug_in()
    until(is_back)
    channel.close()


def test_a_line_that_takes_nothing_fails_in_bounded_time(adapter: SlcanAdapter) -> None:
    channel = slcan(adapter)
    for _ in range(20000):  # nobody reads, so the buffers are full some time
        channel.port.send(0x005, 0, 0)
        if channel.port.failed:
            break
    assert channel.port.failed
    assert channel.counters["send_errors"] >= 3
    assert channel.counters["frames_out"] > 0
    channel.close()


def test_a_port_that_somebody_has_is_refused(adapter: SlcanAdapter) -> None:
    first = slcan(adapter)
    with pytest.raises(PortInUseError, match=f"process {os.getpid()} uses it"):
        Channel("slcan", adapter.port, 1_000_000).open()
    first.close()
    with serial.Serial(adapter.port, exclusive=True):  # another program, which knows nothing of names held here
        adapter.pty.receive()
        with pytest.raises(DeviceError, match=r"already open in .*Stop that program first"):
            slcan(adapter)
        assert adapter.pty.receive() == b"", "nothing was sent on the other's line"
    slcan(adapter).close()


def test_a_port_that_is_not_there_is_told(tmp_path: Path) -> None:
    channel = Channel("slcan", str(tmp_path / "none"), 1_000_000)
    with pytest.raises(DeviceError, match=r"there is no such port.*correct hardware\.tendon_actuators\.channels"):
        channel.open()


def test_an_interface_without_its_package_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_package(**_options: object) -> can.BusABC:
        raise can.CanInterfaceNotImplementedError("msgpack is missing")

    monkeypatch.setattr(can, "Bus", without_package)
    with pytest.raises(DeviceError, match=r"pip install 'python-can\[multicast\]'"):
        Channel("udp_multicast", "239.74.163.2", 1_000_000).open()


@pytest.mark.parametrize(("interface", "name"), [("pcan", "PCAN_USBBUS1"), ("kvaser", "0"), ("gs_usb", "0")])
def test_an_adapter_without_its_makers_driver_is_one_sentence(interface: str, name: str) -> None:
    with pytest.raises(DeviceError, match=f"CAN channel {name}: (interface {interface} lacks|cannot be opened)"):
        Channel(interface, name, 1_000_000).open()


def test_the_bit_rate_reaches_every_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}
    monkeypatch.setattr(can, "Bus", lambda **options: asked.update(options))
    Channel("pcan", "PCAN_USBBUS1", 1_000_000).open()
    assert asked == {"interface": "pcan", "channel": "PCAN_USBBUS1", "bitrate": 1_000_000, "ignore_config": True}


def test_an_interface_that_python_can_does_not_know_names_those_that_it_does() -> None:
    with pytest.raises(DeviceError, match=r"has no interface warp.*its interface: one of .*kvaser, .*pcan.*slcan"):
        Channel("warp", "0", 1_000_000).open()


def test_frames_cross_a_multicast_group_of_this_computer() -> None:
    """Another process's driver may be at the other end: here python-can's own bus."""
    pytest.importorskip("msgpack")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        group = socket.inet_aton("239.74.163.2") + socket.inet_aton("0.0.0.0")
        try:
            probe.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
        except OSError as error:
            pytest.skip(f"no multicast on this computer: {error}")
    first, second = (Channel("udp_multicast", "239.74.163.2:43219", 1_000_000) for _ in range(2))
    first.open()
    other = bus_of("udp_multicast", "239.74.163.2:43219", 1_000_000)
    try:
        with pytest.raises(PortInUseError):
            second.open()
        received = Received()
        other.send(can.Message(arbitration_id=0x20, data=b"12345678", is_extended_id=False))
        until(lambda: (first.port.drain(received, 0.0), (0x20, b"12345678") in received.frames)[1])
    finally:
        first.close()
        other.shutdown()


@pytest.mark.parametrize(
    ("number", "problem", "remedy"),
    [
        (errno.EAFNOSUPPORT, "no CAN", "modprobe"),
        (errno.ENODEV, "no CAN interface can0", "Plug the adapter in"),
        (errno.ENETDOWN, "is down", "ip link set can0 up txqueuelen 1000 type can bitrate 1000000 sample-point 0.867"),
        (errno.EPERM, "no permission", "udev|container"),
        (errno.EBUSY, "another program", "Stop"),
        (errno.EIO, "cannot be opened", "continuum-robot devices"),
    ],
)
def test_each_error_of_the_kernel_has_its_sentence(number: int, problem: str, remedy: str) -> None:
    error = can.CanInitializationError("wrapped")
    error.__cause__ = OSError(number, "from the kernel")
    said, advised = explain_can("socketcan", "can0", 1_000_000, error, "key")
    assert problem in said
    assert any(word in advised for word in remedy.split("|"))


def test_all_channels_that_cannot_be_opened_are_named() -> None:
    names = ("/dev/none1", "/dev/none2", "/dev/none3")
    actuators = OdriTendonActuators(five_tendons(), wiring(names, "slcan"))
    with pytest.raises(DeviceError) as caught:
        actuators.open()
    assert all(name in str(caught.value) for name in names)


def test_one_plant_behind_three_boards_in_real_time() -> None:
    """The shipped path: wall time, five tendons of one robot; no time is asserted."""
    robot = five_tendons()
    names = tuple(f"plant{next(_NAMES)}" for _ in range(3))
    settings = wiring(names)
    wires = [PythonCanWire(can.Bus(interface="virtual", channel=name)) for name in names]
    motors = PlantMotors(robot, settings, Plant(robot))
    at = motors.at(settings)
    boards = [
        SimulatedOdriBoard(wire, (at.get((name, 1)), at.get((name, 2))), alignment_s=0.05)
        for name, wire in zip(names, wires, strict=True)
    ]

    def step(now_s: float) -> None:
        for board in boards:
            board.step(now_s)
        motors.advance(now_s)

    pacer = Pacer(step)
    pacer.start()
    actuators = OdriTendonActuators(robot, settings, simulated=True)
    try:
        actuators.open()
        actuators.enable()

        def pulled() -> bool:
            actuators.write(np.array([6.0, 4.0, 1.0, 1.0, 4.0]), time.monotonic())
            reading = actuators.read(time.monotonic())
            return bool(reading.displacement_m[0] > 2e-4 and abs(reading.tension_n[0] - 6.0) < 0.3)

        until(pulled, timeout_s=60.0)
        # The motors' own positions, whatever their polarity, are the plant's displacements.
        np.testing.assert_allclose(
            actuators.read(time.monotonic()).displacement_m, motors.plant.displacement, atol=2e-3
        )
        assert motors.plant.c[1] > 0, "it bends towards tendon 1, at +x"
    finally:
        actuators.close()
        until(lambda: not any(board.system_enabled for board in boards))
        pacer.stop()
        for wire in wires:
            wire.close()
