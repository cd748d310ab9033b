# SPDX-License-Identifier: Apache-2.0
"""Command line, recorder, reports."""

import continuum_robot.nodes  # noqa: F401 - how many threads linear algebra has is decided there
