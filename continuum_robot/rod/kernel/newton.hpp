// SPDX-License-Identifier: Apache-2.0
// Equilibria of robots side by side: Newton's method on the generalised force, with steps of one limited size for all
// lanes. Where it fails, statics.hpp goes along the energy of each robot alone.
#pragma once
#include "forces.hpp"

namespace rod {

// From a guess in c to where all forces vanish; how many iterations it took, or minus that where it did not converge.
// `hessian`: minus dF/dc there, (n, n).
template <class S, class P>
int newton(const Shape &r, const Numbers<P> &q, const double *scale, const Pull<S> &pull, S *c, double tolerance,
           int most, S *hessian) {
  const int n = r.n;
  const double LARGEST = 0.8; // change of a coefficient in an iteration, as angle or strain over its segment
  Arena<S> memory;
  S *matrix = memory.raw(n * n), *force = memory.raw(n), *still = memory.zeros(n), *length = memory.raw(r.paths);
  const Terms<S> out{nullptr, force, nullptr, nullptr, nullptr, hessian, nullptr, nullptr};
  bool there = false;
  for (int iteration = 1; iteration <= most; iteration++) {
    forces<S, P>(r, q, c, still, pull, out, length);
    for (int i = 0; i < n * n; i++) hessian[i] = -hessian[i];
    if (there) return iteration;
    std::copy(hessian, hessian + n * n, matrix);
    if (!factor(matrix, n)) return -iteration;
    solve(matrix, n, force);
    double size = 0;
    for (int i = 0; i < n; i++)
      size = std::max(size, std::max(largest(scale[i] * force[i]), largest(-(scale[i] * force[i]))));
    if (!(size < 1e9)) return -iteration;
    const double part = size > LARGEST ? LARGEST / size : 1.0;
    for (int i = 0; i < n; i++) c[i] += part * force[i];
    there = size <= tolerance;
  }
  return -most;
}

} // namespace rod
