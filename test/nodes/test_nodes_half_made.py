# SPDX-License-Identifier: Apache-2.0
"""Nodes are made for the process they are in; one whose parameters are refused is destroyed without a complaint."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from rclpy.context import Context

from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.nodes.base.spinning import initialize
from continuum_robot.nodes.stack import making
from continuum_robot.nodes.stack.making import make_nodes, node_class
from continuum_robot.nodes.stack.options import MANAGED_NODES
from continuum_robot.nodes.supervisor import Supervisor

pytestmark = [pytest.mark.ros]

KINDS = {name: node_class(name) for name in MANAGED_NODES} | {"supervisor": Supervisor}
# Refused in the node's own constructor, where it has a parameter of that kind.
OWN = {"tendon_driver": {"rate_hz": 5.0}, "supervisor": {"node_names": ["recorder", "recorder"]}}


def destroy_half_made(name: str, overrides: dict[str, object], capfd: pytest.CaptureFixture[str]) -> None:
    context = Context()
    initialize([], context)
    with pytest.raises(ParameterError) as caught:
        KINDS[name](context=context, overrides=overrides)
    capfd.readouterr()
    context.try_shutdown()
    assert caught.value is not None  # until here its traceback kept the node
    said = capfd.readouterr()
    assert "failed" not in said.out + said.err


@pytest.mark.parametrize("name", KINDS)
def test_refused_by_what_all_nodes_share(name, capfd):
    destroy_half_made(name, {"use_fake_hardware": "perhaps"}, capfd)


@pytest.mark.parametrize("name", OWN)
def test_refused_by_its_own_parameters(name, capfd):
    destroy_half_made(name, OWN[name], capfd)


@pytest.mark.parametrize(
    ("name", "written", "given", "words"),
    [
        ("reference_source", "blend_s: soon", {"blend_s": "soon"}, "'soon' -- expected"),
        ("reference_source", "blend_s: 61.0", {"blend_s": 61.0}, "61.0 -- expected"),
        ("reference_source", "reference.circle_hz: -1.0", {}, "-1.0 -- expected a parameter of reference_source"),
        ("tendon_driver", "limits.maximum_n: 900.0", {"limits.maximum_n": 900.0}, "900.0 -- expected"),
        ("tendon_driver", "limits.rate_n_per_s: -2.0", {"limits.rate_n_per_s": -2.0}, "-2.0 -- expected"),
    ],
)
def test_what_a_file_gives_is_refused_with_its_line(name, written, given, words, tmp_path):
    file = tmp_path / "params.yaml"
    file.write_text(f"/**/{name}:\n  ros__parameters:\n    {written}\n")
    context = Context()
    initialize([], context)
    said = ""
    node = None
    try:
        node = KINDS[name](context=context, overrides={"params_file": str(file), **given})
        node.trigger_configure()
        said = node.last_error
    except RobotFileError as error:
        said = str(error)
    finally:
        if node is not None:
            node.destroy_node()
        context.try_shutdown()
    key = written.partition(":")[0]
    assert f"params.yaml:3: /**/{name}.ros__parameters.{key}: " in said
    assert words in said


@pytest.mark.parametrize(
    ("names", "alone"),
    [
        (["tendon_driver", "clarke_controller"], ["tendon_driver"]),
        (["simulator"], ["simulator"]),
        (["simulator", "tendon_driver", "clarke_controller"], []),
        (["tendon_driver", "clarke_controller", "recorder"], []),
        (["recorder"], []),
    ],
)
def test_only_a_loop_with_a_process_of_its_own_may_run_before_everything_else(monkeypatch, names, alone):
    made: dict[str, dict[str, object]] = {}
    monkeypatch.setattr(making, "node_class", lambda name: lambda **options: made.update({name: options}))
    make_nodes(names, lambda _: {}, "clarke")
    assert [name for name, options in made.items() if options.get("own_process")] == alone
