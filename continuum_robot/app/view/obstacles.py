# SPDX-License-Identifier: Apache-2.0
"""Obstacles of a simulated world on the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from continuum_robot.app.view import colors

Array = NDArray[np.float64]


class ObstacleScene:
    """Draws each obstacle once, and again only when the world is another one."""

    def __init__(self, server: viser.ViserServer, scale: float) -> None:
        self._server, self._scale = server, scale
        self._handles: dict[str, Any] = {}
        self._drawn: dict[str, bytes] = {}

    def draw(self, obstacles: Mapping[str, Array]) -> None:
        """Show these obstacles and no others."""
        for name in self._handles.keys() - obstacles.keys():
            self._handles.pop(name).remove()
            del self._drawn[name]
        for name, triangles in obstacles.items():
            looks = np.asarray(triangles).tobytes()
            if self._drawn.get(name) == looks:
                continue
            vertices = (np.reshape(triangles, (-1, 3)) * self._scale).astype(np.float32)
            faces = np.arange(len(vertices)).reshape(-1, 3)
            self._drawn[name] = looks
            self._handles[name] = self._server.scene.add_mesh_simple(
                f"/obstacles/{name}", vertices, faces, color=colors.OBSTACLE, opacity=0.3, flat_shading=True,
                side="double", cast_shadow=False, receive_shadow=False,
            )  # fmt: skip
