# SPDX-License-Identifier: Apache-2.0
"""The client and teleoperation on a live stack: it moves, waits, reports why not, and one program writes at a time."""

from __future__ import annotations

import contextlib
import threading
import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from geometry_msgs.msg import PointStamped
from robot_files import robot_values, written
from ros_probe import PATIENT, PATIENT_CONTROLLER, PATIENT_LIMITS
from rosbags.highlevel import AnyReader
from sensor_msgs.msg import Joy
from std_srvs.srv import Trigger

from continuum_robot.app.client.stack_link import StackLink
from continuum_robot.app.recordings.dataset import load_recording
from continuum_robot.app.teleop.devices import Command, DeviceReading
from continuum_robot.app.teleop.session import JoyTopic, screen
from continuum_robot.app.teleop.teleoperator import Teleoperator
from continuum_robot.client import Robot
from continuum_robot.control.references import ClarkeReference, reference_columns
from continuum_robot.errors import DeviceError, ParameterError, RobotFaultError, RobotTimeoutError
from continuum_robot.identification.weighing_motion import ARCS
from continuum_robot.nodes.base.spinning import Spinner, wait_for
from continuum_robot.nodes.recorder import Recorder
from continuum_robot.nodes.recordings.mcap_file import BEGIN, DISCARD, EPISODE, SUCCESS
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod

pytestmark = [pytest.mark.ros, pytest.mark.real_time]

ROD = Rod(load_robot("two_segment"))
REACHABLE_M = np.array([0.1, 0.05, 0.33])


@pytest.fixture(scope="module")
def robot(domain, tmp_path_factory):
    """Two segments without dry friction: what it settles at is the controller's work, not chance."""
    described = robot_values({}, "two_segment")
    described["actuators"] |= {"coulomb_friction_nm": 0.0, "cogging_amplitude_nm": 0.0}
    described["limits"] |= PATIENT_LIMITS
    # Without friction the file's gains have 4 ms of delay margin at 500 Hz, which a busy machine uses up; these 34.
    for gains in described["control"]["gains"]:
        gains |= {"p": 1000.0, "i": 5000.0, "d": 100.0}
    file = written(described, tmp_path_factory.mktemp("robot"), "smooth")
    parameters = {"tendon_driver": {"rate_hz": 500.0, **PATIENT}, "clarke_controller": PATIENT_CONTROLLER}
    with Robot(file, visualize=False, processes=False, parameters=parameters) as robot:
        yield robot


@pytest.fixture(autouse=True)
def up(robot):
    """Whatever the test before left behind, the robot is up and stands."""
    if robot.state.stack != "up":
        robot.reset()
    robot.stop()


def true_tip(robot: Robot) -> np.ndarray:
    plant = robot.stack.plant
    return ROD.poses(plant.state.c, robot.description.length_m)[0, :3, 3]


def test_the_state_has_everything_in_its_place(robot):
    state = robot.wait_until_active()
    assert state.stack == "up"
    assert state.simulated
    assert state.faults == ()
    assert wait_for(lambda: robot.state.writer == "reference_source", 10.0)
    assert state.tension_n.shape == state.displacement_m.shape == (10,)
    assert state.clarke_m.shape == state.reference_m.shape == (4,)
    assert np.all(np.isfinite(state.tension_n))
    assert wait_for(lambda: bool(np.all(np.isfinite(robot.state.tip))), 10.0)
    assert robot.state.tip_position_m[2] > 0.2
    assert robot.state.contact.state == ""


def test_a_question_ends_where_its_link_is_closed():
    """As the page is closed while the recorder still owes an answer: what is asked again finds no client."""
    server, link, ended, answers = StackLink(), StackLink(), [], threading.Event()

    def keep_silent(_request, response):
        answers.wait(30.0)
        return response

    def ask():
        with pytest.raises(DeviceError, match="link to the stack is closed"):
            link.call(Trigger, "silent", again_s=0.2)
        ended.append(True)

    server.make(lambda: server.node.create_service(Trigger, "silent", keep_silent))
    asking = threading.Thread(target=ask)
    asking.start()
    assert wait_for(lambda: "silent" in link._clients and bool(link._clients["silent"]._pending_requests), 10.0)
    link.close()
    asking.join(10.0)
    answers.set()
    server.close()
    assert ended
    with pytest.raises(DeviceError, match="link to the stack is closed"):
        link.trigger("silent")


