// SPDX-License-Identifier: Apache-2.0
// A rod that moves with its tendons, their spools and motors, capstans and what touches it, all in one implicit stage.
// Tendons are springs and dampers that only pull. Each spool is solved for by itself, two of one capstan together, so
// that the rod sees tensions and their slopes.
#pragma once
#include "functions.hpp"
#include "motion.hpp"
#include <memory>
#include <vector>

namespace rod {

// A motor with its spool, seen from the tendon: simulation/motors.py. The layout is the C interface.
struct Motor {
  double newton_per_ampere, mass, viscous, coulomb;     // mass kg, N.s/m, N
  double cogging, cogging_rad_per_m;                    // N, rad/m
  double servo_stiffness, servo_damping, no_load_speed; // of a position loop, N/m, N.s/m, m/s; 0: it takes currents
};

// What tendons and motors have in common, and each motor. The layout is the C interface.
struct Spool {
  int turns, elements; // whether tendons have springs and spools (else tensions are given); elements of dry friction
  double stiffness, stiffening, damping; // of a tendon: N/m, 1/N, N.s/m
  double creep, current_time_constant;   // speed below which friction fades, m/s; s
  const Motor *motor;                    // (N,)
  const double *reach, *slip; // of each element: travel to where it slides, m; stiffness, (elements, N), N/m
};

struct Capstan {
  int pulled, released;                      // its tendons
  double path_per_radian, radius, strands;   // m, m
};

// What a step takes as given; (N,) of the tendons unless stated.
struct Drive {
  const double *desired;  // currents, A, or tensions, N; of servos positions, m, NaN: torque off
  const double *force;    // more generalised force, (n,)
  const double *offset;   // additional length, m
  const double *fraction; // of a tendon's stiffness that is there
  const double *free;     // whether a motor turns
  const double *phase;    // of the cogging, rad
  const double *anchors;  // of dry friction, (elements, N), m
  const double *lost;     // fraction of their tension that a capstan's pulled and released wire lose, (capstans, 2)
  const double *capstan;  // speed of each capstan by the coefficients' rates, (capstans, n)
  const double *touching; // c at which these are taken, (n,); of each surface: gap (m), stiffness (N/m), dissipation
                          //   (s/m), friction, gradient of the gap (n,), of the slip (2, n): simulation/contact.py
  const double *largest;  // currents of servos, A
  const double *stops;    // dry friction of the tendons' paths, of `Pull`, (3, N); null: none
};

struct State {
  double *c, *v, *momentum;                 // (n,)
  double *spooled, *speed, *current, *tension; // (N,)
};

constexpr double TANH_PER_RADIAN = 10.0, SLIP_SPEED = 0.01; // johnston below (37); m/s
constexpr double SPOOL_TOLERANCE = 1e-11;                   // m/s

// Tension, and its slopes by stretch and by the stretch's rate.
struct Tension {
  double value, stiffness, damping;
};

inline Tension tension_of(const Spool &s, double stretch, double rate, double fraction) {
  double pull = s.stiffness * stretch, slope = s.stiffness;
  if (s.stiffening > 0) { // dT/ds = k (1 + a T) is T = (exp(a k s) - 1) / a
    const double e = exponential(s.stiffening * pull);
    pull = (e - 1) / s.stiffening;
    slope *= e;
  }
  pull += s.damping * rate;
  if (pull < 0) return {0, 0, 0};
  return {fraction * pull, fraction * slope, fraction * s.damping};
}

class Driven {
public:
  template <class Memory>
  Driven(const Shape &r, const Numbers<double> &q, const Spool &spool, int capstans, const Capstan *capstan,
         int surfaces, const Drive &drive, const State &state, const double *slack, Memory &memory)
      : r(r), q(q), spool(spool), capstans(capstans), surfaces(surfaces), n(r.n), N(r.paths), capstan(capstan),
        drive(drive), state(state), slack(slack), rows(N + capstans + 3 * surfaces), length(memory.zeros(N)),
        gradient(memory.zeros(N * n)), rate(memory.zeros(N)), base_x(memory.zeros(N)), base_w(memory.zeros(N)),
        x(memory.zeros(N)), w(memory.zeros(N)), current(memory.zeros(N)), tension(memory.zeros(N)),
        felt(memory.zeros(N)), weight(memory.zeros(rows)), known(memory.zeros(rows)),
        direction(new const double *[rows + 1]), paired(new char[N + 1]()) {
    for (int j = 0; j < N; j++) direction[j] = gradient + j * n;
    for (int k = 0; k < capstans; k++) {
      paired[capstan[k].pulled] = paired[capstan[k].released] = spool.turns;
      direction[N + k] = drive.capstan + k * n;
    }
    for (int k = 0; k < surfaces; k++)
      for (int i = 0; i < 3; i++) direction[N + capstans + 3 * k + i] = surface(k) + 4 + i * n;
  }

