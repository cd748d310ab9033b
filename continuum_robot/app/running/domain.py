# SPDX-License-Identifier: Apache-2.0
"""The DDS domain that a stack lives in: loopback by default, and one stack in a namespace."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator

from rclpy.context import Context
from rclpy.node import Node

from continuum_robot.drivers.held_name import HeldName
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.nodes.base.spinning import dds_error, initialize, shut_down_at_end

LISTENER_NODE = "continuum_robot_listener"


class BusyDomainError(ContinuumRobotError):
    """Another stack lives in the same DDS domain and namespace."""

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
def claimed_domain(
    namespace: str, discovery_s: float = 1.5, meanwhile: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Hold the domain and namespace for one stack while the block runs."""
    domain = os.environ.get("ROS_DOMAIN_ID") or "0"
    namespace = absolute_namespace(namespace)
    with _claim(domain, namespace):
        found = _listen(namespace, discovery_s, meanwhile)
        if found:
            raise BusyDomainError(domain, namespace, found)
        yield


@contextlib.contextmanager
def _claim(domain: str, namespace: str) -> Iterator[None]:
    held = HeldName(f"{domain}{namespace}")
    holder = held.take()
    if holder:
        raise BusyDomainError(domain, namespace, f"process {holder} runs a stack")
    try:
        yield
    finally:
        held.release()


def _listen(namespace: str, discovery_s: float, meanwhile: Callable[[], object]) -> str:
    """What the stack of a launch file or of another machine shows within ``discovery_s``, "" for nothing."""
    topic = f"{namespace.rstrip('/')}/tendon_states"
    context = Context()
    initialize(args=[], context=context)
    with shut_down_at_end(context):
        try:
            node = Node(
                LISTENER_NODE, context=context, namespace=namespace, start_parameter_services=False, enable_rosout=False
            )
        except Exception as error:  # rclpy's own errors have no common base
            raise dds_error(error) from error
        try:
            deadline = time.monotonic() + discovery_s
            meanwhile()
            while True:
                drivers = node.get_publishers_info_by_topic(topic)
                if drivers:  # the middleware hears of a publisher before it hears of its node
                    name = drivers[0].node_name
                    return f"{'a node' if 'UNKNOWN' in name else name} publishes tendon_states"
                if time.monotonic() > deadline:
                    return ""
                time.sleep(0.05)
        finally:
            node.destroy_node()
