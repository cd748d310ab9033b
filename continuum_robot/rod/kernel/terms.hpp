// SPDX-License-Identifier: Apache-2.0
// Everything that L = T - V and the loads have to say at (c, v). Derived in README.md.
#pragma once
#include "arrays.hpp"
#include "frames.hpp"

namespace rod {

// What a piece leaves for the way back to the base. Blocks at the nodes are (nodes, 6, cols).
template <class S> struct Passed {
  S *unit;             // e: unit strains in base axes
  S *turning;          // ad(V) e
  S *J, *Y;            // at the nodes, of the piece's own coefficients; null: no second derivatives are wanted
  S *still, *still_Y;  // of the coefficients before, (6, col): they stand still along the piece
  S *beyond;           // momentum H, load G and bias wrench B beyond each node, in its weight, (nodes, 18)
  S *sum;              // of all bodies: H, G, B, (18,)
  const double *end;   // weights of the nodes at the piece's end
};

template <class S, class P> class TermsCall {
public:
  TermsCall(const Shape &r, const Numbers<P> &q, const S *c, const S *v, const S *a, const Terms<S> &out, S *&stack)
      : r(r), q(q), c(c), v(v), a(a), out(out), n(r.n), mass(out.mass || out.force_by_c || out.jacobian),
        second(out.force_by_c), moving(out.momentum_by_c), forced(second || out.force || out.momentum), memory(stack) {}

  void run() {
    for (S *x : {out.momentum, out.force, out.bias})
      if (x) std::fill(x, x + n, S{});
    for (S *x : {out.mass, out.momentum_by_c, out.force_by_c})
      if (x) std::fill(x, x + n * n, S{});
    start = memory.zeros(6 * n);
    start_Y = memory.zeros(6 * n);
    passed = reinterpret_cast<Passed<S> *>(memory.raw(r.pieces * SIZE));
    frame = base_frame<S>();
    place = r.place;
    phi = r.phi;
    at_node = r.at_node;
    weight = r.weight;
    rest = q.rest;
    for (int k = 0; k < r.pieces; k++) forth(r.piece[k], passed[k]);
    S beyond[18] = {};
    for (int k = r.pieces; k--;) back(r.piece[k], passed[k], beyond);
    if (q.inertia) add_inertia();
  }

private:
  static constexpr int SIZE = (sizeof(Passed<S>) + sizeof(S) - 1) / sizeof(S);
  const Shape &r;
  const Numbers<P> &q;
  const S *c, *v, *a;
  const Terms<S> &out;
  const int n;
  const bool mass, second, moving, forced; // second: derivatives by c; moving: of a rod that moves; forced: p, dL/dc
  Arena<S> memory;
  Passed<S> *passed;
  S *start, *start_Y;                // J and Y at the start of the piece, (6, n)
  S start_V[12] = {};                // twist there, and its rate
  Frame<S> frame;
  const Place *place;
  const double *phi, *at_node, *weight;
  const P *rest;

  // Sums over a piece's bodies, for the columns of the pieces before.
  struct Sums {
    S *J, *Y, *N, *NJ, *NtJ; // I J, I Y, the loads' derivative (6, 6), N J and N^T J
    Spatial<S> inertia;
  };

  S *diagonal(S *matrix, int at) { return matrix + at * (n + 1); }

  // Along a piece, from its start to its end.
  void forth(const Piece &piece, Passed<S> &t) {
    const int m = piece.cols, nodes = piece.nodes, block = 6 * m, before = piece.col;
    S *rate = memory.zeros(12 * nodes); // growth of the twist and of its rate at the nodes
    t.unit = memory.raw(block * nodes);
    t.turning = memory.raw(block * nodes);
    t.J = second ? memory.raw(block * nodes) : nullptr;
    t.Y = moving ? memory.raw(block * nodes) : nullptr;
    t.beyond = memory.zeros(18 * nodes);
    t.sum = memory.zeros(18);
    t.still = memory.raw(6 * before);
    t.still_Y = memory.raw(6 * before);
    S *first = memory.raw(block), *first_Y = memory.raw(block), *J = memory.raw(block), *Y = memory.raw(block);
    S *IJ = memory.raw(block), *IY = memory.raw(block);
    Sums sums{memory.zeros(block), memory.zeros(block), memory.zeros(36), memory.zeros(block), memory.zeros(block), {}};
    for (int i = 0; i < 6; i++) {
      std::copy(start + i * n + before, start + i * n + before + m, first + i * m);
      std::copy(start_Y + i * n + before, start_Y + i * n + before + m, first_Y + i * m);
      std::copy(start + i * n, start + i * n + before, t.still + i * before);
      std::copy(start_Y + i * n, start_Y + i * n + before, t.still_Y + i * before);
    }
    Frame<S> *frames = reinterpret_cast<Frame<S> *>(memory.raw(12 * piece.places));
    follow(piece, t, frames, rate);
    // Twists of the nodes are needed before anything at the bodies.
    for (int s = 0, l = 0; s < piece.places; s++)
      if (place[s].node >= 0) {
        S V[6];
        grown<6>(start_V, rate, s, nodes, V);
        bracket_block(V, t.unit + block * l, m, t.turning + block * l);
        if (out.bias) {
          add_columns(t.turning + block * l, v + before, m, rate + 12 * l + 6);
          if (a) add_columns(t.unit + block * l, a + before, m, rate + 12 * l + 6);
        }
        l++;
      }
    for (int s = 0, l = 0; s < piece.places; s++) {
      const bool end = s == piece.places - 1, node = place[s].node >= 0, body = place[s].body >= 0;
      if (body || end || (node && second)) {
        S V[12];
        if (out.bias) grown<12>(start_V, rate, s, nodes, V);
        else grown<6>(start_V, rate, s, nodes, V);
        if (mass) at(first, t.unit, block, s, nodes, J);
        if (moving) at(first_Y, t.turning, block, s, nodes, Y);
        if (node && second) {
          std::copy(J, J + block, t.J + block * l);
          if (moving) std::copy(Y, Y + block, t.Y + block * l);
        }
        if (body) add_body(piece, t, frames[s], place[s].body, weight + s * nodes, V, J, Y, IJ, IY, sums);
        if (end) {
          t.end = weight + s * nodes;
          std::copy(V, V + (out.bias ? 12 : 6), start_V);
          for (int i = 0; i < 6; i++) {
            if (mass) std::copy(J + i * m, J + (i + 1) * m, start + i * n + before);
            if (moving) std::copy(Y + i * m, Y + (i + 1) * m, start_Y + i * n + before);
          }
        }
      }
      l += node;
    }
    place += piece.places;
    weight += piece.places * nodes;
    if (mass && before) add_columns_before(piece, t, sums);
  }

  // Frames of the places, and at the nodes unit strains in base axes and the twist's growth.
  void follow(const Piece &piece, Passed<S> &t, Frame<S> *frames, S *rate) {
    const int m = piece.cols, block = 6 * m, *row = r.row + piece.col;
    S strain[18], step[6], axis[6];
    for (int s = 0, l = 0; s < piece.places; s++, phi += 3 * m, rest += 18) {
      if (!piece.constant || !s)
        for (int g = 0; g < 3; g++) {
          for (int i = 0; i < 6; i++) strain[6 * g + i] = S{} + rest[6 * g + i];
          for (int j = 0; j < m; j++) strain[6 * g + row[j]] += phi[g * m + j] * c[piece.col + j];
        }
      magnus(strain, place[s].step_m, piece.constant, step);
      advance(frame, step);
      frames[s] = frame;
      if (place[s].node < 0) continue;
      S *e = t.unit + block * l;
      for (int j = 0; j < m; j++) {
        unit_strain(frame, row[j], axis);
        for (int i = 0; i < 6; i++) e[i * m + j] = at_node[j] * axis[i];
      }
      add_columns(e, v + piece.col, m, rate + 12 * l);
      at_node += m;
      l++;
    }
  }

  // What grows along a piece, at place s of it: x = x0 + sum_l W_sl y_l.
  void at(const S *x0, const S *y, int count, int s, int nodes, S *x) {
    std::copy(x0, x0 + count, x);
    for (int j = 0; j < nodes; j++) add_scaled(weight[s * nodes + j], y + j * count, x, count);
  }

  // The same of the first numbers of `rate`, (nodes, 12): of the twist, or of it and its rate.
  template <int COUNT> void grown(const S *x0, const S *rate, int s, int nodes, S *x) {
    S sum[COUNT];
    for (int i = 0; i < COUNT; i++) sum[i] = x0[i];
    for (int j = 0; j < nodes; j++)
      for (int i = 0; i < COUNT; i++) sum[i] += weight[s * nodes + j] * rate[12 * j + i];
    for (int i = 0; i < COUNT; i++) x[i] = sum[i];
  }

  // From one on, of what is beyond a place: H, G and B, or those of them that are wanted.
  template <int BEGIN, int END> void add_beyond(const double *W, const S *wrench, int nodes, S *beyond, S *sum) {
    for (int i = BEGIN; i < END; i++) sum[i] += wrench[i];
    for (int j = 0; j < nodes; j++)
      for (int i = BEGIN; i < END; i++) beyond[18 * j + i] += W[j] * wrench[i];
  }

  void add_body(const Piece &piece, Passed<S> &t, const Frame<S> &f, int body, const double *W, const S *V, const S *J,
                const S *Y, S *IJ, S *IY, Sums &sums) {
    const int m = piece.cols, nodes = piece.nodes, block = 6 * m, before = piece.col;
    const P *numbers = q.body + BODY * body;
    const Spatial<S> I = spatial(f, numbers);
    S wrench[18], N[36], *H = wrench, *G = wrench + 6, *B = wrench + 12;
    momentum(I, V, H);
    load(f, I, q.gravity, numbers + 10, G, second ? N : nullptr);
    if (out.bias) {
      momentum(I, V + 6, B);
      add_cross(V, H, B); // I A + ad*(V) H - G
      add_cross(V + 3, H + 3, B);
      add_cross(V, H + 3, B + 3);
      for (int i = 0; i < 6; i++) B[i] -= G[i];
    }
    if (forced && out.bias) add_beyond<0, 18>(W, wrench, nodes, t.beyond, t.sum);
    else if (forced) add_beyond<0, 12>(W, wrench, nodes, t.beyond, t.sum);
    else if (out.bias) add_beyond<12, 18>(W, wrench, nodes, t.beyond, t.sum);
    if (out.pose) {
      S *to = out.pose + 12 * body;
      std::copy(f.R, f.R + 9, to);
      std::copy(f.x, f.x + 3, to + 9);
    }
    if (out.jacobian) {
      S *to = out.jacobian + 6 * n * body;
      in_own_axes(f, t.still, before, to, n);
      in_own_axes(f, J, m, to + before, n);
      for (int i = 0; i < 6; i++) std::fill(to + i * n + before + m, to + (i + 1) * n, S{});
    }
    if (out.mass || moving) {
      momenta(I, J, m, IJ);
      add_scaled(1.0, IJ, sums.J, block);
      sums.inertia.mass += I.mass;
      add_scaled(1.0, I.first, sums.inertia.first, 3);
      add_scaled(1.0, I.second, sums.inertia.second, 6);
    }
    if (out.mass) add_products(J, m, IJ, m, diagonal(out.mass, before), n);
    if (!second) return;
    add_scaled(1.0, N, sums.N, 36);
    if (moving) {
      momenta(I, Y, m, IY);
      add_scaled(1.0, IY, sums.Y, block);
      add_products(J, m, IY, m, diagonal(out.momentum_by_c, before), n);
      add_products(Y, m, IY, m, diagonal(out.force_by_c, before), n);
    }
    S *NJ = IY;
    std::fill(NJ, NJ + block, S{});
    for (int i = 0; i < 6; i++)
      for (int j = 0; j < 6; j++) {
        add_scaled(N[6 * i + j], J + j * m, NJ + i * m, m);
        add_scaled(N[6 * i + j], J + i * m, sums.NtJ + j * m, m);
      }
    add_products(J, m, NJ, m, diagonal(out.force_by_c, before), n);
    add_scaled(1.0, NJ, sums.NJ, block);
  }

  // The coefficients of the pieces before stand still along this one, so its bodies count together.
  void add_columns_before(const Piece &piece, const Passed<S> &t, const Sums &sums) {
    const int m = piece.cols, b = piece.col;
    Arena<S> own(memory.here());
    S *IJ = own.raw(6 * b), *IY = own.raw(6 * b), *NJ = own.zeros(6 * b);
    const S *J = t.still, *Y = t.still_Y;
    if (out.mass) {
      momenta(sums.inertia, J, b, IJ);
      add_products(J, b, sums.J, m, out.mass + b, n);
      add_products_transposed(J, b, sums.J, m, out.mass + b * n, n);
      add_products(J, b, IJ, b, out.mass, n);
    }
    if (!second) return;
    if (moving) {
      momenta(sums.inertia, Y, b, IY);
      add_products(J, b, sums.Y, m, out.momentum_by_c + b, n);
      add_products(sums.J, m, Y, b, out.momentum_by_c + b * n, n);
      add_products(J, b, IY, b, out.momentum_by_c, n);
      add_products(Y, b, sums.Y, m, out.force_by_c + b, n);
      add_products_transposed(Y, b, sums.Y, m, out.force_by_c + b * n, n);
      add_products(Y, b, IY, b, out.force_by_c, n);
    }
    for (int i = 0; i < 6; i++)
      for (int j = 0; j < 6; j++) add_scaled(sums.N[6 * i + j], J + j * b, NJ + i * b, b);
    add_products(J, b, sums.NJ, m, out.force_by_c + b, n);
    add_products(sums.NtJ, m, J, b, out.force_by_c + b * n, n);
    add_products(J, b, NJ, b, out.force_by_c, n);
  }

  // Back along a piece: what is beyond each node. `beyond`: H, G and B of the pieces after.
  void back(const Piece &piece, Passed<S> &t, S *beyond) {
    const int m = piece.cols, block = 6 * m, b = piece.col;
    Arena<S> own(memory.here());
    S *z = own.raw(block), *zG = own.raw(block);
    for (int l = 0; l < piece.nodes; l++) {
      const S *e = t.unit + block * l, *turning = t.turning + block * l;
      S *H = t.beyond + 18 * l, *G = H + 6, *B = H + 12;
      for (int i = 0; i < 18; i++) H[i] += t.end[l] * beyond[i];
      for (int i = 0; i < 6; i++)
        for (int j = 0; j < m; j++) {
          if (out.momentum) out.momentum[b + j] += e[i * m + j] * H[i];
          if (out.force) out.force[b + j] += turning[i * m + j] * H[i] + e[i * m + j] * G[i];
          if (out.bias) out.bias[b + j] += e[i * m + j] * B[i];
        }
      if (!second) continue;
      const S *J = t.J + block * l, *Y = t.Y + block * l;
      coadjoint_block(e, G, m, zG);
      if (moving) {
        coadjoint_block(e, H, m, z);
        add_products(J, m, z, m, diagonal(out.momentum_by_c, b), n);
        add_products(t.still, b, z, m, out.momentum_by_c + b, n);
        add_products(Y, m, z, m, diagonal(out.force_by_c, b), n);
        add_products(z, m, Y, m, diagonal(out.force_by_c, b), n);
        add_products(t.still_Y, b, z, m, out.force_by_c + b, n);
        add_products_transposed(t.still_Y, b, z, m, out.force_by_c + b * n, n);
      }
      add_products(zG, m, J, m, diagonal(out.force_by_c, b), n);
      add_products(zG, m, t.still, b, out.force_by_c + b * n, n);
    }
    for (int i = 0; i < 18; i++) beyond[i] += t.sum[i];
  }

  void add_inertia() { // it is symmetric
    for (int i = 0; i < n; i++) {
      const P *I = q.inertia + i * n;
      if (out.momentum) add_scaled(v[i], I, out.momentum, n);
      if (out.bias && a) add_scaled(a[i], I, out.bias, n);
      if (out.mass) add_scaled(1.0, I, out.mass + i * n, n);
    }
  }
};

template <class S, class P>
void terms(const Shape &r, const Numbers<P> &q, const S *c, const S *v, const S *a, const Terms<S> &out) {
  Arena<S> memory;
  TermsCall<S, P>(r, q, c, v, a, out, memory.here()).run();
}

// The same with stiffness and damping: the bias is all that holds against M a, and the force all that changes p but what
// drives the rod. In memory that the caller owns, of memory_of(r) scalars.
template <class S, class P>
void dynamics(const Shape &r, const Numbers<P> &q, const S *c, const S *v, const S *a, const Terms<S> &out, S *memory) {
  const int n = r.n;
  TermsCall<S, P>(r, q, c, v, a, out, memory).run();
  for (int i = 0; i < n; i++) {
    S held{};
    if (q.stiffness) held += dot(q.stiffness + i * n, c, n);
    if (q.damping) held += dot(q.damping + i * n, v, n);
    if (out.bias) out.bias[i] += held;
    if (out.force) out.force[i] -= held;
  }
}

} // namespace rod
