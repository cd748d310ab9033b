# SPDX-License-Identifier: Apache-2.0
"""The robot's description: dataclasses, and the strict reading of config/robots/*.yaml."""
