// SPDX-License-Identifier: Apache-2.0
// The sums of strain_kinematics.py, path_lengths.py and strain_rod.py in C: the same formulas, the same layout of arrays
// (rows one after another). A column of B has one entry alone: row[a] says where, phi its value. low, high: the columns
// that a step or node has. Twists have the angular part first, wrenches the moment.

#include <math.h>
#include <string.h>

typedef struct {
    long long steps, size;
    const double *table;          // (20, 11)
    const double *step_m;         // (steps)
    const double *rest;           // (steps, 6)
    const double *first, *second; // (steps, size)
    const int *low, *high;        // (steps)
    const int *row;               // (size)
} chain_t;

typedef struct {
    double *rotation, *position; // (steps + 1, 3, 3), (steps + 1, 3)
    double *omega, *own;         // (steps, 6), (steps, 6, size)
    double *tangent;             // (steps, 6, 6)
    double *series;              // (steps, 11)
    double *step, *jacobian;     // (steps, 6, size), (steps + 1, 6, size)
} frames_t;

static void cross(const double *a, const double *b, double *c) {
    c[0] = a[1] * b[2] - a[2] * b[1];
    c[1] = a[2] * b[0] - a[0] * b[2];
    c[2] = a[0] * b[1] - a[1] * b[0];
}

static void hat(const double *a, double m[9]) {
    m[0] = m[4] = m[8] = 0;
    m[7] = a[0], m[2] = a[1], m[3] = a[2];
    m[5] = -a[0], m[6] = -a[1], m[1] = -a[2];
}

static void product(const double *a, const double *b, double *c) { // c = a b, 3 x 3, c apart from both
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) c[3 * i + j] = a[3 * i] * b[j] + a[3 * i + 1] * b[3 + j] + a[3 * i + 2] * b[6 + j];
}

static void times(const double *a, const double *x, double *y) { // y = a x
    for (int i = 0; i < 3; i++) y[i] = a[3 * i] * x[0] + a[3 * i + 1] * x[1] + a[3 * i + 2] * x[2];
}

static void turned(const double *a, const double *x, double *y) { // y = a^T x
    for (int i = 0; i < 3; i++) y[i] = a[i] * x[0] + a[3 + i] * x[1] + a[6 + i] * x[2];
}

// The block matrix [[p, 0], [q, p]] becomes [[w, 0], [v, w]] times it, plus a number on the diagonal.
static void shifted(const double *w, const double *v, double *p, double *q, double diagonal) {
    double wp[9], vp[9], wq[9];
    product(w, p, wp), product(v, p, vp), product(w, q, wq);
    for (int k = 0; k < 9; k++) p[k] = wp[k] + (k % 4 == 0 ? diagonal : 0), q[k] = vp[k] + wq[k];
}

static double dot(const double *a, const double *b, int count) {
    double sum = 0;
    for (int k = 0; k < count; k++) sum += a[k] * b[k];
    return sum;
}