  // Before a stage of length g that ends `after` the step's beginning; the second one goes on `on` times as far as the
  // first has come.
  void stage(int k, double g_now, double after, double on) {
    g = g_now;
    for (int j = 0; j < N; j++) {
      base_x[j] = state.spooled[j] + (k ? on * (x[j] - state.spooled[j]) : 0);
      base_w[j] = drive.free[j] * (state.speed[j] + (k ? on * (w[j] - state.speed[j]) : 0));
      current[j] = state.current[j];
      if (spool.turns && !servos()) // the lag is integrated exactly
        current[j] = drive.desired[j] +
                     (state.current[j] - drive.desired[j]) * exponential(-after / spool.current_time_constant);
    }
  }

  // Terms with the whole force.
  void operator()(const double *c, const double *v, const Terms<double> &out) {
    terms<double, double>(r, q, c, v, nullptr, out);
    for (int i = 0; i < n; i++) out.force[i] += drive.force[i];
    for (int i = 0; i < n; i++) { // both are symmetric
      add_scaled(-c[i], q.stiffness + i * n, out.force, n);
      add_scaled(-v[i], q.damping + i * n, out.force, n);
    }
    if (out.force_by_c) add_scaled(-1.0, q.stiffness, out.force_by_c, n * n);
    std::fill(weight, weight + rows, 0.0);
    if (N) {
      lengths<double, double>(r, q, c, nullptr, length, gradient, nullptr);
      for (int j = 0; j < N; j++) rate[j] = dot(gradient + j * n, v, n);
      pull();
      for (int j = 0; j < N; j++) felt[j] = tension[j] - rubbed(j);
      if (out.force_by_c && !r.straight) lengths<double, double>(r, q, c, felt, length, gradient, out.force_by_c);
      for (int j = 0; j < N; j++) add_scaled(-felt[j], gradient + j * n, out.force, n);
      if (!spool.turns) brake(v, out.force);
    }
    touch(c, v, out.force);
    if (!out.force_by_c) return;
    for (int k = 0; k < rows; k++) {
      known[k] = weight[k];
      for (int i = 0; i < n && weight[k] != 0; i++)
        add_scaled(-weight[k] / g * direction[k][i], direction[k], out.force_by_c + i * n, n);
    }
  }

  void follow(double, const double *change, double *p) const {
    resist(n, q, g, change, p);
    for (int k = 0; k < rows; k++)
      if (weight[k] != 0) add_scaled(-(weight[k] * dot(direction[k], change, n)), direction[k], p, n);
  }

  // Tell the stage's matrix where tendons have become slack or tight, dry friction stuck or sliding, surfaces touched.
  template <class Stage> bool changed(Stage &stage) {
    bool any = false;
    for (int k = 0; k < rows; k++) {
      const double change = weight[k] - known[k];
      if (std::abs(change) <= 0.2 * std::max(weight[k], known[k])) continue;
      stage.add(direction[k], change);
      known[k] = weight[k];
      any = true;
    }
    return any;
  }

  // Take the state to the step's end, of which the last stage was `fraction`.
  void finish(double h, double fraction) {
    for (int j = 0; j < N; j++) {
      state.spooled[j] += (x[j] - state.spooled[j]) / fraction;
      state.speed[j] = drive.free[j] * (state.speed[j] + (w[j] - state.speed[j]) / fraction);
      state.tension[j] = tension[j];
      if (servos()) {
        double slope;
        state.current[j] = held(j, x[j], w[j], slope) / spool.motor[j].newton_per_ampere;
      } else if (spool.turns)
        state.current[j] = drive.desired[j] + (state.current[j] - drive.desired[j]) *
                                                  exponential(-h / spool.current_time_constant);
    }
  }

