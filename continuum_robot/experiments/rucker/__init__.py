# SPDX-License-Identifier: Apache-2.0
"""rucker: the Cosserat rod with general tendon routing."""
