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
  S *beyond;           // momentum H, load G, bias wrench B beyond each node, in its weight; behind them of all bodies;
                       //   (18, stride)
  const double *end;   // weights of the nodes at the piece's end
};

template <class S, class P> class TermsCall {
public:
  TermsCall(const Shape &r, const Numbers<P> &q, const S *c, const S *v, const S *a, const Terms<S> &out, S *&stack)
      : r(r), q(q), c(c), v(v), a(a), out(out), n(r.n), mass(out.mass || out.force_by_c || out.jacobian),
        second(out.force_by_c), moving(out.momentum_by_c), wrenches(second || out.force || out.momentum ? 0 : 12),
        wrenches_end(out.bias ? 18 : 12), memory(stack) {}

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
    weight_of = r.weight_of;
    body = q.body;
    rest = q.rest;
    for (int k = 0; k < r.pieces; k++) forth(r.piece[k], passed[k]);
    S beyond[18] = {};
    for (int k = r.pieces; k-- && wrenches < wrenches_end;) back(r.piece[k], passed[k], beyond);
    if (q.inertia) add_inertia();
  }

private:
  static constexpr int SIZE = (sizeof(Passed<S>) + sizeof(S) - 1) / sizeof(S);
  static constexpr int WIDTH = Pack<S>::width;
  typedef typename Pack<S>::type Places; // so many places of a piece side by side
  typedef typename Pack<S>::real Weights;
  const Shape &r;
  const Numbers<P> &q;
  const S *c, *v, *a;
  const Terms<S> &out;
  const int n;
  const bool mass, second, moving;   // second: derivatives by c; moving: of a rod that moves
  const int wrenches, wrenches_end;  // which of H, G, B are wanted
  Arena<S> memory;
  Passed<S> *passed;
  S *start, *start_Y;                // J and Y at the start of the piece, (6, n)
  S start_V[12] = {};                // twist there, and its rate
  Frame<S> frame;
  int room;                          // of the piece's places
  const Place *place;
  const double *phi, *at_node, *weight, *weight_of;
  const P *body, *rest;

  // Sums over a piece's bodies, for the columns of the pieces before.
  struct Sums {
    S *J, *Y, *N, *NJ, *NtJ; // I J, I Y, the loads' derivative (6, 6), N J and N^T J
    Spatial<S> inertia;
  };

  S *diagonal(S *matrix, int at) { return matrix + at * (n + 1); }

  // With the usual numbers M of coefficients, of bending of order 0 and 2, known to the compiler; 0: any.
  void forth(const Piece &piece, Passed<S> &t) {
    if constexpr (WIDTH > 1) {
      if (piece.cols == 2) return forth<2>(piece, t);
      if (piece.cols == 6) return forth<6>(piece, t);
    }
    forth<0>(piece, t);
  }
  void back(const Piece &piece, Passed<S> &t, S *beyond) {
    if constexpr (WIDTH > 1) {
      if (piece.cols == 2) return back<2>(piece, t, beyond);
      if (piece.cols == 6) return back<6>(piece, t, beyond);
    }
    back<0>(piece, t, beyond);
  }

  // Of a row of weights.
  static int stride(const Piece &piece) { return eights(piece.nodes + 1); }

  // Along a piece, from its start to its end. Arrays of (.., room) hold each number for all its places side by side.
  template <int M> void forth(const Piece &piece, Passed<S> &t) {
    const int m = M ? M : piece.cols, nodes = piece.nodes, block = 6 * m, before = piece.col, last = piece.places - 1;
    room = eights(piece.places);
    S *rate = memory.zeros(12 * nodes); // growth of the twist and of its rate at the nodes
    S *frames = memory.raw(12 * room), *twist = memory.raw(12 * room), *inertia = memory.raw(10 * room);
    int *at_place = reinterpret_cast<int *>(memory.raw(nodes)); // of each node
    t.unit = memory.raw(block * nodes);
    t.turning = memory.raw(block * nodes);
    t.beyond = memory.raw(18 * stride(piece));
    t.end = weight + last * stride(piece);
    follow<M>(piece, t, frames, at_place, rate);
    if (wrenches < wrenches_end) {
      grow(piece, rate, 0, twist); // twists of the nodes are needed before anything at the bodies
      for (int l = 0; l < nodes; l++) {
        S V[6];
        for (int i = 0; i < 6; i++) V[i] = twist[i * room + at_place[l]];
        bracket_block(V, t.unit + block * l, m, t.turning + block * l);
        if (!out.bias) continue;
        add_columns(t.turning + block * l, v + before, m, rate + 12 * l + 6);
        if (a) add_columns(t.unit + block * l, a + before, m, rate + 12 * l + 6);
      }
      if (out.bias) grow(piece, rate, 6, twist);
      for (int i = 0; i < (out.bias ? 12 : 6); i++) start_V[i] = twist[i * room + last];
    }
    if (wrenches < wrenches_end || out.mass) put_bodies(piece, t, frames, twist, inertia);
    for (int s = 0; out.pose && s <= last; s++)
      for (int i = 0; i < 12; i++) out.pose[12 * (place - r.place + s) + i] = frames[i * room + s];
    if (mass) columns<M>(piece, t, frames, inertia);
    place += piece.places;
    body += BODY * piece.places;
    weight += piece.places * stride(piece);
    weight_of += room * nodes;
  }

  // Frames of the places, and at the nodes unit strains in base axes and the twist's growth.
  template <int M> void follow(const Piece &piece, Passed<S> &t, S *frames, int *at_place, S *rate) {
    const int m = M ? M : piece.cols, block = 6 * m, *row = r.row + piece.col;
    const int strained = piece.constant ? 1 : piece.places; // else the first step's strain is that of all
    Arena<S> memory_of_strains(memory.here());
    S *own = memory_of_strains.raw(18 * room), numbers[12 * WIDTH], axis[6];
    for (int s = 0; s < strained; s++)
      for (int g = 0; g < 3; g++) {
        S *to = own + 6 * g * room + s;
        for (int i = 0; i < 6; i++) to[i * room] = S{} + rest[18 * s + 6 * g + i];
        for (int j = 0; j < m; j++) to[row[j] * room] += phi[(3 * s + g) * m + j] * c[piece.col + j];
      }
    if (!piece.constant) fill(own, 18, piece.places, room);
    rest += 18 * piece.places;
    phi += 3 * m * piece.places;
    Places strain[18], twist[6];
    Weights step_m;
    Frame<S> step;
    if (piece.constant)
      for (int i = 0; i < 18; i++) strain[i] = Places{} + own[i * room];
    for (int s = 0, l = 0; s < piece.places; s += WIDTH) {
      const int here = std::min(WIDTH, piece.places - s);
      if constexpr (WIDTH == 1) step_m = place[s].step_m;
      else step_m = gathered<Weights>([&](int k) { return place[s + std::min(k, here - 1)].step_m; });
      for (int i = 0; i < 18 && !piece.constant; i++) strain[i] = packed<Places>(own + i * room + s);
      magnus(strain, step_m, piece.constant, twist);
      const Frame<Places> steps = exponential(twist);
      for (int i = 0; i < 9; i++) unpack(steps.R[i], numbers + i * WIDTH);
      for (int i = 0; i < 3; i++) unpack(steps.x[i], numbers + (9 + i) * WIDTH);
      for (int k = 0; k < here; k++) {
        for (int i = 0; i < 9; i++) step.R[i] = numbers[i * WIDTH + k];
        for (int i = 0; i < 3; i++) step.x[i] = numbers[(9 + i) * WIDTH + k];
        advance(frame, step);
        for (int i = 0; i < 9; i++) frames[i * room + s + k] = frame.R[i];
        for (int i = 0; i < 3; i++) frames[(9 + i) * room + s + k] = frame.x[i];
        if (place[s + k].node < 0) continue;
        S *e = t.unit + block * l;
        for (int j = 0; j < m; j++) {
          unit_strain(frame, row[j], axis);
          for (int i = 0; i < 6; i++) e[i * m + j] = at_node[j] * axis[i];
        }
        add_columns(e, v + piece.col, m, rate + 12 * l);
        at_node += m;
        at_place[l++] = s + k;
      }
    }
    fill(frames, 12, piece.places, room);
  }

  // Six numbers of the twist and its rate (12, room), from number `first` on, that grow along a piece.
  void grow(const Piece &piece, const S *rate, int first, S *twist) {
    for (int s = 0; s < piece.places; s += WIDTH) {
      const double *W = weight_of + s / EIGHT * EIGHT * piece.nodes + s % EIGHT;
      Places sum[6];
      for (int i = 0; i < 6; i++) sum[i] = Places{} + start_V[first + i];
      for (int j = 0; j < piece.nodes; j++) {
        const Weights w = packed<Weights>(W + j * EIGHT);
        for (int i = 0; i < 6; i++) sum[i] += w * rate[12 * j + first + i];
      }
      for (int i = 0; i < 6; i++) unpack(sum[i], twist + (first + i) * room + s);
    }
  }

  // Inertia (10, room) of all bodies, and the wrenches that they make beyond the nodes.
  void put_bodies(const Piece &piece, Passed<S> &t, const S *frames, const S *twist, S *inertia) {
    Arena<S> own(memory.here());
    S *wrench = own.raw(18 * room);
    for (int s = 0; s < piece.places; s += WIDTH) {
      Frame<Places> f;
      for (int i = 0; i < 9; i++) f.R[i] = packed<Places>(frames + i * room + s);
      for (int i = 0; i < 3; i++) f.x[i] = packed<Places>(frames + (9 + i) * room + s);
      const P *numbers = body + BODY * s;
      const int most = std::min(WIDTH, piece.places - s) - 1; // what is beyond the piece's end repeats the last
      bool loaded = false;
      for (int k = 0; k <= most; k++) loaded |= carries(numbers + BODY * k);
      if constexpr (WIDTH == 1) put_bodies(f, numbers, loaded, twist + s, wrench + s, inertia + s);
      else {
        Places side[BODY];
        for (int i = 0; i < (loaded ? BODY : 10); i++)
          side[i] = gathered<Places>([&](int k) { return numbers[BODY * std::min(k, most) + i]; });
        put_bodies(f, side, loaded, twist + s, wrench + s, inertia + s);
      }
    }
    add_beyond(piece, wrench + wrenches * room, t);
  }

  // The same of as many as stand side by side.
  template <class N>
  void put_bodies(const Frame<Places> &f, const N *numbers, bool loaded, const S *twist, S *wrench, S *inertia) {
    const Spatial<Places> I = spatial(f, numbers);
    if (mass) {
      unpack(I.mass, inertia);
      for (int i = 0; i < 3; i++) unpack(I.first[i], inertia + (1 + i) * room);
      for (int i = 0; i < 6; i++) unpack(I.second[i], inertia + (4 + i) * room);
    }
    if (wrenches == wrenches_end) return;
    Places V[12], all[18], *H = all, *G = all + 6, *B = all + 12;
    for (int i = 0; i < (out.bias ? 12 : 6); i++) V[i] = packed<Places>(twist + i * room);
    momentum(I, V, H);
    load(f, I, q.gravity, loaded ? numbers + 10 : nullptr, G);
    if (out.bias) {
      momentum(I, V + 6, B);
      add_cross(V, H, B); // I A + ad*(V) H - G
      add_cross(V + 3, H + 3, B);
      add_cross(V, H + 3, B + 3);
      for (int i = 0; i < 6; i++) B[i] -= G[i];
    }
    for (int i = wrenches; i < wrenches_end; i++) unpack(all[i], wrench + i * room);
  }

  static bool carries(const P *numbers) { return !vanish(numbers + 13, BODY - 13); } // a load

  // What is beyond the nodes: H, G and B, or those of them that are wanted, of all bodies of a piece.
  void add_beyond(const Piece &piece, const S *wrench, Passed<S> &t) {
    for (int i = wrenches; i < wrenches_end; i++, wrench += room)
      for (int l = 0; l <= piece.nodes; l += EIGHT) {
        const double *W = weight + l;
        Places at[EIGHT / WIDTH] = {};
        for (int s = 0; s < piece.places; s++, W += stride(piece))
          for (int k = 0; k < EIGHT / WIDTH; k++) at[k] += packed<Weights>(W + k * WIDTH) * wrench[s];
        for (int k = 0; k < EIGHT / WIDTH; k++) unpack(at[k], t.beyond + i * stride(piece) + l + k * WIDTH);
      }
  }

  // The last place repeated to where the next full number of them would be.
  static void fill(S *numbers, int count, int places, int room) {
    for (int i = 0; i < count; i++)
      for (int s = places; s % WIDTH; s++) numbers[i * room + s] = numbers[i * room + places - 1];
  }

  // What grows along a piece, at place s of it: x = x0 + sum_l W_sl y_l.
  void at(const S *x0, const S *y, int count, const double *W, int nodes, S *x) {
    std::copy(x0, x0 + count, x);
    for (int j = 0; j < nodes; j++) add_scaled(W[j], y + j * count, x, count);
  }

  // Jacobians along a piece, and what they make of the bodies.
  template <int M> void columns(const Piece &piece, Passed<S> &t, const S *frames, const S *inertia) {
    const int m = M ? M : piece.cols, nodes = piece.nodes, block = 6 * m, before = piece.col;
    t.J = second ? memory.raw(block * nodes) : nullptr;
    t.Y = moving ? memory.raw(block * nodes) : nullptr;
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
    for (int s = 0; s < piece.places; s++) {
      const double *W = weight + s * stride(piece);
      at(first, t.unit, block, W, nodes, J);
      if (moving) at(first_Y, t.turning, block, W, nodes, Y);
      if (second && place[s].node >= 0) {
        std::copy(J, J + block, t.J + block * place[s].node);
        if (moving) std::copy(Y, Y + block, t.Y + block * place[s].node);
      }
      Frame<S> f;
      for (int i = 0; i < 9; i++) f.R[i] = frames[i * room + s];
      for (int i = 0; i < 3; i++) f.x[i] = frames[(9 + i) * room + s];
      if (out.jacobian) {
        S *to = out.jacobian + 6 * n * (place - r.place + s);
        in_own_axes(f, t.still, before, to, n);
        in_own_axes(f, J, m, to + before, n);
        for (int i = 0; i < 6; i++) std::fill(to + i * n + before + m, to + (i + 1) * n, S{});
      }
      if (!out.mass && !second) continue;
      Spatial<S> I;
      I.mass = inertia[s];
      for (int i = 0; i < 3; i++) I.first[i] = inertia[(1 + i) * room + s];
      for (int i = 0; i < 6; i++) I.second[i] = inertia[(4 + i) * room + s];
      add_body<M>(piece, f, I, body + BODY * s, J, Y, IJ, IY, sums);
    }
    for (int i = 0; i < 6; i++) {
      std::copy(J + i * m, J + (i + 1) * m, start + i * n + before);
      if (moving) std::copy(Y + i * m, Y + (i + 1) * m, start_Y + i * n + before);
    }
    if (before && (out.mass || second)) add_columns_before(piece, t, sums);
  }

  template <int M>
  void add_body(const Piece &piece, const Frame<S> &f, const Spatial<S> &I, const P *numbers, const S *J, const S *Y,
                S *IJ, S *IY, Sums &sums) {
    const int m = M ? M : piece.cols, block = 6 * m, before = piece.col;
    if (out.mass || moving) {
      momenta(I, J, m, IJ);
      add_scaled(1.0, IJ, sums.J, block);
      sums.inertia.mass += I.mass;
      add_scaled(1.0, I.first, sums.inertia.first, 3);
      add_scaled(1.0, I.second, sums.inertia.second, 6);
    }
    if (out.mass) add_products(J, m, IJ, m, diagonal(out.mass, before), n);
    if (!second) return;
    S N[36];
    load_by_twist(f, I, q.gravity, carries(numbers) ? numbers + 10 : nullptr, N);
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
  template <int M> void back(const Piece &piece, Passed<S> &t, S *beyond) {
    const int m = M ? M : piece.cols, block = 6 * m, b = piece.col;
    Arena<S> own(memory.here());
    S *z = own.raw(block), *zG = own.raw(block), H[18], *G = H + 6, *B = H + 12;
    for (int l = 0; l < piece.nodes; l++) {
      const S *e = t.unit + block * l, *turning = t.turning + block * l;
      for (int i = wrenches; i < wrenches_end; i++) H[i] = t.beyond[i * stride(piece) + l] + t.end[l] * beyond[i];
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
    for (int i = wrenches; i < wrenches_end; i++) beyond[i] += t.beyond[i * stride(piece) + piece.nodes];
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
