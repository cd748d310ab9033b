# SPDX-License-Identifier: Apache-2.0
"""Prints how long one update of the contact monitor takes: python benchmarks/contact_monitor.py."""

from continuum_robot.app.bench.contact_monitor import measure_contact_monitor

if __name__ == "__main__":
    for key, value in measure_contact_monitor().items():
        print(f"{key}: {value:.1f}")