def test_one_segment_bends_and_the_other_stays(robot):
    robot.straighten()
    result = robot.bend(2, 0.6, np.pi / 2)
    assert result.error_m < 1.2e-3
    np.testing.assert_allclose(result.clarke_m[:2], 0.0, atol=1e-3)
    # q = r theta (cos phi, sin phi)
    np.testing.assert_allclose(result.clarke_m[2:], [0.0, 0.6 * 0.007], atol=1e-3)
    robot.bend("proximal", 0.3, 0.0)
    np.testing.assert_allclose(robot.state.reference_m, [0.3 * 0.007, 0.0, 0.0, 0.6 * 0.007], atol=1e-9)
    with pytest.raises(ParameterError, match="segment"):
        robot.bend(3, 0.1)


def test_a_file_and_a_function_are_followed(robot, tmp_path):
    columns = ("time_s", *reference_columns(4))
    file = tmp_path / "way.csv"
    file.write_text(",".join(columns) + "\n0,0.001,0,0,0\n0.5,0.002,0.001,0,0\n1,0.002,0.002,0.001,0\n")
    robot.follow(file)
    np.testing.assert_allclose(robot.state.reference_m, [0.002, 0.002, 0.001, 0.0], atol=1e-9)
    asked: list[float] = []

    def circle(t_s: float) -> list[float]:
        asked.append(t_s)
        return [0.003 * np.cos(t_s), 0.003 * np.sin(t_s), 0.0, 0.0]

    robot.follow(circle, 1.0)
    assert asked[0] == 0.0
    assert asked[-1] == 1.0
    assert np.all(np.diff(asked) >= 0)
    np.testing.assert_allclose(robot.state.reference_m, circle(1.0), atol=1e-9)


def test_a_hold_right_behind_a_motion_holds_where_that_ended(robot):
    for goal in ([0.001, 0.0, 0.0, 0.0], [0.0] * 4, [0.0, 0.001, 0.0, 0.0], [0.0] * 4):
        robot.link.take_reference()
        robot.link.publish_reference(ClarkeReference.at_rest(np.array(goal)))
        time.sleep(0.3)
        robot.link.give_back()
        robot.stop()
        time.sleep(0.1)
        np.testing.assert_array_equal(robot.state.reference_m, goal)


@pytest.mark.parametrize("bad", [[0.0, 0.0], [np.nan] * 4, [1.0, 0.0, 0.0, 0.0]])
def test_what_cannot_be_is_refused_before_it_moves(robot, bad):
    before = robot.state.reference_m
    with pytest.raises(ParameterError, match="clarke"):
        robot.move_to(bad)
    np.testing.assert_array_equal(robot.state.reference_m, before)


def test_a_function_that_goes_wrong_ends_the_motion_and_the_robot_holds(robot):
    with pytest.raises(ParameterError, match="finite"):
        robot.follow(lambda t_s: [0.001, 0.0, 0.0, 0.0 if t_s < 0.3 else np.nan], 5.0)
    assert wait_for(lambda: robot.state.writer == "reference_source", 5.0)
    np.testing.assert_allclose(robot.state.reference_m, [0.001, 0.0, 0.0, 0.0], atol=1e-6)


def test_a_motion_in_the_background_can_be_cancelled(robot):
    robot.straighten()
    robot.move_to([0.006, 0.0, 0.0, 0.0], 20.0, wait=False)
    assert wait_for(lambda: robot.state.writer != "reference_source", 10.0)
    assert not robot.is_task_complete()
    with pytest.raises(RobotTimeoutError, match="not over"):
        robot.result(0.1)
    robot.cancel()
    assert robot.is_task_complete()
    with pytest.raises(RobotFaultError, match="cancelled"):
        robot.result()
    assert robot.state.reference_m[0] < 0.005
    assert robot.state.writer == "reference_source"


