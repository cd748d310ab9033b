# SPDX-License-Identifier: Apache-2.0
"""A policy in the cycle: it moves the robot, and the law takes over where it fails."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest

from continuum_robot import load_robot
from continuum_robot.control.observations import action, observations
from continuum_robot.control.policy import load_policy
from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import MissingPackageError, ParameterError, RobotFileError
from continuum_robot.models.making import robot_model
from continuum_robot.robot.control_settings import PolicySettings
from continuum_robot.runtime.cycle.foreign_controller import controller_of
from continuum_robot.runtime.cycle.forms import INTERPRETED
from continuum_robot.runtime.cycle.policy_controller import PolicyController
from continuum_robot.testing import VirtualStack

GOAL = np.array([0.004, 0.003])
STATE = ("clarke_state.position", "tendon_states.tension", "tendon_commands.tension")


def policy_robot(function, seen=STATE, given="clarke", robot="opencr_five_tendon", **settings):
    """The robot with a function of this module, or a model, as its policy."""
    robot = load_robot(robot)
    kind = {"function": f"{__name__}:{function}", "observations": seen, "action": given} if function else {}
    return robot.changed(control=dataclasses.replace(robot.control, policy=PolicySettings(**kind, **settings)))


def to_goal(_seen):
    return GOAL


def with_tensions(seen):
    return np.minimum(seen["tendon_commands.tension"] + [0.2, 0.0, 0.0, 0.0, 0.0], [4.0, 3.0, 3.0, 3.0, 3.0])


def slack(_seen):
    return np.zeros(5)


def further(seen):
    return seen["tendon_states.displacement"] + 0.0002 * np.cos(2 * np.pi / 3 * np.arange(9))


def to_target(seen):
    return 0.03 * seen["tip_target"][:2]


def follow(stack, duration_s, at=(0.0, 0.0)):
    """Let the stack run beside a reference at rest; Clarke coordinates and commands of all cycles."""
    log = []

    def look(one):
        log.append((one.state.clarke_m, one.state.commanded))

    stack.follow(lambda _t: ClarkeReference.at_rest(np.array(at)), duration_s, look=look)
    return tuple(np.array(part) for part in zip(*log, strict=True))


def test_a_policy_leads_the_law_within_the_speed_of_references():
    with VirtualStack(policy_robot("to_goal")) as stack:
        stack.activate()
        clarke, _ = follow(stack, 1.5)
        assert stack.controller.acts
        assert not stack.controller.problem
        np.testing.assert_allclose(clarke[-1], GOAL, atol=1e-4)
        # A quarter second after the start it is on its way, at 12.5 mm/s after half a second at most.
        assert np.linalg.norm(clarke[250]) < 0.002


def test_the_same_run_gives_the_same_bytes():
    runs = []
    for _ in range(2):
        with VirtualStack(policy_robot("to_goal")) as stack:
            stack.activate()
            runs.append(follow(stack, 0.2)[1].tobytes())
    assert runs[0] == runs[1]


class Failing:
    """Goes to the goal, then fails in a way."""

    def __init__(self, fails):
        self.count, self.fails = 0, fails

    def __call__(self, seen):
        self.count += 1
        return GOAL if self.count <= 30 else self.fails(seen)


def not_finite(_seen):
    return [np.nan, 0.0]


def of_another_shape(_seen):
    return [0.001, 0.002, 0.003]


def raising(_seen):
    return {}["weights"]


@pytest.mark.parametrize(("fails", "words"), [
    (not_finite, "action clarke = .*expected finite values"),
    (of_another_shape, r"\(3,\) -- expected the shape \(2,\)"),
    (raising, r"KeyError\('weights'\)"),
])  # fmt: skip
def test_the_law_takes_over_without_a_jump(monkeypatch, fails, words):
    monkeypatch.setitem(globals(), "failing", Failing(fails))
    with VirtualStack(policy_robot("failing")) as stack:
        stack.activate()
        clarke, command = follow(stack, 2.5)
        assert not stack.controller.acts
        with pytest.raises(AssertionError, match=words):
            raise AssertionError(stack.controller.problem)
        assert "the law pid follows the reference" in stack.control.problem
        assert not stack.faults
        np.testing.assert_allclose(clarke[-1], 0.0, atol=1e-4)
        assert np.linalg.norm(clarke, axis=1).max() > 0.002
        # The command changes no faster at the hand-over, at 0.6 s, than on the way there.
        change = np.abs(np.diff(command, axis=0)).max(axis=1)
        assert change[590:640].max() <= 1.2 * change[300:590].max()


def test_a_failure_lasts_until_the_stack_is_reset(monkeypatch):
    monkeypatch.setitem(globals(), "failing", Failing(raising))
    with VirtualStack(policy_robot("failing")) as stack:
        stack.activate()
        follow(stack, 1.2)
        assert stack.controller.failure
        failing.count = 0  # noqa: F821
        follow(stack, 0.3)
        assert stack.controller.failure
        stack.deactivate()
        stack.activate()
        follow(stack, 0.2)
        assert stack.controller.acts
        assert not stack.controller.failure


def test_a_late_policy_holds_its_action_then_the_law_takes_over(monkeypatch):
    hangs, released = threading.Event(), threading.Event()
    monkeypatch.setitem(globals(), "failing", lambda _seen: [released.wait() for _ in [0] if hangs.is_set()] or GOAL)
    robot = policy_robot("failing", late_s=0.05)
    controller = controller_of(robot, INTERPRETED, robot_model(robot).feedforward, real_time=True)
    with VirtualStack(robot) as stack:
        stack.loop.cycle.attach(INTERPRETED.ControllerCycle(controller, stack._input, 0.02, stack.period_s))
        stack.activate()
        for _ in range(100):
            stack.step()
            if controller._pending is not None:
                controller._pending.result(timeout=30.0)  # cycles are faster here than the time that they stand for
        hangs.set()
        held = 0
        while not controller.failure and held < 200:
            assert controller.acts
            stack.step()
            held += 1
        released.set()
        assert "more than 0.05 s late" in controller.failure
        # The next observation within 20 ms, its action 5 ms later, and what that may be late.
        assert 55 <= held <= 76


def test_tensions_of_a_policy_are_written():
    with VirtualStack(policy_robot("with_tensions", given="tension")) as stack:
        stack.activate()
        _, command = follow(stack, 0.3)
        # A fifth of a newton more on the first tendon every 20 ms.
        assert command[60, 0] == pytest.approx(3.6)
        np.testing.assert_allclose(command[-1], [4.0, 3.0, 3.0, 3.0, 3.0])


def test_tensions_of_a_policy_are_limited():
    with VirtualStack(policy_robot("slack", given="tension")) as stack:
        stack.activate()
        _, command = follow(stack, 0.1)
        np.testing.assert_allclose(command[-1], stack.robot.limits.minimum_n)
        assert stack.state.limited


def test_the_law_takes_over_from_tensions_without_a_jump(monkeypatch):
    monkeypatch.setitem(
        globals(), "failing", lambda seen: with_tensions(seen) if stack.now_s < until_s else [np.nan] * 5
    )
    with VirtualStack(policy_robot("failing", given="tension")) as stack:
        stack.activate()
        until_s = stack.now_s + 0.25
        _, command = follow(stack, 1.0)
        assert stack.controller.failure
        assert np.abs(np.diff(command[100:], axis=0)).max() < 0.5
        assert not stack.faults


def test_displacements_of_a_policy_move_servos():
    with VirtualStack(
        policy_robot("further", ("tendon_states.displacement",), "displacement", "three_segment_servo")
    ) as stack:
        stack.activate()
        clarke, _ = follow(stack, 0.5, at=(0.0,) * 6)
        assert stack.controller.acts
        assert not stack.faults
        assert clarke[-1, 0] > clarke[0, 0] + 1e-4


def test_a_policy_acts_while_there_is_a_target():
    with VirtualStack(policy_robot("to_target", ("tip_target",))) as stack:
        stack.activate()
        clarke, _ = follow(stack, 0.2)
        assert not stack.controller.acts
        stack.controller.hear("tip_target", [0.1, 0.0, 0.15])
        clarke, _ = follow(stack, 1.0)
        assert stack.controller.acts
        np.testing.assert_allclose(clarke[-1], [0.003, 0.0], atol=1e-4)
        stack.controller.hear("tip_target", [np.nan] * 3)
        clarke, _ = follow(stack, 1.5)
        assert not stack.controller.acts
        assert not stack.controller.failure
        np.testing.assert_allclose(clarke[-1], 0.0, atol=1e-4)


def test_a_measurement_that_is_no_longer_known_ends_the_policy():
    with VirtualStack(policy_robot("to_goal", ("tip_pose.position",))) as stack:
        stack.activate()
        stack.controller.hear("tip_pose.position", [0.0, 0.0, 0.2], stack.now_s)
        follow(stack, 0.2)
        assert stack.controller.acts
        follow(stack, 0.3)
        assert stack.controller.failure == "the policy does not know tip_pose.position any more"


def test_what_is_beyond_the_range_is_limited_and_reported(monkeypatch):
    monkeypatch.setitem(globals(), "failing", lambda _seen: [1.0, 0.0])
    with VirtualStack(policy_robot("failing")) as stack:
        stack.activate()
        clarke, _ = follow(stack, 2.5)
        assert clarke[-1, 0] == pytest.approx(action(stack.robot, "clarke").high[0], abs=2e-4)
        assert "more than the range of references" in stack.control.problem


@pytest.mark.parametrize(("settings", "expected"), [
    ({}, "an ONNX file, or else a function"),
    ({"function": "a:b"}, "observations"),
    ({"model": "a.onnx", "action": "clarke"}, "action"),
    ({"model": "a.onnx", "rate_hz": 100.0, "delay_s": 0.02}, "at most one period of rate_hz, 0.01 s"),
])  # fmt: skip
def test_settings_that_do_not_fit_each_other_are_refused(settings, expected):
    with pytest.raises(RobotFileError, match=expected):
        PolicySettings(**settings)


@pytest.mark.parametrize(("robot", "expected"), [
    (policy_robot("to_goal", ("tip_target", "shape")), "observation = 'shape' -- expected one that opencr"),
    (policy_robot("to_goal", ("string_lengths.extension",)), "expected observations that a policy has in the stack"),
    (policy_robot("to_goal", given="displacement"), "expected clarke or tension"),
    (policy_robot("nothing"), "module:name of a function that can be imported"),
    (policy_robot("GOAL"), "module:name of something that can be called"),
    (policy_robot("to_goal", rate_hz=2000.0), "at most the rate of the cycle, 1000 Hz"),
    (policy_robot("", model="nowhere.onnx"), "nowhere.onnx' -- expected an ONNX file"),
])  # fmt: skip
def test_a_policy_that_the_robot_cannot_have_is_refused(robot, expected):
    with pytest.raises(ParameterError, match=expected):
        PolicyController(robot, None, load_policy(robot))


def test_without_onnxruntime_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    (tmp_path / "a.onnx").write_bytes(b"")
    with pytest.raises(MissingPackageError, match=r"continuum-robot\[learn\]"):
        load_policy(policy_robot("", model=str(tmp_path / "a.onnx")))


# ONNX


def linear_model(file, inputs, output, weights):
    """Write a model that is the sum of its inputs by weights, (size, given) each."""
    onnx = pytest.importorskip("onnx")
    make, number = onnx.helper, onnx.TensorProto.FLOAT
    sums = [make.make_node("MatMul", [name, f"w_{k}"], [f"y_{k}"]) for k, name in enumerate(inputs)]
    sums.append(make.make_node("Sum", [f"y_{k}" for k in range(len(inputs))], [output]))
    matrices = [onnx.numpy_helper.from_array(w.astype(np.float32), f"w_{k}") for k, w in enumerate(weights)]
    graph = make.make_graph(
        sums, "policy",
        [make.make_tensor_value_info(name, number, [1, w.shape[0]]) for name, w in zip(inputs, weights, strict=True)],
        [make.make_tensor_value_info(output, number, [1, weights[0].shape[1]])], matrices,
    )  # fmt: skip
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=9), str(file))
    return str(file)


def test_an_onnx_model_moves_the_robot(tmp_path):
    pytest.importorskip("onnxruntime")
    weights = [0.5 * np.eye(2), 0.01 * np.eye(3)[:, :2]]
    model = linear_model(tmp_path / "p.onnx", ["clarke_reference.position", "tip_target"], "clarke", weights)
    robot = policy_robot("", model=model)
    seen = {"clarke_reference.position": np.array([0.001, 0.0]), "tip_target": np.array([0.1, 0.2, 0.0])}
    np.testing.assert_allclose(load_policy(robot)(seen), [0.0015, 0.002], rtol=1e-6)
    with VirtualStack(robot) as stack:
        stack.activate()
        stack.controller.hear("tip_target", [0.1, 0.2, 0.0])
        clarke, _ = follow(stack, 1.5, at=(0.001, 0.0))
        # It sees its own reference: q = q / 2 + target / 100.
        np.testing.assert_allclose(clarke[-1], [0.002, 0.004], atol=1e-4)


@pytest.mark.parametrize(("inputs", "output", "size", "expected"), [
    (["clarke_state.position"], "clarke", 3, r"clarke_state.position = .*expected float32 of shape \(1, 2\)"),
    (["clarke_state"], "clarke", 2, "one that opencr_five_tendon has: tendon_states.displacement"),
    (["clarke_state.position"], "displacement", 2, "expected clarke or tension"),
])  # fmt: skip
def test_an_onnx_model_that_does_not_fit_is_refused(tmp_path, inputs, output, size, expected):
    pytest.importorskip("onnxruntime")
    model = linear_model(tmp_path / "p.onnx", inputs, output, [np.ones((size, 2))])
    with pytest.raises(ParameterError, match=expected):
        load_policy(policy_robot("", model=model))


def test_bytes_that_are_no_model_are_refused(tmp_path):
    pytest.importorskip("onnxruntime")
    (tmp_path / "p.onnx").write_bytes(b"no model")
    with pytest.raises(ParameterError, match="a model that onnxruntime can load"):
        load_policy(policy_robot("", model=str(tmp_path / "p.onnx")))


def test_all_that_a_policy_may_see_in_the_stack_has_the_size_of_the_vocabulary(monkeypatch):
    names = (*STATE, "tendon_states.displacement", "tendon_states.velocity", "clarke_state.velocity",
             "clarke_reference.position", "clarke_reference.velocity", "tip_target", "tip_pose.position")  # fmt: skip
    robot, seen = policy_robot("failing", names), []
    monkeypatch.setitem(globals(), "failing", lambda values: seen.append(values) or GOAL)
    with VirtualStack(robot) as stack:
        stack.activate()
        for name in ("tip_target", "tip_pose.position"):
            stack.controller.hear(name, [0.01, 0.0, 0.2])
        follow(stack, 0.1)
    known = observations(robot)
    assert {name: value.shape for name, value in seen[-1].items()} == {name: (known[name].size,) for name in names}
    assert seen[-1]["tendon_commands.tension"].min() >= robot.limits.minimum_n


def test_an_environment_leads_its_robots_itself():
    pytest.importorskip("gymnasium", reason="gymnasium is not installed: the extra learn")
    from continuum_robot.envs import RobotVectorEnv  # noqa: PLC0415

    with pytest.raises(ParameterError, match=r"robot\.control\.policy = .* a robot without one"):
        RobotVectorEnv(robot=policy_robot("to_goal"))
