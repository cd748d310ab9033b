// SPDX-License-Identifier: Apache-2.0
// The whole generalised force on a rod: of the Lagrangian, loads, stiffness, damping and tendons.
#pragma once
#include "lengths.hpp"
#include "terms.hpp"

namespace rod {

// What tendons pull with: given tensions, and springs at spooled lengths, which only pull. Both may be.
template <class S> struct Pull {
  const S *tension;   // (paths,), N
  const S *stiffness; // (paths,), N/m
  const S *spooled;   // (paths,), m: taken in since the rod was straight
  const S *slack_m;   // (paths,), m: length of the straight rod
};

// Terms at (c, v) with stiffness, damping and tendons in the force and its derivative by c. By v it is
// momentum_by_c^T - damping. `length`: (paths,).
template <class S, class P>
void forces(const Shape &r, const Numbers<P> &q, const S *c, const S *v, const Pull<S> &pull, const Terms<S> &out,
            S *length) {
  const int n = r.n, N = r.paths;
  terms<S, P>(r, q, c, v, nullptr, out);
  Arena<S> memory;
  S *gradient = memory.raw(N * n), *tension = memory.raw(N), *stiffness = memory.raw(N);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      out.force[i] -= q.stiffness[i * n + j] * c[j] + q.damping[i * n + j] * v[j];
      if (out.force_by_c) out.force_by_c[i * n + j] -= S{} + q.stiffness[i * n + j];
    }
  if (!N) return;
  lengths<S, P>(r, q, c, nullptr, length, gradient, nullptr);
  for (int j = 0; j < N; j++) {
    const S stretch = length[j] - pull.slack_m[j] + pull.spooled[j];
    stiffness[j] = pull.stiffness[j] * positive(stretch);
    tension[j] = pull.tension[j] + stiffness[j] * stretch;
  }
  if (out.force_by_c && !r.straight) lengths<S, P>(r, q, c, tension, length, gradient, out.force_by_c);
  for (int j = 0; j < N; j++) {
    const S *l_c = gradient + j * n;
    add_scaled(-tension[j], l_c, out.force, n);
    if (out.force_by_c)
      for (int a = 0; a < n; a++) add_scaled(-stiffness[j] * l_c[a], l_c, out.force_by_c + a * n, n);
  }
}

} // namespace rod
