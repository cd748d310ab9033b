# SPDX-License-Identifier: Apache-2.0
"""Pages of the documentation that are made from the code: ``python -m continuum_robot.app.pages`` writes them all."""
