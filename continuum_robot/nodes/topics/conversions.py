# SPDX-License-Identifier: Apache-2.0
"""Between numpy inside and messages outside. Quaternions are w-first inside and x-first in messages, only here."""

from __future__ import annotations

import array
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from geometry_msgs.msg import Point, Pose, Quaternion, Transform, TransformStamped
from numpy.typing import NDArray
from rclpy.clock import Clock, ClockType, ROSClock
from rclpy.serialization import deserialize_message

from continuum_robot.geometry.so3 import matrix_from_quaternion, quaternion_from_matrix
from continuum_robot.robot.actuation import DISPLACEMENT, TENSION

Vector = NDArray[np.float64]

NS_PER_S = 1_000_000_000


def preallocate(message: Any, field: str, count: int, fill: float = np.nan) -> Vector:
    """Give a ``float64[]`` field its memory once, and a numpy view on it."""
    memory = array.array("d", [fill] * count)
    setattr(message, field, memory)
    # The setter keeps an array.array of the right type, it does not copy.
    return np.frombuffer(getattr(message, field), dtype=np.float64)


def preallocate_bytes(message: Any, field: str, count: int) -> NDArray[np.uint8]:
    """As :func:`preallocate` for a ``uint8[]`` field, filled with zeros."""
    memory = array.array("B", bytes(count))
    setattr(message, field, memory)
    return np.frombuffer(getattr(message, field), dtype=np.uint8)


def vector(field: array.array[float]) -> Vector:
    """A received ``float64[]`` field as a numpy view, shape (entries,)."""
    return np.frombuffer(field, dtype=np.float64)


def message_of(data: Any, kind: Any) -> Any:
    """The message that was heard raw; None where its bytes are none: any program may send them.

    ``data``: bytes, or what the bus of lock-step hands a lazy listener instead, which is read here.
    """
    if not isinstance(data, bytes):
        return data.message(kind)
    try:
        return deserialize_message(data, kind)
    except RuntimeError:  # the base of rclpy's own errors
        return None


def command_field(*, displacements: bool) -> str:
    """The field of TendonCommands that actuators take."""
    return DISPLACEMENT if displacements else TENSION


def commanded_field(*, displacements: bool) -> str:
    """The field of TendonStates in which the driver says what it sent."""
    return f"commanded_{command_field(displacements=displacements)}"


def commanded(states: Any) -> array.array[float]:
    """What the driver sent to the tendons, N or m, whichever their actuators take."""
    tension: array.array[float] = states.commanded_tension
    return tension if len(tension) else states.commanded_displacement


def float_array(values: Any) -> array.array[float]:
    """A ``float64[]`` field from numbers or a numpy array of any shape, row-major."""
    return array.array("d", np.ascontiguousarray(values, dtype=np.float64).tobytes())


def set_named_values(message: Any, values: Mapping[str, float]) -> None:
    """Fill ``value_names`` and ``values`` of a message that is published again and again."""
    if values or len(message.value_names):
        message.value_names, message.values = list(values), float_array(list(values.values()))


class PowerOn:
    """How long the tendons have been driven, by the driver's messages: before, they may be slack, and are stretched."""

    def __init__(self) -> None:
        self._since_ns: int | None = None

    def update(self, states: Any) -> None:
        """Take one TendonStates; the driver commands nothing (NaN) while the power is off."""
        sent = commanded(states)
        driven = len(sent) > 0 and sent[0] == sent[0]
        if not driven:
            self._since_ns = None
        elif self._since_ns is None:
            self._since_ns = stamp_ns(states.header.stamp)

    def lasts_s(self, states: Any) -> float:
        """Time from power on to a message, s; negative while the power is off."""
        return -1.0 if self._since_ns is None else (stamp_ns(states.header.stamp) - self._since_ns) * 1e-9


def stamp_ns(stamp: Any) -> int:
    """``builtin_interfaces/Time`` as nanoseconds."""
    return int(stamp.sec) * NS_PER_S + int(stamp.nanosec)


def set_stamp(stamp: Any, time_ns: int) -> None:
    """Write nanoseconds into a ``builtin_interfaces/Time``."""
    stamp.sec, stamp.nanosec = divmod(time_ns, NS_PER_S)


def now_ns(clock: Clock) -> int:
    """A node's time, ns. Wall-clock time is read without the detour over the ROS clock, which costs 6 us."""
    if clock.clock_type == ClockType.ROS_TIME and not (isinstance(clock, ROSClock) and clock.ros_time_is_active):
        return time.time_ns()
    return int(clock.now().nanoseconds)


def quaternion_message(rotation: NDArray[np.float64]) -> Quaternion:
    """A rotation matrix, shape (3, 3), as a message: x, y, z, w."""
    w, x, y, z = quaternion_from_matrix(rotation).tolist()
    return Quaternion(x=x, y=y, z=z, w=w)


def point_message(position: NDArray[np.float64]) -> Point:
    """A position, shape (3,), m, as a message."""
    return Point(x=float(position[0]), y=float(position[1]), z=float(position[2]))


def position(point: Point) -> NDArray[np.float64]:
    """A point's position, shape (3,), m."""
    return np.array([point.x, point.y, point.z])


def pose_message(pose: NDArray[np.float64]) -> Pose:
    """A homogeneous transform, shape (4, 4), as a message."""
    return Pose(position=point_message(pose[:3, 3]), orientation=quaternion_message(pose[:3, :3]))


def set_pose(message: Pose, pose: NDArray[np.float64]) -> None:
    """Write a homogeneous transform, shape (4, 4), into a message that is published again and again."""
    place, turn = message.position, message.orientation
    place.x, place.y, place.z = pose[:3, 3].tolist()
    turn.w, turn.x, turn.y, turn.z = quaternion_from_matrix(pose[:3, :3]).tolist()


def pose_matrix(pose: Pose) -> NDArray[np.float64]:
    """A message as a homogeneous transform, shape (4, 4); NaN where its position is."""
    place, turn = pose.position, pose.orientation
    matrix = np.eye(4)
    matrix[:3, 3] = place.x, place.y, place.z
    if np.isnan(matrix[:3, 3]).any():
        return np.full((4, 4), np.nan)
    matrix[:3, :3] = matrix_from_quaternion([turn.w, turn.x, turn.y, turn.z])
    return matrix


def transform_message(pose: NDArray[np.float64]) -> Transform:
    """A homogeneous transform, shape (4, 4), as a message of tf."""
    message = Transform(rotation=quaternion_message(pose[:3, :3]))
    message.translation.x, message.translation.y, message.translation.z = (float(value) for value in pose[:3, 3])
    return message


def stamped_transform(pose: NDArray[np.float64], frame: str, parent: str, stamp: Any) -> TransformStamped:
    """A frame for ``/tf``."""
    message = TransformStamped(child_frame_id=frame, transform=transform_message(pose))
    message.header.stamp, message.header.frame_id = stamp, parent
    return message
