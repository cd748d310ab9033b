# SPDX-License-Identifier: Apache-2.0
"""The cache of compiled code: a library is loaded only if it is whole and ours, else it is made anew.

The folder is ``CONTINUUM_ROBOT_CACHE``, else ``XDG_CACHE_HOME/continuum_robot``, else ``~/.cache/continuum_robot``. A
library's file ends with the SHA-256 of its name and content: a file that a power cut left short, that was damaged or
renamed, is not loaded. Neither is a file that another user owns or may write to, nor a symbolic link.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

Loaded = TypeVar("Loaded")

_DIGEST_BYTES = hashlib.sha256().digest_size
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def cache_folder() -> Path:
    """Folder of compiled code; it need not exist."""
    own = os.environ.get("CONTINUUM_ROBOT_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "continuum_robot"


def cached_library(name: str, build: Callable[[Path], Path], load: Callable[[str], Loaded]) -> Loaded:
    """Load a library from the cache; where it is missing, damaged or not ours, build it first.

    A process that needs what another one builds waits for it.
    """
    with _own_folder() as folder:
        if not _whole(folder / name):
            with _alone((folder / name).with_suffix(".lock")):
                if not _whole(folder / name):
                    with tempfile.TemporaryDirectory(prefix="continuum_robot_") as work:
                        _keep(folder / name, build(Path(work)).read_bytes())
        return load(str(folder / name))


@contextmanager
def _own_folder() -> Iterator[Path]:
    """A path to the cache folder as it was when it was checked, even if somebody renames it meanwhile."""
    try:
        path = cache_folder()
    except RuntimeError as error:  # of Path.home()
        raise FileNotFoundError("there is no home folder for compiled code; set CONTINUUM_ROBOT_CACHE") from error
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        status = os.fstat(folder)
        # In a sticky folder, such as /tmp, nobody can replace the files of others.
        writable = status.st_mode & _WRITABLE_BY_OTHERS and not status.st_mode & stat.S_ISVTX
        if status.st_uid not in {0, os.getuid()} or writable:
            raise PermissionError(
                f"the cache folder {path} (owner {status.st_uid}, mode {stat.S_IMODE(status.st_mode):o}) belongs to"
                f" another user or others may write to it: `chmod go-w {path}`, or set CONTINUUM_ROBOT_CACHE to a"
                " folder of your own"
            )
        yield Path(f"/proc/self/fd/{folder}")
    finally:
        os.close(folder)


def _whole(path: Path) -> bool:
    """Whether a library is there that nobody else can have written, with the content that was kept."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    with os.fdopen(file, "rb") as stream:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & _WRITABLE_BY_OTHERS:
            return False
        content = stream.read()
    return content[-_DIGEST_BYTES:] == _digest(path.name, content[:-_DIGEST_BYTES])


def _keep(path: Path, content: bytes) -> None:
    file, made = tempfile.mkstemp(dir=path.parent, prefix="build_")
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(content)  # the loader ignores what follows a library's own content
            stream.write(_digest(path.name, content))
            stream.flush()
            os.fsync(file)
        Path(made).replace(path)
    except OSError:
        Path(made).unlink(missing_ok=True)
        raise


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + content).digest()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """While no other process is in here with the same file; the system ends that for one that dies."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(lock)
