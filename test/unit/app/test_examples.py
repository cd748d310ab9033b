# SPDX-License-Identifier: Apache-2.0
"""The examples as a user runs them: each ends well, prints numbers that are right, and leaves its plot."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib import image

FOLDER = Path(__file__).resolve().parents[3] / "examples"
LONGEST = 70
# A computer that stalls for 20 ms stops a robot, simulated or not, and rightly so: a test is more patient.
PATIENT_CLIENT = FOLDER.parent / "test" / "nodes" / "patient_client.py"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")

Check = Callable[[dict[str, list[float]]], bool]
CHECKS: dict[str, Check] = {
    "01_clarke": lambda said: said["back to the arc"] == [40.0, 60.0],
    "02_simulate": lambda said: 40 < said["bent by"][0] < 90 and min(said["tensions"]) > 1,
    "03_my_controller": lambda said: max(said["RMSE after 0.5 s"]) < 0.5,
    "04_contact": lambda said: (
        abs(said["detected"][0] - said["detected"][2]) < 0.15
        and abs(said["force along x"][0] - said["force along x"][1]) < 8
        and abs(said["location"][0] - said["location"][1]) < 10
    ),
    "05_static_load": lambda said: all(values[-1] < 0.1 for name, values in said.items() if name[0].isdigit()),
    "06_fit_a_robot": lambda said: all(
        abs(a - b) < 3 for a, b in zip(said["first tendons at"][:3], said["first tendons at"][3:], strict=True)
    ),
    "07_rolling_joint": lambda said: said["left 6 N, right 3 N"][0] > said["left 3 N, right 3 N"][0],
    "08_crem": lambda said: said["bent by 60 degrees"][1] > said["bent by 30 degrees"][1] > 10,
    "10_own_basis": lambda said: (
        said["sines"][0] > said["sines"][1] > said["sines"][2] and said["chebyshev"][2] < said["piecewise_constant"][2]
    ),
    "11_own_routing": lambda said: all(values[-1] < 0.05 for name, values in said.items() if name.startswith("swing")),
    "13_rod_in_python": lambda said: said["0 g at the tip"][0] > 20 and abs(said["1.00 s after release"][0]) < 3,
    "15_learn_reach": lambda said: said["inverse kinematics"][0] < 2 and said["by hand"][0] < 20,
    "16_behaviour_cloning": lambda said: max(said["by hand"] + said["by the clone, new targets"]) < 4,
    "17_swing": lambda said: all(
        said[f"{name} by gradient"][-1] < 0.1 * said[f"{name} by statics"][-1]
        for name in ("opencr_five_tendon", "two_segment")
    ),
    "09_ros2_client": lambda said: abs(said["straight again"][2] - 200) < 2 and min(said["tensions"]) > 0.5,
}


TINY = {"15_learn_reach": ("--steps", "0")}
"""What keeps an example short in a test."""
NEEDED = {"15_learn_reach": ("gymnasium",), "16_behaviour_cloning": ("pandas", "pyarrow")}
BESIDE_A_STACK = ("12_ros2_controller", "14_ros2_control")
"""Tried in test/nodes/test_nodes_own_controller.py."""


def numbers_of(text: str) -> dict[str, list[float]]:
    """Numbers of each printed line, by what stands before them: two spaces, or a colon, end a name."""
    said = {}
    for line in text.splitlines():
        name, _, rest = line.replace("  ", ":", 1).partition(":")
        said[name] = [float(number) for number in NUMBER.findall(rest)]
    return said


ON_DDS = (pytest.mark.ros, pytest.mark.real_time)


@pytest.mark.parametrize("name", [pytest.param(one, marks=ON_DDS if "ros2" in one else ()) for one in CHECKS])
def test_example(name: str, tmp_path: Path) -> None:
    if "ros2" in name:
        pytest.importorskip("rclpy", reason="rclpy is not installed: the example needs ROS 2")
    for needed in NEEDED.get(name, ()):
        pytest.importorskip(needed, reason=f"{needed} is not installed: it is of the extra learn")
    environment = os.environ | {
        "ROS_DOMAIN_ID": os.environ["CONTINUUM_ROBOT_TEST_DOMAIN_EXAMPLES"],
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
    }
    through = [str(PATIENT_CLIENT)] if "ros2" in name else []
    command = [sys.executable, *through, str(FOLDER / f"{name}.py"), "--out", str(tmp_path / "plots")]
    command += TINY.get(name, ())
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=900, check=False, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = numbers_of(done.stdout)
    assert CHECKS[name](said), done.stdout
    picture = image.imread(tmp_path / "plots" / f"{name}.png")
    assert picture.shape[0] > 300
    assert picture.std() > 0.02


def test_every_example_is_listed_short_and_checked() -> None:
    listed = re.findall(r"^\| \[(\w+)\.py\]\((\w+)\.py\) \| \S", (FOLDER / "README.md").read_text(), re.MULTILINE)
    there = sorted(file.stem for file in FOLDER.glob("*.py"))
    assert sorted(listed) == [(name, name) for name in there]
    assert there == sorted({*CHECKS, *BESIDE_A_STACK})
    for name in there:
        lines = (FOLDER / f"{name}.py").read_text().splitlines()
        assert len(lines) <= LONGEST, f"{name} has {len(lines)} lines"
