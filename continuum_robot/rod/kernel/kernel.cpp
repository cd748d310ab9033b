// SPDX-License-Identifier: Apache-2.0
// The C interface: plain pointers, no exceptions, no interpreter lock. Each thread calls rod_prepare once before its
// first call; afterwards nothing is allocated.
#include "lengths.hpp"
#include "terms.hpp"

using namespace rod;
typedef Dual<double, 1> Slope;

namespace {
// Enough for TermsCall, which takes the most, in scalars.
std::size_t memory_of(const Shape &r) {
  std::size_t count = 4096 + 12 * r.n + 64 * r.pieces;
  for (int k = 0; k < r.pieces; k++) {
    const Piece &p = r.piece[k];
    const std::size_t nodes = p.nodes, block = 6 * p.cols;
    count += 42 * nodes + 4 * block * nodes + 16 * block + 12 * p.places + 64 + 30 * r.n;
  }
  return count + 4 * r.n * r.n + r.paths * (r.n + 4);
}
} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
// Memory of this thread for all calls with this rod.
EXPORT void rod_prepare(const Shape *r) {
  Arena<double>::reserve(memory_of(*r));
  Arena<Slope>::reserve(memory_of(*r));
}

// L, p, F, ... at (c, v) and, where it is not null, acceleration a.
EXPORT void rod_terms(const Shape *r, const Numbers<double> *q, const double *c, const double *v, const double *a,
               const Terms<double> *out) {
  terms<double, double>(*r, *q, c, v, a, *out);
}

EXPORT void rod_lengths(const Shape *r, const Numbers<double> *q, const double *c, const double *tension, double *length,
                 double *gradient, double *force_by_c) {
  lengths<double, double>(*r, *q, c, tension, length, gradient, force_by_c);
}

// The same along one direction of numbers and state: each value is followed by its slope.
EXPORT void rod_terms_along(const Shape *r, const Numbers<Slope> *q, const Slope *c, const Slope *v, const Slope *a,
                     const Terms<Slope> *out) {
  terms<Slope, Slope>(*r, *q, c, v, a, *out);
}

EXPORT void rod_lengths_along(const Shape *r, const Numbers<Slope> *q, const Slope *c, const Slope *tension, Slope *length,
                       Slope *gradient, Slope *force_by_c) {
  lengths<Slope, Slope>(*r, *q, c, tension, length, gradient, force_by_c);
}

// The same for `count` states, eight side by side.
EXPORT void rod_terms_of_many(const Shape *r, const Numbers<double> *q, int count, const double *c, const double *v,
                       double *momentum, double *force, double *mass) {
  const int n = r->n;
  Arena<Lanes>::reserve(memory_of(*r) + 4 * n + n * n);
  Arena<Lanes> memory;
  Lanes *C = memory.raw(n), *V = memory.raw(n), *p = memory.raw(n), *F = memory.raw(n), *M = memory.raw(n * n);
  for (int k = 0; k < count; k += LANES) {
    const int wide = std::min(LANES, count - k);
    for (int l = 0; l < LANES; l++)
      for (int i = 0; i < n; i++) {
        const std::size_t at = (k + std::min(l, wide - 1)) * static_cast<std::size_t>(n) + i;
        C[i][l] = c[at];
        V[i][l] = v[at];
      }
    Terms<Lanes> out{};
    out.momentum = p;
    out.force = F;
    out.mass = M;
    terms<Lanes, double>(*r, *q, C, V, nullptr, out);
    for (int l = 0; l < wide; l++) {
      const std::size_t at = k + l;
      for (int i = 0; i < n; i++) {
        momentum[at * n + i] = p[i][l];
        force[at * n + i] = F[i][l];
      }
      for (int i = 0; i < n * n; i++) mass[at * n * n + i] = M[i][l];
    }
  }
}
