// SPDX-License-Identifier: Apache-2.0
// An implicit stage of strain_motion.py in one call: Newton's method on p(c, v) - p_0 = g f(c, v), v = (c - c_0) / g.
// Momentum and force come from one sweep along the chain and one back, without Jacobians of the stations; the matrix of
// Newton's method from differences of these, so that it lacks nothing. Follows strain_kernel.c.

#include <stdlib.h>

typedef struct {
    const chain_t *chain;
    const loads_t *loads;
    const paths_t *tendons;
    const double *inertia;            // (steps + 1, 6, 6) of the stations, about themselves in their own axes
    const double *elastic, *damping;  // (n, n)
    const double *scale;              // (n) coefficient to bending angle or stretch
    double *sweep;                    // (steps + 1, SWEPT)
    double *node;                     // (nodes, count, 4) pull per strain at the tendons' nodes, by way of t / |t|
    double *lu, *work;                // (n, n), (7, n) and three for every tendon
    int *pivot;                       // (n)
} mover_t;

// What the tendons do: given tensions, or springs and dampers between the rod and spools that are held or driven.
typedef struct {
    long long driven;
    const double *tension;                // (N) where not driven, N
    const double *slack_m;                // (N) path length at which a spring begins to pull with nothing wound in
    const double *stiffness, *resistance; // (N) of the tendons, N/m and N.s/m
    const double *wound_m, *speed;        // (N) spools before the stage
    const double *motor_n, *mass_kg;      // (N) force of the motors at the stage; mass that moves, 0 where held
    const double *law;                    // (5) viscous, Coulomb, its speed, cogging, its phase per length
    const double *phase;                  // (N)
    double *stage_speed, *pulled;         // (N) results: spools' speed, tensions
} pull_t;

// Surfaces that may touch the rod, as far as it moves little from a shape; see PlantContacts in simulation/contact.py.
typedef struct {
    long long count;
    const double *shape; // (n), then of each surface gap, stiffness, dissipation, friction; gradient (n); slip (2, n)
    const double *speed; // (1) at which friction fades
} surfaces_t;

typedef struct {
    double stage_s;               // of the matrix that is kept; 0: none
    double iterations, matrices;  // counts
    double correction;            // the last
} solver_t;

#define ITERATIONS 40
#define RENEWALS 12
#define SLOW 0.5
#define LARGEST_CORRECTION 1.0
#define LEAST_SHARE 0.01
#define OTHER_STAGE 0.1 // share by which stages may differ that share a matrix: a cycle in real time is never the same
#define DIFFERENCE 1e-7 // in bending angle or stretch: rounding and curvature of the terms weigh about the same

enum { ROTATION = 0, PLACE = 9, OMEGA = 12, OMEGA_RATE = 18, SERIES = 24, STRAIN = 35, TWIST = 59, PRESSED = 65,
       LOADED = 71, SWEPT = 77 };

static void bracket_of(const double *x, const double *y, double *z) { // z = ad(x) y
    double one[3], two[3];
    cross(x, y, z), cross(x + 3, y, one), cross(x, y + 3, two);
    for (int k = 0; k < 3; k++) z[3 + k] = one[k] + two[k];
}

static void carried(const double *x, const double *wrench, double *z) { // z = ad(x)^T W
    double one[3], two[3];
    cross(wrench, x, one), cross(wrench + 3, x + 3, two), cross(wrench + 3, x, z + 3);
    for (int k = 0; k < 3; k++) z[k] = one[k] + two[k];
}

// The wrench W in the base frame to a frame there, Ad^T W.
static void to_local(const double *rotation, const double *position, const double *wrench, double *local) {
    double arm[3], moment[3];
    cross(position, wrench + 3, arm);
    for (int k = 0; k < 3; k++) moment[k] = wrench[k] - arm[k];
    turned(rotation, moment, local), turned(rotation, wrench + 3, local + 3);
}

static void to_base(const double *rotation, const double *position, const double *local, double *wrench) {
    double arm[3];
    times(rotation, local, wrench), times(rotation, local + 3, wrench + 3);
    cross(position, wrench + 3, arm);
    for (int k = 0; k < 3; k++) wrench[k] += arm[k];
}

