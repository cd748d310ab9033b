// SPDX-License-Identifier: Apache-2.0
// A rod whose servos hold its tendons, from one reading to the next: the equilibrium with the memory of dry friction,
// and its derivatives by all parameters, by the implicit function theorem.
#pragma once
#include "statics.hpp"

namespace rod {

// N tendons; P parameters: `paths` directions of the paths' numbers, `stiffnesses` of the stiffness matrix, 3 of
// gravity, and of each tendon the logarithm of its stiffness, its zero, gain, and fraction of friction. The state is
// read and written.
struct Held {
  int paths, stiffnesses, conservative;
  const double *tendon;            // stiffness (N/m), zero (m), gain, fraction, stiffness of stuck friction, (5, N)
  const double *rest;              // lengths of the straight rod, (N,), m
  const Dual<double, 1> *path;     // numbers of the paths with their slopes along each direction, (paths, their size)
  const Dual<double, 1> *path_rest;
  const double *straight;          // slopes of the straight rod's lengths, (paths, N); null: no derivatives
  const double *stiffness_by;      // (stiffnesses, n, n)
  const double *point;             // of the tip's frame, (3,), m
  double *c, *reading;             // (n,), (N,): those before; without friction c is the guess for the first
  double *hessian, *gradient;      // (n, n), (N, n)
  double *shorter, *tension;       // paths, m, and tensions of the servos, N; (N,)
  double *pull, *anchor;           // tensions in the robot, N, and where friction is 0, m; (N,)
  double *by;                      // derivatives of the paths, of the anchors, of friction's limits, (3, N, P)
  double *tip;                     // (12,)
  double *point_by;                // of the point in the base frame, (3, P)
};

class HeldStep {
public:
  HeldStep(const Shape &r, const Numbers<double> &q, const double *scale, const Held &w)
      : r(r), q(q), scale(scale), w(w), n(r.n), N(r.paths), P(w.paths + w.stiffnesses + 3 + 4 * N),
        stiffness(w.tendon), zero(stiffness + N), gain(zero + N), fraction(gain + N), stick(fraction + N),
        force(memory.zeros(n)), length(memory.raw(N)), pose(memory.raw(12 * r.bodies)),
        jacobian(w.straight ? memory.raw(6 * n * r.bodies) : nullptr), wound(memory.raw(N)), none(memory.zeros(N)),
        stops(memory.raw(3 * N)) {}

  // Scalars of the arena, besides those of an equilibrium and of lengths with slopes.
  static std::size_t memory_of(const Shape &r, const Held &w) {
    const std::size_t n = r.n, N = r.paths, P = w.paths + w.stiffnesses + 3 + 4 * N;
    return 64 + n * (P + 5 * n + 8) + N * (10 + w.paths * (n + 1)) + r.bodies * (12 + 6 * n);
  }

