# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from continuum_robot.app.bench.codecs import measure_codecs


def test_every_codec_is_measured() -> None:
    times = measure_codecs(batches=1)
    assert len(times) == 7
    assert all(key.startswith("codec_") and key.endswith("_us") and value > 0 for key, value in times.items())
