# SPDX-License-Identifier: Apache-2.0
"""The recursive equations of ha as CasADi functions of one joint each, chained along the mechanism.

Of the 6 (n - 1) unknowns, the contact forces enter the force balance linearly and are eliminated on the way from the
tip to the base; what is left of (10) is one moment for each link. The linear system (20) has its conditions at
both ends: no twist at the base, no contact beyond the tip. From the tip, delta_eta = S delta_xi + sigma is carried
down, with one 3 x 3 inverse a link, and from the base the steps are carried up. This is the same Newton step as
(21)-(27) without their product of transfer matrices, in which digits are lost as it grows with the links.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import casadi as ca

from continuum_robot.rod.code.generation import FastFunction, compile_functions

JOINT_ROWS = 8
LOAD_ROWS = 8
_TOUCHING_M = 1e-13
"""Length below which a tendon between two entry points, which then coincide, has no direction."""


@cache
def functions(joint_count: int, compile: str = "auto", progress: Callable[[str], None] | None = None) -> FastFunction:
    """The Newton step of a mechanism.

    Parameters
    ----------
    joint_count : n - 1
    compile : as in :func:`continuum_robot.rod.code.generation.compile_functions`
    progress : receives a line where something has to be compiled

    Returns
    -------
    function of frames (8, n - 1), entries_m (8, n - 1), weights (2, n - 1), loads (8, n - 1), tension_n (2,),
    base (3,), each column by column, with the results moments (n - 1,), step (n - 1, 3), force (2, n - 1),
    poses (3, n - 1), gaps (2, n - 1), slopes of the gaps with the arc lengths (2, n - 1), pivots (n - 1,),
    potential (1,)
    """
    name = f"rolling_joints_{joint_count}"
    made = compile_functions([symbolic(joint_count)], name, compile=compile, progress=progress)
    return made[name]


def symbolic(joint_count: int) -> ca.Function:
    """The CasADi side of :func:`functions`.

    Parameters
    ----------
    joint_count : number of joints, links less one
    """
    frames = ca.MX.sym("frames", JOINT_ROWS, joint_count)
    entries = ca.MX.sym("entries", JOINT_ROWS, joint_count)
    weights = ca.MX.sym("weights", 2, joint_count)
    loads = ca.MX.sym("loads", LOAD_ROWS, joint_count)
    tension = ca.MX.sym("tension", 2)
    base = ca.MX.sym("base", 3)
    up, down, climb = _up_step(), _down_step(), _climb_step()
    poses = up.mapaccum(joint_count)(base, frames)
    order = list(range(joint_count - 1, -1, -1))
    tensions = ca.repmat(tension, 1, joint_count)
    _, moments, force, gaps, slopes, pivots, potential, first, second = down.mapaccum(joint_count)(
        ca.MX.zeros(_DOWN_SIZE),
        frames[:, order],
        entries[:, order],
        weights[:, order],
        loads[:, order],
        poses[:, order],
        tensions,
    )
    _, steps = climb.mapaccum(joint_count)(ca.MX.zeros(9), first[:, order], second[:, order])
    name = f"rolling_joints_{joint_count}"
    outputs = [
        moments[:, order].T,
        steps.T,
        force[:, order],
        poses,
        gaps[:, order],
        slopes[:, order],
        pivots[:, order].T,
        ca.sum2(potential),
    ]
    return ca.Function(name, [frames, entries, weights, loads, tension, base], outputs)


def _up_step() -> ca.Function:
    """Pose of the upper link from that of the lower one: (9)."""
    pose, frame = ca.SX.sym("pose", 3), ca.SX.sym("frame", JOINT_ROWS)
    angle, place = _relative(frame)
    moved = pose[:2] + _turn(pose[2]) @ place
    return ca.Function("up", [pose, frame], [ca.vertcat(moved, pose[2] + angle)])


_DOWN_SIZE = 3 + 9 + 6 + 9 + 9


def _down_step() -> ca.Function:
    """Everything of the link above a joint, and of the joint's lower side for the link below."""
    state = ca.SX.sym("state", _DOWN_SIZE)
    frame, entry = ca.SX.sym("frame", JOINT_ROWS), ca.SX.sym("entry", JOINT_ROWS)
    weight, load, pose = ca.SX.sym("weight", 2), ca.SX.sym("load", LOAD_ROWS), ca.SX.sym("pose", 3)
    tension = ca.SX.sym("tension", 2)
    child_load, child_matrix, child_pull, feedback, offset = _unpack(state)

    angle, place = _relative(frame)
    turn = _turn(angle)
    bend = frame[3] - frame[7]
    parent_turn, child_turn = _turn(frame[6]), _turn(frame[2])
    parent_pulls, lower_pulls = [], []
    parent_slope, lower_slope = ca.SX.zeros(3), ca.SX.zeros(3)
    gaps, gap_slopes, pull_energy = [], [], ca.SX(0)
    for tendon in range(2):
        hole, seat = entry[2 * tendon : 2 * tendon + 2], entry[4 + 2 * tendon : 6 + 2 * tendon]
        force = tension[tendon] * weight[tendon]
        v = place + turn @ seat - hole  # (13)
        length = ca.sqrt(ca.sumsqr(v) + _TOUCHING_M**2)
        v_hat = v / length  # (12)
        w_hat = -turn.T @ v_hat
        v_slope = bend * _quarter(turn @ (seat - frame[4:6]))  # (31)
        w_slope = -bend * _quarter(turn.T @ (hole - frame[:2]))
        v_hat_slope = (v_slope - v_hat * ca.dot(v_hat, v_slope)) / length  # (19)
        w_hat_slope = (w_slope - w_hat * ca.dot(w_hat, w_slope)) / length
        parent_pulls.append(weight[tendon] * _at(seat, w_hat))  # (33)
        lower_pulls.append(weight[tendon] * _at(hole, v_hat))
        parent_slope += force * _at(seat, w_hat_slope)
        lower_slope += force * _at(hole, v_hat_slope)
        gaps.append(length)
        gap_slopes.append(ca.dot(v_hat, v_slope))  # (30)
        pull_energy += force * length
    parent_pull, lower_pull = ca.horzcat(*parent_pulls), ca.horzcat(*lower_pulls)

    outside, outside_slope, work = _load(load, pose)
    others = child_load + parent_pull @ tension + outside
    contact = -parent_turn.T @ others[1:]  # the force rows of (10)
    balance = others + _at(frame[4:6], parent_turn @ contact)  # (10); its force rows are zero by now
    wrench = ca.vertcat(0, contact)

    # (52), (53)
    parent_pose, child_pose = _wrench_adjoint(frame[4:6], frame[6]), _wrench_adjoint(frame[:2], frame[2])
    e_matrix = ca.horzcat(parent_slope + parent_pose @ _along(frame[7], wrench), parent_pose[:, 1:])
    a_matrix = -_twist_adjoint(-turn.T @ place, -angle)
    rolling = -_twist_adjoint(frame[4:6], frame[6])[:, 0] * bend
    b_matrix = ca.horzcat(rolling, ca.SX.zeros(3, 2))
    c_matrix = ca.horzcat(outside_slope, ca.SX.zeros(3, 2))

    coupled = c_matrix + child_matrix @ feedback
    inner = e_matrix - coupled @ b_matrix
    right = ca.horzcat(-balance, -(child_pull + parent_pull)) - child_matrix @ offset  # (20), (32)
    determinant, inverse = _inverse(inner)
    new_feedback = inverse @ (coupled @ a_matrix)
    new_offset = inverse @ right

    lower_contact = child_turn @ contact
    new_load = lower_pull @ tension - _at(frame[:2], lower_contact)
    new_matrix = ca.horzcat(lower_slope - child_pose @ _along(frame[3], wrench), -child_pose[:, 1:])
    new_state = ca.vertcat(new_load, ca.vec(new_matrix), ca.vec(lower_pull), ca.vec(new_feedback), ca.vec(new_offset))
    first = ca.vertcat(ca.vec(new_feedback), ca.vec(new_offset))
    second = ca.vertcat(ca.vec(a_matrix), rolling)
    results = [
        new_state,
        balance[0],
        contact,
        ca.vertcat(*gaps),
        ca.vertcat(*gap_slopes),
        determinant,
        pull_energy - work,
        first,
        second,
    ]
    return ca.Function("down", [state, frame, entry, weight, load, pose, tension], results)


