# SPDX-License-Identifier: Apache-2.0
"""A channel that the system lets any number of programs open is one program's."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid

import pytest

from continuum_robot.drivers.can_bus import frame_sockets
from continuum_robot.drivers.held_name import HeldName
from continuum_robot.drivers.odri_can import channel as channels
from continuum_robot.drivers.odri_can.channel import Channel
from continuum_robot.drivers.serial_port import PortInUseError
from continuum_robot.errors import DeviceError

HOLDS = """
import sys
from continuum_robot.drivers.held_name import HeldName
assert not HeldName.take(held := HeldName(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def name():
    return f"can-{uuid.uuid4().hex}"


@pytest.fixture
def channel(name, monkeypatch):
    ends = []

    def can_socket(_name):
        ends.append(frame_sockets())
        return ends[-1][0]

    monkeypatch.setattr(channels, "can_socket", can_socket)
    made = Channel("socketcan", name, 1_000_000)
    yield made
    made.close()
    for pair in ends:
        pair[1].close()


def test_a_channel_of_another_process_is_refused_by_its_number_and_free_when_that_is_killed(name, channel):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, f"socketcan {name}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(PortInUseError, match=f"CAN channel {name}: process {other.pid} uses it"):
            channel.open()
        assert not channel.is_open
        other.kill()
    channel.open()
    assert channel.is_open


def test_closing_it_lets_it_go_and_what_cannot_be_opened_is_not_kept(name, channel, monkeypatch):
    channel.open()
    with pytest.raises(PortInUseError, match=f"process {os.getpid()}"):
        Channel("socketcan", name, 1_000_000).open()
    channel.close()

    def no_such(_name):
        raise OSError(19, "no such device")

    with monkeypatch.context() as patch:
        patch.setattr(channels, "can_socket", no_such)
        with pytest.raises(DeviceError, match="no CAN interface"):
            Channel("socketcan", name, 1_000_000).open()
    channel.open()


def test_an_interface_over_python_can_is_held_too(name):
    held = HeldName(f"udp_multicast {name}")
    assert not held.take()
    with pytest.raises(PortInUseError, match=f"process {os.getpid()}"):
        Channel("udp_multicast", name, 1_000_000).open()
    held.release()
    for _ in range(2):
        Channel("virtual", name, 1_000_000).open()  # within this process only
