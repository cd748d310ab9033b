# SPDX-License-Identifier: Apache-2.0
"""Behaviour cloning: ten demonstrations by hand become a LeRobotDataset, then a policy in the robot's stack."""

import argparse
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from continuum_robot import load_robot
from continuum_robot.app.recordings.dataset import DataSet, Episode
from continuum_robot.control.references import ClarkeReference
from continuum_robot.robot.control_settings import PolicySettings
from continuum_robot.testing import VirtualStack

WEIGHTS, SEEN, ROBOT = np.zeros((6, 2)), ("clarke_state.position", "tip_target"), load_robot("opencr_five_tendon")
POLICY = PolicySettings(function="__main__:clone", observations=SEEN, action="clarke", rate_hz=50.0)
STATE = ["clarke_state.position[0]", "clarke_state.position[1]", "tip_target.x", "tip_target.y", "tip_target.z"]
ACTION = ["clarke_reference.position[0]", "clarke_reference.position[1]"]


def clone(seen):
    """The policy: observations by name, m, to a reference of the coordinates, m."""
    return np.hstack([1.0, *(seen[name] for name in SEEN)]) @ WEIGHTS


def steer(target, seed, policy=None):
    """Bring the tip to a target, by a policy or a trembling hand: of each frame state, action, and the error in mm."""
    rng, reference, rows = np.random.default_rng(seed), np.zeros(2), []
    with VirtualStack(ROBOT.changed(control=replace(ROBOT.control, policy=policy)), seed=seed) as stack:
        stack.activate()
        if policy is not None:
            stack.controller.hear("tip_target", target)
        for _ in range(150):
            off = target - stack.plant.pose(ROBOT.length_m)[:3, 3]
            reference = reference + 0.008 * off[:2] + rng.normal(scale=2e-5, size=2)
            rows.append(np.hstack([stack.state.clarke_m, target, reference, 1e3 * np.linalg.norm(off)]))
            stack.follow(lambda _t, at=reference: ClarkeReference.at_rest(at), 1 / POLICY.rate_hz)
    return np.array(rows)


def main(out: str) -> None:
    """Demonstrate, clone, and try at targets that were not demonstrated."""
    angle, radius = 2.4 * np.arange(13), np.array([50, 30, 20, 40, 60, 50, 30, 20, 40, 60, 45, 25, 55]) / 1000
    targets = np.stack([radius * np.cos(angle), radius * np.sin(angle), 0.2 - 3.5 * radius**2], axis=1)
    shown = [steer(target, seed) for seed, target in enumerate(targets[:10])]
    data = DataSet(ROBOT.name, POLICY.rate_hz, STATE, ACTION, [Episode(rows[:, :5], rows[:, 5:7]) for rows in shown])
    shutil.rmtree(f"{out}/16_demonstrations", ignore_errors=True)
    frames = pd.read_parquet(data.write(f"{out}/16_demonstrations", "lerobot", "bring the tip to the target") / "data")
    seen = np.insert(np.stack(frames["observation.state"]).astype(float), 0, 1.0, axis=1)
    WEIGHTS[:] = np.linalg.lstsq(seen, np.stack(frames["action"]), rcond=None)[0]
    done = [steer(target, seed, POLICY) for seed, target in enumerate(targets[10:], 10)]
    for name, ways in (("by hand", shown), ("by the clone, new targets", done)):
        print(f"{name}: {', '.join(f'{rows[-1, 7]:.2f}' for rows in ways)} mm from the target")
        plt.plot(np.transpose([rows[:, 7] for rows in ways]), "k:" if ways is shown else "C0")
    plt.gca().set(xlabel="frame", ylabel="tip to target [mm]", title="by hand (dotted) and by the clone")
    plt.savefig(f"{out}/16_behaviour_cloning.png", dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="runs/examples", help="folder of the plot and of the data set")
    main(parser.parse_args().out)
