# SPDX-License-Identifier: Apache-2.0
"""Ports of emulated devices that are sockets: a serial port to the driver, and nobody waits for the kernel."""

from __future__ import annotations

import socket
import termios
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from continuum_robot.drivers.local_port import SocketPort
from continuum_robot.drivers.serial_port import PortInUseError, SerialPort
from continuum_robot.errors import DeviceError
from continuum_robot.simulation.wire.ports import ServoLine

WAIT_S = 30.0


def opened(path: Path) -> SerialPort:
    port = SerialPort(str(path), 1_000_000, device="servos", setting="port")
    port.open()
    return port


def come(device: SocketPort) -> None:
    """Let the host in that has opened the port."""
    assert device.receive() == b""


def test_bytes_go_both_ways_and_the_next_host_is_let_in_when_one_has_gone(tmp_path: Path) -> None:
    device = SocketPort(tmp_path / "servos")
    for _ in range(2):
        host = opened(device.path)
        come(device)
        assert (host.read(), device.receive()) == (b"", b"")
        host.write(b"question")
        assert device.waiting == len(b"question")
        assert device.receive() == b"question"
        assert device.send(b"answer")
        host.wait(WAIT_S)
        assert host.read() == b"answer"
        host.close()
        assert device.receive() == b""  # it has gone
        assert not device.send(b"to nobody")
    device.close()


def test_the_device_knows_the_baud_rate_of_its_host(tmp_path: Path) -> None:
    device = SocketPort(tmp_path / "servos")
    assert device.host_speed() == 0
    host = opened(device.path)
    assert device.host_speed() == termios.B1000000
    host.set_baud(57600)
    assert device.host_speed() == termios.B57600
    host.close()
    device.close()


def test_one_host_at_a_time(tmp_path: Path) -> None:
    device = SocketPort(tmp_path / "servos")
    host = opened(device.path)
    with pytest.raises(PortInUseError):
        opened(device.path)
    host.close()
    opened(device.path).close()
    device.close()


def test_a_port_that_is_pulled_out_is_gone_for_the_host_until_it_is_plugged_in(tmp_path: Path) -> None:
    device = SocketPort(tmp_path / "servos")
    host = opened(device.path)
    come(device)
    device.hang_up()
    assert device.fileno() == -1
    with pytest.raises(DeviceError, match="is gone"):
        host.read()
    with pytest.raises(DeviceError, match="is gone"):
        host.write(b"question")
    host.close()
    with pytest.raises(DeviceError, match="there is no such port"):
        opened(device.path)
    device.plug_in()
    opened(device.path).close()
    device.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_dead_emulator_left_and_other_files_are_no_ports(tmp_path: Path) -> None:
    device = SocketPort(tmp_path / "servos")
    named = device.path.read_bytes()
    device.close()
    device.path.write_bytes(named)
    with pytest.raises(DeviceError, match="nothing is behind the port any more"):
        opened(device.path)
    device.path.write_text("a file of another kind")
    with pytest.raises(DeviceError, match="is no serial port"):
        opened(device.path)


class Servos:
    """Counts steps."""

    baud_bps = host_bps = 1_000_000

    def __init__(self) -> None:
        self.steps, self.taken = 0, b""

    def step(self, _now_s: float, _received: bytes = b"") -> bytes:
        self.steps += 1
        return b""

    def take(self, received: bytes) -> bytes:
        self.taken += received
        return b""


class Waiting:
    """A line whose reading waits for the kernel, as that of a pseudo-terminal does on a busy computer."""

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()
        self._near.send(b"!")
        self.reading, self.brought = threading.Event(), threading.Event()
        self.waiting = 0

    def fileno(self) -> int:
        return self._far.fileno()

    def receive(self) -> bytes:
        self.reading.set()
        assert self.brought.wait(WAIT_S)
        return self._far.recv(1)

    def host_speed(self) -> int:
        return 0

    def close(self) -> None:
        for end in (self._near, self._far):
            end.close()


def test_the_robot_moves_on_while_reading_its_line_waits_for_the_kernel() -> None:
    servos: Any = Servos()
    line = ServoLine(servos)
    line.pty.close()
    waiting: Any = Waiting()
    line.pty = waiting
    line.serve()
    assert waiting.reading.wait(WAIT_S)
    steps = threading.Thread(target=_each, args=(line.begin_catching_up, line.go_on, line.step), daemon=True)
    steps.start()
    steps.join(WAIT_S)
    assert not steps.is_alive()
    assert servos.steps == 2
    assert servos.taken == b""
    waiting.brought.set()
    line.close()
    assert servos.taken == b"!"


def _each(*functions: Callable[[float], None]) -> None:
    for function in functions:
        function(1.0)
