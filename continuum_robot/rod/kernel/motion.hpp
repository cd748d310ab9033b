// SPDX-License-Identifier: Apache-2.0
// Implicit motion in coefficients and momenta: midpoint, or the diagonally implicit Runge-Kutta method of two stages and
// second order that is stiffly accurate (Alexander, SIAM J. Numer. Anal. 14 (1977) 1006, gamma = 1 - 1/sqrt(2)).
#pragma once
#include "forces.hpp"

namespace rod {

enum Method { MIDPOINT = 0, SDIRK = 1 };

// Of the rates of the latest stages, to guess where a stage ends: by the polynomial through as many of them as have
// guessed best of late. Smooth motions take many, those with dry friction few.
template <class S> class Extrapolation {
public:
  template <class Memory>
  Extrapolation(int n, const double *scale, Memory &memory)
      : n(n), scale(scale), rates(memory.zeros(MOST * n)), guesses(memory.zeros(MOST * n)) {}

  void forget() { have = guessed = 0; }

  void add(double time, const S *rate) {
    for (int m = 0; m < guessed; m++) {
      S square{};
      for (int i = 0; i < n; i++) {
        const S off = scale[i] * (guesses[m * n + i] - rate[i]);
        square += off * off;
      }
      wrong[m] = largest(square) + (m < judged ? 0.7 * wrong[m] : 0.0);
    }
    judged = guessed;
    for (int k = MOST - 1; k > 0; k--) {
      times[k] = times[k - 1];
      std::copy(rates + (k - 1) * n, rates + k * n, rates + k * n);
    }
    times[0] = time;
    std::copy(rate, rate + n, rates);
    have = std::min(have + 1, MOST);
    guessed = 0;
  }

  // c = from + step times the rate then; where nothing is known, times the rate v.
  void guess(double time, double step, const S *from, const S *v, S *c) {
    int best = 0;
    for (int m = 0; m < have; m++) { // through the latest m + 1
      S *own = guesses + m * n;
      std::fill(own, own + n, S{});
      for (int k = 0; k <= m; k++) {
        double w = 1;
        for (int j = 0; j <= m; j++)
          if (j != k) w *= (time - times[j]) / (times[k] - times[j]);
        add_scaled(w, rates + k * n, own, n);
      }
      if (m < judged && wrong[m] < wrong[best]) best = m;
    }
    guessed = have;
    std::copy(from, from + n, c);
    add_scaled(step, have ? guesses + best * n : v, c, n);
  }

private:
  static constexpr int MOST = 6;
  const int n;
  const double *scale;
  int have = 0, guessed = 0, judged = 0; // rates; guesses of the stage that runs, and of those before
  double times[MOST], wrong[MOST];
  S *rates, *guesses;
};

// One implicit stage c - c0 = g v, p - p0 = g F(c, v). Newton's method with an inverse that is kept from stage to stage
// and learns from each step (Broyden); it is made anew where corrections do not shrink to two fifths.
template <class S> class Stage {
public:
  long evaluations = 0, matrices = 0;
  // Of the latest terms, for the adjoint.
  S *mass, *momentum_by_c, *force_by_c, *momentum, *force, *length;

  template <class Memory>
  Stage(int n, int paths, const double *scale, Memory &memory)
      : mass(memory.zeros(n * n)), momentum_by_c(memory.zeros(n * n)), force_by_c(memory.zeros(n * n)),
        momentum(memory.zeros(n)), force(memory.zeros(n)), length(memory.zeros(paths)), scale(scale), n(n),
        inverse(memory.zeros(n * n)), change(memory.zeros(n)), past(memory.zeros(n)), last(memory.zeros(n)),
        along_past(memory.zeros(n)) {}

  Terms<S> all() { return {momentum, force, nullptr, mass, momentum_by_c, force_by_c, nullptr, nullptr}; }

  // Make the matrix anew at the next stage.
  void forget() { made_for = 0; }

  // From a guess in c: c, v and the momentum at the stage. False where it does not converge. `forces(c, v, out)` gives
  // terms with the whole force, `forces.changed(stage)` adds to the matrix what changed in it since it was made,
  // `forces.follow(g, change, p)` adds to p what g F changes by with the last change of c, as far as it is linear: else
  // damping would make a small error there a large one of the momentum. `damping` (n, n) is minus the part of dF/dv that
  // is not momentum_by_c^T.
  template <class P, class Forces>
  bool run(double g, const S *c0, const S *p0, S *c, S *v, S *p_end, Forces &forces, const P *damping,
           double tolerance) {
    // Steps of a clock that jitters keep their matrix.
    const double other = made_for > 0 ? std::abs(g - made_for) / g : 1.0;
    bool fresh = other > 0.2, exact = false; // whether the matrix is made anew, and was made at the last point
    expected = std::max(expected, 2 * other);
    double before = -1, part = 1;              // size of the correction there, and how much of it was gone
    int measured = 0;
    for (int iteration = 0; iteration < MOST; iteration++) {
      for (int i = 0; i < n; i++) v[i] = (c[i] - c0[i]) / g;
      evaluations++;
      Terms<S> out = all();
      if (!fresh) out.mass = out.momentum_by_c = out.force_by_c = nullptr;
      forces(c, v, out);
      if (fresh && !make_inverse(g, damping)) return false;
      if (fresh) before = -1;
      const bool same = fresh || !forces.changed(*this);
      std::copy(change, change + n, past);
      multiply(g, p0);
      double left = std::sqrt(largest(along(change, change)));
      if (before >= 0 && !(left <= (1 - part / 4) * before)) { // Deuflhard's test of monotonicity
        std::copy(past, past + n, change);
        if (exact) part /= 2;
        if (!(part >= SHORTEST)) return false;
        for (int i = 0; i < n; i++) c[i] = last[i] + (exact ? part : 0.0) * change[i];
        fresh = !exact;
        continue;
      }
      if (!(left < 1e300)) return false;
      const double rate = before >= 0 ? left / before : expected;
      if (before >= 0 && same && part == 1) {
        if (measured++ == 0) expected = std::max({rate, 0.3 * expected, 0.1});
        learn();
        left = std::sqrt(largest(along(change, change)));
      }
      const bool there = left <= tolerance || (rate < 0.3 && left * rate / (1 - rate) <= tolerance);
      part = left > LARGEST ? LARGEST / left : 1.0;
      std::copy(c, c + n, last);
      for (int i = 0; i < n; i++) c[i] += part * change[i];
      if (there) {
        if (before < 0) expected = std::min(1.0, 1.5 * expected); // look again in a while
        for (int i = 0; i < n; i++) {
          v[i] = (c[i] - c0[i]) / g;
          p_end[i] = p0[i] + g * force[i];
        }
        forces.follow(g, change, p_end);
        return true;
      }
      exact = fresh;
      fresh = before >= 0 && rate > 0.4;
      before = left;
    }
    return false;
  }

  // matrix += weight d d^T: Sherman and Morrison.
  void add(const S *d, S weight) {
    std::fill(past, past + n, S{}); // inverse d
    for (int j = 0; j < n; j++) add_scaled(d[j], inverse + j * n, past, n);
    const S size = 1.0 + weight * dot(d, past, n);
    if (!(largest(-size) < -1e-3)) return;
    for (int j = 0; j < n; j++) along_past[j] = dot(inverse + j * n, d, n);
    for (int j = 0; j < n; j++) add_scaled(-(weight * along_past[j] / size), past, inverse + j * n, n);
  }

  // The matrix of a stage as terms left it: dp/dc + M / g - g dF/dc - dF/dv.
  template <class P> void matrix(double g, const P *damping, S *to) const {
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++)
        to[i * n + j] = momentum_by_c[i * n + j] + mass[i * n + j] / g - g * force_by_c[i * n + j] -
                        momentum_by_c[j * n + i] + (S{} + damping[i * n + j]);
  }

private:
  static constexpr int MOST = 40;
  static constexpr double LARGEST = 1.0, SHORTEST = 1e-3; // of a correction; of a part of one
  const double *scale;
  const int n;
  S *inverse, *change, *past, *last, *along_past; // inverse: transposed
  double made_for = 0, expected = 1; // by how much the second correction of a stage is smaller than the first

