# SPDX-License-Identifier: Apache-2.0
"""Values of a robot from what was recorded of it, and the procedures that move it for that.

One path: a record -> residuals by its parameters -> one least squares -> what was found -> the robot file.

| what | record | residuals and what was found |
|---|---|---|
| drives, masses, stiffness, damping | `procedures/chirps`, `recorded_motion` | `motion/` by kind of robot |
| capstans: stiffness, friction, masses | `recorded_motion` | `dynamics_fit` |
| held tendons: geometry, statics, friction | `recordings` | `geometry_fit`, `displaced/` |
| equilibrium modulation | tracked poses | `modulation_fit` |
| payload | `weighing_motion` | `weighing` |
| cogging of motors | `procedures/cogging` | `cogging_fit` |
| torque constants of motors | `procedures/hung_weight` | the same |

All residuals go through `fit`: parameters with what is expected of them, error bars, blocks that are left out. The
numbers of a rod are linear in its masses and stiffnesses; `simulated_motion` gives a motion with its slopes. Keys are
those of the robot's file (`robot_keys`), which `robot_file` writes back.
"""
