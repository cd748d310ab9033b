# SPDX-License-Identifier: Apache-2.0
"""The batch of robots as stable-baselines3 takes it: flat observations over their scales."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from continuum_robot.envs.environment import RobotVectorEnv, Seen
from continuum_robot.envs.export import export_policy
from continuum_robot.errors import ParameterError

Array = NDArray[np.float32]


class ScaledVecEnv(VecEnv):
    """A :class:`RobotVectorEnv` for the algorithms of stable-baselines3.

    Observations are one after the other as in ``envs.scales``, divided by these, shape (num_envs, all sizes): what
    :func:`~continuum_robot.envs.export.export_policy` writes into the model.

    Parameters
    ----------
    envs : made with ``autoreset_mode="SameStep"``
    """

    def __init__(self, envs: RobotVectorEnv) -> None:
        if envs.metadata["autoreset_mode"] is not gymnasium.vector.AutoresetMode.SAME_STEP:
            raise ParameterError("envs.autoreset_mode", envs.metadata["autoreset_mode"].value, "SameStep")
        self.envs = envs
        self._scale = np.concatenate(list(envs.scales.values()))
        seen = gymnasium.spaces.Box(-np.inf, np.inf, self._scale.shape, np.float32)
        super().__init__(envs.num_envs, seen, envs.single_action_space)

    def _flat(self, seen: Seen) -> Array:
        return np.asarray(np.concatenate([seen[name] for name in self.envs.scales], axis=-1) / self._scale)

    def reset(self) -> Array:
        """Begin; robot i draws from the seed given to :meth:`seed`, plus i."""
        seeds = None if self._seeds[0] is None else self._seeds
        self._reset_seeds()
        return self._flat(self.envs.reset(seed=seeds)[0])

    def step_async(self, actions: NDArray[Any]) -> None:
        """Take the actions of the next step."""
        self._actions = actions

    def step_wait(self) -> tuple[Array, Array, NDArray[np.bool_], list[dict[str, Any]]]:
        """Step."""
        seen, rewards, terminated, truncated, told = self.envs.step(self._actions)
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in done]
        for index in np.flatnonzero(done):
            infos[index] = {
                "terminal_observation": self._flat(told["final_obs"][index]),
                "TimeLimit.truncated": bool(truncated[index]),
            }
        return self._flat(seen), rewards.astype(np.float32), done, infos

    def close(self) -> None:
        """End the robots."""
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the batch, once for each of these robots."""
        return [getattr(self.envs, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:  # noqa: ARG002
        """Refused: robots of a batch have their attributes in common."""
        raise ParameterError(attr_name, value, "no change: it is an argument of the environment")

    def env_method(self, method_name: str, *_args: Any, indices: Any = None, **_kwargs: Any) -> list[Any]:  # noqa: ARG002
        """Refused: robots of a batch have no methods of their own."""
        raise ParameterError("method_name", method_name, "none: call the batch itself, `envs`")

    def env_is_wrapped(self, _wrapper_class: Any, indices: Any = None) -> list[bool]:
        """None is."""
        return [False for _ in self._get_indices(indices)]


def export_trained(model: Any, file: Path | str, names: Mapping[str, str] | None = None) -> None:
    """Write what a model has learned as a policy, without its exploring; arguments and errors of ``export_policy``.

    Parameters
    ----------
    model : an algorithm with a distribution of actions, such as PPO or A2C, that learned from a :class:`ScaledVecEnv`
    """
    envs = model.get_env().unwrapped.envs
    export_policy(_Mean(model.policy), envs, file, names)


class _Mean(torch.nn.Module):
    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        return self.policy.get_distribution(seen).mode()