  template <class P> bool make_inverse(double g, const P *damping) {
    matrix(g, damping, inverse);
    matrices++;
    expected = 1.0;
    made_for = invert(inverse, n) ? g : 0;
    for (int i = 0; i < n; i++)
      for (int j = 0; j < i; j++) std::swap(inverse[i * n + j], inverse[j * n + i]);
    return made_for != 0;
  }

  // change = inverse (p0 + g force - momentum)
  void multiply(double g, const S *p0) {
    std::fill(change, change + n, S{});
    for (int j = 0; j < n; j++) {
      const S left = p0[j] + g * force[j] - momentum[j];
      add_scaled(left, inverse + j * n, change, n);
    }
  }

  S along(const S *x, const S *y) const {
    S sum{};
    for (int i = 0; i < n; i++) sum += scale[i] * scale[i] * x[i] * y[i];
    return sum;
  }

  // Broyden's method: after the step `past` the correction by the inverse is `change`; it should have been nothing.
  void learn() {
    const S size = along(past, past) + 1e-300, f = 1.0 - along(past, change) / size;
    const S good = positive(f - 0.3); // else it is not trusted
    for (int j = 0; j < n; j++) along_past[j] = scale[j] * scale[j] * past[j];
    const S weight = good / (size * (good * f + (1.0 - good)));
    for (int j = 0; j < n; j++) add_scaled(weight * dot(inverse + j * n, along_past, n), change, inverse + j * n, n);
    const S more = 1.0 + (good / (good * f + (1.0 - good))) * (1.0 - f);
    for (int i = 0; i < n; i++) change[i] = more * change[i];
  }
};