def test_the_tip_goes_to_its_target_and_the_error_vanishes(robot):
    result = robot.move_tip_to(REACHABLE_M, timeout_s=60.0)
    assert result.reachable
    assert result.distance_m < 1e-4
    assert result.error_m <= 0.005 * robot.description.length_m
    np.testing.assert_allclose(result.goal_m, REACHABLE_M, atol=1e-4)

    def mean_error_m() -> float:
        tips = []
        for _ in range(40):
            tips.append(robot.state.tip_position_m)
            time.sleep(0.01)
        return float(np.linalg.norm(np.mean(tips, axis=0) - REACHABLE_M))

    assert wait_for(lambda: mean_error_m() < 5e-4, 30.0)
    # The tip itself, but for what the strings' quantisation and systematic error of some 0.05 mm at 8 mm make of it.
    assert np.linalg.norm(true_tip(robot) - REACHABLE_M) < 8e-3
    # It stays at its target until something else is asked for.
    assert robot.state.writer == "reference_source"
    robot.straighten()


def test_out_of_reach_the_tip_goes_as_near_as_it_can_and_says_how_near(robot):
    result = robot.move_tip_to([0.0, 0.3, 0.5], timeout_s=60.0)
    assert not result.reachable
    assert result.distance_m > 0.1
    assert "out of reach" in result.message
    limits = robot.description.limits
    assert robot.state.tension_n.max() < limits.maximum_n
    assert np.abs(robot.state.displacement_m).max() < limits.maximum_displacement_m
    robot.straighten()


@pytest.mark.parametrize(
    ("place", "frame", "age_s", "words"),
    [
        ((np.nan, 0.0, 0.3), "base", 0.0, "not finite"),
        ((0.1, 0.0, 0.3), "world", 0.0, "frame"),
        ((0.1, 0.0, 0.3), "base", 30.0, "old"),
    ],
)
def test_targets_that_mean_nothing_are_refused_with_a_reason(robot, place, frame, age_s, words):
    before = robot.state.reference_m
    link = robot.link
    link.messages.forget("tip_state")
    message = PointStamped()
    message.header.frame_id = frame
    conversions.set_stamp(message.header.stamp, time.time_ns() - round(age_s * 1e9))
    message.point.x, message.point.y, message.point.z = place
    targets = link.node.create_publisher(PointStamped, "tip_target", qos.command_publisher())
    assert wait_for(lambda: targets.get_subscription_count() > 0, 10.0)
    targets.publish(message)
    assert wait_for(lambda: link.messages["tip_state"] is not None, 10.0)
    answer = link.messages["tip_state"]
    assert answer.state == "refused"
    assert words in answer.message
    np.testing.assert_array_equal(robot.state.reference_m, before)


def test_the_newest_program_writes_and_the_one_before_is_told(robot):
    robot.move_to([0.004, 0.0, 0.0, 0.0], 30.0, wait=False)
    assert wait_for(lambda: robot.state.writer == robot.link.name, 10.0)
    with contextlib.closing(Robot.connect()) as other:
        assert other.description.name == "two_segment"
        other.straighten()
        with pytest.raises(RobotFaultError, match="writes clarke_reference"):
            robot.result()
        assert other.state.writer == "reference_source"
    np.testing.assert_allclose(robot.state.reference_m, 0.0, atol=1e-9)


def test_gains_and_pretension_change_within_their_limits(robot):
    robot.set_pretension(5.0)
    assert robot.get_parameter("clarke_controller", "pretension_n") == 5.0
    before = robot.get_parameter("clarke_controller", "gains.distal.p")
    robot.set_gains(2, p=0.9 * before)
    assert robot.get_parameter("clarke_controller", "gains.distal.p") == pytest.approx(0.9 * before)
    robot.set_gains("distal", p=before)
    with pytest.raises(ParameterError):
        robot.set_gains(2, p=-1.0)
    with pytest.raises(ParameterError, match="pretension"):
        robot.set_pretension(1e3)
    robot.set_pretension(4.0)


