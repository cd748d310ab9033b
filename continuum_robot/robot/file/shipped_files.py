# SPDX-License-Identifier: Apache-2.0
"""Where the files of config/ are found: robots, contacts, viewers' layouts, middleware."""

from __future__ import annotations

import difflib
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from continuum_robot.errors import ParameterError

_SHARE = "share/continuum_robot/config"


def shipped_folders(name: str) -> list[Path]:
    """Folders of one name in config/: the checkout's, then the installed one."""
    here = Path(__file__).resolve()
    installed = [parent / _SHARE for parent in here.parents]
    candidates = [here.parents[3] / "config", *installed, Path(sysconfig.get_path("data")) / _SHARE]
    return [folder / name for folder in dict.fromkeys(candidates) if (folder / name).is_dir()]


def shipped_robots(*, parts: bool = False) -> dict[str, Path]:
    """Name and path of every shipped robot file."""
    found: dict[str, Path] = {}
    for folder in shipped_folders("robots"):
        for path in (*sorted(folder.glob("*.yaml")), *(sorted(folder.glob("parts/*.yaml")) if parts else ())):
            found.setdefault(path.relative_to(folder).with_suffix("").as_posix(), path)
    return found


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a message about a misspelt name: ``; did you mean NAME?``, or nothing where none is near."""
    near = difflib.get_close_matches(name, list(names), 1, 0.75)
    return f"; did you mean {near[0]}?" if near else ""


def shipped_file(name: str) -> Path:
    """A file of config/."""
    folders = shipped_folders(str(Path(name).parent))
    file = next((folder / Path(name).name for folder in folders if (folder / Path(name).name).is_file()), None)
    if file is None and folders:
        names = sorted({one.name for folder in folders for one in folder.iterdir() if one.is_file()})
        expected = f"an existing file, or one of those shipped ({', '.join(names)})"
        raise ParameterError(str(Path(name).parent), Path(name).name, expected + did_you_mean(Path(name).name, names))
    if file is None:
        looked = ", ".join(map(str, folders)) or "no such folder found"
        raise ParameterError("shipped file", name, f"a file of config/; looked in: {looked}. Install the package again")
    return file
