// SPDX-License-Identifier: Apache-2.0
// What a rod is: arrays that say where something stands along it, and numbers that may change between two calls.
// arrays.py makes them of a robot's description. The layout is the C interface.
#pragma once

namespace rod {

// A length on which the strain is smooth. Its coefficients are `cols` in a row, beginning with `col`.
struct Piece {
  int col, cols, places, nodes;
  int constant; // the basis and the rest strain do not change along it
};

// Where the rod is looked at: a body, which may be a Gauss node of the piece (its number there, or -1).
struct Place {
  int node;
  double step_m; // from the place before
};

// A Gauss node of the tendons' lengths: its piece, and how many paths run there.
struct PathNode {
  int piece, paths;
};

struct Shape {
  int n;                                      // coefficients
  int pieces, bodies, paths, path_nodes;
  int straight;                               // lengths are linear in the coefficients: `path` is (paths, 1 + n)
  const Piece *piece;
  const Place *place;
  const int *row;                             // which of the six strains a coefficient is, (n,)
  const double *phi;                          // of each place: basis at the three Gauss points of its step, (3, cols)
  const double *at_node;                      // of each node: basis there, (cols,)
  const double *weight;                       // of each place: integral from the piece's start to it by the values at
                                              //   the nodes, (nodes,); behind them 1, and zeros to full eights
  const double *weight_of;                    // the same of eight places of a piece at a time: of each node, (8,)
  const PathNode *path_node;
  const double *path_phi;                     // of each path node: basis there, (cols,)
  const int *path_index;                      // of each path node: which paths, (paths there,)
};

constexpr int BODY = 25, PATH = 6, EIGHT = 8;
constexpr int eights(int count) { return (count + EIGHT - 1) / EIGHT * EIGHT; }

template <class P> struct Numbers {
  const P *gravity;   // (3,), m/s^2
  const P *body;      // (bodies, 25), in the place's axes about its origin: mass, first moment (3), second moment
                      //   xx yy zz xy xz yz; load: point of application, dead force, dead moment (base axes),
                      //   following force, following moment (the place's axes); all (3,)
  const P *inertia;   // (n, n) of what moves with the coefficients alone; null: nothing does
  const P *stiffness; // (n, n)
  const P *damping;   // (n, n)
  const P *rest;      // of each place: strain without load at the three Gauss points of its step, (3, 6), angular first
  const P *path_rest; // of each path node: the same there, (6,)
  const P *path;      // of each path at a path node: weight m, x, y, x', y', and what a path that runs straight from disk
                      //   to disk is shorter by per squared curvature of the backbone, m^2; (6,)
};

// Results; null: not wanted.
template <class S> struct Terms {
  S *momentum;         // p = dT/dv, (n,)
  S *force;            // dL/dc of L = T - V, and loads; without stiffness and damping, (n,)
  S *bias;             // M a + C v - force, (n,); a is zero where no acceleration is given
  S *mass;             // M, (n, n)
  S *momentum_by_c;    // (n, n); with it force_by_c and mass are wanted too
  S *force_by_c;       // (n, n); without momentum_by_c that of a rod at rest
  S *pose;             // of each body: rotation (9) and position (3)
  S *jacobian;         // of each body: twist (linear, angular) in its axes, (6, n)
};

} // namespace rod
