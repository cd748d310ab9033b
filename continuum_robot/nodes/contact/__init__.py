# SPDX-License-Identifier: Apache-2.0
"""What the contact monitor's node is made of beside its core."""
