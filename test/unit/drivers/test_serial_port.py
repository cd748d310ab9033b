# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import grp
import pwd
from pathlib import Path

import pytest

from continuum_robot.drivers.local_port import Pty
from continuum_robot.drivers.serial_port import SerialPort, explain
from continuum_robot.errors import DeviceError

SETTING = "hardware.string_encoders.port"


def port(line: Pty, baud_bps: int = 115200) -> SerialPort:
    return SerialPort(str(line.path), baud_bps, device="test device", setting=SETTING)


def test_bytes_both_ways_and_never_a_wait() -> None:
    line = Pty()
    end = port(line)
    end.open()
    end.open()
    assert end.read() == b""
    assert line.send(bytes(range(256)))
    assert end.read() == bytes(range(256))
    end.write(b"\x00\x0d\x0a\x11\x13")
    assert line.receive() == b"\x00\x0d\x0a\x11\x13"
    end.close()
    end.close()
    with pytest.raises(DeviceError, match="is not open"):
        end.read()
    line.close()


def test_everything_that_waits_is_read_at_once() -> None:
    line = Pty()
    end = port(line)
    end.open()
    sent = b""
    while line.send(bytes([len(sent) % 251]) * 1000):
        sent += bytes([len(sent) % 251]) * 1000
    assert len(sent) > 4000
    received = end.read()
    # What did not fit any more is sent before the next bytes, so that no frame is cut.
    assert line.send(b"end")
    received += end.read()
    assert received == sent + b"end"
    end.discard()
    end.close()
    line.close()


def test_a_host_that_writes_to_nobody_is_told() -> None:
    line = Pty()
    end = port(line)
    end.open()
    with pytest.raises(DeviceError, match="took no bytes"):
        end.write(bytes(1 << 20))
    end.close()
    line.close()


def test_an_unplugged_device_is_told_by_reading_and_writing() -> None:
    line = Pty()
    end = port(line)
    end.open()
    line.hang_up()
    with pytest.raises(DeviceError, match="is gone") as caught:
        end.read()
    assert isinstance(caught.value, OSError)
    with pytest.raises(DeviceError, match="is gone"):
        end.write(b"x")
    end.close()
    line.plug_in()
    end.open()
    line.send(b"again")
    assert end.read() == b"again"
    end.close()
    line.close()


def test_the_baud_rate_reaches_the_line() -> None:
    line = Pty()
    end = port(line)
    end.open()
    before = line.host_speed()
    end.set_baud(460800)
    assert line.host_speed() != before
    assert end.baud_bps == 460800
    end.close()
    line.close()


@pytest.mark.parametrize(
    ("group", "members", "remedy"),
    [
        ("dialout", [], "Run: sudo usermod -aG dialout maria, and log in again; or install hardware/"),
        ("dialout", ["maria"], "User maria was added to the group: log out and in again."),
        ("root", [], "Install hardware/99-continuum-robot.rules, which gives the port to group dialout."),
    ],
)
def test_no_permission_names_the_group_and_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, members: list[str], remedy: str
) -> None:
    file = tmp_path / "ttyUSB0"
    file.touch()
    entry = grp.struct_group((group, "x", 20, members))
    monkeypatch.setattr(grp, "getgrgid", lambda _number: entry)
    monkeypatch.setattr(grp, "getgrall", lambda: [entry])
    monkeypatch.setattr(pwd, "getpwuid", lambda _number: pwd.struct_passwd(("maria", "x", 1, 1, "", "", "")))
    problem, reported = explain(str(file), 9600, SETTING, PermissionError(errno.EACCES, "Permission denied"))
    assert problem == f"no permission; the port belongs to group {group}"
    assert reported.startswith(remedy)


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (OSError(errno.EBUSY, "Device or resource busy"), "already open"),
        (OSError(errno.EIO, "Input/output error"), "nothing is behind the port"),
        (OSError(errno.ENOTTY, "Inappropriate ioctl"), "no serial port"),
        (ValueError("Invalid baud rate"), "cannot do 9601 bit/s"),
    ],
)
def test_each_failure_has_a_sentence_of_its_own(tmp_path: Path, error: OSError | ValueError, problem: str) -> None:
    file = tmp_path / "port"
    file.touch()
    text, remedy = explain(str(file), 9601, SETTING, error)
    assert problem in text
    assert remedy.endswith(".")
