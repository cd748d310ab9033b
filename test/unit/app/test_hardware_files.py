# SPDX-License-Identifier: Apache-2.0
"""Files in hardware/ against the code and the robot files that they serve."""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from continuum_robot.app.devices import LIMITS
from continuum_robot.drivers.can_bus import bring_up_commands, bring_up_line
from continuum_robot.drivers.serial_port import UDEV_RULES
from continuum_robot.robot.file.shipped_files import shipped_robots
from continuum_robot.robot.loading import load_robot

ROOT = Path(__file__).resolve().parents[3]
HARDWARE = ROOT / "hardware"
VERIFIES_SINCE = 254  # systemd
LONGEST_INTERFACE_NAME = 15
# Names that the kernel, or systemd for it, gives to interfaces and ports, with a number behind them.
FROM_THE_KERNEL = re.compile(
    r"(v|vx|sl)?can\d+|(eth|wlan|wwan|usb|ib|ifb|sit|tun|tap|veth|dummy|bond|tty[A-Za-z]*)\d+|lo|en\w+|wl\w+"
)


def rules() -> list[str]:
    """The rules, and the patterns for rules behind a comment sign."""
    lines = (ROOT / UDEV_RULES).read_text(encoding="utf-8").splitlines()
    return [line.lstrip("#") for line in lines if re.match(r"#?[A-Z]+==", line)]


def values(key: str) -> list[str]:
    """What rules and patterns set a key to."""
    return [value for rule in rules() for value in re.findall(rf'(?:^|, ){re.escape(key)}\+?="([^"]*)"', rule)]


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
    assert values("RUN") == [f"/sbin/{command}" for command in bring_up_commands("$name")]
    pages = [file.read_text(encoding="utf-8") for file in (*ROOT.glob("docs/**/*.md"), *HARDWARE.glob("*.md"))]
    telling = [page for page in pages if "type can bitrate" in page]
    assert telling
    assert all(bring_up_line("can0") in page for page in telling)


def test_restart_after_bus_off_cannot_keep_an_interface_down() -> None:
    """Some drivers of adapters refuse ``restart-ms``: it is asked for by itself, and before the interface is up."""
    restart, bring_up = bring_up_commands("can0")
    assert "restart-ms" in restart
    assert "up" not in restart.split()
    assert "restart-ms" not in bring_up
    assert "up" in bring_up.split()


def test_rules_give_no_name_that_the_kernel_hands_out() -> None:
    names = values("NAME")
    assert len(names) >= 3
    for name in (*names, *values("SYMLINK")):
        assert not FROM_THE_KERNEL.fullmatch(name), name
    assert all(len(name) <= LONGEST_INTERFACE_NAME for name in names)


@pytest.mark.parametrize("name", ["can0", "slcan1", "eth0", "ttyUSB0", "ttyACM1", "lo", "enp3s0", "wlp2s0"])
def test_names_of_the_kernel_are_seen(name: str) -> None:
    assert FROM_THE_KERNEL.fullmatch(name)


def test_an_adapter_without_a_serial_number_can_be_told_apart() -> None:
    """By the port that it is plugged into, and its channels by their numbers."""
    for setting in ("NAME", "SYMLINK"):
        assert any("KERNELS==" in rule and "serial" not in rule for rule in rules() if f"{setting}" in rule)
    assert any("KERNELS==" in rule and "ATTR{dev_id}==" in rule for rule in rules())


def test_udevadm_finds_nothing_wrong_with_the_rules_and_their_patterns(tmp_path: Path) -> None:
    udevadm = shutil.which("udevadm")
    if udevadm is None:
        pytest.skip("udevadm is not installed")
    version = subprocess.run([udevadm, "--version"], capture_output=True, text=True, timeout=300, check=True).stdout
    if int(version.split()[0]) < VERIFIES_SINCE:
        pytest.skip(f"udevadm {version.strip()} cannot verify rules: systemd {VERIFIES_SINCE} can")
    file = tmp_path / Path(UDEV_RULES).name
    file.write_text("\n".join(rules()) + "\n", encoding="utf-8")
    # The group dialout need not exist where this is run.
    command = [udevadm, "verify", "--resolve-names=never", str(file)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert said.returncode == 0, said.stdout + said.stderr


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


def test_the_picture_of_the_wiring_has_the_channels_and_tendons_of_the_robot_file() -> None:
    robot = load_robot("opencr_five_tendon")
    assert robot.hardware is not None
    picture = ElementTree.parse(HARDWARE / "wiring.svg")
    texts = ["".join(text.itertext()) for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    channels = [text.removeprefix("channel ").rstrip(":") for text in texts if text.startswith("channel ")]
    assert channels == list(robot.hardware.tendon_actuators.channels)
    motors = [(text, texts[index + 1]) for index, text in enumerate(texts) if re.fullmatch(r"motor \d", text)]
    entries = robot.hardware.tendon_actuators.motors
    assert motors == [(f"motor {entry.motor}", f"tendon {entry.tendon}") for entry in entries]
    assert [text for text in texts if re.fullmatch(r"string \d", text)] == ["string 1", "string 2"]
    assert len(robot.strings) == 2