void chain_frames(const chain_t *chain, const double *c, const frames_t *to) {
    const long long n = chain->size;
    memset(to->rotation, 0, 9 * sizeof(double)), memset(to->position, 0, 3 * sizeof(double));
    to->rotation[0] = to->rotation[4] = to->rotation[8] = 1;
    memset(to->jacobian, 0, 6 * n * sizeof(double));
    for (long long i = 0; i < chain->steps; i++) {
        const double h = chain->step_m[i], bracket = sqrt(3.0) / 12 * h * h;
        const double *phi_1 = chain->first + i * n, *phi_2 = chain->second + i * n;
        const int low = chain->low[i], high = chain->high[i];
        double xi_1[6], xi_2[6], *omega = to->omega + 6 * i, *series = to->series + 11 * i;
        memcpy(xi_1, chain->rest + 6 * i, sizeof xi_1), memcpy(xi_2, xi_1, sizeof xi_2);
        for (int a = low; a < high; a++) xi_1[chain->row[a]] += phi_1[a] * c[a], xi_2[chain->row[a]] += phi_2[a] * c[a];
        double turn[3], left[3], right[3];
        cross(xi_1, xi_2, turn), cross(xi_1, xi_2 + 3, left), cross(xi_1 + 3, xi_2, right);
        for (int k = 0; k < 3; k++) {
            omega[k] = h / 2 * (xi_1[k] + xi_2[k]) + bracket * turn[k];
            omega[3 + k] = h / 2 * (xi_1[3 + k] + xi_2[3 + k]) + bracket * (left[k] + right[k]);
        }
        const double x = dot(omega, omega, 3);
        memset(series, 0, 11 * sizeof(double));
        for (int m = x < 0.25 ? 9 : 19; m >= 0; m--)
            for (int k = 0; k < 11; k++) series[k] = series[k] * x + chain->table[11 * m + k];
        double w[9], v[9], square[9], p[9], q[9];
        hat(omega, w), hat(omega + 3, v), product(w, w, square);
        const double *a = series + 3;
        for (int k = 0; k < 9; k++) p[k] = a[3] * w[k] + (k % 4 == 0 ? a[2] : 0), q[k] = a[3] * v[k];
        shifted(w, v, p, q, a[1]), shifted(w, v, p, q, a[0]), shifted(w, v, p, q, 1);
        double *tangent = to->tangent + 36 * i;
        memset(tangent, 0, 36 * sizeof(double));
        for (int r = 0; r < 3; r++)
            for (int s = 0; s < 3; s++) {
                tangent[6 * r + s] = tangent[6 * (r + 3) + s + 3] = p[3 * r + s];
                tangent[6 * (r + 3) + s] = q[3 * r + s];
            }
        const double *rotation = to->rotation + 9 * i, *position = to->position + 3 * i;
        double turned_p[9], turned_q[9], place[9], moved[9]; // Ad T = [[turned_p, 0], [moved, turned_p]]
        product(rotation, p, turned_p), product(rotation, q, turned_q);
        hat(position, place), product(place, turned_p, moved);
        for (int k = 0; k < 9; k++) moved[k] += turned_q[k];
        double *own = to->own + 6 * n * i, *step = to->step + 6 * n * i;
        const double *before = to->jacobian + 6 * n * i;
        double *after = to->jacobian + 6 * n * (i + 1);
        memset(own, 0, 6 * n * sizeof(double)), memset(step, 0, 6 * n * sizeof(double));
        memcpy(after, before, 6 * n * sizeof(double));
        for (int b = low; b < high; b++) {
            const int row = chain->row[b];
            double column[6] = {0}, unit[3] = {0}, one[3], two[3], ang[3], lin[3], more[3];
            unit[row % 3] = bracket;
            // ad(xi) e: (w x e, v x e) of an angular unit vector, (0, w x e) of a linear one.
            cross(xi_1, unit, one), cross(xi_2, unit, two);
            double *half = column + (row < 3 ? 0 : 3);
            for (int k = 0; k < 3; k++) half[k] = phi_2[b] * one[k] - phi_1[b] * two[k];
            if (row < 3) {
                cross(xi_1 + 3, unit, one), cross(xi_2 + 3, unit, two);
                for (int k = 0; k < 3; k++) column[3 + k] = phi_2[b] * one[k] - phi_1[b] * two[k];
            }
            column[row] += h / 2 * (phi_1[b] + phi_2[b]);
            times(turned_p, column, ang), times(moved, column, lin), times(turned_p, column + 3, more);
            for (int k = 0; k < 3; k++) {
                own[k * n + b] = column[k], own[(k + 3) * n + b] = column[k + 3];
                step[k * n + b] = ang[k], step[(k + 3) * n + b] = lin[k] + more[k];
                after[k * n + b] += ang[k], after[(k + 3) * n + b] += lin[k] + more[k];
            }
        }
        double turn_of_step[9], slide[9], forward[3];
        for (int k = 0; k < 9; k++) {
            const double diagonal = k % 4 == 0;
            turn_of_step[k] = diagonal + series[0] * w[k] + series[1] * square[k];
            slide[k] = diagonal + series[1] * w[k] + series[2] * square[k];
        }
        double *next = to->rotation + 9 * (i + 1), *there = to->position + 3 * (i + 1), shift[3];
        product(rotation, turn_of_step, next);
        times(slide, omega + 3, forward), times(rotation, forward, shift);
        for (int k = 0; k < 3; k++) there[k] = position[k] + shift[k];
    }
}

