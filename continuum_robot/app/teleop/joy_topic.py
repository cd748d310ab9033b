# SPDX-License-Identifier: Apache-2.0
"""A Joy topic, as joy_node publishes it for an Xbox controller."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
from sensor_msgs.msg import Joy

from continuum_robot.app.client.stack_link import StackLink
from continuum_robot.app.teleop.device import BUTTONS, PAD_HELP, Command, DeviceReading, Help, at_rest
from continuum_robot.nodes.topics import conversions

JOY_AGE_S = 0.3


class JoyTopic:
    """sensor_msgs/Joy as joy_node publishes it for an Xbox controller; what is old counts as let go."""

    help: Help = PAD_HELP
    _AXES = (1, 0, 4)
    _HELD = 4
    _COMMANDS: Mapping[int, Command] = {button.index: button.command for button in BUTTONS}

    def __init__(self, link: StackLink, topic: str = "joy") -> None:
        self._topic, self._messages = topic, link.messages
        self._messages.listen(topic, Joy)
        self._buttons: tuple[int, ...] | None = None

    def read(self) -> DeviceReading:
        """The newest message."""
        message = self._messages[self._topic]
        if message is None:
            return at_rest(f"nothing came on {self._topic}")
        age_s = abs(time.time() - conversions.stamp_ns(message.header.stamp) * 1e-9)
        buttons = tuple(message.buttons)
        # The first message shows which buttons are down already: only what is pressed from now on counts.
        before = buttons if self._buttons is None else self._buttons
        self._buttons = buttons
        pressed = [index for index, value in enumerate(buttons) if value and not _at(before, index, 0)]
        commands = tuple(self._COMMANDS[index] for index in pressed if index in self._COMMANDS)
        if age_s > JOY_AGE_S:
            return at_rest(f"{self._topic} is {age_s:.1f} s old", commands)
        axes = np.array([_at(message.axes, index, 0.0) for index in self._AXES], dtype=float)
        return DeviceReading(axes, bool(_at(buttons, self._HELD, 0)), commands)

    def close(self) -> None:
        """Nothing: the link leaves the topic."""


def _at(values: Sequence[float], index: int, default: float) -> float:
    return values[index] if index < len(values) else default
