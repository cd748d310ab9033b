// SPDX-License-Identifier: Apache-2.0
// The whole generalised force on a rod: of the Lagrangian, loads, stiffness, damping and tendons; and the energy at rest.
#pragma once
#include "lengths.hpp"
#include "terms.hpp"

namespace rod {

// What tendons pull with: given tensions, springs at spooled lengths, which only pull, and dry friction of their paths.
// All may be; null stops: none.
template <class S> struct Pull {
  const S *tension;   // (paths,), N
  const S *stiffness; // (paths,), N/m
  const S *spooled;   // (paths,), m: taken in since the rod was straight
  const S *slack_m;   // (paths,), m: length of the straight rod
  const S *stops = nullptr; // Prandtl's stops: stiffness N/m (paths,), anchor m (paths,), limit N (paths,)
};

// What a tendon pulls with at a length, and its slope by the length; `energy`, where it is not null: what it has stored.
// A stop takes up k (x - a) where that is less than the limit F, else F with its sign; x: what the path is shorter by.
template <class S>
void pulled(const Pull<S> &pull, int paths, int j, const S &length, S &tension, S &slope, S *energy) {
  const S shorter = pull.slack_m[j] - length, stretch = pull.spooled[j] - shorter;
  slope = pull.stiffness[j] * positive(stretch);
  tension = pull.tension[j] + slope * stretch;
  if (energy) *energy += 0.5 * slope * stretch * stretch - pull.tension[j] * shorter;
  if (!pull.stops) return;
  const S k = pull.stops[j], limit = pull.stops[2 * paths + j], elastic = k * (shorter - pull.stops[paths + j]);
  const S above = positive(elastic - limit), below = positive(-elastic - limit);
  const S friction = elastic - above * (elastic - limit) - below * (elastic + limit);
  tension -= friction;
  slope += k * (positive(limit - elastic) * positive(limit + elastic));
  if (energy) *energy += friction * (elastic - 0.5 * friction) / k;
}

// Terms at (c, v) with stiffness, damping and tendons in the force and its derivative by c. By v it is
// momentum_by_c^T - damping. `length`, `tension`, `gradient`: (paths,), (paths,), (paths, n); of the tendons.
template <class S, class P>
void forces(const Shape &r, const Numbers<P> &q, const S *c, const S *v, const Pull<S> &pull, const Terms<S> &out,
            S *length, S *tension = nullptr, S *gradient = nullptr, S *energy = nullptr) {
  const int n = r.n, N = r.paths;
  terms<S, P>(r, q, c, v, nullptr, out);
  Arena<S> memory;
  if (!tension) tension = memory.raw(N);
  if (!gradient) gradient = memory.raw(N * n);
  S *slope = memory.raw(N);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      out.force[i] -= q.stiffness[i * n + j] * c[j] + q.damping[i * n + j] * v[j];
      if (out.force_by_c) out.force_by_c[i * n + j] -= S{} + q.stiffness[i * n + j];
    }
  if (!N) return;
  lengths<S, P>(r, q, c, nullptr, length, gradient, nullptr);
  for (int j = 0; j < N; j++) pulled(pull, N, j, length[j], tension[j], slope[j], energy);
  if (out.force_by_c && !r.straight) lengths<S, P>(r, q, c, tension, length, gradient, out.force_by_c);
  for (int j = 0; j < N; j++) {
    const S *l_c = gradient + j * n;
    add_scaled(-tension[j], l_c, out.force, n);
    if (out.force_by_c)
      for (int a = 0; a < n; a++) add_scaled(-slope[j] * l_c[a], l_c, out.force_by_c + a * n, n);
  }
}

// Energy of a rod at rest: elastic, of its weight, and of the loads that keep their direction. Loads that follow and
// moments have none. `pose`: of all bodies, as in Terms.
template <class S, class P> S energy_at_rest(const Shape &r, const Numbers<P> &q, const S *c, const S *pose) {
  S sum{};
  for (int i = 0; i < r.n; i++) sum += 0.5 * (c[i] * dot(q.stiffness + i * r.n, c, r.n));
  for (int k = 0; k < r.bodies; k++, pose += 12) {
    const P *body = q.body + BODY * k, *load = body + 10;
    for (int i = 0; i < 3; i++) {
      S first = body[0] * pose[9 + i], point = S{} + pose[9 + i];
      for (int j = 0; j < 3; j++) {
        first += pose[3 * i + j] * body[1 + j];
        point += pose[3 * i + j] * load[j];
      }
      sum -= q.gravity[i] * first + load[3 + i] * point;
    }
  }
  return sum;
}

} // namespace rod
