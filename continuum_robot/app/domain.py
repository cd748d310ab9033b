# SPDX-License-Identifier: Apache-2.0
"""The DDS domain that a stack lives in: loopback by default, and one stack in a namespace."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from rclpy.context import Context
from rclpy.node import Node

from continuum_robot.errors import ContinuumRobotError
from continuum_robot.nodes.spinning import dds_error, initialize, shut_down_at_end

MARKER_NODE = "continuum_robot_stack"


class BusyDomainError(ContinuumRobotError):
    """Another stack lives in the same DDS domain and namespace.

    Attributes
    ----------
    domain : the domain's number
    namespace : the ROS namespace, "/" for none
    found : what was seen there
    """

    def __init__(self, domain: str, namespace: str, found: str) -> None:
        self.domain, self.namespace, self.found = domain, namespace, found
        super().__init__(
            f"DDS domain {domain} is busy: {found} in namespace {namespace}. "
            "Stop the other stack, or choose another domain, e.g. ROS_DOMAIN_ID=42"
        )


def absolute_namespace(namespace: str) -> str:
    """``"/"``, or the namespace with one leading and no trailing slash."""
    return "/" + namespace.strip("/")


@contextlib.contextmanager
def claimed_domain(namespace: str, discovery_s: float = 1.5) -> Iterator[None]:
    """Hold the domain and namespace for one stack while the block runs.

    Parameters
    ----------
    namespace : ROS namespace of the stack, "" for none
    discovery_s : how long to listen for other stacks before the block begins, s

    Raises
    ------
    BusyDomainError : another stack is there, started by this command or by a launch file
    DeviceError : DDS cannot be joined
    """
    domain = os.environ.get("ROS_DOMAIN_ID") or "0"
    namespace = absolute_namespace(namespace)
    context = Context()
    initialize(args=[], context=context)
    with shut_down_at_end(context):
        try:
            node = Node(
                MARKER_NODE, context=context, namespace=namespace, start_parameter_services=False, enable_rosout=False
            )
        except Exception as error:  # rclpy's own errors have no common base
            raise dds_error(error) from error
        try:
            found = _listen(node, namespace, discovery_s)
            if found:
                raise BusyDomainError(domain, namespace, found)
            yield
        finally:
            node.destroy_node()


def _listen(node: Node, namespace: str, discovery_s: float) -> str:
    """What another stack shows within ``discovery_s``, "" for nothing."""
    topic = f"{namespace.rstrip('/')}/tendon_states"
    deadline = time.monotonic() + discovery_s
    while time.monotonic() < deadline:
        drivers = node.get_publishers_info_by_topic(topic)
        if drivers:
            return f"{drivers[0].node_name} publishes tendon_states"
        if node.get_node_names_and_namespaces().count((MARKER_NODE, namespace)) > 1:
            return "another continuum-robot command runs"
        time.sleep(0.05)
    return ""