  void reset() {
    std::copy(state.speed, state.speed + N, w);
    std::copy(state.spooled, state.spooled + N, x);
  }

private:
  const Shape &r;
  const Numbers<double> &q;
  const Spool spool;
  const int capstans, surfaces, n, N;
  const Capstan *capstan;
  const Drive drive;
  const State state;
  const double *slack;
  const int rows; // directions in which something springy resists: tendons, capstans, surfaces
  double g = 0;
  double *length, *gradient, *rate, *base_x, *base_w, *x, *w, *current, *tension, *felt, *weight, *known;
  std::unique_ptr<const double *[]> direction;
  std::unique_ptr<char[]> paired;

  const double *surface(int k) const { return drive.touching + n + k * (4 + 3 * n); }

  // Tension that dry friction takes up on a tendon's way through the rod: Prandtl's stop, as in `pulled`.
  double rubbed(int j) {
    if (!drive.stops) return 0;
    const double k = drive.stops[j], limit = drive.stops[2 * N + j];
    const double elastic = k * (slack[j] - length[j] - drive.stops[N + j]);
    if (std::abs(elastic) < limit) weight[j] += k * g;
    return std::min(std::max(elastic, -limit), limit);
  }

  Tension at(int j, double speed) const {
    const double stretch = length[j] - slack[j] + base_x[j] + g * speed - drive.offset[j];
    return tension_of(spool, stretch, rate[j] + speed, drive.fraction[j]);
  }

  bool servos() const { return spool.motor && spool.motor->servo_stiffness > 0; } // all or none

  // Force of a servo's position loop, and how fast it falls with the speed at the end of the stage:
  // `PositionLoop.force` of simulation/motors.py.
  double held(int j, double position, double speed, double &falls) const {
    falls = 0;
    if (std::isnan(drive.desired[j])) return 0;
    const Motor &one = spool.motor[j];
    const double most = drive.largest[j] * one.newton_per_ampere, slower = most / one.no_load_speed;
    const double wanted = one.servo_stiffness * (drive.desired[j] - position) - one.servo_damping * speed;
    const double up = std::min(most - slower * std::max(speed, 0.0), most);
    const double down = std::max(-most - slower * std::min(speed, 0.0), -most);
    if (wanted > up) {
      falls = up > -most && up < most ? slower : 0;
      return std::max(up, -most);
    }
    if (wanted < down) {
      falls = down > -most && down < most ? slower : 0;
      return std::min(down, most);
    }
    falls = one.servo_stiffness * g + one.servo_damping;
    return wanted;
  }

  // What of speed - base - g acceleration is due to motor, inertia and friction, and its slope by the speed; N.s. The
  // tension and what a capstan adds to it come on top, times g.
  void motor(int j, double speed, double &value, double &slope) const {
    const Motor &one = spool.motor[j];
    const double at = base_x[j] + g * speed;
    double dry, dry_slope;
    if (spool.elements) {
      dry = dry_slope = 0;
      for (int e = 0; e < spool.elements; e++) {
        const double away = at - drive.anchors[e * N + j], reach = spool.reach[e], slip = spool.slip[e * N + j];
        dry += slip * std::min(std::max(away, -reach), reach);
        if (away > -reach && away < reach) dry_slope += slip * g;
      }
    } else {
      const double t = tangent(speed / spool.creep);
      dry = one.coulomb * t;
      dry_slope = one.coulomb * (1 - t * t) / spool.creep;
    }
    double falls = 0, driving = servos() ? held(j, at, speed, falls) : one.newton_per_ampere * current[j];
    double sine = 0, cosine = 0;
    if (one.cogging != 0) sine_cosine(one.cogging_rad_per_m * at + drive.phase[j], sine, cosine);
    value = one.mass * (speed - base_w[j]) - g * (driving - one.viscous * speed - dry - one.cogging * sine);
    slope = one.mass + g * (falls + one.viscous + dry_slope + one.cogging * one.cogging_rad_per_m * g * cosine);
  }