def _climb_step() -> ca.Function:
    """Steps of a joint and of the link above it from those of the link below: ha (21)."""
    twist = ca.SX.sym("twist", 9)
    first, second = ca.SX.sym("first", 18), ca.SX.sym("second", 12)
    below = ca.reshape(twist, 3, 3)
    step = ca.reshape(first[:9], 3, 3) @ below + ca.reshape(first[9:], 3, 3)
    a_matrix, rolling = ca.reshape(second[:9], 3, 3), second[9:]
    above = -a_matrix @ below - rolling @ step[0, :]
    return ca.Function("climb", [twist, first, second], [ca.vec(above), step[0, :].T])


def _unpack(state: ca.SX) -> tuple[ca.SX, ca.SX, ca.SX, ca.SX, ca.SX]:
    return (
        state[:3],
        ca.reshape(state[3:12], 3, 3),
        ca.reshape(state[12:18], 3, 2),
        ca.reshape(state[18:27], 3, 3),
        ca.reshape(state[27:], 3, 3),
    )


def _relative(frame: ca.SX) -> tuple[ca.SX, ca.SX]:
    angle = frame[2] - frame[6]
    return angle, frame[:2] - _turn(angle) @ frame[4:6]


def _load(load: ca.SX, pose: ca.SX) -> tuple[ca.SX, ca.SX, ca.SX]:
    """Wrench of the loads in the link's frame, its slope with the link's rotation, and the work of those of the world.

    ``load`` is that of :func:`continuum_robot.mechanisms.rolling_joint.loads.load_matrix`.
    """
    cosine, sine = ca.cos(pose[2]), ca.sin(pose[2])
    force = _turn(pose[2]).T @ load[:2]  # (56)
    moment = load[2] + cosine * load[3] - sine * load[4]
    slope = ca.vertcat(-sine * load[3] - cosine * load[4], -_quarter(force))  # (60)
    work = ca.dot(load[:2], pose[:2]) + load[2] * pose[2] + sine * load[3] + cosine * load[4]
    return ca.vertcat(moment, force) + load[5:], slope, work


