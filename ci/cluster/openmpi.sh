# Open MPI's mpirun between the machines. Sourced by ci/cluster-check.

# mpirun_on MACHINES ARGUMENT...: collspec with two processes on each of so many machines.
mpirun_on() {
  local count=$1 hosts
  shift
  hosts=$(printf '%s:2,' "${machines[@]:0:count}")
  on "${machines[0]}" mpirun --allow-run-as-root --oversubscribe --mca plm_rsh_agent "$work/remote-shell" \
    --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include eth0 -H "${hosts%,}" -n $((2 * count)) "$collspec" "$@"
}

check_openmpi() {
  command -v mpirun >/dev/null || { skipped "mpirun is not installed (Debian: openmpi-bin)"; return; }
  # The remote shell of mpirun: HOST COMMAND...
  cat >"$work/remote-shell" <<'SHELL'
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c "hostname $host; exec sh -c '$*'"
SHELL
  chmod +x "$work/remote-shell"
  local version count
  version=$(mpirun --version | head -1)
  for count in 2 4; do
    same_verdicts "$version" "$count" 1 "started by openmpi" mpirun_on "$count"
    same_verdicts "$version" "$count" 4 "started by openmpi" mpirun_on "$count"
  done
  ends_with_nothing_left "$version" INT mpirun_on 2
  ends_with_nothing_left "$version" KILL mpirun_on 2
}
