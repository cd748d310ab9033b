// SPDX-License-Identifier: Apache-2.0
// Equilibrium: Newton's method on the generalised force, along the energy where all loads have one.
#pragma once
#include "forces.hpp"

namespace rod {

// Newton's method by whole steps of a limited size, the same in all lanes: from a guess in c to where all forces vanish;
// how many iterations it took, or minus that where it did not converge. `hessian`: minus dF/dc there, (n, n).
template <class S, class P>
int equilibrium(const Shape &r, const Numbers<P> &q, const double *scale, const Pull<S> &pull, S *c, double tolerance,
                int most, S *hessian) {
  const int n = r.n;
  const double LARGEST = 0.8; // change of a coefficient in an iteration, as angle or strain over its segment
  Arena<S> memory;
  S *force_by_c = memory.raw(n * n), *force = memory.raw(n), *still = memory.zeros(n), *length = memory.raw(r.paths);
  const Terms<S> out{nullptr, force, nullptr, nullptr, nullptr, force_by_c, nullptr, nullptr};
  bool there = false;
  for (int iteration = 1; iteration <= most; iteration++) {
    forces<S, P>(r, q, c, still, pull, out, length);
    for (int i = 0; i < n * n; i++) hessian[i] = -force_by_c[i];
    if (there) return iteration;
    std::copy(hessian, hessian + n * n, force_by_c);
    if (!factor(force_by_c, n)) return -iteration;
    solve(force_by_c, n, force);
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

// What is known of an equilibrium, for the way to the next and for reports.
struct AtRest {
  double *hessian;  // minus dF/dc, (n, n)
  double *force;    // out of balance, (n,)
  double *length;   // of the tendons, m, (paths,)
  double *tension;  // on their paths, N, (paths,)
  double *gradient; // of their lengths, (paths, n)
  double *pose;     // of the bodies, (bodies, 12)
  double *jacobian; // of the bodies, (bodies, 6, n); null: not wanted
  double energy;    // J; of no meaning where a load has none
};

// A call of `statics` for one rod.
class Equilibrium {
public:
  Equilibrium(const Shape &r, const Numbers<double> &q, const double *scale, const Pull<double> &pull, AtRest &at)
      : r(r), q(q), scale(scale), pull(pull), at(at), n(r.n), still(memory.zeros(n)), matrix(memory.raw(n * n)), step(memory.raw(n)),
        before(memory.raw(n)) {}

  void evaluate(const double *c) {
    const Terms<double> out{nullptr, at.force, nullptr, nullptr, nullptr, at.hessian, at.pose, at.jacobian};
    at.energy = 0;
    forces<double, double>(r, q, c, still, pull, out, at.length, at.tension, at.gradient, &at.energy);
    at.energy += energy_at_rest(r, q, c, at.pose);
    for (int i = 0; i < n * n; i++) at.hessian[i] = -at.hessian[i];
  }

  // From a guess in c: iterations that it took; minus that where it did not converge or, along an energy, met a Hessian
  // that is not positive definite.
  int run(double *c, bool conservative, double tolerance, int most) {
    const double LARGEST = 0.8;    // change of a coefficient in an iteration, as angle or strain over its segment
    const double NEAR = 1e-6;      // below this the energy's decrease drowns in rounding, and whole steps are right
    const double ARMIJO = 1e-4, LEAST = 1.0 / 65536;
    evaluate(c);
    for (int iteration = 1; iteration <= most; iteration++) {
      std::copy(at.hessian, at.hessian + n * n, matrix);
      std::copy(at.force, at.force + n, step);
      if (!factor(matrix, n)) return -iteration;
      if (conservative)
        for (int i = 0; i < n; i++)
          if (!(matrix[i * n + i] > 0)) return -iteration;
      solve(matrix, n, step);
      double size = 0;
      for (int i = 0; i < n; i++) size = std::max(size, std::fabs(scale[i] * step[i]));
      if (!(size < 1e9)) return -iteration;
      double part = size > LARGEST ? LARGEST / size : 1.0;
      const double energy = at.energy, slope = -dot(at.force, step, n);
      // Where the energy's decrease drowns in rounding its slopes decide: Hager and Zhang, SIAM J. Optim. 16 (2005) 170.
      const double rounding = 1e-12 * (std::fabs(energy) + 1e-3);
      std::copy(c, c + n, before);
      for (;; part /= 2) {
        for (int i = 0; i < n; i++) c[i] = before[i] + part * step[i];
        evaluate(c);
        if (!conservative || size < NEAR || at.energy <= energy + ARMIJO * part * slope) break;
        const double steeper = -dot(at.force, step, n);
        if (at.energy <= energy + rounding && steeper >= slope && steeper <= -(1 - 2 * ARMIJO) * slope) break;
        if (part < LEAST) return -iteration;
      }
      if (size <= tolerance) return iteration;
    }
    return -most;
  }

private:
  const Shape &r;
  const Numbers<double> &q;
  const double *scale;
  const Pull<double> &pull;
  AtRest &at;
  const int n;
  Arena<double> memory;
  double *still, *matrix, *step, *before;
};

} // namespace rod