// Sweep to the tip: frames, twists, and the wrenches of momentum and loads on every station, in the base frame.
static void outward(const mover_t *mover, const double *c, const double *rate) {
    const chain_t *chain = mover->chain;
    const loads_t *loads = mover->loads;
    const long long n = chain->size;
    double *at = mover->sweep, twist[6] = {0};
    long long load = 0;
    memset(at, 0, SWEPT * sizeof(double));
    at[ROTATION] = at[ROTATION + 4] = at[ROTATION + 8] = 1;
    while (load < loads->count && loads->station[load] == 0) load++; // what presses on the clamp moves nothing
    for (long long i = 0; i < chain->steps; i++, at += SWEPT) {
        const double h = chain->step_m[i], bracket = sqrt(3.0) / 12 * h * h;
        const double *phi_1 = chain->first + i * n, *phi_2 = chain->second + i * n;
        double *xi_1 = at + STRAIN, *xi_2 = xi_1 + 6, *dot_1 = xi_1 + 12, *dot_2 = xi_1 + 18;
        memcpy(xi_1, chain->rest + 6 * i, 6 * sizeof(double)), memcpy(xi_2, xi_1, 6 * sizeof(double));
        memset(dot_1, 0, 12 * sizeof(double));
        for (int a = chain->low[i]; a < chain->high[i]; a++) {
            const int row = chain->row[a];
            xi_1[row] += phi_1[a] * c[a], xi_2[row] += phi_2[a] * c[a];
            dot_1[row] += phi_1[a] * rate[a], dot_2[row] += phi_2[a] * rate[a];
        }
        double *omega = at + OMEGA, *omega_rate = at + OMEGA_RATE, *series = at + SERIES, turn[6], one[6], two[6];
        bracket_of(xi_1, xi_2, turn), bracket_of(dot_1, xi_2, one), bracket_of(xi_1, dot_2, two);
        for (int k = 0; k < 6; k++) {
            omega[k] = h / 2 * (xi_1[k] + xi_2[k]) + bracket * turn[k];
            omega_rate[k] = h / 2 * (dot_1[k] + dot_2[k]) + bracket * (one[k] + two[k]);
        }
        const double x = dot(omega, omega, 3);
        memset(series, 0, 11 * sizeof(double));
        for (int m = x < 0.25 ? 9 : 19; m >= 0; m--)
            for (int k = 0; k < 11; k++) series[k] = series[k] * x + chain->table[11 * m + k];
        double moved[6], sum[6], gain[6];
        memcpy(sum, omega_rate, sizeof sum);
        for (int k = 0; k < 6; k++) sum[k] *= series[6];
        for (int m = 2; m >= -1; m--) { // T of the rate, Horner in ad
            bracket_of(omega, sum, moved);
            for (int k = 0; k < 6; k++) sum[k] = moved[k] + (m < 0 ? 1 : series[3 + m]) * omega_rate[k];
        }
        const double *rotation = at + ROTATION, *position = at + PLACE;
        double *next = at + SWEPT;
        double arm[3], w[9], square[9], exponential[9], slide[9], forward[3], shift[3];
        times(rotation, sum, gain), times(rotation, sum + 3, gain + 3), cross(position, gain, arm);
        for (int k = 0; k < 3; k++) twist[k] += gain[k], twist[3 + k] += gain[3 + k] + arm[k];
        hat(omega, w), product(w, w, square);
        for (int k = 0; k < 9; k++) {
            const double diagonal = k % 4 == 0;
            exponential[k] = diagonal + series[0] * w[k] + series[1] * square[k];
            slide[k] = diagonal + series[1] * w[k] + series[2] * square[k];
        }
        product(rotation, exponential, next + ROTATION);
        times(slide, omega + 3, forward), times(rotation, forward, shift);
        for (int k = 0; k < 3; k++) next[PLACE + k] = position[k] + shift[k];
        rotation = next + ROTATION, position = next + PLACE;
        double velocity[3], *body = next + TWIST, local[6];
        cross(position, twist, arm);
        for (int k = 0; k < 3; k++) velocity[k] = twist[3 + k] - arm[k];
        turned(rotation, twist, body), turned(rotation, velocity, body + 3);
        const double *own = mover->inertia + 36 * (i + 1);
        for (int r = 0; r < 6; r++) local[r] = dot(own + 6 * r, body, 6);
        to_base(rotation, position, local, next + PRESSED);
        double *total = next + LOADED;
        memset(total, 0, 6 * sizeof(double));
        for (; load < loads->count && loads->station[load] == i + 1; load++) {
            double point[3], force[3], turning[3];
            times(rotation, loads->offset + 3 * load, point);
            times(rotation, loads->body_force + 3 * load, force), times(rotation, loads->body_moment + 3 * load, turning);
            for (int k = 0; k < 3; k++) point[k] += position[k], force[k] += loads->force[3 * load + k];
            cross(point, force, arm);
            for (int k = 0; k < 3; k++)
                total[k] += loads->moment[3 * load + k] + turning[k] + arm[k], total[3 + k] += force[k];
        }
    }
}

