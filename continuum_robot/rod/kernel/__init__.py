# SPDX-License-Identifier: Apache-2.0
"""The rod's kernel: templates in C++ behind a C interface, and the arrays that it reads. Mathematics: README.md."""
