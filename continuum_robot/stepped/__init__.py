# SPDX-License-Identifier: Apache-2.0
"""Code of the control cycle: one Python source that runs interpreted, and compiled without the interpreter lock.

The modules that runtime/cycle/compilation.py lists are written in the part of Python that Cython's pure-Python mode
turns into plain C (docs/adr/0010). Rules:

- State lives in ``@cython.cclass`` classes whose attributes are annotated with C types: ``cython.double``,
  ``cython.int``, ``cython.longlong``, ``cython.bint``, ``cython.double[::1]``, or another such class. Arrays come from
  :mod:`continuum_robot.stepped.buffers`: lists where interpreted, which index fastest, C memory where compiled. They
  are flat (row-major), made once, and never replaced in the cycle.
- What runs in the cycle is decorated with ``@stepped``: no Python object is made or touched in it, nothing is raised,
  no lock is taken. It is called by other stepped code only; arguments, results and local variables that are not plain
  floats are annotated. What Python code calls (constructors, settings, reports) are plain methods of the same class;
  they run between two cycles.
- Arithmetic that means the same in both forms: no ``min``, ``max``, ``round``, ``%``, ``//`` or ``**`` on floats (NaN
  and signs differ), but comparisons, ``floor`` and products; no division by what may be 0, nor of two
  integers; integers stay below 2**31
  (``cython.longlong``: 2**63); sums in one order, in loops. ``exp`` and the like come from
  ``cython.cimports.libc.math``, which is Python's ``math`` where interpreted; arguments out of their range raise there.
- Loops run over ``indices(count)``, which is ``range(count)``; whole vectors are copied by ``copy_into``. Both spare
  the interpreted form much, as do local names of what a loop uses again and again.
- Several of a kind are chained (``self.next``), since a list is a Python object.
- NaN and infinity are ``UNKNOWN`` and ``INFINITE`` of the buffers; constants of the cycle are
  ``NAME = cython.declare(cython.double, 0.02)`` and the like.
- No name of a module-level function or constant stands in two of the modules: compiled, they are one file.
"""
