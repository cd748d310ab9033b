# SPDX-License-Identifier: Apache-2.0
"""Ports that dead processes left in shared memory: passed over while others live, removed where nobody does."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.nodes.shared_memory import avoid_dead_ports

DOMAIN = 2
FIRST = 7400 + 250 * DOMAIN


def port(folder: Path, number: int, age_s: float = 60.0) -> Path:
    """Files as a process leaves them; its lock."""
    lock = folder / f"fastdds_port{number}_el"
    for path in (folder / f"fastdds_port{number}", folder / f"sem.fastdds_port{number}_mutex", lock):
        path.touch()
        os.utime(path, (time.time() - age_s,) * 2)
    return lock


def locked(lock: Path) -> bool:
    file = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def test_what_the_dead_left_is_removed_where_nobody_lives(tmp_path: Path) -> None:
    port(tmp_path, FIRST + 11)
    other = port(tmp_path, FIRST + 250 + 11)
    avoid_dead_ports(DOMAIN, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if str(FIRST + 11) in path.name) == []
    assert other.exists()
    assert not locked(other)


def test_a_dead_port_is_held_while_another_lives_and_removed_after(tmp_path: Path) -> None:
    dead, alive = port(tmp_path, FIRST + 11), port(tmp_path, FIRST + 13)
    file = os.open(alive, os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_EX)
    avoid_dead_ports(DOMAIN, tmp_path)
    assert locked(dead)
    os.close(file)
    avoid_dead_ports(DOMAIN, tmp_path)
    assert not dead.exists()
    assert not alive.exists()


def test_a_port_that_may_be_in_the_making_stays(tmp_path: Path) -> None:
    young = port(tmp_path, FIRST + 15, age_s=0.0)
    avoid_dead_ports(DOMAIN, tmp_path)
    assert young.exists()


def test_no_shared_memory_is_no_failure(tmp_path: Path) -> None:
    avoid_dead_ports(DOMAIN, tmp_path / "missing")
