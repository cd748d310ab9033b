# SPDX-License-Identifier: Apache-2.0
"""Sockets between drivers and a simulator: names, connecting, replacing, and leaving."""

from __future__ import annotations

import os
import socket
import threading
import time

import numpy as np
import pytest

from continuum_robot.drivers import simulated_wires
from continuum_robot.drivers.can_bus import frame_bytes, frame_parts
from continuum_robot.drivers.simulated_wires import (
    LONGEST_PATH_BYTES,
    SimulatedWires,
    channel_name,
    connect,
    simulator_folder,
    socket_path,
)
from continuum_robot.errors import DeviceError
from continuum_robot.simulation.wire.can_wire import ERROR, EXTENDED, REMOTE, FrameSocketWire
from continuum_robot.simulation.wire.ports import Listener, make_folder, remove_folder


@pytest.fixture
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("w") / "s"
    make_folder(folder)
    return folder


@pytest.fixture
def pair():
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setblocking(False)
    yield ends
    for end in ends:
        end.close()


def test_every_robot_has_a_folder_of_its_own_and_every_path_fits(monkeypatch):
    keys = [("", "a", "0"), ("a", "", "0"), ("n", "a", "0"), ("n", "a", "1"), ("n-a", "", "0"), ("x" * 200, "a", "0")]
    folders = [simulator_folder(*key) for key in keys]
    assert len(set(folders)) == len(keys)
    assert simulator_folder("/n/", "a", "0") == folders[2]
    monkeypatch.setenv("ROS_DOMAIN_ID", "1")
    assert simulator_folder("n", "a") == folders[3]
    names = ["can0", "a/b", "a.2f.b", "x" * 200, "x" * 201, "link", "control", "/dev/serial/by-id/usb-adapter-0@115200"]
    paths = [socket_path(folders[-1], name) for name in [*names, *map(channel_name, names)]]
    assert len(set(paths)) == len(paths)
    assert all(len(os.fsencode(path)) <= LONGEST_PATH_BYTES for path in paths)
    with pytest.raises(DeviceError, match="TMPDIR"):
        socket_path(folders[0] / ("y" * 100), "can0")


def test_the_folder_is_the_users_alone_and_loses_the_sockets_of_the_dead(tmp_path):
    folder = tmp_path / "s"
    make_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    listener = Listener(folder / "can0")
    assert (folder / "can0").stat().st_mode & 0o777 == 0o600
    listener._socket.close()  # as one that was killed
    make_folder(folder)
    assert not list(folder.iterdir())
    remove_folder(folder)
    assert not folder.exists()
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    with pytest.raises(DeviceError, match="another user"):
        make_folder(folder)


def test_a_driver_waits_for_the_simulator_once_and_then_never(folder, monkeypatch):
    monkeypatch.setattr(simulated_wires, "simulator_folder", lambda *_key: folder)
    wires = SimulatedWires("", "robot", wait_s=20.0)
    made = []

    def come_late():
        time.sleep(0.1)
        made.append(Listener(socket_path(folder, channel_name("can0"))))

    late = threading.Thread(target=come_late)
    late.start()
    wires.open_channel("can0").close()
    late.join()
    made[0].close()
    # A loop that opens it again must not wait: with the 20 s this test would not end in time.
    with pytest.raises(DeviceError, match="Start the node simulator first"):
        wires.open_channel("can0")
    with pytest.raises(DeviceError, match="not there"):
        SimulatedWires("", "robot", wait_s=0.0).open_link()


def test_a_newer_connection_takes_the_place_of_the_older(folder):
    listener = Listener(folder / "can0")
    assert listener.accept() is None
    first, second = connect(folder / "can0"), connect(folder / "can0")
    first.send(b"old")
    second.send(b"new")
    accepted = listener.accept()
    assert accepted.recv(16) == b"new"
    with pytest.raises(BlockingIOError):
        accepted.recv(16)
    with pytest.raises(ConnectionResetError):
        first.recv(16)
    second.close()
    assert accepted.recv(16) == b""
    listener.close()
    assert not (folder / "can0").exists()
    with pytest.raises(DeviceError):
        connect(folder / "can0")


def test_frames_are_these_bytes_on_the_socket(pair):
    wire = FrameSocketWire(pair[0])
    assert wire.send(0x123, b"\1\2\3")
    assert pair[1].recv(64) == bytes.fromhex("23010000 03 000000 0102030000000000")
    pair[1].send(bytes.fromhex("21000000 08 000000 0102030405060708"))
    assert wire.receive() == [(0x21, bytes(range(1, 9)))]
    wire.report_bus_off()
    assert pair[1].recv(64) == bytes.fromhex("40000020 08 000000 0000000000000000")


@pytest.mark.parametrize(
    "frame",
    [
        frame_bytes(0x21 | EXTENDED, bytes(8)),
        frame_bytes(0x21 | REMOTE, bytes(8)),
        frame_bytes(0x21 | ERROR, bytes(8)),
        bytes.fromhex("21000000 09 000000 0000000000000000"),
        b"short",
    ],
)
def test_boards_hear_sound_data_frames_only(pair, frame):
    wire = FrameSocketWire(pair[0])
    pair[1].send(frame)
    pair[1].send(frame_bytes(0x22, b"x"))
    assert wire.receive() == [(0x22, b"x")]


def test_what_disturbs_a_channel_is_of_no_board(pair):
    wire, rng = FrameSocketWire(pair[0]), np.random.default_rng(1)
    kinds = set()
    for _ in range(100):
        wire.disturb(rng)
        identifier, _data = frame_parts(pair[1].recv(64))
        kinds.add(tuple(bool(identifier & flag) for flag in (REMOTE, ERROR, EXTENDED)))
        with pytest.raises(BlockingIOError):
            pair[1].recv(64)
    assert len(kinds) == 4


def test_a_partner_that_left_takes_nothing_and_sends_nothing(pair):
    wire = FrameSocketWire(pair[0])
    pair[1].close()
    assert not wire.send(1, b"")
    assert wire.receive() == []
    assert wire.receive() == []
    wire.report_bus_off()
    wire.close()


def test_a_partner_that_does_not_read_loses_the_newest_frames(pair):
    wire = FrameSocketWire(pair[0])
    sent = 0
    while wire.send(sent % 0x7FF, b""):
        sent += 1
    assert sent > 100
    pair[1].recv(16)
    assert wire.send(0x7FF, b"")
