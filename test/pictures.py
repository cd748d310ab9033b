# SPDX-License-Identifier: Apache-2.0
"""What a picture shows, as far as a test can see it: neither blank nor full, and like the one that is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.image import imread

LEAST_PIXELS, LEAST_INK, MOST_INK = 250, 0.005, 0.9
ROWS, COLUMNS = 24, 32


def shows_something(file: Path) -> bool:
    """Whether a PNG is large enough to read, and more than its background and less than a solid area is drawn."""
    image = imread(file)[..., :3]
    ink = float((np.abs(image - image[0, 0]).max(axis=-1) > 0.05).mean())
    return min(image.shape[:2]) >= LEAST_PIXELS and LEAST_INK < ink < MOST_INK


def difference(first: Path, second: Path) -> float:
    """Mean difference of two pictures between 0 and 1, each reduced to a few grey fields relative to its contrast."""
    grey = []
    for file in (first, second):
        image = imread(file)[..., :3].mean(axis=-1)
        rows = np.array_split(image, ROWS)
        values = np.array([[field.mean() for field in np.array_split(row, COLUMNS, axis=1)] for row in rows])
        grey.append((values - values.min()) / np.ptp(values))
    return float(np.abs(grey[0] - grey[1]).mean())
