// SPDX-License-Identifier: Apache-2.0
// Frames along the rod, and what stands there: inertia, weight and loads about the base's origin.
#pragma once
#include "algebra.hpp"

namespace rod {

template <class S> struct Frame {
  S R[9], x[3]; // axes in their columns; position
};

template <class S> Frame<S> base_frame() {
  Frame<S> f{};
  for (int i = 0; i < 9; i += 4) f.R[i] = S{} + 1.0;
  return f;
}

// Magnus expansion of sixth order of a step h from strains at its three Gauss points: Blanes, Casas and Ros, BIT 40
// (2000) 434. A strain that is constant needs the first only.
template <class S, class H> void magnus(const S *strain, H h, bool constant, S *o) {
  if (constant) {
    for (int i = 0; i < 6; i++) o[i] = h * strain[i];
    return;
  }
  const double A = std::sqrt(15.0) / 3, B = 10.0 / 3;
  S a[6], b[6], c[6], inner[6] = {}, t[6], outer[6] = {}, left[6], last[6] = {};
  for (int i = 0; i < 6; i++) {
    a[i] = h * strain[6 + i];
    b[i] = A * h * (strain[12 + i] - strain[i]);
    c[i] = B * h * (strain[12 + i] - 2.0 * strain[6 + i] + strain[i]);
  }
  add_bracket(b, a, inner); // the body's frame stands right of the product: signs are those of -[a, b]
  for (int i = 0; i < 6; i++) {
    t[i] = 2.0 * c[i] + inner[i];
    left[i] = inner[i] - 20.0 * a[i] - c[i];
  }
  add_bracket(a, t, outer);
  for (int i = 0; i < 6; i++) outer[i] = b[i] + (1.0 / 60) * outer[i];
  add_bracket(left, outer, last);
  for (int i = 0; i < 6; i++) o[i] = a[i] + (1.0 / 12) * c[i] - (1.0 / 240) * last[i];
}

// Stumpff functions (1 - cos w) / w^2 and (w - sin w) / w^3 of x = w^2, by series: no case apart when straight. Right to
// rounding up to 2.5 rad; arrays.py keeps steps below.
template <class S> void stumpff(const S &x, S &c2, S &c3) {
  static const double series[] = {
      1. / 2, 1. / 6, 1. / 24, 1. / 120, 1. / 720, 1. / 5040, 1. / 40320, 1. / 362880, 1. / 3628800, 1. / 39916800,
      1. / 479001600, 1. / 6227020800., 1. / 87178291200., 1. / 1307674368000., 1. / 20922789888000.,
      1. / 355687428096000., 1. / 6402373705728000., 1. / 121645100408832000., 1. / 2432902008176640000.,
      1. / 51090942171709440000.};
  c2 = c3 = S{};
  for (int k = 9; k >= 0; k--) {
    c2 = -(x * c2) + series[2 * k];
    c3 = -(x * c3) + series[2 * k + 1];
  }
}

// exp(o)
template <class S> Frame<S> exponential(const S *o) {
  const S *w = o, *v = o + 3;
  S c2, c3;
  const S x = dot(w, w, 3);
  stumpff(x, c2, c3);
  const S c1 = -(x * c3) + 1.0, cosine = -(x * c2) + 1.0, along = c3 * dot(w, v, 3);
  Frame<S> E;
  S across[3] = {};
  add_cross(w, v, across);
  for (int i = 0; i < 3; i++) {
    E.x[i] = c1 * v[i];
    E.x[i] += c2 * across[i] + along * w[i];
    for (int j = 0; j < 3; j++) E.R[3 * i + j] = c2 * w[i] * w[j];
    E.R[4 * i] += cosine;
  }
  E.R[1] -= c1 * w[2];
  E.R[2] += c1 * w[1];
  E.R[3] += c1 * w[2];
  E.R[5] -= c1 * w[0];
  E.R[6] -= c1 * w[1];
  E.R[7] += c1 * w[0];
  return E;
}

template <class S> // f = f step
inline __attribute__((always_inline)) void advance(Frame<S> &f, const Frame<S> &step) {
  S R[9];
  for (int i = 0; i < 3; i++) {
    const S *row = f.R + 3 * i, *E = step.R, *p = step.x;
    f.x[i] += row[0] * p[0] + row[1] * p[1] + row[2] * p[2];
    for (int j = 0; j < 3; j++) R[3 * i + j] = row[0] * E[j] + row[1] * E[3 + j] + row[2] * E[6 + j];
  }
  std::copy(R, R + 9, f.R);
}

template <class S, class P> inline void turned(const Frame<S> &f, const P *own, S *out) { // out = R own
  for (int i = 0; i < 3; i++) out[i] = f.R[3 * i] * own[0] + f.R[3 * i + 1] * own[1] + f.R[3 * i + 2] * own[2];
}

// Unit strain `row` at a frame as a spatial twist: a column of the frame's Ad.
template <class S> void unit_strain(const Frame<S> &f, int row, S *out) {
  const int j = row % 3;
  for (int i = 0; i < 3; i++) {
    const int k = (i + 1) % 3, l = (i + 2) % 3;
    out[i] = row < 3 ? f.R[3 * i + j] : S{};
    out[3 + i] = row < 3 ? f.x[k] * f.R[3 * l + j] - f.x[l] * f.R[3 * k + j] : f.R[3 * i + j];
  }
}

// Spatial twists as (linear, angular) of the place in its own axes.
template <class S> void in_own_axes(const Frame<S> &f, const S *X, int m, S *to, int n) {
  const S *R = f.R, *x = f.x;
  for (int a = 0; a < m; a++) {
    S w[3] = {X[a], X[m + a], X[2 * m + a]}, v[3] = {X[3 * m + a], X[4 * m + a], X[5 * m + a]};
    add_cross(w, x, v);
    for (int i = 0; i < 3; i++) {
      to[i * n + a] = R[i] * v[0] + R[3 + i] * v[1] + R[6 + i] * v[2];
      to[(3 + i) * n + a] = R[i] * w[0] + R[3 + i] * w[1] + R[6 + i] * w[2];
    }
  }
}

// Inertia about the base's origin in base axes: mass, first moment, second moment xx yy zz xy xz yz.
template <class S> struct Spatial {
  S mass, first[3], second[6];
};

template <class S, class P> Spatial<S> spatial(const Frame<S> &f, const P *body) {
  static const int at[9] = {0, 3, 4, 3, 1, 5, 4, 5, 2}, pair[6][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {0, 2}, {1, 2}};
  Spatial<S> r;
  const S *R = f.R, *x = f.x;
  S s[3], A[9]; // first moment in base axes, R times second moment
  r.mass = S{} + body[0];
  turned(f, body + 1, s);
  for (int i = 0; i < 3; i++) {
    r.first[i] = body[0] * x[i] + s[i];
    for (int j = 0; j < 3; j++)
      A[3 * i + j] = R[3 * i] * body[4 + at[j]] + R[3 * i + 1] * body[4 + at[3 + j]] + R[3 * i + 2] * body[4 + at[6 + j]];
  }
  const S trace = dot(x, r.first, 3) + dot(s, x, 3);
  for (int k = 0; k < 6; k++) {
    const int i = pair[k][0], j = pair[k][1];
    r.second[k] = A[3 * i] * R[3 * j] + A[3 * i + 1] * R[3 * j + 1] + A[3 * i + 2] * R[3 * j + 2] - x[i] * r.first[j] -
                  s[i] * x[j];
    if (k < 3) r.second[k] += trace;
  }
  return r;
}

template <class S> void momenta(const Spatial<S> &b, const S *X, int m, S *r) { // r = I X: (moment, force) by column
  const S *w[3] = {X, X + m, X + 2 * m}, *v[3] = {X + 3 * m, X + 4 * m, X + 5 * m}, *I = b.second, *q = b.first;
  const S *T[3][3] = {{I, I + 3, I + 4}, {I + 3, I + 1, I + 5}, {I + 4, I + 5, I + 2}};
  for (int i = 0; i < 3; i++) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    for (int a = 0; a < m; a++) {
      r[i * m + a] = *T[i][0] * w[0][a] + *T[i][1] * w[1][a] + *T[i][2] * w[2][a] + q[j] * v[k][a] - q[k] * v[j][a];
      r[(3 + i) * m + a] = b.mass * v[i][a] - q[j] * w[k][a] + q[k] * w[j][a];
    }
  }
}

