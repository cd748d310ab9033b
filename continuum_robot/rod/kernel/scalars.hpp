// SPDX-License-Identifier: Apache-2.0
// Scalars of the kernel: double, eight robots side by side, and values with derivatives along N directions.
// Each function of the kernel is a template over them, so that all compute the same, to the bit, with one source.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace rod {

constexpr int LANES = 8;
typedef double Lanes __attribute__((vector_size(8 * LANES)));

// Places of one robot side by side, as many as a vector of the processor holds: what a place computes does not depend on
// who is beside it, so the width changes no bit.
#ifdef __AVX512F__
constexpr int SIDE = 8;
#else
constexpr int SIDE = 2;
#endif
typedef double Side __attribute__((vector_size(8 * SIDE)));

template <class T, int N> struct Dual {
  T value, slope[N];
};

// What goes through the places at a time: of other scalars than double one place.
template <class S> struct Pack {
  typedef S type;
  typedef double real;
  static constexpr int width = 1;
};
template <> struct Pack<double> {
  typedef Side type, real;
  static constexpr int width = SIDE;
};
template <class T, class S> inline T packed(const S *from) {
  T r;
  std::memcpy(&r, from, sizeof(T));
  return r;
}
// Of the scalars that `of` gives. Stored one by one, they would have to reach the cache before they are loaded as one.
template <class T, class F> inline T gathered(F of) {
  T r;
  for (int k = 0; k < static_cast<int>(sizeof(T) / sizeof(double)); k++) r[k] = of(k);
  return r;
}
template <class T, class S> inline void unpack(const T &pack, S *to) { std::memcpy(to, &pack, sizeof(T)); }

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
template <class S> inline bool vanish(const S *x, int count) {
  bool all = true;
  for (int i = 0; i < count; i++) all &= vanishes(x[i]);
  return all;
}
inline bool vanish(const double *x, int count) { // bits but the sign's
  std::uint64_t bits = 0, one;
  for (int i = 0; i < count; i++) {
    std::memcpy(&one, x + i, sizeof(one));
    bits |= one << 1;
  }
  return !bits;
}

} // namespace rod