def test_a_robot_turns_to_weigh_what_its_tip_carries(robot):
    motion = robot.weighing_motion(0.004, period_s=2.0, turns=1)
    seen: list[float] = []
    empty = robot.turn_to_weigh(motion, seen.append)
    assert seen[0] == 0.0
    assert seen[-1] == motion.duration_s
    assert empty.tension_n.shape == empty.displacement_m.shape == (2 * ARCS, 10)
    clarke = empty.displacement_m @ clarke_manifold(robot.description).clarke_matrix.T
    # How closely it follows depends on how busy the machine is; test_client_motions tests what is kept of each arc.
    assert np.ptp(clarke[:, :2], axis=0).min() > 1e-3
    np.testing.assert_allclose(robot.state.reference_m, 0.0, atol=1e-9)


def refusal_to_resume(robot) -> str:
    """Why the robot refuses to resume, empty where it does not."""
    try:
        robot.resume()
    except DeviceError as error:
        return str(error)
    return ""


def test_a_reaction_is_chosen_and_a_robot_that_follows_needs_no_resume(robot):
    robot.react("press", press_n=0.2)
    assert robot.get_parameter("reference_source", "reaction.strategy") == "press"
    assert robot.get_parameter("reference_source", "reaction.press_n") == 0.2
    assert wait_for(lambda: not refusal_to_resume(robot), 20.0)  # it holds: there is no contact monitor
    robot.react("ignore")
    with pytest.raises(ParameterError, match="hold, retract"):
        robot.react("flee")
    assert wait_for(lambda: "it follows its reference" in refusal_to_resume(robot), 20.0)


def test_a_recording_holds_what_happened(robot, tmp_path):
    with robot.record(tmp_path / "run") as folder:
        robot.bend(1, 0.2)
        time.sleep(1.0)
    assert folder == tmp_path / "run"
    with AnyReader([folder]) as reader:
        counts = {connection.topic: connection.msgcount for connection in reader.connections}
    assert counts["/tendon_states"] > 100
    assert counts["/clarke_reference"] > 50


def test_the_e_stop_ends_a_motion_and_reset_brings_the_robot_back(robot):
    robot.move_to([0.004, 0.0, 0.0, 0.0], 30.0, wait=False)
    assert wait_for(lambda: robot.state.writer == robot.link.name, 10.0)
    robot.estop()
    with pytest.raises(RobotFaultError):
        robot.result(20.0)
    assert wait_for(lambda: robot.state.estop, 10.0)
    with pytest.raises(RobotFaultError, match="e-stop"):
        robot.straighten()
    assert robot.reset().stack == "up"
    assert robot.state.holding
    robot.play("rest_to_rest", amplitude_m=(0.002, 0.0, 0.0, 0.0))
    assert wait_for(lambda: not robot.state.holding, 10.0)
    assert wait_for(lambda: robot.state.reference_m[0] > 1e-3, 20.0)
    robot.hold()
    assert wait_for(lambda: robot.state.holding, 10.0)
    robot.straighten()


def test_a_reference_that_jumps_is_blended_in(robot):
    far_m = 0.4 * robot.description.limits.maximum_displacement_m
    begin = robot.take_turn()
    places: list[float] = []

    def stream(place: np.ndarray, duration_s: float) -> None:
        until_s = time.monotonic() + duration_s
        while time.monotonic() < until_s:
            robot.link.publish_reference(ClarkeReference.at_rest(place))
            places.append(robot.state.clarke_m[0])
            time.sleep(0.01)

    try:
        stream(begin, 0.5)
        stream(begin + np.array([far_m, 0.0, 0.0, 0.0]), 3.0)
        assert robot.state.faults == ()
        assert places[-1] == pytest.approx(begin[0] + far_m, abs=0.1 * far_m)
        assert max(places) < begin[0] + 1.1 * far_m
    finally:
        robot.link.give_back()
        robot.hold()
    robot.straighten()


