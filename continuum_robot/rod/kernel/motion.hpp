// SPDX-License-Identifier: Apache-2.0
// Implicit motion in coefficients and momenta: midpoint, or the diagonally implicit Runge-Kutta method of two stages and
// second order that is stiffly accurate (Alexander, SIAM J. Numer. Anal. 14 (1977) 1006, gamma = 1 - 1/sqrt(2)).
#pragma once
#include "forces.hpp"

namespace rod {

enum Method { MIDPOINT = 0, SDIRK = 1 };

// Of the rates of the latest stages, to guess where a stage ends.
template <class S> class Extrapolation {
public:
  Extrapolation(int n, Arena<S> &memory) : n(n), rates(memory.zeros(MOST * n)) {}

  void add(double time, const S *rate) {
    for (int k = MOST - 1; k > 0; k--) {
      times[k] = times[k - 1];
      std::copy(rates + (k - 1) * n, rates + k * n, rates + k * n);
    }
    times[0] = time;
    std::copy(rate, rate + n, rates);
    have = std::min(have + 1, MOST);
  }

  void guess(double time, double step, const S *from, S *c) const { // c = from + step times the rate then
    std::copy(from, from + n, c);
    for (int k = 0; k < have; k++) {
      double w = step;
      for (int j = 0; j < have; j++)
        if (j != k) w *= (time - times[j]) / (times[k] - times[j]);
      add_scaled(w, rates + k * n, c, n);
    }
  }

private:
  static constexpr int MOST = 4;
  const int n;
  int have = 0;
  double times[MOST];
  S *rates;
};

// One implicit stage c - c0 = g v, p - p0 = g F(c, v). Newton with a matrix that is kept, and Broyden's corrections of it;
// it is made anew where corrections shrink by less than a half.
template <class S, class P> class Stage {
public:
  long evaluations = 0, matrices = 0;
  // Of the latest terms, for the adjoint.
  S *mass, *momentum_by_c, *force_by_c, *momentum, *force, *length;

  Stage(const Shape &r, const Numbers<P> &q, const double *scale, Arena<S> &memory)
      : mass(memory.zeros(r.n * r.n)), momentum_by_c(memory.zeros(r.n * r.n)), force_by_c(memory.zeros(r.n * r.n)),
        momentum(memory.zeros(r.n)), force(memory.zeros(r.n)), length(memory.zeros(r.paths)), r(r), q(q), scale(scale),
        n(r.n), matrix(memory.zeros(n * n)), change(memory.zeros(n)), past(memory.zeros(MOST * n)) {}

  Terms<S> all() { return {momentum, force, nullptr, mass, momentum_by_c, force_by_c, nullptr, nullptr}; }

  // From a guess in c: c, v and the momentum at the stage. False where it does not converge.
  bool run(double g, const S *c0, const S *p0, S *c, S *v, S *p_end, const Pull<S> &pull, double tolerance) {
    double before = -1;
    bool fresh = false;
    int kept = 0;
    for (int iteration = 0; iteration < MOST; iteration++) {
      for (int i = 0; i < n; i++) v[i] = (c[i] - c0[i]) / g;
      const bool make = made_for != g || fresh;
      fresh = false;
      evaluations++;
      Terms<S> out = all();
      if (!make) out.mass = out.momentum_by_c = out.force_by_c = nullptr;
      forces<S, P>(r, q, c, v, pull, out, length);
      if (make) {
        make_matrix(g);
        before = -1;
        kept = 0;
      }
      for (int i = 0; i < n; i++) change[i] = p0[i] + g * force[i] - momentum[i];
      solve(matrix, n, change);
      correct(kept);
      std::copy(change, change + n, past + kept++ * n);
      for (int i = 0; i < n; i++) c[i] += change[i];
      const double left = std::sqrt(largest(along(change, change))), rate = before >= 0 ? left / before : 1.0;
      if (!(left < 1e3)) return false;
      if (left <= tolerance || (rate < 0.3 && left * rate / (1 - rate) <= 0.1 * tolerance)) {
        for (int i = 0; i < n; i++) {
          v[i] = (c[i] - c0[i]) / g;
          p_end[i] = p0[i] + g * force[i];
        }
        return true;
      }
      fresh = before >= 0 && rate > 0.5;
      before = left;
    }
    return false;
  }

private:
  static constexpr int MOST = 40;
  const Shape &r;
  const Numbers<P> &q;
  const double *scale;
  const int n;
  S *matrix, *change, *past; // past: corrections of this stage
  double made_for = 0;

  void make_matrix(double g) { // dp/dc + M / g - g dF/dc - dF/dv
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++)
        matrix[i * n + j] = momentum_by_c[i * n + j] + mass[i * n + j] / g - g * force_by_c[i * n + j] -
                            momentum_by_c[j * n + i] + (S{} + q.damping[i * n + j]);
    factor(matrix, n);
    made_for = g;
    matrices++;
  }

