# SPDX-License-Identifier: Apache-2.0
"""Where the files of config/ are found: robots, contacts, viewers' layouts, middleware."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from continuum_robot.errors import ParameterError

_SHARE = "share/continuum_robot/config"


def shipped_folders(name: str) -> list[Path]:
    """Folders of one name in config/: the checkout's, then the installed one.

    Parameters
    ----------
    name : below config/, e.g. ``robots``
    """
    here = Path(__file__).resolve()
    installed = [parent / _SHARE for parent in here.parents]
    candidates = [here.parents[3] / "config", *installed, Path(sysconfig.get_path("data")) / _SHARE]
    return [folder / name for folder in dict.fromkeys(candidates) if (folder / name).is_dir()]


def shipped_file(name: str) -> Path:
    """A file of config/.

    Parameters
    ----------
    name : below config/, e.g. ``rviz/continuum_robot.rviz``

    Raises
    ------
    ParameterError : it is in none of the folders
    """
    folders = shipped_folders(str(Path(name).parent))
    file = next((folder / Path(name).name for folder in folders if (folder / Path(name).name).is_file()), None)
    if file is None:
        looked = ", ".join(map(str, folders)) or "no such folder found"
        raise ParameterError("shipped file", name, f"a file of config/; looked in: {looked}. Install the package again")
    return file
