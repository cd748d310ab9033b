// SPDX-License-Identifier: Apache-2.0
// Lengths of tendons and strings along the rod.
#pragma once
#include "algebra.hpp"
#include "arrays.hpp"

namespace rod {

// Lengths of all paths (paths,), their gradient (paths, n), and where `force_by_c` (n, n) is wanted, minus the sum of
// tension times second derivative, added to it. A path at (x, y) of the cross-section runs by t = v + u x r + r' there,
// per metre of the backbone: rucker (11). Between disks h apart a path may run straight: the chord of an arc of curvature
// kappa is shorter by kappa^2 h^2 / 24 of its length.
template <class S, class P>
void lengths(const Shape &r, const Numbers<P> &q, const S *c, const S *tension, S *length, S *gradient, S *force_by_c) {
  const int n = r.n;
  const P *w = q.path;
  if (r.straight) { // l0 and gradient, made once
    for (int j = 0; j < r.paths; j++) {
      length[j] = S{} + *w++;
      for (int i = 0; i < n; i++, w++) {
        gradient[j * n + i] = S{} + *w;
        length[j] += *w * c[i];
      }
    }
    return;
  }
  std::fill(length, length + r.paths, S{});
  std::fill(gradient, gradient + r.paths * n, S{});
  const double *phi = r.path_phi;
  const int *index = r.path_index;
  const P *rest = q.path_rest;
  for (int k = 0; k < r.path_nodes; k++, rest += 6) {
    const Piece &piece = r.piece[r.path_node[k].piece];
    const int m = piece.cols, *row = r.row + piece.col;
    S strain[6], curve[36] = {};
    for (int i = 0; i < 6; i++) strain[i] = S{} + rest[i];
    for (int a = 0; a < m; a++) strain[row[a]] += phi[a] * c[piece.col + a];
    for (int j = 0; j < r.path_node[k].paths; j++, index++, w += PATH) {
      const P x = w[1], y = w[2];
      S t[3] = {strain[3] - strain[2] * y + w[3], strain[4] + strain[2] * x + w[4],
                strain[5] + strain[0] * y - strain[1] * x};
      const S size = root(dot(t, t, 3));
      const P chord = w[0] * w[5];
      length[*index] += w[0] * size - chord * (strain[0] * strain[0] + strain[1] * strain[1]);
      for (int i = 0; i < 3; i++) t[i] = t[i] / size;
      const S by_strain[6] = {y * t[2], -(x * t[2]), x * t[1] - y * t[0], t[0], t[1], t[2]};
      S *to = gradient + *index * n + piece.col;
      for (int a = 0; a < m; a++) {
        to[a] += w[0] * phi[a] * by_strain[row[a]];
        if (row[a] < 2) to[a] -= 2.0 * chord * phi[a] * strain[row[a]];
      }
      if (!force_by_c) continue;
      // d2 |t| = dt . (1 - t t) dt / |t|; rows of dt by the strains
      const S zero{}, one = zero + 1.0, X = zero + x, Y = zero + y;
      const S by[18] = {zero, zero, Y, zero, zero, -X, -Y, X, zero, one, zero, zero, zero, one, zero, zero, zero, one};
      const S f = w[0] * tension[*index] / size;
      for (int i = 0; i < 6; i++)
        for (int l = 0; l < 6; l++)
          curve[6 * i + l] += f * (dot(by + 3 * i, by + 3 * l, 3) - by_strain[i] * by_strain[l]);
      for (int i = 0; i < 8; i += 7) curve[i] -= 2.0 * chord * tension[*index];
    }
    if (force_by_c)
      for (int a = 0; a < m; a++)
        for (int b = 0; b < m; b++)
          force_by_c[(piece.col + a) * n + piece.col + b] -= phi[a] * phi[b] * curve[6 * row[a] + row[b]];
    phi += m;
  }
}

} // namespace rod