// P of a wrench with W . [x, y] = x^T P y: [[-hat(m), -hat(f)], [-hat(f), 0]].
static void co_ad(const double *wrench, double *p) {
    double m[9], f[9];
    hat(wrench, m), hat(wrench + 3, f);
    memset(p, 0, 36 * sizeof(double));
    for (int r = 0; r < 3; r++)
        for (int s = 0; s < 3; s++) {
            p[6 * r + s] = -m[3 * r + s];
            p[6 * r + s + 3] = p[6 * (r + 3) + s] = -f[3 * r + s];
        }
}

// hessian[a, b] += sum over r of left[r, a] right[r, b] for a in [low, high), b in [0, end).
static void accumulate(double *hessian, const double *left, const double *right, long long n, int low, int high,
                       int start, int end) {
    for (int a = low; a < high; a++) {
        double *row = hessian + a * n;
        const double s0 = left[a], s1 = left[n + a], s2 = left[2 * n + a];
        const double s3 = left[3 * n + a], s4 = left[4 * n + a], s5 = left[5 * n + a];
        for (int b = start; b < end; b++)
            row[b] += s0 * right[b] + s1 * right[n + b] + s2 * right[2 * n + b] + s3 * right[3 * n + b] +
                      s4 * right[4 * n + b] + s5 * right[5 * n + b];
    }
}

// to[r, b] = sum over s of m[r, s] from[s, b], m 6 x 6 or its transpose.
static void multiply(const double *m, int transposed, const double *from, double *to, long long n, int start, int end) {
    for (int r = 0; r < 6; r++) {
        double k[6];
        for (int s = 0; s < 6; s++) k[s] = transposed ? m[6 * s + r] : m[6 * r + s];
        for (int b = start; b < end; b++)
            to[r * n + b] = k[0] * from[b] + k[1] * from[n + b] + k[2] * from[2 * n + b] + k[3] * from[3 * n + b] +
                            k[4] * from[4 * n + b] + k[5] * from[5 * n + b];
    }
}

