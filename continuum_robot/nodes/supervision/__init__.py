# SPDX-License-Identifier: Apache-2.0
"""The parts of the supervisor's node, one subject a file; ``nodes/supervisor.py`` puts them together."""
