# SPDX-License-Identifier: Apache-2.0
"""The fuzzer of all frame parsers runs and finds nothing; benchmarks/fuzz_frames.py runs it with a million inputs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FUZZER = Path(__file__).resolve().parents[3] / "benchmarks" / "fuzz_frames.py"


def test_a_few_thousand_inputs_for_every_parser() -> None:
    done = subprocess.run(
        [sys.executable, str(FUZZER), "--inputs", "5000"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout
    report = json.loads(done.stdout)
    assert report["inputs"] == 5000 * len(report["parsers"])
    for counts in report["parsers"].values():
        assert counts["accepted"] > 0
        assert counts["failures"] == []
