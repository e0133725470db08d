#!/bin/bash
# Runs fuzz targets, FUZZ_SECONDS (60) each, JOBS (1) at a time: those named, or all. A target begins
# with valid inputs and with what its earlier runs have kept in build-asan/fuzz/corpus/. Prints a table
# and ends with 1 if there was a finding, which is then in build-asan/fuzz/findings/.
# FUZZ_SEED: of the random numbers; 0, the default, is another one each time.
# FUZZ_PART=K/N: of all targets only each Nth, from the Kth on.
set -euo pipefail
cd "$(dirname "$0")/.."
fuzz=$PWD/build-asan/fuzz
seconds=${FUZZ_SECONDS:-60}
mkdir -p "$fuzz/findings" "$fuzz/logs"

# Nothing that a small file says may become a large allocation.
export limits="-malloc_limit_mb=64 -rss_limit_mb=2048 -timeout=20 -max_len=16384 -len_control=0 -close_fd_mask=3"
export ASAN_OPTIONS=quarantine_size_mb=16:detect_leaks=1

run_target() {
  local target=$1 seconds=$2 fuzz=$3
  mkdir -p "$fuzz/corpus/$target"
  # shellcheck disable=SC2086
  nice -n 19 "$fuzz/${target}_fuzz" "$fuzz/corpus/$target" $limits -max_total_time="$seconds" \
    -seed="${FUZZ_SEED:-0}" -print_final_stats=1 -artifact_prefix="$fuzz/findings/$target-" \
    >"$fuzz/logs/$target.log" 2>&1 && echo none >"$fuzz/logs/$target.result" ||
    echo finding >"$fuzz/logs/$target.result"
}
export -f run_target

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  part=${FUZZ_PART:-1/1}
  index=0
  for program in "$fuzz"/*_fuzz; do
    name=${program##*/}
    [ $((++index % ${part#*/})) -ne $((${part%/*} % ${part#*/})) ] || targets+=("${name%_fuzz}")
  done
fi
printf '%s\0' "${targets[@]}" |
  xargs -0 -P "${JOBS:-1}" -I{} bash -c 'run_target "$@"' run_target {} "$seconds" "$fuzz"

status=0
printf '%-18s %8s %12s %9s  %s\n' target seconds executions coverage findings
for target in "${targets[@]}"; do
  log=$fuzz/logs/$target.log
  result=$(cat "$fuzz/logs/$target.result")
  printf '%-18s %8s %12s %9s  %s\n' "$target" \
    "$(sed -n 's/^Done [0-9]* runs in \([0-9]*\) second.*/\1/p' "$log")" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
    "$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)" "$result"
  [ "$result" = none ] || status=1
done
if [ $status -ne 0 ]; then
  for target in "${targets[@]}"; do
    [ "$(cat "$fuzz/logs/$target.result")" = none ] && continue
    echo "== $target"
    tail -n 40 "$fuzz/logs/$target.log"
  done
  exit 1
fi
echo "fuzz: ${#targets[@]} targets, no finding"
