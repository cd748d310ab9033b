# SPDX-License-Identifier: Apache-2.0
"""A wheel built from the sdist, installed plainly, used from another folder: without ROS 2, with it, and its recording
read where the package is not.

The environments hold hard links to the files of this one's distributions, as pip would install them from its cache.
The messages too come from this one; with LONG=1 the demo builds them.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
READ = """
import json, sys
from pathlib import Path
from rosbags.highlevel import AnyReader
found = {}
with AnyReader([Path(sys.argv[1])]) as reader:
    for connection, _, raw in reader.messages():
        message = reader.deserialize(raw, connection.msgtype)
        found[connection.topic] = [connection.msgtype, len(getattr(message, "displacement", []))]
print(json.dumps(found))
"""


def run(*command: Path | str, folder: Path, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command in another folder, without what points to this checkout; its exit code is asserted."""
    ours = ("PYTHONPATH", "AMENT_PREFIX_PATH", "CONTINUUM_ROBOT_KERNEL")
    inherited = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def needed(requirement: str, found: set[str]) -> set[str]:
    """The names of all distributions that a requirement brings, those in ``found`` too."""
    asked = Requirement(requirement)
    for extra in ("", *asked.extras):
        if f"{asked.name}[{extra}]" in found:
            continue
        found.add(f"{asked.name}[{extra}]")
        for line in importlib.metadata.distribution(asked.name).requires or []:
            inner = Requirement(line)
            if inner.marker is None or inner.marker.evaluate({"extra": extra}):
                needed(line, found)
    return {name.partition("[")[0] for name in found}


def environment(folder: Path, distributions: set[str]) -> Path:
    """A new environment with these distributions of the one that runs the tests, and its bin/."""
    venv.create(folder, symlinks=True, with_pip=False)
    for name in distributions:
        link_files(importlib.metadata.distribution(name).files or [], folder)
    return folder / "bin"


def link_files(files: Iterable[importlib.metadata.PackagePath], folder: Path) -> None:
    for file in files:
        source = Path(file.locate())
        target = folder / os.path.relpath(os.path.normpath(source), sys.prefix)
        if not source.exists() or target.exists() or source.suffix == ".pyc":
            continue
        link(source, target)
        if source.suffix == ".py":
            compiled = [Path(importlib.util.cache_from_source(str(one))) for one in (source, target)]
            if compiled[0].exists() and not compiled[1].exists():
                link(*compiled)


def link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def install(bin_folder: Path, wheel: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--python", bin_folder / "python", "install", "-q", "--no-deps", "--no-index"]
    run(*pip, wheel, folder=wheel.parent)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    code = "from setuptools import build_meta; import sys; build_meta.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", code, folder, folder=ROOT)
    return next(folder.glob("*.tar.gz"))


def built(sdist: Path, folder: Path, **environment: str) -> Path:
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "--no-index"]
    run(*pip, "-w", folder, sdist, folder=folder, **environment)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its libraries need not be fast, so they are compiled in a fraction of the time."""
    folder = tmp_path_factory.mktemp("wheel")
    compilers = {}
    for variable, name in (("CC", "cc"), ("CXX", "c++")):
        compiler = folder / name
        compiler.write_text(f'#!/bin/sh\nexec {os.environ.get(variable, name)} "$@" -O0\n')
        compiler.chmod(0o755)
        compilers[variable] = str(compiler)
    return built(sdist, folder, **compilers)


def libraries(wheel: Path) -> set[str]:
    """The rod's kernel in a wheel."""
    names = zipfile.ZipFile(wheel).namelist()
    return {name.rpartition("/")[2] for name in names if re.match(r"continuum_robot/rod/kernel/[^/]*\.so$", name)}


RODS = """
from continuum_robot import Rod, load_robot
rod = Rod(load_robot("two_segment"))
print(rod.terms([1, 2, 3, 4], [1, 0, 0, 0]).momentum[0])
print(rod.equilibria([[4.0] + 9 * [0.5]] * 3).c[2, 1])
"""


