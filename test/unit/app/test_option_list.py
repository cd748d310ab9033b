# SPDX-License-Identifier: Apache-2.0
"""One list of options at every face."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.app.client.robot import Robot
from continuum_robot.app.launching.plan import LaunchOptions, stack_arguments
from continuum_robot.app.running.options import DemoOptions, UpOptions
from continuum_robot.errors import ParameterError
from continuum_robot.nodes.stack.option_list import DEMO, LAUNCH, NODE, UP, StackFields, from_texts, offered
from continuum_robot.nodes.stack.options import StackOptions

FACES = {UP: UpOptions, DEMO: DemoOptions, LAUNCH: LaunchOptions, NODE: StackFields}
OF_THE_CLIENT = {"processes", "timeout_s", "self"}
TEXTS = {argument.name: argument.default for argument in stack_arguments(True)}


@pytest.mark.parametrize("face", FACES)
def test_names_at_a_face_are_different(face):
    names = [one.name for one in offered(FACES[face], face)]
    assert len(set(names)) == len(names)


def test_keywords_of_the_client_are_options_of_a_stack_with_their_defaults():
    usual = {one.name: one.default for one in dataclasses.fields(StackOptions)}
    for name, parameter in inspect.signature(Robot.__init__).parameters.items():
        if name == "parameters":
            assert name in usual
        elif name not in OF_THE_CLIENT:
            assert parameter.default == usual[name], name


def test_texts_of_a_launch_file_are_values():
    given = from_texts(LaunchOptions, LAUNCH, TEXTS | {"activate": "false", "payload_kg": "0.25", "respawn": "7"})
    options = LaunchOptions(**given)
    assert (options.autostart, options.payload_kg, options.respawn) == (False, 0.25, 7)
    assert StackOptions.of(options).payload_kg == 0.25


@pytest.mark.parametrize(
    ("name", "value"), [("payload_kg", "heavy"), ("payload_kg", "nan"), ("respawn", "2.5"), ("seed", "-2")]
)
def test_a_text_that_is_no_value_is_named(name, value):
    with pytest.raises(ParameterError, match=name):
        from_texts(LaunchOptions, LAUNCH, TEXTS | {name: value})


@pytest.mark.parametrize(
    "wrong", [{"reaction": "run"}, {"payload_kg": 101.0}, {"controller": "pid"}, {"clock": "sundial"}]
)
def test_a_stack_refuses_what_no_face_offers(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        StackOptions(**wrong)
