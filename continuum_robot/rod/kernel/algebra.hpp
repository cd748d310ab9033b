// SPDX-License-Identifier: Apache-2.0
// Vectors, twists and blocks of twists, and the memory that they live in.
// A twist is six numbers, angular first, about the base's origin in base axes. A block is (6, m), row by row: a twist
// for each of m coefficients; inner loops run over m.
#pragma once
#include "scalars.hpp"
#include <algorithm>
#include <cstddef>
#include <new>

namespace rod {

// Memory of one call, taken from a stack: that of its thread, of which nothing is allocated once it is there, or one that
// the caller owns, so that any thread may call without allocating anything.
template <class S> class Arena {
public:
  Arena() : Arena(stack().top) {}
  explicit Arena(S *&top) : top(top), mark(top) {}
  ~Arena() { top = mark; }
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  // Each function of the C interface asks for what its rod needs, so a stack does not run out in a call.
  static void reserve(std::size_t count) {
    Stack &s = stack();
    if (s.size >= count) return;
    ::operator delete(s.base, std::align_val_t(64));
    s.base = s.top = static_cast<S *>(::operator new(count * sizeof(S), std::align_val_t(64)));
    s.size = count;
  }

  S *raw(std::size_t count) {
    S *at = top;
    top += count;
    return at;
  }
  S *zeros(std::size_t count) {
    S *at = raw(count);
    std::fill(at, at + count, S{});
    return at;
  }
  S *&here() { return top; } // of an arena above this one

private:
  struct Stack {
    S *base = nullptr, *top = nullptr;
    std::size_t size = 0;
    ~Stack() { ::operator delete(base, std::align_val_t(64)); }
  };
  static Stack &stack() {
    static thread_local Stack own;
    return own;
  }
  S *&top, *mark;
};

template <class A, class B, class R> inline void add_cross(const A *a, const B *b, R *r) { // r += a x b
  r[0] += a[1] * b[2] - a[2] * b[1];
  r[1] += a[2] * b[0] - a[0] * b[2];
  r[2] += a[0] * b[1] - a[1] * b[0];
}

template <class S> inline void add_bracket(const S *x, const S *y, S *r) { // r += ad(x) y
  add_cross(x, y, r);
  add_cross(x, y + 3, r + 3);
  add_cross(x + 3, y, r + 3);
}

template <class A, class B> inline auto dot(const A *a, const B *b, int count) -> decltype(a[0] * b[0]) {
  decltype(a[0] * b[0]) sum{};
  for (int i = 0; i < count; i++) sum += a[i] * b[i];
  return sum;
}

template <class X, class S, class W> inline void add_scaled(W w, const X *x, S *y, int count) { // y += w x
  for (int i = 0; i < count; i++) y[i] += w * x[i];
}

template <class S> inline void bracket_block(const S *V, const S *X, int m, S *r) { // r = ad(V) X
  for (int i = 0; i < 3; i++) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    for (int a = 0; a < m; a++) {
      r[i * m + a] = V[j] * X[k * m + a] - V[k] * X[j * m + a];
      r[(3 + i) * m + a] = V[j] * X[(3 + k) * m + a] - V[k] * X[(3 + j) * m + a] + V[3 + j] * X[k * m + a] -
                           V[3 + k] * X[j * m + a];
    }
  }
}

template <class S> inline void coadjoint_block(const S *X, const S *H, int m, S *r) { // r: H . ad(J) X = r . J
  for (int i = 0; i < 3; i++) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    for (int a = 0; a < m; a++) {
      r[i * m + a] = X[j * m + a] * H[k] - X[k * m + a] * H[j] + X[(3 + j) * m + a] * H[3 + k] -
                     X[(3 + k) * m + a] * H[3 + j];
      r[(3 + i) * m + a] = X[j * m + a] * H[3 + k] - X[k * m + a] * H[3 + j];
    }
  }
}

template <class S> inline void add_columns(const S *X, const S *c, int m, S *r) { // r += X c
  for (int i = 0; i < 6; i++) r[i] += dot(X + i * m, c, m);
}

// out += X^T Y, in a matrix whose rows have n entries.
template <class S> inline void add_products(const S *X, int ma, const S *Y, int mb, S *out, int n) {
  for (int a = 0; a < ma; a++)
    for (int i = 0; i < 6; i++) add_scaled(X[i * ma + a], Y + i * mb, out + a * n, mb);
}

// out += (X^T Y)^T
template <class S> inline void add_products_transposed(const S *X, int ma, const S *Y, int mb, S *out, int n) {
  for (int a = 0; a < ma; a++)
    for (int i = 0; i < 6; i++) {
      const S x = X[i * ma + a];
      for (int b = 0; b < mb; b++) out[b * n + a] += x * Y[i * mb + b];
    }
}

// A = L U in place, without exchange of rows, so that all lanes do the same; the diagonal holds inverses. False where a
// pivot vanishes.
template <class S> bool factor(S *A, int n) {
  bool good = true;
  for (int k = 0; k < n; k++) {
    const S inverse = 1.0 / A[k * n + k];
    A[k * n + k] = inverse;
    for (int i = k + 1; i < n; i++) {
      const S f = A[i * n + k] * inverse;
      A[i * n + k] = f;
      for (int j = k + 1; j < n; j++) A[i * n + j] -= f * A[k * n + j];
    }
    good &= largest(inverse) < 1e300 && largest(-inverse) < 1e300;
  }
  return good;
}

// A = A^-1 in place, without exchange of rows. False where a pivot vanishes.
template <class S> bool invert(S *A, int n) {
  bool good = true;
  for (int k = 0; k < n; k++) {
    const S inverse = 1.0 / A[k * n + k];
    good &= largest(inverse) < 1e300 && largest(-inverse) < 1e300;
    A[k * n + k] = S{} + 1.0;
    for (int j = 0; j < n; j++) A[k * n + j] = inverse * A[k * n + j];
    for (int i = 0; i < n; i++) {
      if (i == k) continue;
      const S f = A[i * n + k];
      A[i * n + k] = S{};
      add_scaled(-f, A + k * n, A + i * n, n);
    }
  }
  return good;
}

template <class S> void solve(const S *A, int n, S *b) { // of factor(A): b = A^-1 b
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++) b[i] -= A[i * n + j] * b[j];
  for (int i = n; i--;) {
    for (int j = i + 1; j < n; j++) b[i] -= A[i * n + j] * b[j];
    b[i] = A[i * n + i] * b[i];
  }
}

} // namespace rod
