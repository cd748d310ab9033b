// SPDX-License-Identifier: Apache-2.0
// What the wires of capstans keep of their tension on their way through the disks: johnston (33) to (36). The equations
// are solved in rod/friction/capstan_friction.py.
#pragma once
#include "algebra.hpp"

namespace rod {

// A wire: its holes follow one another from the plate that it begins at, square to it, to the last disk, which it leaves
// square. With `back` it returns on the same way.
struct Wire {
  int first, holes, back;
};

// Where a hole is: its body (-1: the base), and x, y in the body's axes.
struct Hole {
  int body;
  double at_m[2];
};

// f_i / f_(i-1) of (35) for directions (2,) in the disk's plane, before and after it. Deflections below about `rounding`
// are rounded off, so that there is a derivative at the straight rod.
template <class S> S kept_at_bushing(const S *before, const S *after, double friction, double rounding) {
  const double square = friction * friction;
  const S turn[2] = {after[0] - before[0], after[1] - before[1]}, cross = before[0] * turn[1] - before[1] * turn[0];
  // (1 - mu^2 ab)^2 - (1 - mu^2 aa)(1 - mu^2 bb) without cancellation; never negative, as |a| <= 1 and mu < 1.
  S discriminant = square * (dot(turn, turn, 2) - square * (cross * cross));
  if (!(largest(discriminant) > 0)) discriminant = S{};
  const S spread = root(discriminant + rounding * rounding) - rounding;
  // The lesser root as product over greater root keeps its digits for a small fraction. Rounding may not make it > 1.
  S found = (1.0 + -(square * dot(before, before, 2))) / (1.0 + -(square * dot(before, after, 2)) + spread);
  return largest(found) > 1 ? S{} + 1.0 : found;
}

// Of one wire: the fraction that is left at its end, and where `gradient` (n,) is wanted, its derivative by c. `pose` and
// `jacobian` are those of terms.hpp.
inline double kept_by_wire(int n, const Wire &wire, const Hole *hole, double friction, double rounding,
                           const double *pose, const double *jacobian, double *gradient) {
  typedef Dual<double, 4> Slopes; // by both directions, before and after
  static const double identity[12] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
  const int holes = wire.holes, columns = gradient ? n : 0;
  Arena<double> memory;
  double *at = memory.raw(3 * holes), *moved = memory.zeros(3 * columns * holes), *chord = memory.raw(3 * columns);
  double *way = memory.zeros(4 * holes), *turned = memory.zeros(4 * columns * holes); // before and after each hole
  hole += wire.first;
  for (int k = 0; k < holes; k++) {
    const Hole &one = hole[k];
    const double *g = one.body < 0 ? identity : pose + 12 * one.body, x = one.at_m[0], y = one.at_m[1];
    for (int i = 0; i < 3; i++) at[3 * k + i] = g[9 + i] + g[3 * i] * x + g[3 * i + 1] * y;
    if (one.body < 0) continue;
    const double *J = jacobian + 6 * n * one.body;
    for (int a = 0; a < columns; a++) {
      const double v[3] = {J[a] - J[5 * n + a] * y, J[n + a] + J[5 * n + a] * x,
                           J[2 * n + a] + J[3 * n + a] * y - J[4 * n + a] * x};
      for (int i = 0; i < 3; i++) moved[(3 * k + i) * n + a] = dot(g + 3 * i, v, 3);
    }
  }
  for (int k = 0; k + 1 < holes; k++) {
    double u[3], size = 0;
    for (int i = 0; i < 3; i++) u[i] = at[3 * k + 3 + i] - at[3 * k + i];
    size = std::sqrt(dot(u, u, 3));
    for (int i = 0; i < 3; i++) u[i] /= size;
    for (int a = 0; a < columns; a++) {
      double d[3];
      for (int i = 0; i < 3; i++) d[i] = (moved[(3 * k + 3 + i) * n + a] - moved[(3 * k + i) * n + a]) / size;
      const double along = dot(u, d, 3);
      for (int i = 0; i < 3; i++) chord[i * n + a] = d[i] - along * u[i];
    }
    for (int end = 0; end < 2; end++) { // the way after hole k, and before the next
      const Hole &one = hole[k + end];
      const double *g = one.body < 0 ? identity : pose + 12 * one.body;
      double *to = way + 4 * (k + end) + 2 * (1 - end), *by_c = turned + (4 * (k + end) + 2 * (1 - end)) * n, own[3];
      for (int i = 0; i < 3; i++) own[i] = g[i] * u[0] + g[3 + i] * u[1] + g[6 + i] * u[2];
      to[0] = own[0];
      to[1] = own[1];
      const double *w = one.body < 0 ? nullptr : jacobian + 6 * n * one.body + 3 * n;
      for (int a = 0; a < columns; a++) { // of R^T u: own x w + R^T du
        for (int i = 0; i < 2; i++)
          by_c[i * n + a] = g[i] * chord[a] + g[3 + i] * chord[n + a] + g[6 + i] * chord[2 * n + a];
        if (!w) continue;
        by_c[a] += own[1] * w[2 * n + a] - own[2] * w[n + a];
        by_c[n + a] += own[2] * w[a] - own[0] * w[2 * n + a];
      }
    }
  }
  double kept = 1;
  if (gradient) std::fill(gradient, gradient + n, 0.0);
  for (int k = 0; k < holes; k++)
    for (int way_back = 0; way_back <= wire.back; way_back++) {
      Slopes d[4];
      for (int i = 0; i < 4; i++) {
        d[i] = {way[4 * k + i], {}};
        d[i].slope[i] = 1;
      }
      if (way_back)
        for (int i = 0; i < 2; i++) {
          const Slopes before = d[i];
          d[i] = -d[2 + i];
          d[2 + i] = -before;
        }
      const Slopes one = kept_at_bushing(d, d + 2, friction, rounding);
      kept *= one.value;
      for (int i = 0; i < 4 && gradient; i++) add_scaled(one.slope[i] / one.value, turned + (4 * k + i) * n, gradient, n);
    }
  for (int a = 0; a < columns; a++) gradient[a] *= kept;
  return kept;
}

// Memory of one wire, in scalars.
inline std::size_t wire_memory(int n, int holes) { return 7 * static_cast<std::size_t>(n + 1) * holes + 3 * n; }

} // namespace rod
