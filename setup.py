# SPDX-License-Identifier: Apache-2.0
"""pip build: Python modules by setuptools; messages, rod kernel and control cycle by the CMakeLists.txt of colcon.

Set CONTINUUM_ROBOT_WITHOUT_ROS=1 to install the algorithms alone, without ROS 2 and without building messages.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.dist import Distribution

ROOT = Path(__file__).parent.resolve()
KERNEL = ROOT / "continuum_robot" / "rod" / "kernel"
BUILD = ROOT / "build" / f"pip-{sys.implementation.cache_tag}"
GENERATED = ("msg", "srv", "action")
WITHOUT_ROS = bool(os.environ.get("CONTINUUM_ROBOT_WITHOUT_ROS"))


class PlatformDistribution(Distribution):
    """A distribution with compiled data files, which setuptools would take for a pure Python one."""

    def has_ext_modules(self) -> bool:
        return True

    def has_data(self) -> bool:
        # `pip install -e` asks this and setuptools does not define it, so the messages would be left out.
        return bool(self.data_files)


class BuildWithCMake(build_ext):
    """Builds the ROS 2 interfaces and the kernel with CMake; adds what it installs as data files of the environment."""

    def run(self) -> None:
        super().run()
        if WITHOUT_ROS:
            self.distribution.data_files = shared_files() + build_kernel_alone()
            return
        data_files = build_with_cmake(ROOT)
        if needs_tf2_msgs():
            data_files += build_with_cmake(ROOT / "cmake" / "tf2_msgs")
        self.distribution.data_files = data_files


def build_kernel_alone() -> list[tuple[str, list[str]]]:
    """The rod's kernel and the control cycle; where no C++ compiler is found, their forms in Python have to serve."""
    folder = Path(sysconfig.get_path("purelib")).relative_to(sysconfig.get_path("data"))
    try:
        return build_with_cmake(KERNEL, f"-DROD_KERNEL_FOLDER={folder / 'continuum_robot' / 'rod' / 'kernel'}")
    except (OSError, subprocess.CalledProcessError) as error:
        logging.getLogger(__name__).warning("the rod's kernel was not built (%s): its slow NumPy form serves", error)
        return []


def needs_tf2_msgs() -> bool:
    """Whether tf2_msgs is missing, or is the copy that an earlier run of this file installed."""
    found = importlib.util.find_spec("tf2_msgs")
    if found is None or not found.submodule_search_locations:
        return True
    return Path(sysconfig.get_path("purelib"), "tf2_msgs") in map(Path, found.submodule_search_locations)


def build_with_cmake(source: Path, *options: str) -> list[tuple[str, list[str]]]:
    """Configure, build and stage the project at ``source``; its files as setuptools' data_files."""
    build = BUILD / source.name
    stage = build / "stage"
    shutil.rmtree(build, ignore_errors=True)
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    subprocess.check_call(
        [
            "cmake",
            "-S",
            str(source),
            "-B",
            str(build),
            "-DCMAKE_BUILD_TYPE=Release",
            "-DBUILD_TESTING=OFF",
            f"-DCMAKE_INSTALL_PREFIX={stage}",
            *options,
            f"-DPython3_EXECUTABLE={sys.executable}",
            "--no-warn-unused-cli",
        ],
        env=environment,
    )
    jobs = str(os.cpu_count() or 1)
    subprocess.check_call(["cmake", "--build", str(build), "--target", "install", "-j", jobs], env=environment)
    site_packages = Path(sysconfig.get_path("purelib")).relative_to(sysconfig.get_path("data"))
    staged = []
    for folder, _, names in os.walk(stage):
        relative = Path(folder).relative_to(stage)
        files = [name for name in names if is_ours(relative, name, site_packages)]
        if files:
            staged.append((str(relative), [os.path.relpath(Path(folder, name), ROOT) for name in files]))
    return staged


def is_ours(folder: Path, name: str, site_packages: Path) -> bool:
    """Whether a staged file belongs into the environment: our Python modules come by setuptools instead."""
    if "__pycache__" in folder.parts:
        return False
    if not folder.is_relative_to(site_packages):
        return folder.parts[:1] != ("lib",) or len(folder.parts) == 1  # lib/continuum_robot holds colcon's programs
    inside = folder.relative_to(site_packages).parts
    if inside[:1] == ("tf2_msgs",):
        return True
    if inside[:1] != ("continuum_robot",):
        return False
    return name.endswith(".so") or inside[1:2] in {(folder,) for folder in GENERATED}


def shared_files() -> list[tuple[str, list[str]]]:
    """The folder config/ as setuptools' data_files; with ROS 2, CMake installs it."""
    folders: dict[str, list[str]] = {}
    for path in sorted((ROOT / "config").rglob("*")):
        if path.is_file():
            relative = path.relative_to(ROOT)
            folders.setdefault(f"share/continuum_robot/{relative.parent}", []).append(str(relative))
    return list(folders.items())


# The plain .pth of `package_dir` lets the checkout and the built half of the package be found together.
setup(package_dir={"": "."}, cmdclass={"build_ext": BuildWithCMake}, distclass=PlatformDistribution)
