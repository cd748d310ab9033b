# SPDX-License-Identifier: Apache-2.0
"""Every number of every request and goal is checked, and no interface is without its check."""

from __future__ import annotations

import ast
import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from pages.interfaces import PARTS, parsed

from continuum_robot.errors import ParameterError
from continuum_robot.identification.procedures.homing import Homing, HomingSettings
from continuum_robot.identification.procedures.hung_weight import HungWeight, HungWeightSettings
from continuum_robot.identification.procedures.tendon_check import TendonCheck, TendonCheckSettings
from continuum_robot.nodes.base.requests import REQUESTS, check_request
from continuum_robot.robot.loading import load_robot

ROOT = Path(__file__).resolve().parents[3]
HOSTILE = (math.nan, math.inf, -math.inf, -1.0, 1e9)
# What the definition itself reports: -1 is "all", a jump by -1 m, and a threshold below 0 stays as it is.
MEANT = {("InjectFault", "tendon"): (-1.0,), ("InjectFault", "magnitude"): (-1.0,)} | {
    ("SetContactThresholds", field.name): (-1.0,) for field in dataclasses.fields(REQUESTS["SetContactThresholds"])
}
GOOD = {
    "InjectFault": {"fault": "stuck_motor", "tendon": 0, "magnitude": 0.0, "duration_s": 0.0},
    "ManageStack": {"command": 3},
    "ReleaseEstop": {"holder": "gone"},
    "SetContactThresholds": dict.fromkeys(
        (field.name for field in dataclasses.fields(REQUESTS["SetContactThresholds"])), -1.0
    ),
    "SwitchController": {"controller": "hold_tension"},
    "TakeCommands": {"writer": ""},
    "TakeReference": {"writer": ""},
    "CalibrateTorque": {"tendon": 1, "mass": 0.5},
    "CheckTendons": {"pull": 0.0},
    "HomeTendons": {"tension": 0.0},
    "LearnFloor": {"duration": 10.0, "only_if_missing": False},
}


def asked_fields(name: str) -> dict[str, str]:
    """Type of every field of a request or goal, from its file."""
    (file,) = [*ROOT.glob(f"srv/{name}.srv"), *ROOT.glob(f"action/{name}.action")]
    _, fields = parsed(file.read_text(encoding="utf-8").split("---")[0], file)
    return {field.name: field.kind for field in fields if not field.constant}


INTERFACES = sorted(file.stem for kind in ("srv", "action") for file in (ROOT / kind).glob(f"*.{kind}"))
NUMBERS = [
    (name, field) for name in INTERFACES for field, kind in asked_fields(name).items() if kind not in ("string", "bool")
]


def test_every_service_and_action_has_its_check_with_all_of_its_fields():
    assert set(PARTS) == {"msg", "srv", "action"}
    assert sorted(REQUESTS) == INTERFACES == sorted(GOOD)
    for name, kind in REQUESTS.items():
        assert {field.name for field in dataclasses.fields(kind)} == asked_fields(name).keys(), name


def test_every_server_of_them_asks_the_check():
    texts = [file.read_text(encoding="utf-8") for file in (ROOT / "continuum_robot" / "nodes").rglob("*.py")]
    checked = {
        ast.literal_eval(node.args[0])
        for text in texts
        if " check_request(" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "check_request"
    }
    assert checked == set(INTERFACES)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_good_request_passes_as_it_is(name):
    assert dataclasses.asdict(check_request(name, SimpleNamespace(**GOOD[name]))) == GOOD[name]


@pytest.mark.parametrize(("name", "field"), NUMBERS)
@pytest.mark.parametrize("value", HOSTILE)
def test_every_number_is_refused_with_field_value_and_range(name, field, value):
    request = SimpleNamespace(**GOOD[name] | {field: value})
    if value in MEANT.get((name, field), ()):
        check_request(name, request)
        return
    with pytest.raises(ParameterError) as caught:
        check_request(name, request)
    assert caught.value.name == field
    assert float(caught.value.value) == value or math.isnan(value)
    assert str(caught.value).startswith(f"{field} = {caught.value.value} -- expected")
    assert "a number in [" in caught.value.expected or "a number in (" in caught.value.expected


@pytest.mark.parametrize("value", HOSTILE)
def test_procedures_take_no_such_number_from_python_either(value):
    robot = load_robot("opencr_five_tendon")
    for make in (
        lambda: Homing(robot, HomingSettings(tension_n=value)),
        lambda: TendonCheck(robot, TendonCheckSettings(pull_n=value)),
        lambda: HungWeight(robot, 0, value),
        lambda: HungWeight(robot, 0, 0.5, HungWeightSettings(speed_m_per_s=value)),
    ):
        with pytest.raises(ParameterError):
            make()
