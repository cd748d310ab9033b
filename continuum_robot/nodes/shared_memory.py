# SPDX-License-Identifier: Apache-2.0
"""Ports in shared memory that killed processes left behind, kept out of the way of new ones.

Fast DDS carries messages between processes of one machine through files in /dev/shm, one for each receiver, named by
a port number. Of a process that was killed the file stays. The next process takes the same number and makes the file
anew, while the others still write into the old one: a node that was started again is neither seen nor heard, for a
while or for good. A number whose lock is held is passed over instead (Fast DDS says so on stderr), so the locks of dead
ports are held as long as others live that may remember them; where nobody is left in the domain, they are removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from pathlib import Path

FOLDER = Path("/dev/shm")
_FIRST_PORT, _PORTS_OF_A_DOMAIN = 7400, 250
_SETTLED_S = 5.0
"""Age of a file that no process is just making, s."""

_held: dict[Path, int] = {}


def avoid_dead_ports(domain: int, folder: Path = FOLDER) -> None:
    """Keep this process from taking the port numbers of dead ones; call it before DDS is joined.

    Parameters
    ----------
    domain : number of the DDS domain
    folder : where Fast DDS keeps its files
    """
    first = _FIRST_PORT + _PORTS_OF_A_DOMAIN * domain
    numbers = range(first, first + _PORTS_OF_A_DOMAIN)
    names = {number: f"fastdds_port{number}_el" for number in numbers}
    with contextlib.suppress(OSError):
        present = {path.name for path in folder.iterdir() if re.fullmatch(r"fastdds_port\d+_el", path.name)}
        locks = [folder / name for name in names.values() if name in present]
        alive = [lock for lock in locks if lock not in _held and not _hold(lock)]
        if not alive:
            for lock in locks:
                _remove(lock)


def _hold(lock: Path) -> bool:
    """Whether the port of a lock is dead; its lock is this process's then."""
    try:
        file = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return False
    _held[lock] = file
    return True


def _remove(lock: Path) -> None:
    """Remove a dead port's files, unless somebody may be making them at this moment."""
    with contextlib.suppress(OSError):
        if time.time() - lock.stat().st_mtime < _SETTLED_S:
            return
        name = lock.name.removesuffix("_el")
        for path in (lock.with_name(name), lock.with_name(f"sem.{name}_mutex"), lock):
            path.unlink(missing_ok=True)
    file = _held.pop(lock, None)
    if file is not None:
        os.close(file)
