// SPDX-License-Identifier: Apache-2.0
// The contact monitor's Kalman filter and error budgets, of matrices row by row. Their NumPy form, which explains the
// arguments, is in estimation/contact/: filter_cycle of disturbance_observer.py, error_budget.py.
#pragma once
#include "algebra.hpp"
#include <cmath>

namespace rod {

// Part of a matrix: rows lie `wide` numbers apart.
struct Matrix {
  double *at;
  int rows, columns, wide;
  Matrix(double *at, int rows, int columns) : Matrix(at, rows, columns, columns) {}
  Matrix(double *at, int rows, int columns, int wide) : at(at), rows(rows), columns(columns), wide(wide) {}
  double *operator[](int i) const { return at + i * wide; }
  Matrix part(int i, int j, int count, int width) const { return {at + i * wide + j, count, width, wide}; }
};

inline void add(double w, Matrix A, Matrix C) { // C += w A
  for (int i = 0; i < C.rows; i++) add_scaled(w, A[i], C[i], C.columns);
}
inline void add_product(Matrix A, Matrix B, Matrix C, double w = 1) { // C += w A B
  for (int i = 0; i < C.rows; i++)
    for (int k = 0; k < A.columns; k++) add_scaled(w * A[i][k], B[k], C[i], C.columns);
}
inline void transpose(Matrix A, Matrix C) { // C = A^T
  for (int i = 0; i < A.rows; i++)
    for (int j = 0; j < A.columns; j++) C[j][i] = A[i][j];
}
inline void add_congruence(Matrix A, Matrix S, Matrix C, Arena<double> &memory) { // C += A S A^T
  const Matrix half(memory.zeros(A.rows * S.columns), A.rows, S.columns);
  const Matrix turned(memory.raw(A.rows * A.columns), A.columns, A.rows);
  add_product(A, S, half);
  transpose(A, turned);
  add_product(half, turned, C);
}

// Numbers of a call, one array after the other.
struct Arrays {
  double *at;
  double *take(int count) {
    at += count;
    return at - count;
  }
  Matrix matrix(int rows, int columns) { return {take(rows * columns), rows, columns}; }
};

inline std::size_t observer_memory(int n) { return 64 * n * n + 64 * n; }

// One cycle of the extended Kalman filter of x = (c, c_rate, d). In: mass, derivatives of the force by c and c_rate, of
// the momentum by c, known force, state, covariance P, walk, measured, its noise, h = dt / 2^halvings, dt. Out: state, P.
// mass and P are overwritten.
inline void filter_cycle(int n, int halvings, Arrays in, Arrays out) {
  Arena<double> memory;
  const int n2 = 2 * n, n3 = 3 * n;
  const Matrix mass = in.matrix(n, n), by_c = in.matrix(n, n), by_rate = in.matrix(n, n), transport = in.matrix(n, n);
  double *const force = in.take(n), *const state = in.take(n3);
  const Matrix P = in.matrix(n3, n3), walk = in.matrix(n, n);
  const double *const measured = in.take(n);
  const Matrix noise = in.matrix(n, n);
  const double h = *in.take(1), dt = *in.take(1);

  // Transition T (2 n, 3 n) of (c, c_rate), to third order, and their step (2 n), to fourth: johnston (45) makes
  // A = [[0, h, 0], first, 0], so the upper rows of a power are those below of the one before.
  invert(mass.at, n);
  for (int i = 0; i < n * n; i++) mass.at[i] *= h;
  add(-1, transport, by_rate);
  const Matrix first(memory.zeros(3 * n * n), n, n3), second(memory.zeros(3 * n * n), n, n3);
  const Matrix third(memory.zeros(3 * n * n), n, n3), X = first.part(0, 0, n, n), Y = first.part(0, n, n, n);
  add_product(mass, by_c, X);
  add_product(mass, by_rate, Y);
  add(1, mass, first.part(0, n2, n, n));
  add(h, X, second.part(0, n, n, n));
  add_product(Y, first, second);
  add_product(X, first, third, h);
  add_product(Y, second, third);
  Matrix T(memory.zeros(n2 * n3), n2, n3), doubled(memory.raw(n2 * n3), n2, n3);
  const Matrix upper = T.part(0, 0, n, n3), lower = T.part(n, 0, n, n3);
  add(h / 2, first, upper);
  add(h / 6, second, upper);
  add(1, first, lower);
  add(0.5, second, lower);
  add(1.0 / 6, third, lower);
  double *step = memory.zeros(n2), *term = memory.raw(n2), *next = memory.raw(n2);
  for (int i = 0; i < n; i++) {
    upper[i][i] += 1;
    upper[i][n + i] += h;
    lower[i][n + i] += 1;
    force[i] += state[n2 + i] - dot(transport[i], state + n, n);
  }
  for (int i = 0; i < n; i++) term[i] = h * state[n + i], term[n + i] = dot(mass[i], force, n);
  add_scaled(1.0, term, step, n2);
  for (int k = 2; k <= 4; k++) {
    for (int i = 0; i < n; i++) next[i] = h * term[n + i] / k, next[n + i] = dot(first[i], term, n2) / k;
    std::swap(term, next);
    add_scaled(1.0, term, step, n2);
  }
  for (; halvings > 0; halvings--) {
    for (int i = 0; i < n2; i++) next[i] = step[i] + dot(T[i], step, n2);
    std::swap(step, next);
    std::fill(doubled.at, doubled.at + n2 * n3, 0.0);
    add(1, T.part(0, n2, n2, n), doubled.part(0, n2, n2, n));
    add_product(T.part(0, 0, n2, n2), T, doubled);
    std::swap(T, doubled);
  }

  // P = T P T^T with the walk of d.
  const Matrix moved(memory.zeros(n2 * n3), n2, n3), turned(memory.raw(n2 * n3), n3, n2);
  add_product(T, P, moved);
  transpose(T, turned);
  const Matrix on = P.part(0, 0, n2, n2), coupled = P.part(0, n2, n2, n);
  for (int i = 0; i < n2; i++) std::fill(P[i], P[i] + n2, 0.0);
  add_product(moved, turned, on);
  for (int i = 0; i < n2; i++) std::copy(moved[i] + n2, moved[i] + n3, coupled[i]);
  transpose(coupled, P.part(n2, 0, n, n2));
  add(dt, walk, P.part(n2, n2, n, n));
  add_scaled(1.0, step, state, n2);

  // Correction by the measured c.
  const Matrix seen(memory.raw(n * n3), n, n3), S(memory.zeros(n * n), n, n), gain(memory.zeros(n3 * n), n3, n);
  std::copy(P.at, P.at + n * n3, seen.at);
  add(1, noise, S);
  add(1, seen.part(0, 0, n, n), S);
  invert(S.at, n);
  add_product(P.part(0, 0, n3, n), S, gain);
  double *const miss = memory.raw(n);
  for (int i = 0; i < n; i++) miss[i] = measured[i] - state[i];
  for (int i = 0; i < n3; i++) *out.take(1) = state[i] + dot(gain[i], miss, n);
  add_product(gain, seen, P, -1);
  for (int i = 0; i < n3; i++)
    for (int j = 0; j < n3; j++) *out.take(1) = (P[i][j] + P[j][i]) / 2;
}

// Error budgets. Each first takes what all share, in the order of the members, and writes bound, covariance, its inverse.
struct Budget {
  const int n, strains;
  Arena<double> &memory;
  const double *fraction;
  const Matrix elastic, by_c;
  const double *friction, floor;