template <class S> inline void momentum(const Spatial<S> &b, const S *X, S *r) { // the same of one twist
  const S *w = X, *v = X + 3, *I = b.second, *q = b.first;
  r[0] = I[0] * w[0] + I[3] * w[1] + I[4] * w[2] + q[1] * v[2] - q[2] * v[1];
  r[1] = I[3] * w[0] + I[1] * w[1] + I[5] * w[2] + q[2] * v[0] - q[0] * v[2];
  r[2] = I[4] * w[0] + I[5] * w[1] + I[2] * w[2] + q[0] * v[1] - q[1] * v[0];
  for (int i = 0; i < 3; i++) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    r[3 + i] = b.mass * v[i] - q[j] * w[k] + q[k] * w[j];
  }
}

// N (6, 6) += what maps a twist (angular, linear), block by block.
template <class S, class A, class B> void add_dyad(S *N, int row, int col, const A *a, const B *c) { // u -> a x (c x u)
  const S s = S{} + (a[0] * c[0] + a[1] * c[1] + a[2] * c[2]);
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) N[(row + i) * 6 + col + j] += c[i] * a[j];
    N[(row + i) * 6 + col + i] -= s;
  }
}
template <class S> void add_hat(S *N, int row, int col, const S *a, double factor) { // u -> factor a x u
  for (int i = 0; i < 3; i++) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    N[(row + i) * 6 + col + k] += factor * a[j];
    N[(row + i) * 6 + col + j] -= factor * a[k];
  }
}

