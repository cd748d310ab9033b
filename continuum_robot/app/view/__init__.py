# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot view``: a page in the browser that shows a running robot, explains it and steers it."""
