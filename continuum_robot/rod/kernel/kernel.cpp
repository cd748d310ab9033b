// SPDX-License-Identifier: Apache-2.0
// The C interface: plain pointers, no exceptions, no interpreter lock. rod_terms allocates in a thread's first call with a
// larger rod than before, unless that thread has called rod_prepare; rod_dynamics never does.
#include "batch.hpp"
#include "capstans.hpp"
#include "gradient.hpp"
#include "newton.hpp"
#include "observers.hpp"
#include "plant.hpp"
#include "statics.hpp"

using namespace rod;
typedef Dual<double, 1> Slope;
#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// Scalars that a call takes from its arena at most: of TermsCall, and of what stands above it.
std::size_t memory_of(const Shape &r) {
  const std::size_t n = r.n;
  std::size_t count = 4096 + 12 * n + 64 * r.pieces;
  for (int k = 0; k < r.pieces; k++) {
    const Piece &p = r.piece[k];
    const std::size_t nodes = eights(p.nodes + 1), block = 6 * p.cols;
    count += 31 * nodes + 4 * block * nodes + 16 * block + 52 * eights(p.places) + 64 + 30 * n;
  }
  return count + 9 * n * n + 120 * n + r.paths * (n + 12);
}

// What each robot of a batch has of its own, and the pull of its tendons. Where `own` is not 0, the numbers, stiffness
// and slack_m hold one block a robot.
struct Batch {
  const Shape &r;
  const Numbers<double> &q;
  const int own;
  const double *scale, *stiffness, *slack_m;
  const OwnNumbers numbers;

  Batch(const Shape &r, const Numbers<double> &q, int own, const double *scale, const double *stiffness,
        const double *slack_m)
      : r(r), q(q), own(own), scale(scale), stiffness(stiffness), slack_m(slack_m), numbers(r, q) {}

  template <class S> void reserve(std::size_t more) const {
    Arena<S>::reserve(memory_of(r) + 2 * r.paths + more + (own ? numbers.memory() : 0));
  }

  // `solve` with the numbers of `count` robots from number `first` on, their stiffness and slack_m.
  template <class S, class F> auto with_numbers(int first, int count, Arena<S> &memory, F solve) const {
    const std::size_t N = r.paths;
    S *k = memory.raw(N), *slack = memory.raw(N);
    gather(stiffness + (own ? first * N : 0), own ? N : 0, count, N, k);
    gather(slack_m + (own ? first * N : 0), own ? N : 0, count, N, slack);
    return own ? solve(numbers.take<S>(first, count, memory), k, slack) : solve(q, k, slack);
  }
};

struct Motions : Batch {
  const Method method;
  const double h;
  const int steps;
  double *c, *v;
  const double *tension, *spooled;
  const double tolerance;

  template <class S> int run(int first, int count) const {
    const std::size_t n = r.n, inputs = steps * static_cast<std::size_t>(r.paths);
    reserve<S>(2 * n + 2 * inputs);
    Arena<S> memory;
    S *C = memory.raw(n), *V = memory.raw(n), *pulled = memory.raw(inputs), *wound = memory.raw(inputs);
    gather(c + first * n, n, count, n, C);
    gather(v + first * n, n, count, n, V);
    gather(tension + first * inputs, inputs, count, inputs, pulled);
    gather(spooled + first * inputs, inputs, count, inputs, wound);
    const bool failed = with_numbers<S>(first, count, memory, [&](const auto &q, const S *k, const S *slack) {
      typedef std::remove_const_t<std::remove_pointer_t<decltype(q.body)>> P;
      return motion<S, P>(r, q, scale, method, h, steps, C, V, pulled, k, wound, slack, tolerance) < 0;
    });
    if (failed && !std::is_same_v<S, double>) return 1;
    scatter(C, n, count, n, c + first * n);
    scatter(V, n, count, n, v + first * n);
    return failed;
  }
};

struct Equilibria : Batch {
  double *c;
  const double *tension, *spooled;
  const double tolerance;
  const int most;
  double *hessian;
  int *iterations;

