// SPDX-License-Identifier: Apache-2.0
// Gradient of a function of a motion's end, by the adjoint of each stage: one matrix and one solution a stage backwards,
// whatever the number of tensions.
#pragma once
#include "motion.hpp"
#include <vector>

namespace rod {

// Directions of the numbers along which slopes are wanted: each (count, ...) as in Numbers.
struct Directions {
  int count;
  const double *body, *stiffness, *damping;
};

// A motion under given tensions (steps, paths) that is kept, and its adjoint.
class KeptMotion {
public:
  KeptMotion(const Shape &r, const Numbers<double> &q, const double *scale, Method method, double h, int steps,
             const double *tension, const double *none, double tolerance)
      : r(r), q(q), method(method), stages(method == SDIRK ? 2 : 1), steps(steps), n(r.n), h(h),
        g(method == SDIRK ? GAMMA() * h : h / 2), on(method == SDIRK ? (1 - GAMMA()) / GAMMA() : 1.0),
        tension(tension), none(none), tolerance(tolerance), stage(n, r.paths, scale, memory), rates(n, scale, memory),
        kept(static_cast<std::size_t>(steps) * stages * 2 * n) {}

  // From c and momenta p to their end. False where a stage does not converge.
  bool run(double *c, double *p, const double *rate) {
    std::vector<double> c0(n), p0(n), at(n), v(n);
    rates.add(-h, rate);
    for (int k = 0; k < steps; k++) {
      std::copy(c, c + n, c0.begin());
      std::copy(p, p + n, p0.begin());
      for (int i = 0; i < stages; i++) {
        double *C = stage_of(k, i), time = k * h + (i ? h : g);
        std::copy(c0.begin(), c0.end(), C + n);
        rates.guess(time, g, c0.data(), rate, C);
        Pulled<double, double> all{r, q, pull(k), stage.length};
        if (!stage.run(g, c0.data(), p0.data(), C, v.data(), at.data(), all, q.damping, tolerance)) return false;
        rates.add(time, v.data());
        for (int a = 0; a < n; a++) {
          if (method == MIDPOINT) {
            c[a] = 2 * C[a] - c[a];
            p[a] = 2 * at[a] - p[a];
          } else if (i) {
            c[a] = C[a];
            p[a] = at[a];
          } else {
            c0[a] = c[a] + on * (C[a] - c[a]);
            p0[a] = p[a] + on * (at[a] - p[a]);
          }
        }
      }
    }
    return true;
  }

  // From the gradient by the end's (c, p) to that by the start's; adds to those by the tensions and along directions.
  void back(double *by_c, double *by_p, double *by_tension, const Directions &directions, double *along) {
    std::vector<double> on_c(n), on_p(n), base_c(n), base_p(n);
    for (int k = steps; k--;) {
      if (method == SDIRK) {
        back_stage(k, 1, by_c, by_p, on_c.data(), on_p.data(), by_tension, directions, along);
        for (int a = 0; a < n; a++) {
          by_c[a] = (1 - on) * on_c[a];
          by_p[a] = (1 - on) * on_p[a];
          on_c[a] *= on;
          on_p[a] *= on;
        }
      } else
        for (int a = 0; a < n; a++) {
          on_c[a] = 2 * by_c[a];
          on_p[a] = 2 * by_p[a];
          by_c[a] = -by_c[a];
          by_p[a] = -by_p[a];
        }
      back_stage(k, 0, on_c.data(), on_p.data(), base_c.data(), base_p.data(), by_tension, directions, along);
      for (int a = 0; a < n; a++) {
        by_c[a] += base_c[a];
        by_p[a] += base_p[a];
      }
    }
  }

private:
  typedef Dual<double, 1> Slope;
  static double GAMMA() { return 1 - 1 / std::sqrt(2.0); }
  const Shape &r;
  const Numbers<double> &q;
  const Method method;
  const int stages, steps, n;
  const double h, g, on, *tension, *none, tolerance;
  Arena<double> memory;
  Stage<double> stage;
  Extrapolation<double> rates;
  std::vector<double> kept; // of each stage: c there, and its base

