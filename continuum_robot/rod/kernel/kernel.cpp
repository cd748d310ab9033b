// SPDX-License-Identifier: Apache-2.0
// The C interface: plain pointers, no exceptions, no interpreter lock. rod_terms allocates in a thread's first call with a
// larger rod than before, unless that thread has called rod_prepare; rod_dynamics never does.
#include "capstans.hpp"
#include "gradient.hpp"
#include "plant.hpp"
#include "statics.hpp"
#include <atomic>
#include <thread>

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
    const std::size_t nodes = p.nodes, block = 6 * p.cols;
    count += 42 * nodes + 4 * block * nodes + 16 * block + 12 * p.places + 64 + 30 * n;
  }
  return count + 9 * n * n + 96 * n + r.paths * (n + 12);
}

// One scalar of each lane from as many robots: robot k's values begin at `stride * k`. Lanes without a robot repeat the
// last one.
template <class S> void gather(const double *from, std::size_t stride, int robots, std::size_t count, S *to) {
  if constexpr (sizeof(S) == sizeof(double)) std::copy(from, from + count, to);
  else
    for (std::size_t i = 0; i < count; i++)
      for (int l = 0; l < LANES; l++) to[i][l] = from[std::min(l, robots - 1) * stride + i];
}
template <class S> void scatter(const S *from, std::size_t stride, int robots, std::size_t count, double *to) {
  if constexpr (sizeof(S) == sizeof(double)) std::copy(from, from + count, to);
  else
    for (int l = 0; l < robots; l++)
      for (std::size_t i = 0; i < count; i++) to[l * stride + i] = from[i][l];
}

std::size_t path_size(const Shape &r) {
  if (r.straight) return static_cast<std::size_t>(r.paths) * (1 + r.n);
  std::size_t count = 0;
  for (int k = 0; k < r.path_nodes; k++) count += PATH * r.path_node[k].paths;
  return count;
}

// Motions of many robots. Where `own` is not 0, each array of the numbers holds one block a robot.
struct Motions {
  const Shape &r;
  const Numbers<double> &q;
  const int own;
  const double *scale;
  const Method method;
  const double h;
  const int steps;
  double *c, *v;
  const double *tension, *stiffness, *spooled, *slack_m;
  const double tolerance;

  // `count` robots from number `first` on, in the lanes of S. How many did not converge.
  template <class S> int run(int first, int count) const {
    const std::size_t n = r.n, N = r.paths, inputs = steps * N, sizes[8] = {
        3, static_cast<std::size_t>(r.bodies) * BODY, n * n, n * n, n * n, static_cast<std::size_t>(r.places) * 18,
        static_cast<std::size_t>(r.path_nodes) * 6, path_size(r)};
    std::size_t numbers = 0;
    if (own)
      for (std::size_t size : sizes) numbers += size;
    Arena<S>::reserve(memory_of(r) + 2 * n + 2 * inputs + 2 * N + numbers);
    Arena<S> memory;
    S *C = memory.raw(n), *V = memory.raw(n), *pulled = memory.raw(inputs), *wound = memory.raw(inputs);
    S *k = memory.raw(N), *slack = memory.raw(N);
    gather(c + first * n, n, count, n, C);
    gather(v + first * n, n, count, n, V);
    gather(tension + first * inputs, inputs, count, inputs, pulled);
    gather(spooled + first * inputs, inputs, count, inputs, wound);
    gather(stiffness + (own ? first * N : 0), own ? N : 0, count, N, k);
    gather(slack_m + (own ? first * N : 0), own ? N : 0, count, N, slack);
    long done;
    if (own) {
      const double *from[8] = {q.gravity, q.body, q.inertia, q.stiffness, q.damping, q.rest, q.path_rest, q.path};
      S *to[8];
      for (int i = 0; i < 8; i++) {
        to[i] = from[i] ? memory.raw(sizes[i]) : nullptr;
        if (from[i]) gather(from[i] + first * sizes[i], sizes[i], count, sizes[i], to[i]);
      }
      const Numbers<S> all{to[0], to[1], to[2], to[3], to[4], to[5], to[6], to[7]};
      done = motion<S, S>(r, all, scale, method, h, steps, C, V, pulled, k, wound, slack, tolerance);
    } else
      done = motion<S, double>(r, q, scale, method, h, steps, C, V, pulled, k, wound, slack, tolerance);
    scatter(C, n, count, n, c + first * n);
    scatter(V, n, count, n, v + first * n);
    return done < 0;
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
  Equilibrium(*r, *q, scale, *pull, *at).evaluate(c);
}

// How many iterations an equilibrium took from the guess in c, which it replaces; minus that where it does not converge,
// or meets a Hessian that is not positive definite though all loads are conservative.
EXPORT int rod_equilibrium(const Shape *r, const Numbers<double> *q, const double *scale, const Pull<double> *pull,
                           double *c, int conservative, double tolerance, int most, AtRest *at) {
  return Equilibrium(*r, *q, scale, *pull, *at).run(c, conservative != 0, tolerance, most);
}

// Motions of many robots on some threads, eight at a time in the lanes of the processor: c, v (robots, n); tension and
// spooled (robots, steps, paths); stiffness and slack_m (paths,), one block a robot where `own` is not 0, as all numbers.
// Each robot's result does not depend on the threads. `going` is looked at between robots: 0 ends. `done` counts robots.
// How many did not converge; their c and v are where they failed.
EXPORT int rod_motions(const Shape *r, const Numbers<double> *q, int own, const double *scale, int method, double h,
                       int steps, int robots, double *c, double *v, const double *tension, const double *stiffness,
                       const double *spooled, const double *slack_m, double tolerance, int threads, const int *going,
                       int *done) {
  const Motions all{*r, *q, own, scale, static_cast<Method>(method), h, steps, c, v, tension, stiffness, spooled,
                    slack_m, tolerance};
  std::atomic<int> next{0}, failed{0};
  auto work = [&] {
    for (int k; (k = next.fetch_add(LANES)) < robots;) {
      if (!*static_cast<const volatile int *>(going)) return;
      const int count = std::min(LANES, robots - k);
      std::vector<double> c0(c + static_cast<std::size_t>(k) * r->n, c + static_cast<std::size_t>(k + count) * r->n);
      std::vector<double> v0(v + static_cast<std::size_t>(k) * r->n, v + static_cast<std::size_t>(k + count) * r->n);
      if (robots == 1) failed += all.run<double>(0, 1);
      else if (all.run<Lanes>(k, count)) { // one of them does not converge: each by itself
        std::copy(c0.begin(), c0.end(), c + static_cast<std::size_t>(k) * r->n);
        std::copy(v0.begin(), v0.end(), v + static_cast<std::size_t>(k) * r->n);
        for (int i = 0; i < count; i++) failed += all.run<double>(k + i, 1);
      }
      __atomic_fetch_add(done, count, __ATOMIC_RELAXED);
    }
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; t++) pool.emplace_back(work);
  work();
  for (auto &thread : pool) thread.join();
  return failed;
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

// exp, tanh, sin and cos as plants have them, for tests.
EXPORT void rod_functions(double x, double *values) {
  values[0] = exponential(x);
  values[1] = tangent(x);
  sine_cosine(x, values[2], values[3]);
}
