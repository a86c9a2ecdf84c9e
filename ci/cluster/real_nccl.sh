# A real NCCL on software GPUs, between machines over sockets. Sourced by ci/cluster-check.

# second_cable NUMBER: a machine gets a second network interface.
second_cable() {
  local machine=${machines[$(($1 - 1))]} cable
  cable=$(cable "$1")b
  ip link add "$cable" type veth peer name eth1 netns "$machine"
  ip link set "$cable" master "$bridge" up
  ip -n "$machine" addr add "10.78.0.$1/24" dev eth1
  ip -n "$machine" link set eth1 up
}

# nccl_passes NAME PATH...: with two processes of two ranks on each of two machines nothing fails.
nccl_passes() {
  local name=$1 begun=$SECONDS
  shift
  mpirun_on 2 run "$@" --nccl "$nccl" --driver software --require nccl-software --ranks-per-process 2 >"$work/out" 2>&1 ||
    fail "NCCL $nccl, $name: $(cat "$work/out")"
  grep -q "4 processes on 2 machines" "$work/out" || fail "NCCL $nccl: the processes did not meet: $(cat "$work/out")"
  # mpirun gives it a terminal, and so colours.
  local passed
  passed=$(sed 's/\x1b\[[0-9;]*m//g' "$work/out" | grep ' passed, 0 failed') || fail "NCCL $nccl, $name: $(cat "$work/out")"
  left_over "a run of NCCL $nccl"
  printf 'NCCL %s on software GPUs, %s: %s (%s s)\n' "$nccl" "$name" "$passed" $((SECONDS - begun))
}

check_real_nccl() {
  command -v mpirun >/dev/null || { skipped "mpirun is not installed (Debian: openmpi-bin)"; return; }
  nccl=${NCCL:-2.32.3}
  timeout "${COLLSPEC_FETCH_LIMIT:-180}" "$collspec" nccl fetch "$nccl" >/dev/null 2>"$work/why" ||
    { skipped "NCCL $nccl could not be fetched: $(cat "$work/why")"; return; }
  nccl_passes "two machines" scenarios/documented
  # NCCL adds up by NVLSTree only between machines with two network interfaces each.
  second_cable 1
  second_cable 2
  COLLSPEC_SOFTWARE_NVLINKS=5 nccl_passes "two machines, each with an NVLink switch" tests/real/nvls_tree.toml
  slow 2 1mbit
  nccl_passes "a link of 1 Mbit/s" tests/real/protocols.toml
  fast_again 2
}