  template <class S> int run(int first, int count) const {
    const std::size_t n = r.n, N = r.paths;
    reserve<S>(2 * n + 2 * n * n + 4 * N + N * n + 12 * r.bodies);
    Arena<S> memory;
    S *C = memory.raw(n), *curve = memory.raw(n * n), *pulled = memory.raw(N), *wound = memory.raw(N);
    gather(c + first * n, n, count, n, C);
    gather(tension + first * N, N, count, N, pulled);
    gather(spooled + first * N, N, count, N, wound);
    int took = with_numbers<S>(first, count, memory, [&](const auto &q, const S *k, const S *slack) {
      typedef std::remove_const_t<std::remove_pointer_t<decltype(q.body)>> P;
      const Pull<S> pull{pulled, k, wound, slack};
      if constexpr (std::is_same_v<S, double>) {
        const int along = along_energy(q, pull, C, curve, memory);
        if (along > 0) return along;
        std::copy(c + first * n, c + (first + 1) * n, C);
      }
      return newton<S, P>(r, q, scale, pull, C, tolerance, most, curve);
    });
    if (took < 0 && !std::is_same_v<S, double>) return 1;
    std::fill(iterations + first, iterations + first + count, took);
    scatter(C, n, count, n, c + first * n);
    scatter(curve, n * n, count, n * n, hessian + first * n * n);
    return took < 0;
  }

private:
  int along_energy(const Numbers<double> &q, const Pull<double> &pull, double *C, double *curve,
                   Arena<double> &memory) const {
    const std::size_t n = r.n, N = r.paths;
    AtRest at{curve, memory.raw(n), memory.raw(N), memory.raw(N), memory.raw(N * n), memory.raw(12 * r.bodies), nullptr, 0};
    bool conservative = true; // moments and loads that follow have no energy
    for (int k = 0; k < r.bodies; k++)
      for (int i = 16; i < BODY; i++) conservative &= q.body[BODY * k + i] == 0;
    return Equilibrium(r, q, scale, pull, at).run(C, conservative, tolerance, most);
  }
};

} // namespace

EXPORT void rod_prepare(const Shape *r) {
  Arena<double>::reserve(memory_of(*r));
  Arena<Slope>::reserve(memory_of(*r));
}

// Everything at (c, v) and, where it is not null, acceleration a.
EXPORT void rod_terms(const Shape *r, const Numbers<double> *q, const double *c, const double *v, const double *a,
                      const Terms<double> *out) {
  Arena<double>::reserve(memory_of(*r));
  terms<double, double>(*r, *q, c, v, a, *out);
}

EXPORT void rod_lengths(const Shape *r, const Numbers<double> *q, const double *c, const double *tension,
                        double *length, double *gradient, double *force_by_c) {
  lengths<double, double>(*r, *q, c, tension, length, gradient, force_by_c);
}

// The same along one direction of numbers and state: each value is followed by its slope.
EXPORT void rod_terms_along(const Shape *r, const Numbers<Slope> *q, const Slope *c, const Slope *v, const Slope *a,
                            const Terms<Slope> *out) {
  Arena<Slope>::reserve(memory_of(*r));
  terms<Slope, Slope>(*r, *q, c, v, a, *out);
}

EXPORT void rod_lengths_along(const Shape *r, const Numbers<Slope> *q, const Slope *c, const Slope *tension,
                              Slope *length, Slope *gradient, Slope *force_by_c) {
  lengths<Slope, Slope>(*r, *q, c, tension, length, gradient, force_by_c);
}

// Force out of balance, Hessian, tendons and energy of a rod at rest in c.
EXPORT void rod_at_rest(const Shape *r, const Numbers<double> *q, const double *scale, const Pull<double> *pull,
                        const double *c, AtRest *at) {
  Arena<double>::reserve(2 * memory_of(*r));
  Equilibrium(*r, *q, scale, *pull, *at).evaluate(c);
}

// How many iterations an equilibrium took from the guess in c, which it replaces; minus that where it does not converge,
// or meets a Hessian that is not positive definite though all loads are conservative.
EXPORT int rod_equilibrium(const Shape *r, const Numbers<double> *q, const double *scale, const Pull<double> *pull,
                           double *c, int conservative, double tolerance, int most, AtRest *at) {
  Arena<double>::reserve(2 * memory_of(*r));
  return Equilibrium(*r, *q, scale, *pull, *at).run(c, conservative != 0, tolerance, most);
}

// Motions of many robots: c, v (robots, n); tension and spooled (robots, steps, paths); stiffness and slack_m (paths,),
// one block a robot where `own` is not 0, as all numbers. See for_all. How many did not converge; their c and v are where
// they failed.
EXPORT int rod_motions(const Shape *r, const Numbers<double> *q, int own, const double *scale, int method, double h,
                       int steps, int robots, double *c, double *v, const double *tension, const double *stiffness,
                       const double *spooled, const double *slack_m, double tolerance, int threads, const int *going,
                       int *done) {
  const Motions all{{*r, *q, own, scale, stiffness, slack_m}, static_cast<Method>(method), h, steps, c, v, tension,
                    spooled, tolerance};
  return for_all(all, robots, threads, going, done);
}