@pytest.fixture(scope="module")
def without_ros(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("without_ros")
    assert libraries(wheel) >= {"librod_kernel.so"}
    assert ("librod_kernel_wide.so" in libraries(wheel)) == (platform.machine() == "x86_64")
    bin_folder = environment(folder, needed("continuum-robot[app]", set()) - {"continuum-robot"})
    install(bin_folder, wheel)
    return bin_folder


def test_the_wheel_is_for_any_python_and_names_the_c_library_that_it_needs(wheel: Path) -> None:
    stable = sys.version_info >= (3, 11) and not sysconfig.get_config_var("Py_GIL_DISABLED")
    own = f"cp{sys.version_info.major}{sys.version_info.minor}"
    expected = "py3-none" if stable else rf"{own}-{own}t?"
    assert re.search(rf"-{expected}-manylinux_2_(\d+)_{platform.machine()}\.whl$", wheel.name), wheel.name


def test_the_control_cycle_comes_compiled(without_ros: Path, tmp_path: Path) -> None:
    code = "from continuum_robot.runtime.cycle.forms import compiled_form as form; print(form().name, form().reason)"
    no_compiler = {"PATH": str(without_ros), "CONTINUUM_ROBOT_CACHE": str(tmp_path / "cache")}
    printed = run(without_ros / "python", "-c", code, folder=tmp_path, **no_compiler).stdout
    assert printed.startswith("compiled"), printed
    assert not (tmp_path / "cache").exists()


def test_without_ros_the_library_and_check_work(without_ros: Path, tmp_path: Path) -> None:
    code = (
        "from continuum_robot import load_robot\n"
        "robot = load_robot('opencr_five_tendon')\n"
        "import continuum_robot; print(continuum_robot.__file__, robot.name)"
    )
    printed = run(without_ros / "python", "-c", code, folder=tmp_path).stdout
    assert str(without_ros.parent) in printed
    checked = run(without_ros / "continuum-robot", "check", "opencr_five_tendon", folder=tmp_path).stdout
    assert checked.startswith("opencr_five_tendon")


def test_installed_experiments_are_of_the_papers_and_of_the_environments(without_ros: Path, tmp_path: Path) -> None:
    listed = run(without_ros / "continuum-robot", "experiment", "--list", folder=tmp_path).stdout.splitlines()
    assert {line.partition(".")[0] for line in listed[:-1]} == {"muhmann", "johnston", "rucker", "ha", "wang", "learn"}
    assert "validation/" in listed[-1]
    done = run(without_ros / "continuum-robot", "experiment", "contact.kinds", folder=tmp_path, code=2)
    assert "validation/" in done.stderr
    arguments = ["ha.unloaded", "--json", "numbers.json", "--plots", "."]
    run(without_ros / "continuum-robot", "experiment", *arguments, folder=tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"numbers.json", "ha_unloaded.png"}


def test_the_wheel_brings_the_rods_kernel_and_needs_no_compiler(without_ros: Path, tmp_path: Path) -> None:
    path = str(tmp_path)  # no compiler, nor anything else
    done = run(without_ros / "python", "-c", RODS, folder=tmp_path, PATH=path)
    assert len([float(line) for line in done.stdout.splitlines()]) == 2
    assert done.stderr == ""


def test_without_ros_and_a_compiler_it_installs_and_numpy_serves(sdist: Path, tmp_path: Path) -> None:
    wheel = built(sdist, tmp_path, CXX="/nowhere/c++")
    assert "-py3-none-" in wheel.name
    assert libraries(wheel) == set()
    bin_folder = environment(tmp_path / "environment", needed("continuum-robot[app]", set()) - {"continuum-robot"})
    install(bin_folder, wheel)
    done = run(bin_folder / "python", "-c", RODS, folder=tmp_path, code=1)
    assert len(done.stdout.splitlines()) == 1
    lines = done.stderr.splitlines()
    assert "was not built" in lines[0]
    assert "NumPy form serves" in lines[0]
    assert lines[-1].startswith("continuum_robot.errors.MissingPackageError")
    checked = run(bin_folder / "continuum-robot", "check", "opencr_five_tendon", folder=tmp_path)
    assert "Quadrature: 6 Gauss nodes" in checked.stdout


def test_without_ros_what_needs_it_is_refused_in_a_sentence(without_ros: Path, tmp_path: Path) -> None:
    for command in ("demo", "up", "view"):
        arguments = ["opencr_five_tendon"] if command == "up" else []
        done = run(without_ros / "continuum-robot", command, *arguments, folder=tmp_path, code=1)
        assert "pip install 'continuum-robot[" in done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
    code = "from continuum_robot import Robot"
    done = run(without_ros / "python", "-c", code, folder=tmp_path, code=1)
    assert "pip install 'continuum-robot[ros]'" in done.stderr.splitlines()[-1]


def test_the_sdist_holds_what_colcon_and_the_tests_need(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    folders = ("msg", "srv", "action", "cmake", "launch", "config", "test")
    asked = {str(file.relative_to(ROOT)) for name in folders for file in (ROOT / name).rglob("*") if file.is_file()}
    assert {name for name in asked if not name.endswith(".pyc")} | {"CMakeLists.txt", "package.xml"} <= names


@pytest.mark.parametrize("messages", ["built before", pytest.param("built there", marks=pytest.mark.long)])
def test_with_ros_the_demo_runs_and_its_recording_is_read_without_the_package(
    wheel: Path, tmp_path: Path, messages: str
) -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")
    distributions = needed("continuum-robot[ros]", set()) - {"continuum-robot"}
    if messages == "built before":
        distributions |= {"continuum-robot-messages"}
    with_ros = environment(tmp_path / "with_ros", distributions)
    install(with_ros, wheel)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    demo = ["demo", "--clock", "lockstep", "--duration", "1", "--no-view", "--folder", "runs"]
    domain = os.environ.get("CONTINUUM_ROBOT_TEST_DOMAIN", "41")
    run(
        with_ros / "continuum-robot",
        *demo,
        folder=elsewhere,
        ROS_DOMAIN_ID=domain,
        ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST",
    )
    recording = next(elsewhere.glob("runs/*/recording"))
    reader = environment(tmp_path / "reader", needed("rosbags", set()))
    done = run(reader / "python", "-c", READ, recording, folder=elsewhere)
    found = json.loads(done.stdout)
    assert found["/tendon_states"] == ["continuum_robot/msg/TendonStates", 5]
    ours = {kind for kind, _ in found.values() if kind.startswith("continuum_robot/")}
    named = {f"continuum_robot/msg/{name}" for name in ("TendonCommands", "Shape", "ClarkeState")}
    assert named <= ours, ours