// Sweep back: momentum (n), and dT/dc with the force of the loads (n), both as strain_dynamics.py has them.
static void inward(const mover_t *mover, double *momentum, double *force) {
    const chain_t *chain = mover->chain;
    const long long n = chain->size;
    double pressed[6] = {0}, loaded[6] = {0};
    memset(momentum, 0, n * sizeof(double)), memset(force, 0, n * sizeof(double));
    for (long long i = chain->steps - 1; i >= 0; i--) {
        const double *at = mover->sweep + SWEPT * i, *next = at + SWEPT, *omega = at + OMEGA, *speed = at + OMEGA_RATE;
        const double *a = at + SERIES + 3, *slope = a + 4, *xi_1 = at + STRAIN, *xi_2 = xi_1 + 6;
        const double h = chain->step_m[i], bracket = sqrt(3.0) / 12 * h * h;
        const double *phi_1 = chain->first + i * n, *phi_2 = chain->second + i * n;
        for (int k = 0; k < 6; k++) pressed[k] += next[PRESSED + k], loaded[k] += next[LOADED + k];
        double moved[5][6], push[6], swept[6], part[6], pull[6], along[6] = {0};
        to_local(at + ROTATION, at + PLACE, pressed, moved[0]), to_local(at + ROTATION, at + PLACE, loaded, push);
        carried(at + TWIST, moved[0], swept);
        for (int k = 0; k < 6; k++) push[k] += swept[k];
        for (int j = 0; j < 4; j++) carried(omega, moved[j], moved[j + 1]);
        for (int k = 0; k < 6; k++) {
            pull[k] = moved[0][k] + a[0] * moved[1][k] + a[1] * moved[2][k] + a[2] * moved[3][k] + a[3] * moved[4][k];
            part[k] = a[3] * push[k];
        }
        for (int m = 2; m >= -1; m--) { // T^T of what pushes, Horner in ad^T
            carried(omega, part, swept);
            for (int k = 0; k < 6; k++) part[k] = swept[k] + (m < 0 ? 1 : a[m]) * push[k];
        }
        for (int m = 3; m >= 0; m--) { // derivative of T^T at constant wrench, along the rate
            double sum[6] = {0}, coupled[6];
            for (int j = 0; j + m < 4; j++)
                for (int k = 0; k < 6; k++) sum[k] += a[m + j] * moved[j][k];
            carried(speed, sum, coupled), carried(omega, along, swept);
            for (int k = 0; k < 6; k++) along[k] = swept[k] + coupled[k];
        }
        const double inner = 2 * dot(omega, speed, 3);
        for (int k = 0; k < 6; k++) {
            double gradient = 0;
            for (int j = 0; j < 4; j++) gradient += slope[j] * moved[j + 1][k];
            part[k] += along[k] + inner * gradient;
        }
        double p_1[6], p_2[6], f_1[6], f_2[6], d_1[6], d_2[6];
        carried(xi_2, pull, p_1), carried(xi_1, pull, p_2), carried(xi_2, part, f_1), carried(xi_1, part, f_2);
        carried(xi_1 + 12, pull, d_1), carried(xi_1 + 18, pull, d_2);
        for (int k = 0; k < 6; k++) {
            p_1[k] = h / 2 * pull[k] - bracket * p_1[k], p_2[k] = h / 2 * pull[k] + bracket * p_2[k];
            f_1[k] = h / 2 * part[k] - bracket * (f_1[k] + d_2[k]);
            f_2[k] = h / 2 * part[k] + bracket * (f_2[k] + d_1[k]);
        }
        for (int b = chain->low[i]; b < chain->high[i]; b++) {
            const int row = chain->row[b];
            momentum[b] += phi_1[b] * p_1[row] + phi_2[b] * p_2[row];
            force[b] += phi_1[b] * f_1[row] + phi_2[b] * f_2[row];
        }
    }
}