  void pull() {
    for (int j = 0; j < N; j++) {
      if (!spool.turns) {
        x[j] = base_x[j];
        tension[j] = drive.fraction[j] * drive.desired[j];
      } else if (!paired[j] || drive.free[j] == 0) turn(j);
    }
    for (int k = 0; k < capstans && spool.turns; k++) {
      const int p = capstan[k].pulled, q = capstan[k].released;
      if (drive.free[p] == 0 || drive.free[q] == 0) { // friction of a capstan that turns by half: each by itself
        for (int j : {p, q})
          if (drive.free[j] != 0) turn(j);
      } else turn(capstan[k], drive.lost + 2 * k);
    }
  }

  // How the rod feels a tendon: its tension's slope by the path's length, and by the length's rate times 1 / g. `yield`
  // is how far the spool gives way, m/s, to a newton.
  void settle(int j, const Tension &T, double yield) {
    x[j] = base_x[j] + g * w[j];
    tension[j] = T.value;
    const double held = 1 - (T.stiffness * g + T.damping) * yield;
    weight[j] = held * (T.stiffness * g + T.damping);
  }

  // The speed of one spool, by Newton's method within the bracket that it finds.
  void turn(int j) {
    if (drive.free[j] == 0) {
      w[j] = 0;
      settle(j, at(j, 0), 0);
      return;
    }
    double low = -1e300, high = 1e300, slope = 1;
    Tension T{};
    for (int iteration = 0; iteration < 60; iteration++) {
      double value;
      T = at(j, w[j]);
      motor(j, w[j], value, slope);
      value += g * T.value;
      slope += g * (T.stiffness * g + T.damping);
      (value > 0 ? high : low) = w[j];
      double step = -value / (slope > 0 ? slope : spool.motor[j].mass);
      if (low > -1e300 && high < 1e300 && !(w[j] + step > low && w[j] + step < high)) step = (low + high) / 2 - w[j];
      w[j] += step;
      if (std::abs(step) <= SPOOL_TOLERANCE * (1 + std::abs(w[j]))) break;
    }
    settle(j, T, g / slope);
  }

  // The speeds of both spools of a capstan, whose wires rub in the disks: johnston (32)-(37).
  void turn(const Capstan &o, const double *lost) {
    const int j[2] = {o.pulled, o.released};
    const double per_m = 0.5 / o.path_per_radian, lever[2] = {per_m, -per_m};
    double f[2], J[4], best = 1e300, step[2] = {0, 0}, part = 1;
    Tension T[2];
    for (int iteration = 0; iteration < 80; iteration++) {
      double slope[2];
      for (int i = 0; i < 2; i++) {
        T[i] = at(j[i], w[j[i]]);
        motor(j[i], w[j[i]], f[i], slope[i]);
      }
      const double t = tangent(TANH_PER_RADIAN * per_m * (w[j[0]] - w[j[1]]));
      const double each[2] = {o.radius * lost[0] / o.strands, o.radius * lost[1] / o.strands}; // johnston (36)
      const double most = each[0] * T[0].value + each[1] * T[1].value, torque = t * most;      // johnston (37)
      const double by_speed = TANH_PER_RADIAN * per_m * (1 - t * t) * most;
      for (int i = 0; i < 2; i++) {
        f[i] += g * (T[i].value + lever[i] * torque);
        for (int l = 0; l < 2; l++) {
          const double by_tension = T[l].stiffness * g + T[l].damping;
          J[2 * i + l] = g * lever[i] * ((l ? -by_speed : by_speed) + t * each[l] * by_tension);
          if (i == l) J[2 * i + l] += slope[i] + g * by_tension;
        }
      }
      const double size = f[0] * f[0] + f[1] * f[1];
      if (size > best && part > 1e-6) { // a shorter step
        part /= 2;
        for (int i = 0; i < 2; i++) w[j[i]] -= part * step[i];
        continue;
      }
      const double det = J[0] * J[3] - J[1] * J[2];
      step[0] = (J[1] * f[1] - J[3] * f[0]) / det;
      step[1] = (J[2] * f[0] - J[0] * f[1]) / det;
      for (int i = 0; i < 2; i++) w[j[i]] += step[i];
      best = size;
      part = 1;
      if (std::abs(step[0]) + std::abs(step[1]) <= SPOOL_TOLERANCE * (1 + std::abs(w[j[0]]) + std::abs(w[j[1]]))) break;
    }
    const double det = J[0] * J[3] - J[1] * J[2];
    settle(j[0], T[0], g * J[3] / det);
    settle(j[1], T[1], g * J[0] / det);
  }

