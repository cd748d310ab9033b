// SPDX-License-Identifier: Apache-2.0
// Many robots in one call: on some threads, and eight at a time in the lanes of the processor.
#pragma once
#include "algebra.hpp"
#include "arrays.hpp"
#include <atomic>
#include <thread>
#include <type_traits>
#include <vector>

namespace rod {

// One scalar of each lane from as many robots: robot k's values begin at `stride * k`. Lanes without a robot repeat the
// last one.
template <class S> void gather(const double *from, std::size_t stride, int robots, std::size_t count, S *to) {
  if constexpr (std::is_same_v<S, double>) std::copy(from, from + count, to);
  else
    for (std::size_t i = 0; i < count; i++)
      for (int l = 0; l < LANES; l++) to[i][l] = from[std::min(l, robots - 1) * stride + i];
}
template <class S> void scatter(const S *from, std::size_t stride, int robots, std::size_t count, double *to) {
  if constexpr (std::is_same_v<S, double>) std::copy(from, from + count, to);
  else
    for (int l = 0; l < robots; l++)
      for (std::size_t i = 0; i < count; i++) to[l * stride + i] = from[i][l];
}

// The numbers of many robots: each array holds one block a robot.
class OwnNumbers {
public:
  OwnNumbers(const Shape &r, const Numbers<double> &q)
      : from{q.gravity, q.body, q.inertia, q.stiffness, q.damping, q.rest, q.path_rest, q.path} {
    const std::size_t n = r.n, path = r.straight ? r.paths * (1 + n) : paths_at_nodes(r) * PATH;
    const std::size_t all[COUNT] = {3, r.bodies * std::size_t{BODY}, n * n, n * n, n * n, r.bodies * std::size_t{18},
                                    r.path_nodes * std::size_t{6}, path};
    std::copy(all, all + COUNT, sizes);
  }

  std::size_t memory() const {
    std::size_t count = 0;
    for (std::size_t size : sizes) count += size;
    return count;
  }

  // Of `robots` from number `first` on.
  template <class S> Numbers<S> take(int first, int robots, Arena<S> &memory) const {
    S *to[COUNT];
    for (int i = 0; i < COUNT; i++) {
      to[i] = from[i] ? memory.raw(sizes[i]) : nullptr;
      if (from[i]) gather(from[i] + first * sizes[i], sizes[i], robots, sizes[i], to[i]);
    }
    return {to[0], to[1], to[2], to[3], to[4], to[5], to[6], to[7]};
  }

private:
  static constexpr int COUNT = 8;
  const double *from[COUNT];
  std::size_t sizes[COUNT];

  static std::size_t paths_at_nodes(const Shape &r) {
    std::size_t count = 0;
    for (int k = 0; k < r.path_nodes; k++) count += r.path_node[k].paths;
    return count;
  }
};

// Does `job.run<S>(first, robots)` for all robots, in groups that do not depend on the number of threads; where one of a
// group fails, the group wrote nothing and each of it is done alone. `going` is looked at between groups: 0 ends. `done`
// counts robots. How many failed.
template <class Job> int for_all(const Job &job, int robots, int threads, const int *going, int *done) {
  std::atomic<int> next{0}, failed{0};
  auto work = [&] {
    for (int k; (k = next.fetch_add(LANES)) < robots;) {
      if (!*static_cast<const volatile int *>(going)) return;
      const int count = std::min(LANES, robots - k);
      if (robots == 1 || job.template run<Lanes>(k, count))
        for (int i = 0; i < count; i++) failed += job.template run<double>(k + i, 1);
      __atomic_fetch_add(done, count, __ATOMIC_RELAXED);
    }
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; t++) pool.emplace_back(work);
  work();
  for (auto &thread : pool) thread.join();
  return failed;
}

} // namespace rod
