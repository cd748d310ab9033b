# SPDX-License-Identifier: Apache-2.0
"""The commands of ``continuum-robot``: each parses its arguments and runs a module of app/."""