// Of one step that carries a wrench: what couples its own derivatives, its share with the Jacobian before it, and the
// strains at its two nodes; all 6 x 6.
static void couplings(const chain_t *chain, const frames_t *at, long long i, const double *beyond, double *curve,
                      double *p_beyond, double *p_bracket) {
    const double *omega = at->omega + 6 * i, *a = at->series + 11 * i + 3, *slope = a + 4;
    const double *rotation = at->rotation + 9 * i, *tangent = at->tangent + 36 * i;
    double arm[3], moment[3], moved[5][6], w[9], v[9], one[36] = {0}, p[36];
    cross(at->position + 3 * i, beyond + 3, arm);
    for (int k = 0; k < 3; k++) moment[k] = beyond[k] - arm[k];
    turned(rotation, moment, moved[0]), turned(rotation, beyond + 3, moved[0] + 3);
    for (int j = 0; j < 4; j++) { // moved[j + 1] = ad^T moved[j]
        double first[3], second[3], third[3];
        cross(moved[j], omega, first), cross(moved[j] + 3, omega + 3, second), cross(moved[j] + 3, omega, third);
        for (int k = 0; k < 3; k++) moved[j + 1][k] = first[k] + second[k], moved[j + 1][3 + k] = third[k];
    }
    memset(curve, 0, 36 * sizeof(double));
    hat(omega, w), hat(omega + 3, v);
    for (int r = 0; r < 3; r++)
        for (int s = 0; s < 3; s++) {
            one[6 * r + s] = one[6 * (r + 3) + s + 3] = w[3 * r + s];
            one[6 * (r + 3) + s] = v[3 * r + s];
        }
    for (int m = 3; m >= 0; m--) { // Horner in ad
        double sum[6] = {0}, next[36];
        for (int j = 0; j + m < 4; j++)
            for (int k = 0; k < 6; k++) sum[k] += a[m + j] * moved[j][k];
        co_ad(sum, p);
        multiply(curve, 0, one, next, 6, 0, 6);
        for (int k = 0; k < 36; k++) curve[k] = next[k] + p[k];
    }
    for (int s = 0; s < 6; s++) {
        double gradient = 0;
        for (int k = 0; k < 4; k++) gradient += slope[k] * moved[k + 1][s];
        for (int r = 0; r < 3; r++) curve[6 * r + s] += 2 * omega[r] * gradient;
    }
    co_ad(beyond, p_beyond);
    double pulled[6] = {0};
    for (int r = 0; r < 6; r++)
        for (int s = 0; s < 6; s++) pulled[s] += tangent[6 * r + s] * moved[0][r];
    co_ad(pulled, p_bracket);
    const double bracket = sqrt(3.0) / 12 * chain->step_m[i] * chain->step_m[i];
    for (int k = 0; k < 36; k++) p_bracket[k] *= bracket;
}

// hessian (n, n) += sum over the stations of d(J^T W)/dc at constant W; work: (6, n).
void chain_contraction(const chain_t *chain, const frames_t *at, const double *wrench, double *hessian, double *work) {
    const long long n = chain->size;
    double beyond[6] = {0}, curve[36], p[36], q[36];
    for (long long i = chain->steps - 1; i >= 0; i--) {
        for (int k = 0; k < 6; k++) beyond[k] += wrench[6 * (i + 1) + k];
        const int low = chain->low[i], high = chain->high[i];
        couplings(chain, at, i, beyond, curve, p, q);
        multiply(curve, 1, at->own + 6 * n * i, work, n, low, high);
        accumulate(hessian, at->own + 6 * n * i, work, n, low, high, low, high);
        multiply(p, 1, at->jacobian + 6 * n * i, work, n, 0, high);
        accumulate(hessian, at->step + 6 * n * i, work, n, low, high, 0, high);
        const double *phi_1 = chain->first + i * n, *phi_2 = chain->second + i * n;
        for (int k = low; k < high; k++)
            for (int b = low; b < high; b++) {
                const int r = chain->row[k], s = chain->row[b];
                hessian[k * n + b] += phi_2[k] * phi_1[b] * q[6 * s + r] + phi_1[k] * phi_2[b] * q[6 * r + s];
            }
    }
}