def test_what_is_not_there_is_said(robot):
    with pytest.raises(DeviceError, match="contact_monitor"):
        robot.wait_for_contact(1.0)
    with pytest.raises(DeviceError, match="neither"):
        robot.tare()
    with pytest.raises(RobotTimeoutError, match="no stack"):
        Robot.connect("nobody_here", timeout_s=0.5)
    with pytest.raises(DeviceError, match="not up"):
        Robot().state  # noqa: B018 - the property raises


# Teleoperation


class _Hands:
    """A device that reports what the test reports."""

    help = (("x", "forward"),)

    def __init__(self) -> None:
        self.axes, self.held, self.commands, self.problem = np.zeros(3), False, [], ""

    def read(self) -> DeviceReading:
        commands, self.commands = tuple(self.commands), []
        return DeviceReading(self.axes.copy(), self.held, commands, self.problem)

    def close(self) -> None:
        pass


def test_a_joy_topic_holds_while_it_is_fresh_and_its_button_is_down(robot):
    link = robot.link
    joy = JoyTopic(link)
    publisher = link.node.create_publisher(Joy, "joy", 10)
    try:
        assert "nothing came" in joy.read().problem
        assert wait_for(lambda: publisher.get_subscription_count() > 0, 10.0)

        def say(buttons: list[int], age_s: float = 0.0) -> DeviceReading:
            message = Joy(axes=[0.5, 1.0, 0.0, 0.0, -1.0], buttons=buttons)
            conversions.set_stamp(message.header.stamp, time.time_ns())
            publisher.publish(message)
            time.sleep(0.1 + age_s)
            return joy.read()

        assert wait_for(lambda: not say([0, 1, 0, 0, 0]).problem, 10.0)
        # On a busy machine a message may be old before it is read.
        assert wait_for(lambda: say([0, 0, 0, 0, 1]).held, 10.0)
        assert wait_for(lambda: Command.ESTOP in say([0, 1, 0, 0, 1]).commands, 10.0)
        stale = say([0, 0, 0, 0, 1], 0.5)
        assert not stale.held
        assert "old" in stale.problem
    finally:
        joy.close()
        link.node.destroy_publisher(publisher)


@pytest.fixture
def operator(robot):
    robot.straighten()
    connected = Robot.connect()
    operator = Teleoperator(connected, _Hands())
    yield operator
    operator.close()
    connected.close()


def steer(operator: Teleoperator, until, timeout_s: float = 20.0) -> None:
    end_s = time.monotonic() + timeout_s
    while not until():
        assert time.monotonic() < end_s, operator.message
        operator.step(0.01)
        time.sleep(0.01)


def test_it_moves_while_the_switch_is_held_and_gives_the_robot_back(robot, operator):
    hands = operator.device
    hands.axes[0] = 1.0
    steps = iter(range(20))
    steer(operator, lambda: next(steps, None) is None)
    assert not operator.steering
    np.testing.assert_allclose(robot.state.reference_m, 0.0, atol=1e-9)
    hands.held = True
    steer(operator, lambda: robot.state.clarke_m[0] > 0.002)
    assert operator.steering
    assert robot.state.writer == operator.robot.link.name
    hands.held = False
    steer(operator, lambda: not np.any(operator._steering.reference.velocity))
    stands = operator._steering.reference.position
    np.testing.assert_allclose(stands[1:], 0.0, atol=1e-12)
    screen(operator)
    operator.close()
    assert wait_for(lambda: robot.state.writer == "reference_source", 5.0)
    assert wait_for(lambda: bool(np.allclose(robot.state.reference_m, stands, atol=1e-9)), 5.0)


def test_a_switch_that_is_held_from_the_start_has_to_be_let_go_first(operator):
    hands = operator.device
    hands.held, hands.axes[0] = True, 1.0
    steps = iter(range(30))
    steer(operator, lambda: next(steps, None) is None)
    assert not operator.steering