  Budget(int n, int strains, Arrays &in, Arena<double> &memory)
      : n(n), strains(strains), memory(memory), fraction(in.take(5)), elastic(in.matrix(strains, n)),
        by_c(in.matrix(n, n)), friction(in.take(n)), floor(*in.take(1)) {}

  // With the constant errors of c and c_rate, johnston (64), and the noise's covariance; a lag only adds to covariance.
  void write(Matrix of_c, Matrix of_rate, Matrix spread, const double *lag, Arrays &out) const {
    double *const bound = out.take(n);
    const Matrix covariance = out.matrix(n, n), turned(memory.raw(n * n), n, n), inverse = out.matrix(n, n);
    const double shift = fraction[0] * fraction[0] / 3;
    transpose(by_c, turned);
    for (int i = 0; i < n; i++) {
      double of_shape = 0, of_motion = 0, of_model = std::fabs(fraction[3] * friction[i]);
      for (int j = 0; j < n; j++) of_shape += std::fabs(of_c[i][j]), of_motion += std::fabs(of_rate[i][j]);
      for (int k = 0; k < strains; k++) of_model += std::fabs(fraction[2] * elastic[k][i]);
      bound[i] = of_shape * fraction[0] + of_motion * fraction[1] + of_model + fraction[4] * std::sqrt(spread[i][i]);
      double *const row = covariance[i];
      std::copy(spread[i], spread[i] + n, row);
      for (int k = 0; k < strains; k++) add_scaled(fraction[2] * fraction[2] * elastic[k][i], elastic[k], row, n);
      add_scaled(fraction[3] * fraction[3] * friction[i], friction, row, n);
      if (lag) add_scaled(lag[i], lag, row, n);
      row[i] += floor;
    }
    add_product(by_c, turned, covariance, shift);
    std::copy(covariance.at, covariance.at + n * n, inverse.at);
    invert(inverse.at, n);
  }
};

// More in: covariance of the residual, derivative of the rod's own forces by c_rate.
inline void kalman_budget(int n, int strains, Arrays in, Arrays out) {
  Arena<double> memory;
  const Budget budget(n, strains, in, memory);
  const Matrix spread = in.matrix(n, n), by_rate = in.matrix(n, n);
  budget.write(budget.by_c, by_rate, spread, nullptr, out);
}

// More in: derivative of the forces by c_rate, mass, noise of c and of c_rate, of the accelerations.
inline void jfd_budget(int n, int strains, Arrays in, Arrays out) {
  Arena<double> memory;
  const Budget budget(n, strains, in, memory);
  const Matrix by_rate = in.matrix(n, n), mass = in.matrix(n, n), noise = in.matrix(n, n), rates = in.matrix(n, n);
  const double acceleration = *in.take(1);
  const Matrix spread(memory.zeros(n * n), n, n), turned(memory.raw(n * n), n, n);
  add_congruence(budget.by_c, noise, spread, memory);
  add_congruence(by_rate, rates, spread, memory);
  transpose(mass, turned);
  add_product(mass, turned, spread, acceleration * acceleration);
  budget.write(budget.by_c, by_rate, spread, nullptr, out);
}

// More in: lag, gain, dt of the sensitivity and of the noise, sensitivity, momentum and force by the state in the last
// cycle and in this (2 n columns each), noise of c and of c_rate. More out: the sensitivity.
inline void gmo_budget(int n, int strains, Arrays in, Arrays out) {
  Arena<double> memory;
  const Budget budget(n, strains, in, memory);
  const double *const lag = in.take(n), *const gain = in.take(n), *const dt = in.take(2);
  const int n2 = 2 * n;
  const Matrix old = in.matrix(n, n2), old_momentum = in.matrix(n, n2), old_force = in.matrix(n, n2);
  const Matrix momentum = in.matrix(n, n2), force = in.matrix(n, n2), noise = in.matrix(n, n), rates = in.matrix(n, n);
  const Matrix sensitivity = Arrays{out.at + n + 2 * n * n}.matrix(n, n2);
  const Matrix now(memory.raw(n * n2), n, n2), tail(memory.raw(n * n2), n, n2);
  const Matrix spread(memory.zeros(n * n), n, n), later(memory.zeros(n * n), n, n);
  double *const pole = memory.raw(n);
  for (int i = 0; i < n; i++) {
    pole[i] = 1 / (1 + gain[i] * dt[1]);
    for (int j = 0; j < n2; j++) {
      const double change = momentum[i][j] - old_momentum[i][j] - (force[i][j] + old_force[i][j]) * (dt[0] / 2);
      sensitivity[i][j] = (old[i][j] + gain[i] * change) / (1 + gain[i] * dt[0]); // johnston (65), (69)
      now[i][j] = momentum[i][j] - force[i][j] * (dt[1] / 2);
      tail[i][j] = pole[i] * now[i][j] - momentum[i][j] - force[i][j] * (dt[1] / 2);
    }
  }
  // Of estimation/contact/error_budget.py.
  add_congruence(now.part(0, 0, n, n), noise, spread, memory);
  add_congruence(now.part(0, n, n, n), rates, spread, memory);
  add_congruence(tail.part(0, 0, n, n), noise, later, memory);
  add_congruence(tail.part(0, n, n, n), rates, later, memory);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      const double scale = pole[i] * gain[i] * pole[j] * gain[j];
      spread[i][j] = scale * (spread[i][j] + later[i][j] / (1 - pole[i] * pole[j]));
    }
  budget.write(sensitivity.part(0, 0, n, n), sensitivity.part(0, n, n, n), spread, lag, out);
}

} // namespace rod