// Speed of a driven spool at the end of a stage, under the tendon's force and its own friction and cogging: the root of
// a function that grows by at least the mass, but for cogging. lead: stretch without the spool's own motion.
static double spool_speed(const pull_t *pull, int j, double g, double lead, double lead_rate) {
    const double *law = pull->law, mass = pull->mass_kg[j];
    double w = pull->stage_speed[j], low = -HUGE_VAL, high = HUGE_VAL;
    for (int k = 0; k < 60; k++) {
        const double angle = law[4] * (pull->wound_m[j] + g * w) + pull->phase[j], still = tanh(w / law[2]);
        const double stretched = pull->stiffness[j] * (lead + g * w) + pull->resistance[j] * (lead_rate + w);
        const double tension = fmax(stretched, 0);
        const double value = mass * (w - pull->speed[j]) -
                             g * (pull->motor_n[j] - tension - law[0] * w - law[1] * still - law[3] * sin(angle));
        double slope = mass + g * (law[0] + law[1] / law[2] * (1 - still * still) + law[3] * law[4] * g * cos(angle));
        if (stretched > 0) slope += g * (pull->stiffness[j] * g + pull->resistance[j]);
        if (value > 0) high = w;
        else low = w;
        double step = -value / (slope > 0 ? slope : mass);
        if (fabs(step) <= 1e-14 + 1e-13 * fabs(w)) break;
        if ((w + step <= low || w + step >= high) && isfinite(low) && isfinite(high)) step = (low + high) / 2 - w;
        w += step;
    }
    return w;
}

// Adds the tendons' force (n). The path's pull on the strain is ((r x t), t) / |t|, t = v + u x r + r'; rucker (14).
static void tendon_force(const mover_t *mover, const pull_t *pull, double g, const double *c, const double *rate,
                         double *force) {
    const paths_t *paths = mover->tendons;
    const long long n = paths->size, count = paths->count;
    double *unit = mover->node;
    double *length = mover->work + 7 * n, *length_rate = length + count, *tension = length_rate + count;
    memset(length, 0, 3 * count * sizeof(double));
    for (long long i = 0; i < paths->nodes; i++) {
        const double *phi = paths->phi + i * n;
        double xi[6], speed[6] = {0};
        memcpy(xi, paths->rest + 6 * i, sizeof xi);
        for (int a = paths->low[i]; a < paths->high[i]; a++) {
            xi[paths->row[a]] += phi[a] * c[a], speed[paths->row[a]] += phi[a] * rate[a];
        }
        for (long long j = 0; j < count; j++, unit += 4) {
            const double weight = paths->running[i * count + j];
            if (weight == 0) continue;
            const double *r = paths->place + 2 * (i * count + j), *s = paths->slope + 2 * (i * count + j);
            const double t[3] = {xi[3] - xi[2] * r[1] + s[0], xi[4] + xi[2] * r[0] + s[1],
                                 xi[5] + xi[0] * r[1] - xi[1] * r[0]};
            const double norm = sqrt(dot(t, t, 3)), share = weight / norm;
            unit[0] = share * t[0], unit[1] = share * t[1], unit[2] = share * t[2];
            length[j] += weight * norm;
            length_rate[j] += unit[0] * (speed[3] - speed[2] * r[1]) + unit[1] * (speed[4] + speed[2] * r[0]) +
                              unit[2] * (speed[5] + speed[0] * r[1] - speed[1] * r[0]);
        }
    }
    for (long long j = 0; j < count; j++) {
        if (!pull->driven) tension[j] = pull->tension[j];
        else {
            double lead = pull->wound_m[j] + length[j] - pull->slack_m[j], lead_rate = length_rate[j], w = 0;
            if (pull->mass_kg[j] > 0) w = spool_speed(pull, (int)j, g, lead, lead_rate);
            pull->stage_speed[j] = w;
            tension[j] = fmax(pull->stiffness[j] * (lead + g * w) + pull->resistance[j] * (lead_rate + w), 0);
        }
        pull->pulled[j] = tension[j];
    }
    unit = mover->node;
    for (long long i = 0; i < paths->nodes; i++) {
        const double *phi = paths->phi + i * n;
        double sum[6] = {0};
        for (long long j = 0; j < count; j++, unit += 4) {
            if (paths->running[i * count + j] == 0 || tension[j] == 0) continue;
            const double *r = paths->place + 2 * (i * count + j), f = tension[j];
            sum[0] += f * r[1] * unit[2], sum[1] -= f * r[0] * unit[2];
            sum[2] += f * (r[0] * unit[1] - r[1] * unit[0]);
            sum[3] += f * unit[0], sum[4] += f * unit[1], sum[5] += f * unit[2];
        }
        for (int a = paths->low[i]; a < paths->high[i]; a++) force[a] -= phi[a] * sum[paths->row[a]];
    }
}

