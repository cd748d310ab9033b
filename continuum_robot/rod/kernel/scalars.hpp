// SPDX-License-Identifier: Apache-2.0
// Scalars of the kernel: double, eight robots side by side, and values with derivatives along N directions.
// Each function of the kernel is a template over them, so that all compute the same, to the bit, with one source.
#pragma once
#include <cmath>

namespace rod {

constexpr int LANES = 8;
typedef double Lanes __attribute__((vector_size(8 * LANES)));

template <class T, int N> struct Dual {
  T value, slope[N];
};

template <class T, int N> inline Dual<T, N> operator+(const Dual<T, N> &a, const Dual<T, N> &b) {
  Dual<T, N> r;
  r.value = a.value + b.value;
  for (int i = 0; i < N; i++) r.slope[i] = a.slope[i] + b.slope[i];
  return r;
}
template <class T, int N> inline Dual<T, N> operator-(const Dual<T, N> &a, const Dual<T, N> &b) {
  Dual<T, N> r;
  r.value = a.value - b.value;
  for (int i = 0; i < N; i++) r.slope[i] = a.slope[i] - b.slope[i];
  return r;
}
template <class T, int N> inline Dual<T, N> operator*(const Dual<T, N> &a, const Dual<T, N> &b) {
  Dual<T, N> r;
  r.value = a.value * b.value;
  for (int i = 0; i < N; i++) r.slope[i] = a.slope[i] * b.value + a.value * b.slope[i];
  return r;
}
template <class T, int N> inline Dual<T, N> operator/(const Dual<T, N> &a, const Dual<T, N> &b) {
  Dual<T, N> r;
  r.value = a.value / b.value;
  for (int i = 0; i < N; i++) r.slope[i] = (a.slope[i] - r.value * b.slope[i]) / b.value;
  return r;
}
template <class T, int N> inline Dual<T, N> operator*(double a, const Dual<T, N> &b) {
  Dual<T, N> r;
  r.value = a * b.value;
  for (int i = 0; i < N; i++) r.slope[i] = a * b.slope[i];
  return r;
}
template <class T, int N> inline Dual<T, N> operator+(const Dual<T, N> &a, double b) {
  Dual<T, N> r = a;
  r.value = r.value + b;
  return r;
}
template <class T, int N> inline Dual<T, N> operator+(double a, const Dual<T, N> &b) { return b + a; }
template <class T, int N> inline Dual<T, N> operator-(const Dual<T, N> &a, double b) { return a + -b; }
template <class T, int N> inline Dual<T, N> operator*(const Dual<T, N> &a, double b) { return b * a; }
template <class T, int N> inline Dual<T, N> operator-(const Dual<T, N> &a) { return -1.0 * a; }
template <class T, int N> inline void operator+=(Dual<T, N> &a, const Dual<T, N> &b) { a = a + b; }
template <class T, int N> inline void operator-=(Dual<T, N> &a, const Dual<T, N> &b) { a = a - b; }

// No function of libm but the square root, which IEEE 754 defines to the bit, stands in the kernel.
inline double root(double x) { return std::sqrt(x); }
inline Lanes root(Lanes x) {
  for (int i = 0; i < LANES; i++) x[i] = std::sqrt(x[i]);
  return x;
}
template <class T, int N> inline Dual<T, N> root(const Dual<T, N> &a) {
  Dual<T, N> r;
  r.value = root(a.value);
  for (int i = 0; i < N; i++) r.slope[i] = a.slope[i] / (2.0 * r.value);
  return r;
}

// 1 where x > 0, else 0.
inline double positive(double x) { return x > 0 ? 1.0 : 0.0; }
inline Lanes positive(Lanes x) { return x > 0 ? Lanes{} + 1.0 : Lanes{}; }
template <class T, int N> inline Dual<T, N> positive(const Dual<T, N> &a) {
  Dual<T, N> r{};
  r.value = positive(a.value);
  return r;
}

// The largest of all lanes; NaN where one is NaN.
inline double largest(double x) { return x; }
inline double largest(Lanes x) {
  double most = x[0];
  for (int i = 1; i < LANES; i++) most = x[i] > most || x[i] != x[i] ? x[i] : most;
  return most;
}
template <class T, int N> inline double largest(const Dual<T, N> &a) { return largest(a.value); }

// Whether nothing depends on it: zero in all lanes, and with all slopes.
inline bool vanishes(double x) { return x == 0; }
inline bool vanishes(Lanes x) {
  bool all = true;
  for (int i = 0; i < LANES; i++) all &= x[i] == 0;
  return all;
}
template <class T, int N> inline bool vanishes(const Dual<T, N> &a) {
  bool all = vanishes(a.value);
  for (int i = 0; i < N; i++) all &= vanishes(a.slope[i]);
  return all;
}

} // namespace rod