// What a load of the law (15,) applies at a place: where, what follows the place, and the whole force.
template <class S> struct Applied {
  S y[3], following[3], moment[3], force[3];

  template <class L> Applied(const Frame<S> &f, const L *law) {
    turned(f, law, y);
    turned(f, law + 9, following);
    turned(f, law + 12, moment);
    for (int i = 0; i < 3; i++) {
      y[i] += f.x[i];
      force[i] = following[i] + law[3 + i];
    }
  }
};

// Wrench (moment, force) of weight and load at a place; null: no load.
template <class S, class P, class L>
void load(const Frame<S> &f, const Spatial<S> &b, const P *gravity, const L *law, S *W) {
  std::fill(W, W + 6, S{});
  add_cross(b.first, gravity, W);
  for (int i = 0; i < 3; i++) W[3 + i] = b.mass * gravity[i];
  if (!law) return;
  const Applied<S> at(f, law);
  for (int i = 0; i < 3; i++) {
    W[3 + i] += at.force[i];
    W[i] += at.moment[i] + law[6 + i];
  }
  add_cross(at.y, at.force, W);
}

// The derivative N (6, 6) of this wrench by a spatial twist of the place.
template <class S, class P>
void load_by_twist(const Frame<S> &f, const Spatial<S> &b, const P *gravity, const P *law, S *N) {
  S g[3], weight[3];
  for (int i = 0; i < 3; i++) {
    g[i] = S{} + gravity[i];
    weight[i] = b.mass * gravity[i];
  }
  std::fill(N, N + 36, S{});
  add_dyad(N, 0, 0, g, b.first); // ((w x q) + m v) x g
  add_hat(N, 0, 3, weight, -1);
  if (!law) return;
  const Applied<S> at(f, law);
  add_dyad(N, 0, 0, at.force, at.y); // (w x y + v) x F
  add_hat(N, 0, 3, at.force, -1);
  add_hat(N, 0, 0, at.moment, -1); // w x what follows
  add_hat(N, 3, 0, at.following, -1);
  const S z[3] = {-at.y[0], -at.y[1], -at.y[2]};
  add_dyad(N, 0, 0, z, at.following); // y x (w x following force)
}

} // namespace rod