// Adds the force (n) of what touches the rod, as contact_force in simulation/contact.py.
static void surface_force(const surfaces_t *surfaces, long long n, const double *c, const double *rate, double *force) {
    for (long long k = 0; k < surfaces->count; k++) {
        const double *law = surfaces->shape + n + k * (4 + 3 * n), *gradient = law + 4, *slip = gradient + n;
        double gap = law[0], gap_rate = 0, slide[2] = {0, 0};
        for (long long a = 0; a < n; a++) {
            gap += gradient[a] * (c[a] - surfaces->shape[a]), gap_rate += gradient[a] * rate[a];
            slide[0] += slip[a] * rate[a], slide[1] += slip[n + a] * rate[a];
        }
        const double normal = law[1] * fmax(-gap, 0) * fmax(1 - law[2] * gap_rate, 0);
        if (normal == 0) continue;
        const double fade = surfaces->speed[0];
        const double drag = law[3] * normal / sqrt(slide[0] * slide[0] + slide[1] * slide[1] + fade * fade);
        for (long long a = 0; a < n; a++)
            force[a] += normal * gradient[a] - drag * (slide[0] * slip[a] + slide[1] * slip[n + a]);
    }
}

// g times what is left of the stage's equation (n), without elastic stiffness and damping where linear is 0.
static void left_over(const mover_t *mover, const pull_t *pull, const surfaces_t *surfaces, const double *extra, double g,
                      const double *base_c, const double *base_p, const double *c, int linear, double *rate,
                      double *momentum, double *left) {
    const long long n = mover->chain->size;
    for (long long a = 0; a < n; a++) rate[a] = (c[a] - base_c[a]) / g;
    outward(mover, c, rate);
    inward(mover, momentum, left);
    if (mover->tendons->count) tendon_force(mover, pull, g, c, rate, left);
    surface_force(surfaces, n, c, rate, left);
    for (long long a = 0; a < n; a++) {
        double force = left[a] + extra[a];
        if (linear) force -= dot(mover->elastic + a * n, c, (int)n) + dot(mover->damping + a * n, rate, (int)n);
        left[a] = g * (momentum[a] - base_p[a] - g * force);
    }
}

static int factorise(double *a, int *pivot, int n) { // with row exchanges; 0: singular
    for (int k = 0; k < n; k++) {
        int best = k;
        for (int i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[best * n + k])) best = i;
        pivot[k] = best;
        if (!(fabs(a[best * n + k]) > 0) || !isfinite(a[best * n + k])) return 0;
        if (best != k)
            for (int j = 0; j < n; j++) {
                const double kept = a[k * n + j];
                a[k * n + j] = a[best * n + j], a[best * n + j] = kept;
            }
        for (int i = k + 1; i < n; i++) {
            const double share = a[i * n + k] /= a[k * n + k];
            for (int j = k + 1; j < n; j++) a[i * n + j] -= share * a[k * n + j];
        }
    }
    return 1;
}