// force (n) = the same matrix times the rates, without the matrix.
static void contraction_along(const chain_t *chain, const frames_t *at, const double *wrench, const double *rate,
                              double *force) {
    const long long n = chain->size;
    double beyond[6] = {0}, curve[36], p[36], q[36];
    memset(force, 0, n * sizeof(double));
    for (long long i = chain->steps - 1; i >= 0; i--) {
        for (int k = 0; k < 6; k++) beyond[k] += wrench[6 * (i + 1) + k];
        const int low = chain->low[i], high = chain->high[i];
        const double *own = at->own + 6 * n * i, *step = at->step + 6 * n * i, *jacobian = at->jacobian + 6 * n * i;
        const double *phi_1 = chain->first + i * n, *phi_2 = chain->second + i * n;
        couplings(chain, at, i, beyond, curve, p, q);
        double omega_rate[6] = {0}, twist[6] = {0}, strain_1[6] = {0}, strain_2[6] = {0}, by_own[6], by_step[6];
        for (int r = 0; r < 6; r++) {
            for (int b = low; b < high; b++) omega_rate[r] += own[r * n + b] * rate[b];
            twist[r] = dot(jacobian + r * n, rate, high);
        }
        for (int b = low; b < high; b++) {
            strain_1[chain->row[b]] += phi_1[b] * rate[b], strain_2[chain->row[b]] += phi_2[b] * rate[b];
        }
        multiply(curve, 1, omega_rate, by_own, 1, 0, 1), multiply(p, 1, twist, by_step, 1, 0, 1);
        double by_1[6], by_2[6];
        multiply(q, 1, strain_1, by_1, 1, 0, 1), multiply(q, 0, strain_2, by_2, 1, 0, 1);
        for (int a = low; a < high; a++) {
            double sum = phi_2[a] * by_1[chain->row[a]] + phi_1[a] * by_2[chain->row[a]];
            for (int r = 0; r < 6; r++) sum += own[r * n + a] * by_own[r] + step[r * n + a] * by_step[r];
            force[a] += sum;
        }
    }
}

typedef struct {
    long long count;
    const int *station;                                                // (count), not decreasing
    const double *offset, *force, *moment, *body_force, *body_moment; // (count, 3)
} loads_t;

// Potential, generalised force (n), stiffness (n, n) or none where it is 0, wrench on every station; work: (6, n).
void load_terms(const chain_t *chain, const loads_t *loads, const double *c, const frames_t *at, double *potential,
                double *generalized, double *stiffness, double *wrench, double *work) {
    const long long n = chain->size;
    chain_frames(chain, c, at);
    *potential = 0;
    memset(wrench, 0, 6 * (chain->steps + 1) * sizeof(double));
    memset(generalized, 0, n * sizeof(double));
    if (stiffness) memset(stiffness, 0, n * n * sizeof(double));
    for (long long i = 0; i < loads->count;) {
        const int k = loads->station[i];
        const double *rotation = at->rotation + 9 * k, *jacobian = at->jacobian + 6 * n * k;
        double motion[36] = {0}, *total = wrench + 6 * k;
        for (; i < loads->count && loads->station[i] == k; i++) {
            double point[3], following[3], turning[3], force[3], arm[3], f[9], r[9], g[9], fr[9], rg[9], t[9];
            times(rotation, loads->offset + 3 * i, point);
            times(rotation, loads->body_force + 3 * i, following), times(rotation, loads->body_moment + 3 * i, turning);
            for (int j = 0; j < 3; j++) {
                point[j] += at->position[3 * k + j], force[j] = loads->force[3 * i + j] + following[j];
                *potential -= loads->force[3 * i + j] * point[j];
            }
            cross(point, force, arm);
            for (int j = 0; j < 3; j++) total[j] += loads->moment[3 * i + j] + turning[j] + arm[j], total[3 + j] += force[j];
            hat(force, f), hat(point, r), hat(following, g), hat(turning, t), product(f, r, fr), product(r, g, rg);
            for (int x = 0; x < 3; x++)
                for (int y = 0; y < 3; y++) {
                    motion[6 * x + y] += t[3 * x + y] - fr[3 * x + y] + rg[3 * x + y];
                    motion[6 * x + y + 3] += f[3 * x + y];
                    motion[6 * (x + 3) + y] += g[3 * x + y];
                }
        }
        const int end = k ? chain->high[k - 1] : 0;
        for (int r = 0; r < 6; r++)
            for (int b = 0; b < end; b++) generalized[b] += total[r] * jacobian[r * n + b];
        if (stiffness) {
            multiply(motion, 0, jacobian, work, n, 0, end);
            accumulate(stiffness, jacobian, work, n, 0, end, 0, end);
        }
    }
    if (stiffness) {
        // The contraction is that of the force: its sign turns here, the sum's after it.
        for (long long k = 0; k < n * n; k++) stiffness[k] = -stiffness[k];
        chain_contraction(chain, at, wrench, stiffness, work);
        for (long long k = 0; k < n * n; k++) stiffness[k] = -stiffness[k];
    }
}

