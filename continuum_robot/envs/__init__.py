# SPDX-License-Identifier: Apache-2.0
"""Environments of gymnasium: robots under their own controller, driver and limits, simulated in batches.

Importing this package registers the tasks of :data:`TASKS` under ``continuum_robot/NAME-v0``::

    import gymnasium
    import continuum_robot.envs

    env = gymnasium.make("continuum_robot/Reach-v0", robot="opencr_five_tendon")
    envs = gymnasium.make_vec("continuum_robot/Reach-v0", num_envs=256, robot="opencr_five_tendon")
"""

try:
    import gymnasium
except ModuleNotFoundError as error:
    from continuum_robot.errors import missing_package

    raise missing_package(error) from error

from continuum_robot.envs.environment import RobotEnv, RobotVectorEnv
from continuum_robot.envs.tasks import TASKS, Task

__all__ = ["TASKS", "RobotEnv", "RobotVectorEnv", "Task"]

for _name in TASKS:
    gymnasium.register(
        f"continuum_robot/{_name}-v0",
        entry_point="continuum_robot.envs.environment:RobotEnv",
        vector_entry_point="continuum_robot.envs.environment:RobotVectorEnv",
        kwargs={"task": _name},
    )
