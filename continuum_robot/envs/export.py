# SPDX-License-Identifier: Apache-2.0
"""From a trained network to the ONNX file of a policy, which a robot's file names as ``control.policy.model``."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from continuum_robot.envs.environment import RobotEnv, RobotVectorEnv
from continuum_robot.errors import ParameterError, missing_package


def export_policy(
    network: Any,
    env: RobotEnv | RobotVectorEnv,
    file: Path | str,
    names: Mapping[str, str] | None = None,
) -> None:
    """Write a network of torch as a policy, with the scales of its environment inside.

    Parameters
    ----------
    network : a ``torch.nn.Module``: observations over their scales, one after the other as in
        ``env.scales``, shape (1, all sizes), to actions (1, size), which are clipped to [-1, 1]
    env : where it was trained
    file : is written; inputs are the observations, the output is the action, (1, size) each, float32, in SI units
    names : observations of the environment to what they are called on the robot, if that differs, such as
        ``{"tracked_tip": "tip_pose.position"}`` for a tip that the robot's sensors estimate

    Raises
    ------
    ParameterError : a name that the environment does not observe
    MissingPackageError : torch writes such files by the package onnx, of the extra ``learn``
    """
    import torch  # noqa: PLC0415  # no dependency of this package

    if importlib.util.find_spec("onnx") is None:
        raise missing_package(ModuleNotFoundError(name="onnx"))
    scales, renamed = env.scales, dict(names or {})
    for name in renamed:
        if name not in scales:
            raise ParameterError("names", name, f"observations of the environment: {', '.join(scales)}")

    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network
            self.scales = [torch.tensor(scale) for scale in scales.values()]
            self.low, self.span = (
                torch.tensor(value, dtype=torch.float32) for value in (env.act.low, env.act.high - env.act.low)
            )

        def forward(self, *seen: Any) -> Any:
            scaled = [values / scale for values, scale in zip(seen, self.scales, strict=True)]
            return self.low + (torch.clamp(self.network(torch.cat(scaled, 1)), -1.0, 1.0) + 1) / 2 * self.span

    zeros = tuple(torch.zeros(1, len(scale)) for scale in scales.values())
    with warnings.catch_warnings():
        # torch's other exporter needs a package more.
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            Scaled().eval(),
            zeros,
            str(file),
            input_names=[renamed.get(name, name) for name in scales],
            output_names=[env.act.name],
            dynamo=False,
        )