typedef struct {
    long long nodes, count, size;
    const double *rest, *phi; // (nodes, 6), (nodes, size)
    const int *low, *high;    // (nodes)
    const int *row;           // (size)
    const double *running;    // (nodes, count)
    const double *place;      // (nodes, count, 2)
    const double *slope;      // (nodes, count, 2)
} paths_t;

// Lengths (count), their Jacobian (count, n), gradient (n) and Hessian (n, n) of the sum of tension times length; the
// Hessian is left out where it is 0.
void path_terms(const paths_t *paths, const double *c, const double *tension, double *lengths, double *jacobian,
                double *gradient, double *hessian) {
    const long long n = paths->size;
    memset(lengths, 0, paths->count * sizeof(double)), memset(jacobian, 0, paths->count * n * sizeof(double));
    memset(gradient, 0, n * sizeof(double));
    if (hessian) memset(hessian, 0, n * n * sizeof(double));
    for (long long i = 0; i < paths->nodes; i++) {
        const double *phi = paths->phi + i * n;
        const int low = paths->low[i], high = paths->high[i];
        double xi[6], curve[36] = {0};
        memcpy(xi, paths->rest + 6 * i, sizeof xi);
        for (int a = low; a < high; a++) xi[paths->row[a]] += phi[a] * c[a];
        for (long long j = 0; j < paths->count; j++) {
            const double weight = paths->running[i * paths->count + j];
            if (weight == 0) continue;
            const double *r = paths->place + 2 * (i * paths->count + j), *s = paths->slope + 2 * (i * paths->count + j);
            // t = v + u x r + r', pull = (r x t, t) / |t|
            const double t[3] = {xi[3] - xi[2] * r[1] + s[0], xi[4] + xi[2] * r[0] + s[1],
                                 xi[5] + xi[0] * r[1] - xi[1] * r[0]};
            const double norm = sqrt(dot(t, t, 3));
            const double pull[6] = {r[1] * t[2] / norm, -r[0] * t[2] / norm, (r[0] * t[1] - r[1] * t[0]) / norm,
                                    t[0] / norm,        t[1] / norm,         t[2] / norm};
            lengths[j] += weight * norm;
            for (int a = low; a < high; a++) jacobian[j * n + a] += weight * phi[a] * pull[paths->row[a]];
            if (!hessian || tension[j] == 0) continue;
            const double k = weight * tension[j] / norm, x = r[0], y = r[1];
            // A^T A - pull pull^T with A = [-hat(r), 1]
            const double square[36] = {y * y, -x * y, 0,             0,  0, y,  -x * y, x * x, 0, 0, 0, -x,
                                       0,     0,      x * x + y * y, -y, x, 0,  0,      0,     -y, 1, 0, 0,
                                       0,     0,      x,             0,  1, 0,  y,      -x,    0, 0, 0, 1};
            for (int u = 0; u < 6; u++)
                for (int v = 0; v < 6; v++) curve[6 * u + v] += k * (square[6 * u + v] - pull[u] * pull[v]);
        }
        if (!hessian) continue;
        for (int a = low; a < high; a++)
            for (int b = low; b < high; b++)
                hessian[a * n + b] += phi[a] * phi[b] * curve[6 * paths->row[a] + paths->row[b]];
    }
    for (long long j = 0; j < paths->count; j++)
        for (long long a = 0; a < n; a++) gradient[a] += tension[j] * jacobian[j * n + a];
}

