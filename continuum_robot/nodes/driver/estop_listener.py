# SPDX-License-Identifier: Apache-2.0
"""Hears the e-stop at any time: a node and an executor of its own, beside a driver that may be busy for seconds."""

from __future__ import annotations

from collections.abc import Callable

from rclpy.node import Node
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from continuum_robot.nodes import qos
from continuum_robot.nodes.lifecycle import ManagedNode
from continuum_robot.nodes.spinning import Spinner


class EstopListener:
    """Serves ``estop``, topic and service, in a thread of its own.

    A transition runs in the executor's thread, and an activation may wait for a board for a quarter of a minute.

    Parameters
    ----------
    node : whose e-stop it is: its namespace, names and context; what fails here is a defect of it
    on_topic : called with each message, latched ones too
    on_service : answers the service
    """

    def __init__(
        self,
        node: ManagedNode,
        on_topic: Callable[[Bool], None],
        on_service: Callable[[Trigger.Request, Trigger.Response], Trigger.Response],
    ) -> None:
        # Hidden from lists, as its name begins with an underscore. Names are resolved by the node, with its remappings;
        # the command line would give this one the node's own name.
        self._node = Node(
            f"_{node.get_name()}_estop",
            context=node.context,
            namespace=node.get_namespace(),
            use_global_arguments=False,
            enable_rosout=False,
            start_parameter_services=False,
        )
        topic = node.resolve_topic_name("estop")
        self._node.create_subscription(Bool, topic, on_topic, qos.switch_subscription())
        self._latched = self._node.create_subscription(Bool, topic, on_topic, qos.latched())
        self._node.create_service(Trigger, node.resolve_service_name("estop"), on_service)
        self._spinner = Spinner([self._node], node.context, node.on_defect)
        self._spinner.start()

    def close(self) -> None:
        """End."""
        if self._spinner.stop():
            self._node.destroy_node()
