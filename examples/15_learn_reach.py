# SPDX-License-Identifier: Apache-2.0
"""Learn to reach: PPO trains a policy in simulation, which then runs in the stack on a robot that it has not seen."""

import argparse
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
from matplotlib import pyplot as plt

import continuum_robot.envs  # noqa: F401  # registers the tasks
from continuum_robot import load_robot
from continuum_robot.robot.control_settings import PolicySettings
from continuum_robot.testing.tip_trial import tip_trial

ROBOT, RATE_HZ = load_robot("opencr_five_tendon"), 10.0
SEEN = ("tip_target", "tip_pose.position", "clarke_reference.position")


def environment(count):
    """Robots stiffer or softer than their controllers believe; a tracker sees their tips."""
    unknown, seen = {"segments[0].backbone.youngs_modulus_pa": (5e10, 7e10)}, (SEEN[0], "tracked_tip", SEEN[2])
    options = {"randomise": unknown, "redraw_every": 5, "autoreset_mode": "SameStep", "period_s": 1 / RATE_HZ}
    return gymnasium.make_vec("continuum_robot/Reach-v0", count, robot=ROBOT, observe=seen, **options).unwrapped


def train(steps, file):
    """Learn from 32 robots at once; on the robot the estimator sees the tip in the place of a tracker."""
    import torch  # noqa: PLC0415  # all else runs without it
    from stable_baselines3 import PPO  # noqa: PLC0415

    from continuum_robot.envs.stable_baselines import export_trained, scaled_vec_env  # noqa: PLC0415

    torch.set_num_threads(1)  # so small a network takes longer on two
    settings = {"n_steps": 32, "batch_size": 256, "gamma": 0.9, "learning_rate": 1e-3, "seed": 1}
    model = PPO("MlpPolicy", scaled_vec_env(environment(32)), policy_kwargs={"log_std_init": -1.0}, **settings)
    export_trained(model.learn(steps), file, {"tracked_tip": "tip_pose.position"})


def by_hand(seen):
    """A policy without learning: a third of the tip's way to its target, by the slope of the straight rod."""
    way_m = (seen["tip_target"] - seen["tip_pose.position"])[:2]
    return seen["clarke_reference.position"] + way_m / 3 * 2 * 0.007 / ROBOT.length_m


def main(out: Path, steps: int) -> None:
    """Bring the tip to targets by each policy and by inverse kinematics with feedback."""
    out.mkdir(parents=True, exist_ok=True)
    hand = PolicySettings(function="__main__:by_hand", observations=SEEN, action="clarke", rate_hz=RATE_HZ)
    policies = {"inverse kinematics": None, "by hand": hand}
    if steps:
        train(steps, out / "reach.onnx")
        policies["learned"] = PolicySettings(model=str((out / "reach.onnx").resolve()), rate_hz=RATE_HZ)
    goals = environment(10 if steps else 1)
    goals.reset(seed=1000)
    for name, policy in policies.items():
        robot = ROBOT.changed(control=replace(ROBOT.control, policy=policy))
        mm = 1e3 * np.array([tip_trial(robot, goal, truth="opencr_five_tendon") for goal in goals.task.goals])
        print(f"{name:<20}  {mm[:, -1000:].mean():.2f} mm from the target in the last second of 5")
        plt.semilogy(np.arange(mm.shape[1]) / 1e3, mm.mean(axis=0), label=name)
    plt.legend(title="mean distance of the true tip from its target [mm] over time [s]")
    plt.savefig(out / "15_learn_reach.png", dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="folder of plot and policy")
    parser.add_argument("--steps", type=int, default=400_000, help="actions to learn from; 0: do not learn")
    main(**vars(parser.parse_args()))