  double *stage_of(int k, int i) { return &kept[(static_cast<std::size_t>(k) * stages + i) * 2 * n]; }
  Pull<double> pull(int k) const { return {tension + k * r.paths, none, none, none}; }

  // From the gradient by what a stage gives (its c and p) to that by its base.
  void back_stage(int k, int i, const double *by_c, const double *by_p, double *base_c, double *base_p,
                  double *by_tension, const Directions &directions, double *along) {
    const double *C = stage_of(k, i), *c0 = C + n;
    std::vector<double> v(n), w(n), A(n * n), l_c(r.paths * n + 1);
    for (int a = 0; a < n; a++) v[a] = (C[a] - c0[a]) / g;
    forces<double, double>(r, q, C, v.data(), pull(k), stage.all(), stage.length);
    const double *M = stage.mass, *p_c = stage.momentum_by_c, *F_c = stage.force_by_c, *D = q.damping;
    for (int a = 0; a < n; a++) {
      w[a] = by_c[a];
      base_c[a] = 0;
      for (int e = 0; e < n; e++) {
        w[a] += (p_c[e * n + a] + M[e * n + a] / g) * by_p[e];
        base_c[a] -= M[e * n + a] / g * by_p[e];
        A[a * n + e] = p_c[e * n + a] + M[e * n + a] / g - g * F_c[e * n + a] - p_c[a * n + e] + D[e * n + a];
      }
    }
    factor(A.data(), n); // the transposed matrix of the stage
    solve(A.data(), n, w.data());
    for (int a = 0; a < n; a++) {
      base_p[a] = w[a];
      for (int e = 0; e < n; e++) base_c[a] += (M[e * n + a] / g - p_c[a * n + e] + D[e * n + a]) * w[e];
    }
    if (r.paths) {
      lengths<double, double>(r, q, C, nullptr, stage.length, l_c.data(), nullptr);
      for (int j = 0; j < r.paths; j++) by_tension[k * r.paths + j] -= g * dot(&l_c[j * n], w.data(), n);
    }
    for (int d = 0; d < directions.count; d++) along[d] += slope(C, v.data(), w.data(), by_p, directions, d);
  }

  double slope(const double *c, const double *v, const double *w, const double *by_p, const Directions &directions,
               int d) {
    const std::size_t bodies = r.bodies * BODY, square = n * n;
    std::vector<Slope> body(bodies), at_c(n), at_v(n), p(n), F(n), gravity(3), rest(r.bodies * 18);
    for (std::size_t a = 0; a < bodies; a++) body[a] = {q.body[a], {directions.body[d * bodies + a]}};
    for (int a = 0; a < n; a++) {
      at_c[a] = {c[a], {0}};
      at_v[a] = {v[a], {0}};
    }
    for (int a = 0; a < 3; a++) gravity[a] = {q.gravity[a], {0}};
    for (int a = 0; a < r.bodies * 18; a++) rest[a] = {q.rest[a], {0}};
    Numbers<Slope> numbers{};
    numbers.gravity = gravity.data();
    numbers.body = body.data();
    numbers.rest = rest.data();
    Terms<Slope> out{};
    out.momentum = p.data();
    out.force = F.data();
    terms<Slope, Slope>(r, numbers, at_c.data(), at_v.data(), nullptr, out);
    double sum = 0;
    for (int a = 0; a < n; a++) {
      double force = F[a].slope[0];
      for (int e = 0; e < n; e++)
        force -= directions.stiffness[d * square + a * n + e] * c[e] + directions.damping[d * square + a * n + e] * v[e];
      sum += w[a] * (g * force - p[a].slope[0]) + by_p[a] * p[a].slope[0];
    }
    return sum;
  }
};

} // namespace rod
