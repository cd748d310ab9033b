#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Linters and all tests: test/all.sh PYTHON. With LONG=1 in the environment also those marked long.
# What talks over DDS runs a process for each file: no thread and no participant of one disturbs the next. Tests in real
# time come one file after the other. Beside them, with what they leave of the processors: the linters, the tests in
# simulated time two files at once, and what needs no DDS. Their results follow at the end.
set -euo pipefail
python=$1 part=${2:-}
# A -m on the command line takes the place of the one in pyproject.toml, which leaves long ones out.
long=${LONG:+or long}
chosen="(not long ${long})"
talks="pytest\.mark\.(ros|launch)"
left_out="^pytestmark.*pytest\.mark\.${LONG:+nothing_is_}long"
code=0
# Hundreds of processes import the package: they read what the first one compiled.
unset PYTHONDONTWRITEBYTECODE
# What runs side by side shares the processors: threads of the linear algebra would only wait for each other.
export OPENBLAS_NUM_THREADS=1

# Four parts start stacks, each in a quarter of the domains; which one depends on the run.
run=${CONTINUUM_ROBOT_TEST_RUN:-$$}
export CONTINUUM_ROBOT_TEST_RUN=$run
domain() { echo $((1 + (run + $1) % 4 * 24)); }

dds() {  # MARKS DOMAIN... <FILES
  local marks="(ros or launch) and $1 and $chosen"
  shift
  "$python" test/forked.py "$marks" "$@"
}

case $part in
  lint)
    make --no-print-directory lint || { echo "FAILED make lint"; exit 1; }
    exit
    ;;
  simulated)
    # Those that are in real time, or long, as a whole are left out: to find nothing in them takes as long as a test.
    dds "not real_time" "$(domain 1)" "$(domain 2)" \
      < <(grep -lrE "$talks" test --include='test_*.py' | xargs grep -LE "^pytestmark.*real_time|$left_out")
    exit
    ;;
  units)
    export CONTINUUM_ROBOT_TEST_DOMAIN=$(domain 3)
    exec "$python" -m pytest -n auto --dist loadfile --durations=30 -m "not ros and not launch and $chosen" </dev/null
    ;;
esac

results=$(mktemp -d)
running=()
# At nice 19 they would stand still beside two busy programs, and their waits end. Simulated time is thread after thread:
# it uses little and waits for each, so it goes before those that only compute.
set -m  # a process group each
for part in lint simulated units; do
  [ "$part" = simulated ] && niceness=5 || niceness=10
  nice -n "$niceness" "$0" "$python" "$part" >"$results/$part" 2>&1 3>&- &
  running+=($!)
done
set +m
trap 'for group in "${running[@]}"; do kill -- "-$group" 2>/dev/null || true; done; rm -rf "$results"' EXIT

exec 3>&1 1> >(tee "$results/real_time" >&3)
dds "real_time" "$(domain 0)" \
  < <(grep -lrE "$talks" test --include='test_*.py' | xargs grep -l "pytest\.mark\.real_time" | xargs grep -LE "$left_out") || code=1
exec 1>&3 3>&-

# Nothing is left to be disturbed. Who may not raise a priority waits longer, where other programs run too.
for group in "${running[@]}"; do renice -n 0 -g "$group" >/dev/null 2>&1 || true; done
for group in "${running[@]}"; do wait "$group" || code=$?; done
cat "$results"/lint "$results"/simulated "$results"/units
# Once more at the end, where a reader of a long log looks first.
grep -hE "^SKIPPED " "$results"/* || true
echo "skipped: $(sed -nE 's/^SKIPPED \[([0-9]+)\].*/\1/p' "$results"/* | awk '{sum += $1} END {print sum + 0}')"
grep -hE "^(FAILED|ERROR) " "$results"/* || true
exit "$code"