def _turn(angle: ca.SX) -> ca.SX:
    cosine, sine = ca.cos(angle), ca.sin(angle)
    return ca.blockcat([[cosine, -sine], [sine, cosine]])


def _quarter(vector: ca.SX) -> ca.SX:
    """A vector turned by a quarter of a turn, counter-clockwise."""
    return ca.vertcat(-vector[1], vector[0])


def _at(point: ca.SX, force: ca.SX) -> ca.SX:
    """Wrench of a force at a point: Ad*_I(point) (0, force)."""
    return ca.vertcat(point[0] * force[1] - point[1] * force[0], force)


def _along(curvature: ca.SX, wrench: ca.SX) -> ca.SX:
    """ad*_xi wrench for the twist (curvature, 1, 0) of a contact frame: (50)."""
    return ca.vertcat(wrench[2], curvature * _quarter(wrench[1:]))


def _wrench_adjoint(place: ca.SX, angle: ca.SX) -> ca.SX:
    turn = _turn(angle)
    columns = [_at(place, turn[:, 0]), _at(place, turn[:, 1])]
    return ca.horzcat(ca.vertcat(1, 0, 0), *columns)  # (47)


def _twist_adjoint(place: ca.SX, angle: ca.SX) -> ca.SX:
    return ca.vertcat(ca.horzcat(1, 0, 0), ca.horzcat(ca.vertcat(place[1], -place[0]), _turn(angle)))  # (44)


def _inverse(matrix: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Determinant and inverse of a 3 x 3 matrix by its cofactors."""
    rows = [
        ca.cross(matrix[:, 1], matrix[:, 2]),
        ca.cross(matrix[:, 2], matrix[:, 0]),
        ca.cross(matrix[:, 0], matrix[:, 1]),
    ]
    determinant = ca.dot(matrix[:, 0], rows[0])
    return determinant, ca.horzcat(*rows).T / determinant
