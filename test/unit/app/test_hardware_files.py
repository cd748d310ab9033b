# SPDX-License-Identifier: Apache-2.0
"""Files in hardware/ against the code and the robot files that they serve."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from continuum_robot.app.devices import CAN_SETTINGS, LIMITS
from continuum_robot.drivers.serial_port import UDEV_RULES
from continuum_robot.robot.loading import load_robot, shipped_robots

ROOT = Path(__file__).resolve().parents[3]
HARDWARE = ROOT / "hardware"


def rules() -> list[str]:
    lines = (ROOT / UDEV_RULES).read_text(encoding="utf-8").splitlines()
    return [line.lstrip("#") for line in lines if re.match(r"#?[A-Z]+==", line)]


def test_every_rule_is_a_list_of_matches_and_then_settings() -> None:
    assert len(rules()) >= 5
    item = re.compile(r'[A-Z_]+(?:\{[\w./]+\})?(==|!=|=|\+=)"[^"]*"')
    for rule in rules():
        operators = []
        for part in re.split(r",\s*(?=[A-Z])", rule):
            match = item.fullmatch(part)
            assert match, part
            operators.append(match[1] in ("==", "!="))
        assert operators == sorted(operators, reverse=True), rule
        assert {True, False} == set(operators)


@pytest.mark.parametrize("name", shipped_robots())
def test_ports_of_the_shipped_robots_are_named_by_the_rules(name: str) -> None:
    named = {f"/dev/{link}" for rule in rules() for link in re.findall(r'SYMLINK\+="([^"]+)"', rule)}
    hardware = load_robot(name).hardware
    if hardware is None:
        return
    for device in (hardware.string_encoders, hardware.force_sensor):
        if device is not None:
            assert device.port in named


def test_can_is_brought_up_the_same_everywhere() -> None:
    assert any(CAN_SETTINGS in rule for rule in rules())
    assert CAN_SETTINGS in (ROOT / "docs" / "hardware.md").read_text(encoding="utf-8")


def test_limits_are_lines_that_pam_reads() -> None:
    lines = [line for line in (ROOT / LIMITS).read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert [line.split()[:3] for line in lines] == [["@realtime", "-", "rtprio"], ["@realtime", "-", "memlock"]]


@pytest.mark.parametrize("file", sorted(HARDWARE.glob("*.md")), ids=lambda file: file.name)
def test_links_lead_somewhere(file: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)\)", file.read_text(encoding="utf-8")):
        assert (file.parent / target).exists(), target


def test_pins_of_the_wiring_are_those_of_the_firmware() -> None:
    sketch = (HARDWARE / "string_encoder" / "string_encoder.ino").read_text(encoding="utf-8")
    pins = re.findall(r"QuadEncoder\((\d), (\d+), (\d+)\)", sketch)
    table = re.findall(r"^\| (\d) \| (\d+) \| (\d+) \|$", (HARDWARE / "wiring.md").read_text(encoding="utf-8"), re.M)
    assert [(str(int(channel) - 1), a, b) for channel, a, b in pins] == table