// Steps of one of the methods, with the guesses for their stages.
template <class S> class Steps {
public:
  template <class Memory>
  Steps(int n, int paths, const double *scale, Method method, double tolerance, Memory &memory)
      : stage(n, paths, scale, memory), n(n), method(method), tolerance(tolerance),
        rates{{n, scale, memory}, {n, scale, memory}}, C(memory.zeros(n)), V(memory.zeros(n)), P_end(memory.zeros(n)),
        c1(memory.zeros(n)), p1(memory.zeros(n)), error(memory.zeros(n)) {}

  Stage<S> stage;
  long evaluations() const { return stage.evaluations; }
  // Which part of a step its last stage is.
  double fraction() const { return method == MIDPOINT ? 0.5 : 1.0; }

  // Guess and matrix know nothing any more.
  void forget() {
    stage.forget();
    for (auto &one : rates) one.forget();
    time = 0;
  }

  // From c, momentum p and about the rate v to those a step of h later. False where it does not converge: then they are
  // as before. `forces.stage(k, g, after, on)` is told of each stage, see plant.hpp.
  template <class P, class Forces> bool run(double h, S *c, S *p, S *v, Forces &forces, const P *damping) {
    const double gamma = 1 - 1 / std::sqrt(2.0), g = method == SDIRK ? gamma * h : h / 2, on = (1 - gamma) / gamma;
    forces.stage(0, g, g, on);
    rates[0].guess(time + g, g, c, v, C);
    for (int i = 0; i < n; i++) error[i] = (C[i] - c[i]) / g;
    if (!stage.run(g, c, p, C, V, P_end, forces, damping, tolerance)) return failed();
    for (int i = 0; i < n; i++) error[i] = V[i] - error[i];
    rates[0].add(time + g, V);
    if (method == MIDPOINT) {
      for (int i = 0; i < n; i++) {
        c[i] = 2.0 * C[i] - c[i];
        p[i] = 2.0 * P_end[i] - p[i];
        v[i] = 2.0 * V[i] - v[i];
      }
    } else {
      for (int i = 0; i < n; i++) {
        c1[i] = c[i] + on * (C[i] - c[i]);
        p1[i] = p[i] + on * (P_end[i] - p[i]);
      }
      forces.stage(1, g, h, on);
      rates[1].guess(time + h, g, c1, V, C);
      add_scaled(g, error, C, n); // what the guess was wrong by before
      if (!stage.run(g, c1, p1, C, V, P_end, forces, damping, tolerance)) return failed();
      rates[1].add(time + h, V);
      std::copy(C, C + n, c);
      std::copy(P_end, P_end + n, p);
      std::copy(V, V + n, v);
    }
    time += h;
    return true;
  }

private:
  const int n;
  const Method method;
  const double tolerance;
  double time = 0;
  Extrapolation<S> rates[2]; // of the first and of the second stage
  S *C, *V, *P_end, *c1, *p1, *error;

  bool failed() {
    forget();
    return false;
  }
};

// p -= (g K + D) change
template <class S, class P> void resist(int n, const Numbers<P> &q, double g, const S *change, S *p) {
  for (int i = 0; i < n; i++) {
    add_scaled(-(g * change[i]), q.stiffness + i * n, p, n);
    add_scaled(-change[i], q.damping + i * n, p, n);
  }
}

// Forces of tendons that pull as they are told.
template <class S, class P> struct Pulled {
  const Shape &r;
  const Numbers<P> &q;
  Pull<S> pull;
  S *length;

  void operator()(const S *c, const S *v, const Terms<S> &out) { forces<S, P>(r, q, c, v, pull, out, length); }
  void stage(int, double, double, double) {}
  bool changed(Stage<S> &) { return false; }
  void follow(double g, const S *change, S *p) const { resist(r.n, q, g, change, p); }
};

// Motion over steps of h with inputs that are constant in each: tension and spooled, (steps, paths). Ends in c and v.
// Minus one less the step that did not converge, else how many evaluations it took.
template <class S, class P>
long motion(const Shape &r, const Numbers<P> &q, const double *scale, Method method, double h, int steps, S *c, S *v,
            const S *tension, const S *stiffness, const S *spooled, const S *slack_m, double tolerance) {
  const int n = r.n, N = r.paths;
  Arena<S> memory;
  S *p = memory.raw(n);
  Steps<S> on(n, N, scale, method, tolerance, memory);
  Pulled<S, P> pulled{r, q, {tension, stiffness, spooled, slack_m}, on.stage.length};
  Terms<S> now{};
  now.momentum = p;
  terms<S, P>(r, q, c, v, nullptr, now);
  for (int k = 0; k < steps; k++) {
    pulled.pull.tension = tension + k * N;
    pulled.pull.spooled = spooled + k * N;
    if (!on.run(h, c, p, v, pulled, q.damping)) return -k - 1;
  }
  if (method == MIDPOINT && steps) { // its rate is drawn on from the middles of the steps
    now = {};
    now.mass = on.stage.mass;
    terms<S, P>(r, q, c, v, nullptr, now);
    factor(now.mass, n);
    std::copy(p, p + n, v);
    solve(now.mass, n, v);
  }
  return on.evaluations();
}

} // namespace rod
