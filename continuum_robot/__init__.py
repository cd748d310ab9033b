# SPDX-License-Identifier: Apache-2.0
"""A real-time control stack for tendon-driven continuum robots.

SI units; frames, signs and orders as docs/explanation/architecture.md has them. These names mean the same wherever
they are arguments, so docstrings do not repeat them:

Names
-----
c : strain coefficients of the robot from its base, shape (n,); those of constant curvature are (kappa_x, kappa_y) of
    each segment in body axes, 1/m; with shear or extension dimensionless ones; of a mechanism what its estimator
    reports
c_rate : rates of ``c``, shape (n,), its unit per s
c_acceleration : rates of ``c_rate``, shape (n,), its unit per s
generalized_force : work per change of ``c``, shape (n,), N.m^2 for curvatures
momentum, base_momentum : generalised momentum dT/dc_rate, shape (n,), N.m^2.s for curvatures
displacement : of every tendon, shape (N,), m, pulled in positive; NaN: unknown
velocity : rate of ``displacement``, shape (N,), m/s; NaN: unknown
tension, tension_n : of every tendon, shape (N,), N, never negative
clarke : Clarke coordinates [q_Re, q_Im] of each segment from the base, shape (2m,), m
string_extension : of every string, shape (k,), m, positive where it left the body; NaN: unknown
s_m, arc_length_m : arc length of the backbone from the robot's base, m
dt : time since the previous call, s; of filters their sample period
time_s : time since the beginning of what it belongs to, s; of a series shape (k,), increasing
t_s : time since a reference began, s
now_s : time on the caller's clock, s; monotonic, or virtual
duration_s : how long, s
timeout_s : longest time to wait, s
rng : draws all randomness, so that the same seed gives the same result
progress : receives a line of text before something that takes long
json_file : where to write the numbers too; None: nowhere
console : where to print; None: standard output
node_options : of :class:`rclpy.node.Node`, such as ``context``, ``namespace`` and ``parameter_overrides``
"""

import importlib
import pathlib
from pkgutil import extend_path
from typing import Any

# The messages generated from msg/ and srv/ live in the installed half of this package;
# a source checkout in front of it on sys.path must not hide them.
__path__ = extend_path(__path__, __name__)

# The names to start with, imported on first use: a program that needs a rod alone needs no ROS.
_EXPORTS = {
    "load_robot": "robot.loading",
    "robot_model": "models.making",
    "RobotModel": "models.robot_model",
    "Rod": "rod.rod",
    "Plant": "simulation.plant",
    "ShapeEstimator": "estimation.shape",
    "ContactMonitor": "estimation.contact.monitor",
    "ClarkeController": "control.clarke_controller",
    "TipControl": "control.tip.control",
    "ContactReaction": "control.contact_reaction",
    "make_reference": "control.references",
    "load_recording": "app.recordings.dataset",
    "Robot": "client",
}
__all__ = ["__version__", *_EXPORTS]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})


def _version() -> str:
    """Of the installation; colcon's has it in package.xml alone."""
    try:
        return importlib.import_module("importlib.metadata").version("continuum-robot")
    except ImportError:
        here = pathlib.Path(__file__).resolve()
        files = (here.parents[1], *(parent / "share" / "continuum_robot" for parent in here.parents))
        text = next((file / "package.xml").read_text() for file in files if (file / "package.xml").is_file())
        return text.partition("<version>")[2].partition("<")[0]
