# SPDX-License-Identifier: Apache-2.0
"""What an observer of contacts needs of a rod's model."""