static void substitute(const double *a, const int *pivot, int n, double *x) {
    for (int k = 0; k < n; k++) {
        const double kept = x[k];
        x[k] = x[pivot[k]], x[pivot[k]] = kept;
    }
    for (int i = 1; i < n; i++) x[i] -= dot(a + i * n, x, i);
    for (int i = n - 1; i >= 0; i--) x[i] = (x[i] - dot(a + i * n + i + 1, x + i + 1, n - i - 1)) / a[i * n + i];
}

// The matrix of the stage's equation at c, factorised. 0: singular.
static int make_matrix(const mover_t *mover, const pull_t *pull, const surfaces_t *surfaces, const double *extra, double g,
                       const double *base_c, const double *base_p, double *c) {
    const int n = (int)mover->chain->size;
    double *plain = mover->work, *moved = plain + n, *rate = moved + n, *momentum = rate + n;
    left_over(mover, pull, surfaces, extra, g, base_c, base_p, c, 0, rate, momentum, plain);
    for (int b = 0; b < n; b++) {
        const double kept = c[b];
        c[b] += DIFFERENCE / mover->scale[b];
        left_over(mover, pull, surfaces, extra, g, base_c, base_p, c, 0, rate, momentum, moved);
        const double taken = c[b] - kept;
        c[b] = kept;
        for (int a = 0; a < n; a++)
            mover->lu[a * n + b] = (moved[a] - plain[a]) / taken + g * mover->damping[a * n + b] +
                                   g * g * mover->elastic[a * n + b];
    }
    return factorise(mover->lu, mover->pivot, n);
}

// Solve a stage of length g from base_c, base_p; c holds the first guess. 1: done; 0: it does not converge.
// Newton's method with a matrix that is kept while it serves, and shares of its steps where the correction with the same
// matrix would not fall (Deuflhard's monotonicity test, which does not depend on how forces are weighed).
long long motion_stage(const mover_t *mover, const pull_t *pull, const surfaces_t *surfaces, const double *extra,
                       const double *base_c, const double *base_p, const double *numbers, double *c, double *rate,
                       double *momentum, solver_t *solver) {
    const double g = numbers[0], tolerance = numbers[1];
    const int n = (int)mover->chain->size;
    double *left = mover->work + 4 * n, *kept = left + n, *step = kept + n;
    double before = HUGE_VAL, share = 1;
    int made_here = 0, made_there = 0, moved = 0, made = 0;
    if (fabs(g - solver->stage_s) > OTHER_STAGE * g) solver->stage_s = 0;
    for (int k = 0; k < ITERATIONS; k++) {
        if (solver->stage_s == 0) {
            if (made++ == RENEWALS || !make_matrix(mover, pull, surfaces, extra, g, base_c, base_p, c)) break;
            solver->matrices++, solver->stage_s = g, made_here = 1;
        }
        left_over(mover, pull, surfaces, extra, g, base_c, base_p, c, 1, rate, momentum, left);
        solver->iterations++;
        substitute(mover->lu, mover->pivot, n, left);
        double size = 0;
        for (int a = 0; a < n; a++) {
            const double part = fabs(mover->scale[a] * left[a]);
            if (!(part <= size) && !isnan(size)) size = part;
        }
        solver->correction = size;
        if (size <= tolerance) return 1;
        if (moved && !(size <= (1 - share / 4) * before)) {
            moved = 0;
            if (made_there) {
                share /= 2, moved = 1;
                if (share < LEAST_SHARE) break;
            }
            else solver->stage_s = 0, share = 0; // back to where it came from, for a matrix made there
            for (int a = 0; a < n; a++) c[a] = kept[a] - share * step[a];
            continue;
        }
        if (!isfinite(size)) break;
        if (moved && !made_here && (size > SLOW * before || share < 1)) {
            solver->stage_s = 0, moved = 0; // the same place again, with a matrix made here
            continue;
        }
        share = fmin(1, LARGEST_CORRECTION / size);
        for (int a = 0; a < n; a++) kept[a] = c[a], step[a] = left[a], c[a] -= share * left[a];
        before = size, made_there = made_here, made_here = 0, moved = 1;
    }
    solver->stage_s = 0;
    return 0;
}