  S along(const S *x, const S *y) const {
    S sum{};
    for (int i = 0; i < n; i++) sum += scale[i] * scale[i] * x[i] * y[i];
    return sum;
  }

  // Broyden's method, by the corrections that were made with the matrix.
  void correct(int kept) {
    for (int k = 0; k + 1 < kept; k++) {
      const S *x = past + k * n;
      add_scaled(along(x, change) / (along(x, x) + 1e-300), x + n, change, n);
    }
    if (!kept) return;
    const S *x = past + (kept - 1) * n;
    S f = 1.0 - along(x, change) / (along(x, x) + 1e-300);
    const S safe = positive(f - 0.3);
    f = 1.0 / (safe * f + (1.0 - safe));
    for (int i = 0; i < n; i++) change[i] = f * change[i];
  }
};

// Motion over steps of h with inputs that are constant in each: tension and spooled, (steps, paths). Ends in c and v.
// Minus one less the step that did not converge, else how many evaluations it took.
template <class S, class P>
long motion(const Shape &r, const Numbers<P> &q, const double *scale, Method method, double h, int steps, S *c, S *v,
            const S *tension, const S *stiffness, const S *spooled, const S *slack_m, double tolerance) {
  const int n = r.n, N = r.paths;
  const double gamma = 1 - 1 / std::sqrt(2.0), g = method == SDIRK ? gamma * h : h / 2, on = (1 - gamma) / gamma;
  Arena<S> memory;
  S *c0 = memory.raw(n), *p0 = memory.raw(n), *C = memory.raw(n), *p = memory.raw(n), *c1 = memory.raw(n),
    *p1 = memory.raw(n);
  Stage<S, P> stage(r, q, scale, memory);
  Extrapolation<S> rates(n, memory);
  std::copy(c, c + n, c0);
  Terms<S> start{};
  start.momentum = p0;
  terms<S, P>(r, q, c0, v, nullptr, start);
  rates.add(-h, v);
  for (int k = 0; k < steps; k++) {
    const Pull<S> pull{tension + k * N, stiffness, spooled + k * N, slack_m};
    const double t = k * h;
    rates.guess(t + g, g, c0, C);
    if (!stage.run(g, c0, p0, C, v, p, pull, tolerance)) return -k - 1;
    rates.add(t + g, v);
    if (method == MIDPOINT) {
      for (int i = 0; i < n; i++) {
        c0[i] = 2.0 * C[i] - c0[i];
        p0[i] = 2.0 * p[i] - p0[i];
      }
      continue;
    }
    for (int i = 0; i < n; i++) {
      c1[i] = c0[i] + on * (C[i] - c0[i]);
      p1[i] = p0[i] + on * (p[i] - p0[i]);
    }
    rates.guess(t + h, g, c1, C);
    if (!stage.run(g, c1, p1, C, v, p, pull, tolerance)) return -k - 1;
    rates.add(t + h, v);
    std::copy(C, C + n, c0);
    std::copy(p, p + n, p0);
  }
  std::copy(c0, c0 + n, c);
  if (method == MIDPOINT && steps) { // the rate of the last stage is that of the middle of the step
    Terms<S> end{};
    end.mass = stage.mass;
    terms<S, P>(r, q, c, v, nullptr, end);
    factor(stage.mass, n);
    std::copy(p0, p0 + n, v);
    solve(stage.mass, n, v);
  }
  return stage.evaluations;
}

} // namespace rod
