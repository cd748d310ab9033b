// SPDX-License-Identifier: Apache-2.0
// Exponential, hyperbolic tangent, sine and cosine of IEEE operations alone, so that they are the same to the bit
// everywhere. Errors against exact values, tested: exp 2e-15 of it, the others 4e-16.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace rod {

// 1, 1/2!, 1/3!, ...
constexpr double TAYLOR[] = {
    1., 1., 1. / 2, 1. / 6, 1. / 24, 1. / 120, 1. / 720, 1. / 5040, 1. / 40320, 1. / 362880, 1. / 3628800,
    1. / 39916800, 1. / 479001600, 1. / 6227020800., 1. / 87178291200., 1. / 1307674368000., 1. / 20922789888000.};

inline double nearest(double x) { // whole number, of |x| < 2^51
  const double much = 6755399441055744.0;
  return (x + much) - much;
}

// Of |x| <= 700.
inline double exponential(double x) {
  if (!(x < 700)) x = x > 700 ? 700 : x;
  if (x < -700) x = -700;
  const double k = nearest(x * 1.4426950408889634), r = (x - k * 0.69314718036912382) - k * 1.9082149292705877e-10;
  double sum = TAYLOR[13]; // r <= 0.35 leaves 1e-17
  for (int i = 12; i >= 0; i--) sum = TAYLOR[i] + r * sum;
  double power;
  const std::int64_t bits = (static_cast<std::int64_t>(k) + 1023) << 52;
  std::memcpy(&power, &bits, sizeof power);
  return sum * power;
}

inline double tangent(double x) { // hyperbolic
  const double size = x < 0 ? -x : x, e = exponential(-2 * size), t = (1 - e) / (1 + e);
  return x < 0 ? -t : t;
}

// Of |x| < 1e6.
inline void sine_cosine(double x, double &sine, double &cosine) {
  const double k = nearest(x * 0.63661977236758138);
  const double r = ((x - k * 1.5707963267341256) - k * 6.0771005063039660e-11) - k * 2.0222662487959506e-21, s = r * r;
  double a = TAYLOR[15], b = TAYLOR[16]; // r <= 0.79 leaves 5e-17
  for (int i = 13; i > 0; i -= 2) a = TAYLOR[i] - s * a;
  for (int i = 14; i >= 0; i -= 2) b = TAYLOR[i] - s * b;
  a *= r;
  const int quarter = static_cast<int>(static_cast<std::int64_t>(k) & 3);
  sine = quarter == 0 ? a : quarter == 1 ? b : quarter == 2 ? -a : -b;
  cosine = quarter == 0 ? b : quarter == 1 ? -a : quarter == 2 ? -b : a;
}

} // namespace rod
