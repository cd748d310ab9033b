# SPDX-License-Identifier: Apache-2.0
"""Programs that come to a running stack while its loop is measured: a client, or, with a file, one that takes the page.

The file holds the page's address: on the command line every user of the computer could read its token. A browser draws
with whatever graphics its computer has; what the page itself costs is measured by taking what it sends.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import msgspec
import viser
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from continuum_robot.app.client.robot import Robot
from continuum_robot.nodes.base.spinning import StopRequest
from continuum_robot.runtime.periodic import give_way


def take_all(address: str) -> None:
    """Take everything that the page sends and draw nothing, until the process is ended."""
    protocol = Subprotocol(f"viser-v{viser.__version__}")
    url = address.replace("http", "ws", 1)
    with connect(url, subprotocols=[protocol], max_size=None, compression=None) as page:
        # A client counts as one as soon as its camera is known.
        camera = {
            "type": "ViewerCameraMessage",
            "wxyz": (1.0, 0.0, 0.0, 0.0),
            "position": (1.0, 1.0, 1.0),
            "fov": 1.0,
            "near": 0.01,
            "far": 100.0,
            "image_height": 800,
            "image_width": 1280,
            "look_at": (0.0, 0.0, 0.0),
            "up_direction": (0.0, 0.0, 1.0),
        }
        page.send(msgspec.msgpack.encode(camera))
        for _ in page:
            pass


def look_on() -> None:
    """Join the stack of this DDS domain as a client, and read its state 50 times a second."""
    with StopRequest() as stop, Robot.connect() as robot:
        while not stop.wait(0.02):
            robot.state  # noqa: B018


if __name__ == "__main__":
    if len(sys.argv) > 1:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        give_way()
        take_all(Path(sys.argv[1]).read_text(encoding="utf-8"))
    else:
        look_on()
