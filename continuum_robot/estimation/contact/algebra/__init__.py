# SPDX-License-Identifier: Apache-2.0
"""Generated algebra of the contact monitor: filter, error budgets, likelihood of contact locations.

On matrices of 6 to 36 rows NumPy spends its time on calls, not on numbers. Products of blocks are functions that others
call, so that the code stays small. Without a compiler it runs in CasADi's virtual machine, slower. The tests hold the
same formulas with NumPy against it.
"""
