# SPDX-License-Identifier: Apache-2.0
"""Writing a file or a folder in one step."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from continuum_robot.errors import DeviceError

DISK_REMEDY = "Choose a folder that may be written to and has room"


def unwritten(file: Path | str, error: OSError) -> DeviceError:
    """The error of a file that could not be written."""
    return DeviceError(str(file), f"cannot be written ({error.strerror or error})", DISK_REMEDY)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader never sees half of it, and an old one stays where that fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Another path, for a file or a folder that gets its name when the block ends; of one that failed nothing stays."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        raise


def make_folder(folder: Path) -> None:
    """Make a folder with its parents, if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DeviceError(str(folder), f"cannot be made ({error.strerror or error})", DISK_REMEDY) from error