  // Friction of the capstans' wires where tensions are given: johnston (38), (41).
  void brake(const double *v, double *force) {
    for (int k = 0; k < capstans; k++) {
      const Capstan &o = capstan[k];
      const double *lost = drive.lost + 2 * k, *own = direction[N + k];
      const double t = tangent(TANH_PER_RADIAN * dot(own, v, n));
      const double most = o.radius / o.strands * (lost[0] * tension[o.pulled] + lost[1] * tension[o.released]);
      add_scaled(-t * most, own, force, n);
      weight[N + k] = TANH_PER_RADIAN * (1 - t * t) * most;
    }
  }

  // Walls and spheres: contact_force of simulation/contact.py.
  void touch(const double *c, const double *v, double *force) {
    for (int k = 0; k < surfaces; k++) {
      const double *own = surface(k), *normal = own + 4, *first = normal + n, *second = first + n;
      double gap = own[0], *to = weight + N + capstans + 3 * k;
      for (int i = 0; i < n; i++) gap += normal[i] * (c[i] - drive.touching[i]);
      const double rising = dot(normal, v, n), grip = 1 - own[2] * rising;
      if (!(gap < 0 && grip > 0 && own[1] > 0)) continue;
      const double press = own[1] * -gap * grip, a = dot(first, v, n), b = dot(second, v, n);
      const double drag = own[3] * press / std::sqrt(a * a + b * b + SLIP_SPEED * SLIP_SPEED);
      add_scaled(press, normal, force, n);
      add_scaled(-drag * a, first, force, n);
      add_scaled(-drag * b, second, force, n);
      to[0] = g * own[1] * grip + own[1] * -gap * own[2];
      to[1] = to[2] = drag;
    }
  }
};

// A plant with its memory; nothing is allocated in a step.
class Plant {
public:
  Plant(const Shape &r, const Numbers<double> &q, const double *scale, const double *slack, const Spool &spool,
        int capstans, const Capstan *capstan, int surfaces, const Drive &drive, const State &state, Method method,
        double tolerance)
      : r(r), q(q), state(state), driven(r, q, spool, capstans, capstan, surfaces, drive, state, slack, memory),
        steps(r.n, r.paths, scale, method, tolerance, memory) {}

  // From c and v in the state on.
  void reset() {
    Terms<double> out{};
    out.momentum = state.momentum;
    terms<double, double>(r, q, state.c, state.v, nullptr, out);
    driven.reset();
    steps.forget();
  }

  // Steps of h, in parts where one does not converge. How often forces were evaluated; -1: parts of a 4096th of a step do
  // not converge either, and the state is that before the part.
  long run(double h, int count, double *shortest) {
    const long before = steps.evaluations();
    for (int k = 0; k < count; k++)
      if (!parts(h, 12, shortest)) return -1;
    return steps.evaluations() - before;
  }

private:
  // Memory that lasts.
  class Owned {
  public:
    double *zeros(std::size_t count) {
      parts.emplace_back(new double[count + 1]());
      return parts.back().get();
    }

  private:
    std::vector<std::unique_ptr<double[]>> parts;
  };

  const Shape &r;
  const Numbers<double> &q;
  const State state;
  Owned memory;
  Driven driven;
  Steps<double> steps;

  bool parts(double h, int halvings, double *shortest) {
    if (steps.run(h, state.c, state.momentum, state.v, driven, q.damping)) {
      driven.finish(h, steps.fraction());
      *shortest = std::min(*shortest, h);
      return true;
    }
    return halvings && parts(h / 2, halvings - 1, shortest) && parts(h / 2, halvings - 1, shortest);
  }
};

} // namespace rod
