# SPDX-License-Identifier: Apache-2.0
"""A policy: observations of a robot to an action, by an ONNX model or a Python function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.observations import Action, Observation, action, chosen
from continuum_robot.errors import ParameterError, missing_package
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

_MODEL, _FUNCTION = "control.policy.model", "control.policy.function"


class Policy:
    """Called with observations by name, shape (size,) each, it gives an action, shape (size,); SI units.

    Attributes
    ----------
    observations : what it sees, by name, in the order of its inputs
    action : what it gives
    """

    def __init__(
        self,
        ask: Callable[[Mapping[str, Vector]], Any],
        observations: dict[str, Observation],
        action: Action,
    ) -> None:
        self._ask, self.observations, self.action = ask, observations, action

    def __call__(self, seen: Mapping[str, Vector]) -> Vector:
        """The action; ParameterError where it has another shape or is not finite."""
        given = np.asarray(self._ask(seen), float)
        if given.shape != (self.action.size,):
            raise ParameterError(f"action {self.action.name}", given.shape, f"the shape ({self.action.size},)")
        if not np.isfinite(given).all():
            raise ParameterError(f"action {self.action.name}", given, "finite values")
        return given


def load_policy(robot: Robot) -> Policy:
    """The policy that a robot's file names.

    Raises
    ------
    ParameterError : a file or function that is not there, or whose observations or action the robot does not have
    MissingPackageError : an ONNX model without onnxruntime
    """
    settings = robot.control_settings.policy
    if settings is None:
        raise ParameterError("control.policy", None, f"a policy in the file of robot {robot.name!r}")
    if settings.model:
        folder = Path(robot.file_name).parent if robot.file_name else Path()
        return onnx_policy(folder / Path(settings.model).expanduser(), robot)
    ask = _function(settings.function)
    return Policy(ask, chosen(robot, settings.observations), action(robot, settings.action))


def onnx_policy(file: Path, robot: Robot) -> Policy:
    """The policy of an ONNX model: one input a name of an observation, one output named as its action.

    Inputs and output have the shape (1, size), float32, in SI units. The model runs once, with zeros.
    """
    if not file.is_file():
        raise ParameterError(_MODEL, str(file), "an ONNX file")
    try:
        import onnxruntime  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise missing_package(error) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # the processors are the cycle's
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # what it raises has no common base
        raise ParameterError(_MODEL, str(file), f"a model that onnxruntime can load: {error}") from error
    inputs, outputs = session.get_inputs(), session.get_outputs()
    observations = chosen(robot, [one.name for one in inputs])
    if len(outputs) != 1:
        names = ", ".join(one.name for one in outputs)
        raise ParameterError(_MODEL, str(file), f"one output, named as its action; it has {names}")
    given = action(robot, outputs[0].name)
    sizes = {name: one.size for name, one in observations.items()} | {given.name: given.size}
    for one in (*inputs, *outputs):
        batch, *rest = one.shape or [0]
        # A batch of any size has no number, or the name of one.
        if one.type != "tensor(float)" or rest != [sizes[one.name]] or (isinstance(batch, int) and batch != 1):
            expected = f"float32 of shape (1, {sizes[one.name]})"
            raise ParameterError(f"{file.name}: {one.name}", f"{one.type} of shape {one.shape}", expected)

    def ask(seen: Mapping[str, Vector]) -> Any:
        feed = {name: np.asarray(seen[name], np.float32)[None, :] for name in observations}
        return session.run(None, feed)[0][0]

    policy = Policy(ask, observations, given)
    policy({name: np.zeros(one.size) for name, one in observations.items()})
    return policy


def _function(path: str) -> Callable[[Mapping[str, Vector]], Any]:
    module, _, name = path.partition(":")
    try:
        found: Any = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ParameterError(_FUNCTION, path, f"module:name of a function that can be imported: {error}") from error
    if not callable(found):
        raise ParameterError(_FUNCTION, path, "module:name of something that can be called")
    return found
