#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Linters and all tests: test/all.sh PYTHON. What talks over DDS runs a process for each file, one after the other: no
# thread and no participant of one disturbs the next. The others take what those leave of the processors, and are told of
# at the end.
set -euo pipefail
python=$1
marks="pytest\.mark\.(ros|launch)"

others=$(mktemp)
set -m  # a process group of its own
nice -n 19 bash -c '"$0" -m ruff check . && "$0" -m mypy &&
  exec "$0" -m pytest -n auto --dist loadfile --durations=30 -m "not ros and not launch"' "$python" >"$others" 2>&1 &
running=$!
set +m
trap 'kill -- "-$running" 2>/dev/null || true; rm -f "$others"' EXIT

grep -lrE "$marks" test --include='test_*.py' | sort | while read -r file; do
  echo "$file"
  # 5: nothing is selected
  "$python" -m pytest -q --durations=5 --durations-min=1 -m "ros or launch" "$file" </dev/null || [ $? -eq 5 ]
done

# Nothing is left to be disturbed. Who may not raise a priority waits longer, where other programs run too.
renice -n 0 -g "$running" >/dev/null 2>&1 || true
code=0
wait "$running" || code=$?
cat "$others"
exit "$code"
