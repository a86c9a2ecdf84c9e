# Two hundred cases, in the middle of which something breaks. The processes are started by hand, because launchers end a job in which
# one is killed. Sourced by ci/cluster-check.

# Processes of a run by hand, by rank: three on each of two machines. Each case has four ranks, so processes 2 and 5 are spare.
declare -a process
start_by_hand() {
  local rank machine
  # What an earlier run has said must not be read as said by this one.
  rm -f "$work"/out[0-5]
  for rank in 5 4 3 2 1 0; do
    machine=${machines[$((rank / 3))]}
    (
      export COLLSPEC_RANK=$rank COLLSPEC_SIZE=6 COLLSPEC_LOCAL_RANK=$((rank % 3)) COLLSPEC_MEETING=${addresses[0]}:7000
      # One process from here on, so that a signal reaches collspec.
      exec ip netns exec "$machine" unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' sh "$machine" \
        "$collspec" run "$1" --jobs 1 --verbose >"$work/out$rank" 2>&1
    ) &
    process[rank]=$!
  done
}
passed() { grep -c '^pass' "$work/out0" || true; }
failed() { grep -c '^FAIL' "$work/out0" || true; }
# Waits until so many cases are over.
until_over() {
  local waited=0
  while [ ! -s "$work/out0" ] || [ "$(passed)" -lt "$1" ]; do
    sleep 0.05
    waited=$((waited + 1))
    [ "$waited" -lt 2400 ] || fail "the run does not go on: $(cat "$work/out0")"
  done
}
# all_end_with STATUS RANK...: these processes end with this status. The shell's own words about those that were killed say nothing.
all_end_with() {
  local wanted=$1 rank status
  shift
  for rank in "$@"; do
    status=0
    { wait "${process[$rank]}" || status=$?; } 2>/dev/null
    [ "$status" = "$wanted" ] || fail "process $rank ended with status $status instead of $wanted: $(tail -n 5 "$work/out$rank")"
  done
}
# Those but one.
others() { local rank; for rank in 0 1 2 3 4 5; do [ "$rank" = "$1" ] || printf '%s ' "$rank"; done; }

check_what_breaks() {
  local number victim status most
  mkdir "$work/many" "$work/small"
  for number in $(seq 200); do
    printf 'world_size = 4\nop = "all_reduce"\nrepeat = 20\ninputs = { each = "rank * %d + i", count = 2000 }\n' "$number" \
      >"$work/many/case_$number.toml"
    printf 'world_size = 4\nop = "all_reduce"\ninputs = { each = "rank * %d + i", count = 50 }\n' "$number" >"$work/small/case_$number.toml"
  done
  for victim in 1 2 3 4 5; do
    start_by_hand "$work/many"
    until_over 20
    kill -KILL "${process[$victim]}"
    status=0
    wait "${process[0]}" 2>/dev/null || status=$?
    # A process that dies between two cases costs none, and a spare one never does.
    case $victim in 2 | 5) most=0 ;; *) most=1 ;; esac
    [ "$(failed)" -le "$most" ] && [ $(($(passed) + $(failed))) = 200 ] && [ "$status" = "$(failed)" ] ||
      fail "process $victim was killed: $(passed) cases passed, $(failed) failed, status $status: $(tail -n 5 "$work/out0")"
    # shellcheck disable=SC2046
    all_end_with "$status" $(others "$victim")
    { wait "${process[$victim]}" || true; } 2>/dev/null
    left_over "the death of process $victim"
    printf 'process %s of 6 killed: %s of 200 cases passed, %s failed\n' "$victim" "$(passed)" "$(failed)"
  done

  start_by_hand "$work/many"
  until_over 20
  ip -n "${machines[1]}" link set eth0 down
  status=0
  wait "${process[0]}" || status=$?
  # Cases that need more processes than are left are not run, which is more than that one failed.
  [ "$status" = 2 ] || fail "status $status although a machine was cut off: $(tail -n 20 "$work/out0")"
  grep -q "${machines[1]}" "$work/out0" || fail "the machine that was cut off is not named: $(tail -n 20 "$work/out0")"
  [ "$(failed)" = 1 ] || fail "$(failed) cases failed after one machine was cut off"
  grep -q "^$(passed) passed, 1 failed, 0 skipped, $((199 - $(passed))) not run" "$work/out0" || fail "cases are missing: $(tail -n 3 "$work/out0")"
  all_end_with 2 1 2
  # The processes on the machine that was cut off have no leader any more.
  all_end_with 2 3 4 5
  left_over "the end of a link"
  ip -n "${machines[1]}" link set eth0 up
  printf 'a link cut: %s passed, 1 failed, the others need more processes than are left\n' "$(passed)"

  local begun=$SECONDS
  start_by_hand "$work/small"
  until_over 20
  slow 2 1mbit
  wait "${process[0]}" || fail "cases failed on a slow link: $(grep -A 5 '^FAIL' "$work/out0")"
  [ "$(passed)" = 200 ] || fail "only $(passed) of 200 cases passed on a slow link"
  all_end_with 0 1 2 3 4 5
  left_over "a run on a slow link"
  fast_again 2
  printf 'a link of 1 Mbit/s from case 20 on: %s of 200 cases passed (%s s)\n' "$(passed)" $((SECONDS - begun))

  start_by_hand "$work/many"
  until_over 10
  kill -KILL "${process[0]}"
  all_end_with 2 1 2 3 4 5
  left_over "the death of the leading process"
  printf 'the leading process killed: nothing is left\n'
}