  // To a reading; the first has no past, and no friction. 0 where Newton's method fails: it may be called again with
  // another guess in c.
  int run(const double *reading, bool first) {
    double *limit = stops + 2 * N, *before = memory.raw(n);
    bool rubs = false;
    for (int j = 0; j < N; j++) {
      wound[j] = gain[j] * reading[j] + zero[j];
      stops[j] = stick[j], stops[N + j] = w.anchor[j], limit[j] = first ? 0.0 : fraction[j] * w.tension[j];
      rubs |= !first && fraction[j] > 0;
    }
    const Pull<double> pull{none, stiffness, wound, w.rest, rubs ? stops : nullptr};
    AtRest at{w.hessian, force, length, w.pull, w.gradient, pose, jacobian, 0};
    Equilibrium search(r, q, scale, pull, at);
    std::copy(w.c, w.c + n, before);
    bool found = false, ahead = !first && predict(reading);
    std::copy(reading, reading + N, w.reading);
    for (;; ahead = false) {
      for (int again = 0; again < 2 && !found; again++) {
        if (search.run(w.c, w.conservative, 1e-5, 40) <= 0) break;
        found = residual() < 1e-9;
      }
      if (found) break;
      std::copy(before, before + n, w.c);
      if (!ahead) return 0;
    }
    double *taut = memory.raw(N), *stuck = memory.zeros(N), *slides = memory.zeros(N);
    for (int j = 0; j < N; j++) {
      w.shorter[j] = w.rest[j] - length[j];
      const double stretch = wound[j] - w.shorter[j], elastic = stick[j] * (w.shorter[j] - w.anchor[j]);
      taut[j] = stretch > 0 ? stiffness[j] : 0.0;
      w.tension[j] = taut[j] * stretch;
      if (std::fabs(elastic) < limit[j]) stuck[j] = stick[j];
      else if (limit[j] > 0) slides[j] = elastic > 0 ? 1.0 : -1.0;
    }
    std::copy(pose + 12 * (r.bodies - 1), pose + 12 * r.bodies, w.tip);
    if (w.straight) differentiate(taut, stuck, slides, limit, first);
    for (int j = 0; j < N; j++) { // rod/friction/dry.py
      const double reach = limit[j] / stick[j];
      w.anchor[j] = std::min(std::max(w.anchor[j], w.shorter[j] - reach), w.shorter[j] + reach);
    }
    if (first) std::copy(w.shorter, w.shorter + N, w.anchor);
    return 1;
  }

private:
  // c goes on along the tangent of taut tendons, where that is near, by the last `hessian` and `gradient`.
  bool predict(const double *reading) {
    double *step = memory.zeros(n), *matrix = memory.raw(n * n), far = 0;
    for (int j = 0; j < N; j++)
      if (w.tension[j] > 0)
        add_scaled(-stiffness[j] * gain[j] * (reading[j] - w.reading[j]), w.gradient + j * n, step, n);
    std::copy(w.hessian, w.hessian + n * n, matrix);
    if (!factor(matrix, n)) return false;
    solve(matrix, n, step);
    for (int i = 0; i < n; i++) far += std::fabs(scale[i] * step[i]);
    if (!(0 < far && far < 0.5)) return false;
    add_scaled(1.0, step, w.c, n);
    return true;
  }

  // Angle or stretch that the force out of balance would cause on the elastic rod alone.
  double residual() {
    double *matrix = memory.raw(n * n), *step = memory.raw(n), sum = 0;
    std::copy(q.stiffness, q.stiffness + n * n, matrix);
    std::copy(force, force + n, step);
    if (!factor(matrix, n)) return 1e300;
    solve(matrix, n, step);
    for (int i = 0; i < n; i++) sum += scale[i] * step[i] * scale[i] * step[i];
    return std::sqrt(sum);
  }

  // H dc/dp = dF/dp at fixed c, where friction that sticks has its anchor's derivative, and what slides its limit's.
  void differentiate(const double *taut, const double *stuck, const double *slides, const double *limit, bool first) {
    double *rows = memory.zeros(P * n), *by_path = w.by, *by_anchor = by_path + N * P, *by_limit = by_anchor + N * P;
    double *direct = memory.zeros(w.paths * N); // of the paths at fixed c
    double *row = rows;
    for (int k = 0; k < w.paths; k++, row += n) path_row(k, taut, stuck, direct + k * N, row);
    for (int k = 0; k < w.stiffnesses; k++, row += n)
      for (int i = 0; i < n; i++) row[i] = -dot(w.stiffness_by + (k * n + i) * n, w.c, n);
    for (int k = 0; k < 3; k++, row += n) weight_row(k, row);
    const int of_tendons = w.paths + w.stiffnesses + 3;
    for (int j = 0; j < N; j++) {
      const double *G = w.gradient + j * n, *anchored = by_anchor + j * P, *limited = by_limit + j * P;
      add_scaled(stuck[j] * (w.shorter[j] - w.anchor[j]) - w.tension[j], G, row + j * n, n);
      add_scaled(-taut[j], G, row + (N + j) * n, n);
      add_scaled(-taut[j] * w.reading[j], G, row + (2 * N + j) * n, n);
      for (int p = 0; p < P && !first; p++)
        add_scaled(slides[j] * limited[p] - stuck[j] * anchored[p], G, rows + p * n, n);
    }
    double *matrix = memory.raw(n * n);
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++)
        matrix[i * n + j] = w.conservative ? 0.5 * (w.hessian[i * n + j] + w.hessian[j * n + i]) : w.hessian[i * n + j];
    factor(matrix, n);
    for (int p = 0; p < P; p++) solve(matrix, n, rows + p * n);
    for (int j = 0; j < N; j++)
      for (int p = 0; p < P; p++)
        by_path[j * P + p] = (p < w.paths ? direct[p * N + j] : 0.0) - dot(w.gradient + j * n, rows + p * n, n);
    for (int j = 0; j < N; j++) {
      double *path = by_path + j * P, *anchored = by_anchor + j * P, *limited = by_limit + j * P;
      if (first) std::copy(path, path + P, anchored);
      else if (stuck[j] == 0) { // an anchor that slid follows the path at F / k
        for (int p = 0; p < P; p++) anchored[p] = path[p] - slides[j] / stick[j] * limited[p];
        anchored[of_tendons + j] += slides[j] / stick[j] * limit[j];
      }
      for (int p = 0; p < P; p++) limited[p] = -taut[j] * path[p]; // the next step's limit: fraction times tension
      limited[of_tendons + j] += w.tension[j];
      limited[of_tendons + N + j] += taut[j];
      limited[of_tendons + 2 * N + j] += taut[j] * w.reading[j];
      for (int p = 0; p < P; p++) limited[p] *= fraction[j];
      limited[of_tendons + 3 * N + j] += w.tension[j];
    }
    shown(rows);
  }

