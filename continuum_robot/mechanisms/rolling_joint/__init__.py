# SPDX-License-Identifier: Apache-2.0
"""Links that roll on each other, held together by two tendons: Ha, Kim, Kim (ha), with general contact surfaces."""
