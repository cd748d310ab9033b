# SPDX-License-Identifier: Apache-2.0
"""ha: rolling-contact joints."""