// Of bodies fixed to the stations, inertia (steps + 1, 6, 6) about the station in its own axes, that move at the rates:
// momentum of each station in the base frame (steps + 1, 6), momentum (n) = sum of J^T P, force (n) = sum of d(J^T P)/dc
// at constant P times the rates; where mass is not 0 also mass (n, n), and turning (n, n) = derivative of the momentum
// with the rate of J, ad(V) of every step's share, taken between its ends; work: (18, n).
void inertia_terms(const chain_t *chain, const double *inertia, const frames_t *at, const double *rate, double *wrench,
                   double *momentum, double *force, double *mass, double *turning, double *work) {
    const long long n = chain->size;
    double *change = work + 6 * n, *right = work + 12 * n, before[6] = {0};
    memset(work, 0, 18 * n * sizeof(double));
    if (mass) memset(turning, 0, n * n * sizeof(double));
    memset(momentum, 0, n * sizeof(double));
    memset(wrench, 0, 6 * sizeof(double)); // the clamped end does not move
    if (mass) memset(mass, 0, n * n * sizeof(double));
    for (long long k = 1; k <= chain->steps; k++) {
        const double *rotation = at->rotation + 9 * k, *jacobian = at->jacobian + 6 * n * k, *own = inertia + 36 * k;
        double *total = wrench + 6 * k;
        const int end = chain->high[k - 1];
        double to_body[36] = {0}, place[9], back[9], twist[6], local[6], pressed[6]; // twist in body = to_body twist
        hat(at->position + 3 * k, place);
        for (int r = 0; r < 3; r++)
            for (int s = 0; s < 3; s++) {
                back[3 * r + s] = rotation[3 * s + r];
                to_body[6 * r + s] = to_body[6 * (r + 3) + s + 3] = rotation[3 * s + r];
            }
        double moved[9];
        product(back, place, moved);
        for (int r = 0; r < 3; r++)
            for (int s = 0; s < 3; s++) to_body[6 * (r + 3) + s] = -moved[3 * r + s];
        for (int r = 0; r < 6; r++) twist[r] = dot(jacobian + r * n, rate, end);
        for (int r = 0; r < 6; r++) local[r] = dot(to_body + 6 * r, twist, 6);
        for (int r = 0; r < 6; r++) pressed[r] = dot(own + 6 * r, local, 6);
        for (int r = 0; r < 6; r++) {
            total[r] = 0;
            for (int s = 0; s < 6; s++) total[r] += to_body[6 * s + r] * pressed[s];
        }
        for (int r = 0; r < 6; r++)
            for (int b = 0; b < end; b++) momentum[b] += total[r] * jacobian[r * n + b];
        if (!mass) continue;
        double half[36], spatial[36], p[36], w[9], v[9], one[36] = {0}, mean[6];
        multiply(own, 0, to_body, half, 6, 0, 6);
        multiply(to_body, 1, half, spatial, 6, 0, 6);
        multiply(spatial, 0, jacobian, work, n, 0, end);
        accumulate(mass, jacobian, work, n, 0, end, 0, end);
        for (int r = 0; r < 6; r++) mean[r] = (before[r] + twist[r]) / 2, before[r] = twist[r];
        hat(mean, w), hat(mean + 3, v);
        for (int r = 0; r < 3; r++)
            for (int s = 0; s < 3; s++) {
                one[6 * r + s] = one[6 * (r + 3) + s + 3] = w[3 * r + s];
                one[6 * (r + 3) + s] = v[3 * r + s];
            }
        multiply(one, 0, at->step + 6 * n * (k - 1), work, n, chain->low[k - 1], end);
        for (int r = 0; r < 6; r++)
            for (int b = chain->low[k - 1]; b < end; b++) change[r * n + b] += work[r * n + b];
        multiply(spatial, 0, change, right, n, 0, end);
        co_ad(total, p);
        multiply(p, 1, jacobian, work, n, 0, end);
        for (int r = 0; r < 6; r++)
            for (int b = 0; b < end; b++) right[r * n + b] -= work[r * n + b];
        accumulate(turning, jacobian, right, n, 0, end, 0, end);
    }
    contraction_along(chain, at, wrench, rate, force);
    if (mass) chain_contraction(chain, at, wrench, turning, work);
}