  // dF/dp and the paths' derivative along a direction of the paths' numbers.
  void path_row(int k, const double *taut, const double *stuck, double *direct, double *row) {
    typedef Dual<double, 1> Slope;
    Arena<Slope> own;
    Slope *c = own.raw(n), *l = own.raw(N), *l_c = own.raw(N * n);
    for (int i = 0; i < n; i++) c[i] = {w.c[i], {0}};
    int size = 0;
    for (int i = 0; i < r.path_nodes; i++) size += PATH * r.path_node[i].paths;
    Numbers<Slope> numbers{};
    numbers.path = w.path + k * size, numbers.path_rest = w.path_rest;
    lengths<Slope, Slope>(r, numbers, c, nullptr, l, l_c, nullptr);
    for (int j = 0; j < N; j++) {
      direct[j] = w.straight[k * N + j] - l[j].slope[0];
      for (int i = 0; i < n; i++)
        row[i] += (taut[j] + stuck[j]) * direct[j] * w.gradient[j * n + i] - w.pull[j] * l_c[j * n + i].slope[0];
    }
  }

  // The force of all bodies' weight in a gravity of 1 along an axis.
  void weight_row(int axis, double *row) {
    for (int k = 0; k < r.bodies; k++) {
      const double *body = q.body + BODY * k, *R = pose + 12 * k + 3 * axis, *J = jacobian + 6 * n * k;
      const double s[3] = {body[1], body[2], body[3]}; // a twist (v, w) moves the mass by m v + w x s
      for (int i = 0; i < 3; i++) {
        add_scaled(R[i] * body[0], J + i * n, row, n);
        const int a = (i + 1) % 3, b = (i + 2) % 3;
        add_scaled(R[i] * s[b], J + (3 + a) * n, row, n);
        add_scaled(-R[i] * s[a], J + (3 + b) * n, row, n);
      }
    }
  }

  void shown(const double *slope) { // R (J_v + J_w x point) dc/dp
    const double *J = jacobian + 6 * n * (r.bodies - 1), *R = w.tip, *y = w.point;
    for (int p = 0; p < P; p++) {
      double v[3], turn[3];
      for (int i = 0; i < 3; i++) {
        v[i] = dot(J + i * n, slope + p * n, n);
        turn[i] = dot(J + (3 + i) * n, slope + p * n, n);
      }
      add_cross(turn, y, v);
      for (int i = 0; i < 3; i++) w.point_by[i * P + p] = dot(R + 3 * i, v, 3);
    }
  }

  const Shape &r;
  const Numbers<double> &q;
  const double *scale;
  const Held &w;
  const int n, N, P;
  Arena<double> memory;
  const double *stiffness, *zero, *gain, *fraction, *stick;
  double *force, *length, *pose, *jacobian, *wound, *none, *stops;
};

} // namespace rod