def test_the_next_segment_moves_after_its_key(robot, operator):
    operator.step(0.01)
    operator.device.commands = [Command.SEGMENT]
    operator.device.held, operator.device.axes[1] = True, -1.0
    steer(operator, lambda: robot.state.clarke_m[3] < -0.002)
    np.testing.assert_allclose(robot.state.reference_m[:3], 0.0, atol=1e-9)


def test_episodes_are_marked_by_a_button_while_a_recorder_records(robot, operator, make, context, tmp_path):
    recorder = make(Recorder, robot=str(robot.description.file_name), directory=str(tmp_path), name="run")
    spinner = Spinner([recorder], context)
    spinner.start()

    def press(command: Command, until) -> None:
        operator.device.commands, operator.episode = [command], ""
        steer(operator, until)

    spinner.run(recorder.trigger_configure)
    press(Command.EPISODE, lambda: "nothing is recorded" in operator.episode)
    spinner.run(recorder.trigger_activate)
    press(Command.DISCARD, lambda: "no episode is under way" in operator.episode)
    press(Command.EPISODE, lambda: operator.episode == "episode 1 begins" and robot.state.episode)
    press(Command.EPISODE, lambda: operator.episode == "episode 1 is kept" and not robot.state.episode)
    press(Command.EPISODE, lambda: operator.episode == "episode 2 begins" and robot.state.episode)
    press(Command.DISCARD, lambda: operator.episode == "episode 2 is discarded" and not robot.state.episode)
    press(Command.EPISODE, lambda: robot.state.episode)
    spinner.run(recorder.trigger_deactivate)
    assert wait_for(lambda: not robot.state.episode, 20.0)
    spinner.stop()
    recording = load_recording(tmp_path / "run", [EPISODE])
    assert recording.series(EPISODE).texts["data"] == [BEGIN, SUCCESS, BEGIN, DISCARD, BEGIN, DISCARD]


def test_it_falls_silent_where_another_program_takes_over(robot, operator):
    operator.step(0.01)
    operator.device.held, operator.device.axes[0] = True, 1.0
    steer(operator, lambda: robot.state.reference_m[0] > 0.001)
    robot.stop()
    steer(operator, lambda: not operator.steering)
    assert "took the reference over" in operator.message
    steps = iter(range(30))
    steer(operator, lambda: next(steps, None) is None)
    assert not operator.steering
    assert robot.state.writer == "reference_source"


def test_the_tip_is_steered_through_its_target(robot, operator):
    robot.bend(1, 0.5, 0.0)
    before = robot.state.tip_position_m
    operator.device.commands = [Command.MODE]
    operator.step(0.01)
    assert operator.mode == "tip"
    operator.step(0.01)
    operator.device.held, operator.device.axes[1] = True, 1.0
    steer(operator, lambda: robot.state.tip_position_m[1] > before[1] + 0.02)
    operator.device.held = False
    steer(operator, lambda: not np.any(operator._steering.reference.velocity))
    operator.device.commands = [Command.HOLD]
    operator.step(0.01)
    assert not operator.steering


def test_the_e_stop_key_stops_and_the_reset_key_brings_it_back(robot, operator):
    operator.step(0.01)
    operator.device.held, operator.device.axes[0] = True, 0.5
    steer(operator, lambda: operator.steering)
    operator.device.commands = [Command.ESTOP]
    operator.step(0.01)
    assert wait_for(lambda: robot.state.estop, 5.0)
    steps = iter(range(20))
    steer(operator, lambda: next(steps, None) is None)
    assert not operator.steering
    operator.device.held = False
    operator.device.commands = [Command.RESET]
    steer(operator, lambda: robot.state.stack == "up" and not robot.state.estop, 60.0)
    operator._resetting.join(30.0)
    operator.step(0.01)
    operator.device.held = True
    steer(operator, lambda: operator.steering, 30.0)
