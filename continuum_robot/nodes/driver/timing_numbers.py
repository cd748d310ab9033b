# SPDX-License-Identifier: Apache-2.0
"""The driver's timing as numbers of a run, from what it reports on /diagnostics."""

from __future__ import annotations

import math
from collections.abc import Mapping

NUMBERS = {
    "loop_rate_hz": "loop_rate_hz",
    "missed_cycles_percent": "missed_cycles_percent",
    "cycles": "cycles",
    "missed_cycles": "missed_cycles",
    "period_p99_us": "period_p99_us",
    "period_max_us": "period_max_us",
    "execution_mean_us": "execution_mean_us",
    "execution_p99_us": "execution_p99_us",
    "response_p50_us": "response_p50_us",
    "response_p99_us": "response_p99_us",
    "response_max_us": "response_max_us",
    "responses": "responses",
    "round_trip_p50_us": "round_trip_p50_us",
    "round_trip_p99_us": "round_trip_p99_us",
    "round_trip_max_us": "round_trip_max_us",
    "commands_received": "round_trips",
    "real_time_factor": "real_time_factor",
}
"""Name of a run's number by the key on /diagnostics."""
_COUNTS = {"cycles", "missed_cycles", "responses", "commands_received"}
_FROM_RESPONSES = {
    "round_trip_p50_us": "response_p50_us",
    "round_trip_p99_us": "response_p99_us",
    "round_trip_max_us": "response_max_us",
    "round_trips": "responses",
}


def timing_of(values: Mapping[str, str]) -> dict[str, float | int | str]:
    """Numbers of a run, and in which form the cycle ran; empty where the driver reported nothing of its loop yet.

    With the controller in the cycle a round trip is the response: from a cycle's beginning, before it reads, to its
    command written. Over topics it is the way from the published state to the command that answers it.
    """
    found: dict[str, float | int | str] = {
        name: int(values[key]) if key in _COUNTS else float(values[key])
        for key, name in NUMBERS.items()
        if key in values
    }
    if not found:
        return {}
    for name, response in _FROM_RESPONSES.items():
        if found.get("round_trips", 0) == 0 or name not in found:
            found[name] = found.get(response, math.nan)
    for key in ("cycle", "cycle_reason"):
        if key in values:
            found[key] = values[key]
    return found
