# SPDX-License-Identifier: Apache-2.0
"""Robot files: values, YAML, those that are shipped, settings of recordings."""
