# SPDX-License-Identifier: Apache-2.0
"""johnston: modal shape sensing and the momentum observer."""
