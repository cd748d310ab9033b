# SPDX-License-Identifier: Apache-2.0
"""A process that receives a motion capture system's frames: the library waits without end, and lets nobody else run.

``python -m continuum_robot.drivers.motion_capture.receiver SYSTEM HOSTNAME`` writes a line of JSON for each frame: when
it arrived (monotonic, s), and of each body position (m) and quaternion (w, x, y, z); or a text, why it ends. It
ends too with the first frame that nobody reads.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def frame_line(stamp_s: float, bodies: dict[str, Any]) -> str:
    """The line of a frame."""
    poses = {
        name: [*map(float, body.position), body.rotation.w, body.rotation.x, body.rotation.y, body.rotation.z]
        for name, body in bodies.items()
    }
    return json.dumps([stamp_s, poses])


def main(system: str, hostname: str) -> None:
    """Connect, and write every frame until nobody reads."""
    import motioncapture  # noqa: PLC0415 - an extra; what it lacks is said on the parent's side

    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the library prints, and those are no lines of ours
    try:
        source = motioncapture.connect(system, {"hostname": hostname})
        while True:
            source.waitForNextFrame()
            lines.write(frame_line(time.monotonic(), source.rigidBodies) + "\n")
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(0)  # the library may still wait in a thread of its own
    except (RuntimeError, ValueError, OSError) as error:
        lines.write(json.dumps(f"{type(error).__name__}: {error}") + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:3])
