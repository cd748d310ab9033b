# SPDX-License-Identifier: Apache-2.0
"""The parts of the reference source's node, one subject a file; ``nodes/reference_source.py`` puts them together."""
