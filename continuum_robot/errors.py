# SPDX-License-Identifier: Apache-2.0
"""The project's exceptions: one base, each also the builtin that fits, each carrying its data."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

MISCONFIGURED = 78
"""Exit code of a node's program whose parameters or files cannot be used, EX_CONFIG of sysexits.h: it is not started
again.
"""


class ContinuumRobotError(Exception):
    """Base of every error that this project raises on purpose. They go from process to process whole."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args), self.__dict__


class RobotFileError(ContinuumRobotError, ValueError):
    """A robot file, or another settings file, that cannot be used.

    Attributes
    ----------
    file : the file's path, None for a mapping that came from elsewhere
    key : dotted path of the key, e.g. ``segments[0].tendons.count``
    value : what stood there
    expected : what is allowed, as a phrase
    line : line number in the file, from 1; None where unknown
    """

    def __init__(self, file: Path | str | None, key: str, value: Any, expected: str, line: int | None = None) -> None:
        self.file = None if file is None else Path(file)
        self.key, self.value, self.expected, self.line = key, value, expected, line
        place = "settings" if file is None else str(file)
        if line is not None:
            place += f":{line}"
        where = f"{key}: " if key else ""
        # Names in a file may hold line ends, and stand in what is expected.
        super().__init__(_printable(f"{place}: {where}{_shown(value)} -- expected {expected}"))


class ParameterError(ContinuumRobotError, ValueError):
    """An argument outside its allowed range: ``name``, ``value``, ``expected`` (a phrase)."""

    def __init__(self, name: str, value: Any, expected: str) -> None:
        self.name, self.value, self.expected = name, value, expected
        super().__init__(f"{name} = {_shown(value)} -- expected {expected}")


class MissingPackageError(ContinuumRobotError, ImportError):
    """A package that is needed and not installed; the text says how to install it."""


_EXTRAS = {
    "app": ("typer", "rich", "matplotlib", "rosbags", "mcap"),
    "devices": ("can", "serial"),
    "predictive": ("casadi",),
    "viz": ("viser", "websockets", "msgspec", "PIL"),
    "mujoco": ("mujoco",),
    "learn": ("gymnasium", "onnx", "onnxruntime", "pandas", "pyarrow"),
    "rerun": ("rerun",),
}
"""Modules by the extra of pyproject.toml that brings them. What ROS 2 brings is not here: its packages are many."""
_ROS = re.compile(r"rclpy|rosidl_\w+|\w+_interfaces|\w+_msgs|std_srvs")
_MESSAGES = re.compile(r"continuum_robot\.(msg|srv|action)|tf2_msgs")


def only_messages_miss(error: ModuleNotFoundError) -> bool:
    """Whether an import failed for want of the package's messages alone, where ROS 2 itself is installed."""
    return bool(_MESSAGES.fullmatch(error.name or "")) and importlib.util.find_spec("rclpy") is not None


def missing_package(error: ModuleNotFoundError) -> Exception:
    """The :class:`MissingPackageError` for an import that failed, or ``error`` itself where it is our own mistake."""
    module = error.name or ""
    top = module.partition(".")[0]
    extra = next((extra for extra, modules in _EXTRAS.items() if top in modules), None)
    if only_messages_miss(error):
        return MissingPackageError(
            f"the ROS 2 messages are not built (no module {module}). Run: python -m continuum_robot.messages"
        )
    if _ROS.fullmatch(module) or _MESSAGES.fullmatch(module):
        extra = "ros"
        top = f"ROS 2 (no module {module})"
    if extra is None:
        return error
    more = ". On ROS 2 proper build the package with colcon and source its workspace" if extra == "ros" else ""
    return MissingPackageError(f"this needs {top}: pip install 'continuum-robot[{extra}]'{more}")


def optional(name: str) -> Any:
    """A module that an extra brings. Where it is missing: something false, raising MissingPackageError once used."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        return _Missing(error)


class _Missing:
    def __init__(self, error: ModuleNotFoundError) -> None:
        self._error = error

    def __bool__(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        raise missing_package(self._error)


class ReachError(ParameterError):
    """A shape that bends further than the model's functions hold: ``name``, ``value``, ``expected``."""


class DeviceError(ContinuumRobotError, OSError):
    """A device that does not answer or answers wrongly: ``device``, ``problem``, ``remedy`` (what to do)."""

    def __init__(self, device: str, problem: str, remedy: str) -> None:
        self.device, self.problem, self.remedy = device, problem, remedy
        super().__init__(f"{device}: {problem}. {remedy}")


class RobotFaultError(DeviceError):
    """A fault of the robot that ended a motion: ``device``, ``problem``, ``remedy``."""


class RobotTimeoutError(DeviceError, TimeoutError):
    """Something that did not happen in time: ``device``, ``problem``, ``remedy``."""


class FrameError(ContinuumRobotError, ValueError):
    """Bytes that are no frame of a protocol: ``protocol``, ``problem``. The one error that frame decoders raise."""

    def __init__(self, protocol: str, problem: str) -> None:
        self.protocol, self.problem = protocol, problem
        super().__init__(f"{protocol}: {problem}")


class RecordingError(ContinuumRobotError, ValueError):
    """A recording or data file that cannot be used: ``file``, ``problem``, ``remedy``."""

    def __init__(self, file: Path | str, problem: str, remedy: str) -> None:
        self.file, self.problem, self.remedy = Path(file), problem, remedy
        super().__init__(f"{file}: {problem}. {remedy}")


class ConvergenceError(ContinuumRobotError, ArithmeticError):
    """An iteration that did not converge: ``problem``, ``residual`` (in its own unit, or relative), ``tolerance``,
    ``iterations``.
    """

    def __init__(self, problem: str, residual: float, tolerance: float, iterations: int) -> None:
        self.problem, self.residual, self.tolerance, self.iterations = problem, residual, tolerance, iterations
        super().__init__(f"{problem}: residual {residual:.3g} > {tolerance:.3g} after {iterations} iterations")


class IdentifiabilityError(ContinuumRobotError, ValueError):
    """Data that do not identify some parameters: ``parameters`` (their names), ``problem``, ``remedy``."""

    def __init__(self, parameters: tuple[str, ...], problem: str, remedy: str) -> None:
        self.parameters, self.problem, self.remedy = parameters, problem, remedy
        super().__init__(f"{', '.join(parameters)} cannot be identified: {problem}. {remedy}")


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _restored(kind: type[ContinuumRobotError], args: tuple[Any, ...]) -> ContinuumRobotError:
    error = kind.__new__(kind)
    error.args = args
    return error
