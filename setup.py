# SPDX-License-Identifier: Apache-2.0
"""pip's build: Python modules by setuptools, the rod kernel and the control cycle by the CMake that colcon uses too.

No ROS 2 is needed: messages are built where it is, by continuum_robot/messages.py.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.dist import Distribution

ROOT = Path(__file__).parent.resolve()
BUILD = ROOT / "build" / f"pip-{sys.implementation.cache_tag}"
SITE_PACKAGES = Path(sysconfig.get_path("purelib")).relative_to(sysconfig.get_path("data"))
SHARED = ("config", "launch", "msg", "srv", "action")


class PlatformDistribution(Distribution):
    """A distribution with compiled data files, which setuptools would take for a pure Python one."""

    def has_ext_modules(self) -> bool:
        return True

    def has_data(self) -> bool:
        # An editable installation asks this, and setuptools does not define it.
        return bool(self.data_files)


class BuildWithCMake(build_ext):
    """Builds kernel and cycle. A wheel has them in the package; beside a checkout they lie in the environment."""

    def run(self) -> None:
        super().run()
        stage = build()
        built = sorted(stage.rglob("*.so"))
        if self.editable_mode:
            folders = data_files(built, stage)
            self.distribution.data_files = [(str(SITE_PACKAGES / folder), files) for folder, files in folders]
            return
        for file in built:
            target = Path(self.build_lib, file.relative_to(stage))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        shared = [file for folder in SHARED for file in sorted((ROOT / folder).rglob("*")) if file.is_file()]
        folders = data_files([file for file in shared if file.suffix != ".pyc"], ROOT)
        self.distribution.data_files = [(f"share/continuum_robot/{folder}", files) for folder, files in folders]


class TaggedWheel(bdist_wheel):
    """A wheel named after what its libraries need: any Python, and this C library or a newer one."""

    def get_tag(self) -> tuple[str, str, str]:
        built = sorted((BUILD / "stage").rglob("*.so"))
        python, abi, platform = super().get_tag()
        if all("cpython-" not in file.name for file in built):
            python, abi = "py3", "none"
        if platform.startswith("linux_") and sysconfig.get_config_var("SOABI").endswith("-gnu"):
            platform = f"many{platform.replace('_', '_{}_{}_'.format(*c_library(built)), 1)}"
        return python, abi, platform


def c_library(files: list[Path]) -> tuple[int, int]:
    """The oldest version of glibc that has every symbol which the libraries ask for."""
    found = [(2, 17)]  # the oldest for which PEP 600 has a name on every processor
    for file in files:
        found += [(int(major), int(minor)) for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)", file.read_bytes())]
    return max(found)


def build() -> Path:
    """Kernel and cycle in a folder as in site-packages; nothing in it where no C++ compiler is found."""
    stage = BUILD / "stage"
    shutil.rmtree(BUILD, ignore_errors=True)
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    configure = [
        *("cmake", "-S", str(ROOT / "continuum_robot" / "rod" / "kernel"), "-B", str(BUILD)),
        *("-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_INSTALL_PREFIX={stage}", f"-DPython3_EXECUTABLE={sys.executable}"),
        "-DROD_KERNEL_FOLDER=continuum_robot/rod/kernel",
    ]
    try:
        subprocess.check_call(configure, env=environment)
        jobs = str(os.cpu_count() or 1)
        subprocess.check_call(["cmake", "--build", str(BUILD), "--target", "install", "-j", jobs], env=environment)
    except (OSError, subprocess.CalledProcessError) as error:
        logging.getLogger(__name__).warning("the rod's kernel was not built (%s): its slow NumPy form serves", error)
    return stage


def data_files(files: list[Path], base: Path) -> list[tuple[str, list[str]]]:
    """Files of a folder as setuptools has them: each folder with its files."""
    folders: dict[str, list[str]] = {}
    for file in files:
        folders.setdefault(str(file.parent.relative_to(base)), []).append(os.path.relpath(file, ROOT))
    return list(folders.items())


def cmake_from_pypi() -> list[str]:
    """What to ask for where this computer has no CMake that is new enough."""
    try:
        found = re.search(r"(\d+)\.(\d+)", subprocess.check_output(["cmake", "--version"], text=True))
    except (OSError, subprocess.CalledProcessError):
        found = None
    return [] if found and (int(found[1]), int(found[2])) >= (3, 20) else ["cmake>=3.20"]


options: dict[str, Any] = {"build_ext": BuildWithCMake, "bdist_wheel": TaggedWheel}
# The plain .pth of `package_dir` lets the checkout and the built half of the package be found together.
setup(package_dir={"": "."}, cmdclass=options, distclass=PlatformDistribution, setup_requires=cmake_from_pypi())
