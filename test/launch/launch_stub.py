# SPDX-License-Identifier: Apache-2.0
"""What the launch files use of launch and launch_ros, which are not on PyPI: names and keywords, no processes."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest


@dataclass
class LaunchContext:
    launch_configurations: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    is_shutdown: bool = False


class Action:
    pass


@dataclass
class LaunchDescription:
    entities: Sequence[Action]


@dataclass
class DeclareLaunchArgument(Action):
    name: str
    _: Any = field(kw_only=True, default=None)
    default_value: str = field(kw_only=True)
    description: str = field(kw_only=True)
    choices: list[str] | None = field(kw_only=True, default=None)


@dataclass(kw_only=True)
class LogInfo(Action):
    msg: str


@dataclass(kw_only=True)
class OpaqueFunction(Action):
    function: Callable[[LaunchContext], list[Action] | None]


@dataclass
class RegisterEventHandler(Action):
    event_handler: Any


@dataclass(kw_only=True)
class Shutdown(Action):
    reason: str


@dataclass(kw_only=True)
class OnProcessExit:
    target_action: Any
    on_exit: Callable[[Any, LaunchContext], list[Action]]


@dataclass
class ProcessExited:
    returncode: int


@dataclass(kw_only=True)
class Node(Action):
    executable: str
    package: str
    name: str | None = None
    exec_name: str | None = None
    namespace: str | None = None
    parameters: list[Any] = field(default_factory=list)
    ros_arguments: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    output: str = "log"
    emulate_tty: bool = False
    prefix: str = ""
    sigterm_timeout: str = "5"
    sigkill_timeout: str = "5"
    respawn: bool = False
    respawn_delay: float | None = None
    respawn_max_retries: int = -1


_MODULES: dict[str, tuple[type, ...]] = {
    "launch": (LaunchContext, LaunchDescription),
    "launch.action": (Action,),
    "launch.actions": (DeclareLaunchArgument, LogInfo, OpaqueFunction, RegisterEventHandler, Shutdown),
    "launch.event_handlers": (OnProcessExit,),
    "launch.events": (),
    "launch.events.process": (ProcessExited,),
    "launch_ros": (),
    "launch_ros.actions": (Node,),
}


def stubbed(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the stub in the place of launch, for as long as the patch holds."""
    for name, members in _MODULES.items():
        module = types.ModuleType(name)
        vars(module).update({member.__name__: member for member in members})
        patch.setitem(sys.modules, name, module)
    patch.delitem(sys.modules, "continuum_robot.app.launching.description", raising=False)
    yield
    sys.modules.pop("continuum_robot.app.launching.description", None)


def expanded(description: LaunchDescription, **given: str) -> list[Action]:
    """What launch would do: arguments, checked against their choices, then the functions behind them."""
    context, done = LaunchContext(dict(given)), list[Action]()
    for entity in description.entities:
        if isinstance(entity, DeclareLaunchArgument):
            value = context.launch_configurations.setdefault(entity.name, entity.default_value)
            assert entity.choices is None or value in entity.choices, (entity.name, value)
        elif isinstance(entity, OpaqueFunction):
            done += entity.function(context) or []
    return done