// Equilibria of many robots from the guesses in c, (robots, n), as rod_motions; tension and spooled (robots, paths).
// `iterations` (robots,) are minus what they were where one did not converge. How many did not.
EXPORT int rod_equilibria(const Shape *r, const Numbers<double> *q, int own, const double *scale, int robots, double *c,
                          const double *tension, const double *stiffness, const double *spooled, const double *slack_m,
                          double tolerance, int most, double *hessian, int *iterations, int threads, const int *going,
                          int *done) {
  const Equilibria all{{*r, *q, own, scale, stiffness, slack_m}, c, tension, spooled, tolerance, most, hessian,
                       iterations};
  return for_all(all, robots, threads, going, done);
}

// Gradient of by_c . c + by_p . p at the end of a motion: by the start's c and p (in by_c, by_p), by every tension
// (steps, paths), and along directions of the numbers. c and p become the end's. 0 where the motion does not converge.
EXPORT int rod_gradient(const Shape *r, const Numbers<double> *q, const double *scale, int method, double h, int steps,
                        double *c, double *p, const double *rate, const double *tension, double *by_c, double *by_p,
                        double *by_tension, const Directions *directions, double *along) {
  Arena<double>::reserve(2 * memory_of(*r));
  Arena<Slope>::reserve(memory_of(*r));
  const std::vector<double> none(r->paths + 1);
  KeptMotion motion(*r, *q, scale, static_cast<Method>(method), h, steps, tension, none.data(), 1e-12);
  if (!motion.run(c, p, rate)) return 0;
  motion.back(by_c, by_p, by_tension, *directions, along);
  return 1;
}

// How many scalars rod_dynamics needs.
EXPORT std::size_t rod_memory(const Shape *r) { return memory_of(*r); }

// Inverse dynamics and what changes the momentum, with stiffness and damping where they are not null: for a control
// cycle, in memory of the caller.
EXPORT void rod_dynamics(const Shape *r, const Numbers<double> *q, const double *c, const double *v, const double *a,
                         const Terms<double> *out, double *memory) {
  dynamics<double, double>(*r, *q, c, v, a, *out, memory);
}

// Fractions (wires,) of their tension that wires of the friction coefficients keep, and where it is not null, their
// gradient by the coefficients (wires, n), from the poses and Jacobians of rod_terms.
EXPORT void rod_kept_fractions(int n, int wires, const Wire *wire, const Hole *hole, const double *friction,
                               double rounding, const double *pose, const double *jacobian, double *fraction,
                               double *gradient) {
  for (int k = 0; k < wires; k++) {
    Arena<double>::reserve(wire_memory(n, wire[k].holes));
    fraction[k] = kept_by_wire(n, wire[k], hole, friction[k], rounding, pose, jacobian,
                               gradient ? gradient + static_cast<std::size_t>(k) * n : nullptr);
  }
}

// A plant that reads `drive` and moves `state` (plant.hpp); shape, numbers and all arrays stay the caller's.
EXPORT Plant *rod_plant_new(const Shape *r, const Numbers<double> *q, const double *scale, const double *slack_m,
                            const Spool *spool, int capstans, const Capstan *capstan, int surfaces, const Drive *drive,
                            const State *state, int method, double tolerance) {
  return new Plant(*r, *q, scale, slack_m, *spool, capstans, capstan, surfaces, *drive, *state,
                   static_cast<Method>(method), tolerance);
}

EXPORT void rod_plant_free(Plant *plant) { delete plant; }

EXPORT void rod_plant_reset(const Shape *r, Plant *plant) {
  Arena<double>::reserve(memory_of(*r));
  plant->reset();
}

// Steps of h; see Plant::run. Any thread may call it, one at a time. `shortest` becomes that of the parts, where it is less.
EXPORT long rod_plant_run(const Shape *r, Plant *plant, double h, int count, double *shortest) {
  Arena<double>::reserve(memory_of(*r));
  return plant->run(h, count, shortest);
}

// The contact monitor's algebra for n coordinates (observers.hpp): `in` and `out` hold one array after the other.
EXPORT void rod_filter(int n, int halvings, double *in, double *out) {
  Arena<double>::reserve(observer_memory(n));
  filter_cycle(n, halvings, {in}, {out});
}

EXPORT void rod_kalman_budget(int n, int strains, double *in, double *out) {
  Arena<double>::reserve(observer_memory(n));
  kalman_budget(n, strains, {in}, {out});
}

EXPORT void rod_jfd_budget(int n, int strains, double *in, double *out) {
  Arena<double>::reserve(observer_memory(n));
  jfd_budget(n, strains, {in}, {out});
}

EXPORT void rod_gmo_budget(int n, int strains, double *in, double *out) {
  Arena<double>::reserve(observer_memory(n));
  gmo_budget(n, strains, {in}, {out});
}

// exp, tanh, sin and cos as plants have them, for tests.
EXPORT void rod_functions(double x, double *values) {
  values[0] = exponential(x);
  values[1] = tangent(x);
  sine_cosine(x, values[2], values[3]);
}
