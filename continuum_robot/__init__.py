# SPDX-License-Identifier: Apache-2.0
"""A real-time control stack for tendon-driven continuum robots."""

from pkgutil import extend_path

# The messages generated from msg/ and srv/ live in the installed half of this package;
# a source checkout in front of it on sys.path must not hide them.
__path__ = extend_path(__path__, __name__)

__version__ = "0.1.0"
