# SPDX-License-Identifier: Apache-2.0
"""What lies between an environment and the robot: the batch for stable-baselines3, and the exported policy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="gymnasium is not installed: the extra learn")

import gymnasium

import continuum_robot.envs  # noqa: F401  # registers the tasks
from continuum_robot.control.policy import load_policy
from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import PolicySettings

OBSERVE = ("tip_target", "tracked_tip", "clarke_reference.position")


@pytest.fixture
def envs():
    made = gymnasium.make_vec(
        "continuum_robot/Reach-v0", num_envs=2, robot="opencr_five_tendon", observe=OBSERVE, period_s=0.1,
        episode_s=0.2, autoreset_mode="SameStep",
    )  # fmt: skip
    yield made.unwrapped
    made.close()


def test_a_network_is_exported_with_the_scales_of_its_environment(envs, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: the extra learn")
    from continuum_robot.envs.export import export_policy  # noqa: PLC0415

    network = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    file = tmp_path / "policy.onnx"
    export_policy(network, envs, file, {"tracked_tip": "tip_pose.position"})
    robot = envs.robot.changed(control=dataclasses.replace(envs.robot.control, policy=PolicySettings(model=str(file))))
    policy = load_policy(robot)
    assert list(policy.observations) == ["clarke_reference.position", "tip_target", "tip_pose.position"]
    seen = {
        "clarke_reference.position": [0, 1e-3],
        "tip_target": [0.1, 0.0, 0.1],
        "tip_pose.position": [0.0, 0.02, 0.2],
    }
    scaled = np.concatenate([np.array(values) / policy.observations[name].scale for name, values in seen.items()])
    with torch.no_grad():
        expected = envs.act.to_si(np.clip(network(torch.tensor(scaled, dtype=torch.float32)).numpy(), -1, 1))
    np.testing.assert_allclose(policy({name: np.array(values) for name, values in seen.items()}), expected, rtol=1e-5)
    with pytest.raises(ParameterError, match=r"names = 'tip' -- expected observations of the environment: clarke_reference"):
        export_policy(network, envs, file, {"tip": "tip_target"})


def test_the_batch_of_stable_baselines_gives_what_the_environment_does(envs):
    pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")
    from continuum_robot.envs.stable_baselines import ScaledVecEnv  # noqa: PLC0415

    batch = ScaledVecEnv(envs)
    batch.seed(5)
    first = batch.reset()
    seen, _ = envs.reset(seed=5)
    scaled = np.concatenate([seen[name] / envs.scales[name] for name in envs.scales], axis=1)
    np.testing.assert_array_equal(first, scaled)
    actions = np.full((2, 2), 0.5, np.float32)
    for _ in range(2):
        seen, rewards, done, infos = batch.step(actions)
    assert done.all()
    assert infos[0]["TimeLimit.truncated"]
    tip = slice(5, 8)  # after the reference and the target
    # The tip has moved at the end of the episode, and the next one begins at the start.
    assert np.abs(infos[0]["terminal_observation"][tip] - first[0, tip]).max() > 0.01
    np.testing.assert_allclose(seen[:, tip], first[:, tip], atol=5e-3)
    assert ((rewards > 0) & (rewards <= 1)).all()
