# A Slurm cluster of its own: a controller on the first machine, a daemon on each. Sourced by ci/cluster-check.

start_slurm() {
  local cluster=$work/slurm machine count
  mkdir -p "$cluster/state"
  head -c 1024 /dev/urandom >"$cluster/key"
  chmod 400 "$cluster/key"
  munged --socket="$cluster/munge" --key-file="$cluster/key" --pid-file="$cluster/munged.pid" \
    --log-file="$cluster/munged.log" --seed-file="$cluster/seed" --force >"$cluster/munged.out" 2>&1 || return 1
  {
    printf '%s\n' "ClusterName=check" "SlurmctldHost=${machines[0]}(${addresses[0]})" "SlurmUser=root" "SlurmdUser=root"
    printf '%s\n' "AuthType=auth/munge" "AuthInfo=socket=$cluster/munge" "CredType=cred/munge"
    printf '%s\n' "StateSaveLocation=$cluster/state" "SlurmdSpoolDir=$cluster/spool-%n" "SlurmctldPidFile=$cluster/controller.pid"
    printf '%s\n' "SlurmdPidFile=$cluster/%n.pid" "SlurmctldLogFile=$cluster/controller.log" "SlurmdLogFile=$cluster/%n.log"
    printf '%s\n' "ProctrackType=proctrack/linuxproc" "TaskPlugin=task/none" "JobAcctGatherType=jobacct_gather/none"
    printf '%s\n' "SelectType=select/cons_tres" "MpiDefault=none" "ReturnToService=2" "SlurmdParameters=config_overrides" "KillWait=5"
    for count in "${!machines[@]}"; do
      printf 'NodeName=%s NodeAddr=%s CPUs=8 RealMemory=1000\n' "${machines[$count]}" "${addresses[$count]}"
    done
    printf 'PartitionName=all Nodes=ALL Default=YES State=UP\n'
  } >"$cluster/slurm.conf"
  # Processes are followed by their parents, so no control groups are needed.
  printf 'CgroupPlugin=cgroup/v1\n' >"$cluster/cgroup.conf"
  export SLURM_CONF=$cluster/slurm.conf
  # On machines of its own the services see neither each other's processes nor other services.
  on "${machines[0]}" slurmctld -D -f "$SLURM_CONF" >"$cluster/controller.out" 2>&1 &
  for machine in "${machines[@]}"; do
    mkdir -p "$cluster/spool-$machine"
    on "$machine" slurmd -D -f "$SLURM_CONF" -N "$machine" >"$cluster/$machine.out" 2>&1 &
  done
  local waited=0
  until [ "$(on "${machines[0]}" sinfo --noheader --format %D --states idle 2>/dev/null)" = "${#machines[@]}" ]; do
    sleep 0.2
    waited=$((waited + 1))
    [ "$waited" -lt 150 ] || return 1
  done
}

stop_slurm() {
  local pid=$work/slurm/munged.pid
  [ ! -s "$pid" ] || kill "$(cat "$pid")" 2>/dev/null || true
}

# srun_on MACHINES ARGUMENT...: collspec with two processes on each of so many machines.
srun_on() {
  local count=$1
  shift
  on "${machines[0]}" srun --nodes "$count" --ntasks $((2 * count)) --ntasks-per-node 2 "$collspec" "$@"
}

# batch_on MACHINES ARGUMENT...: as srun_on, from a batch script, whose own variables look like those of a first process.
batch_on() {
  local count=$1
  shift
  printf '#!/bin/sh\n"$0.doctor" doctor | grep ^launcher\nexec srun "$@"\n' >"$work/batch"
  ln -sf "$collspec" "$work/batch.doctor"
  sed -i "s|\$0.doctor|$work/batch.doctor|" "$work/batch"
  on "${machines[0]}" sbatch --quiet --wait --nodes "$count" --ntasks $((2 * count)) --ntasks-per-node 2 \
    --output "$work/batch.out" "$work/batch" "$collspec" "$@" || true
  cat "$work/batch.out"
}

check_slurm() {
  local program version count
  for program in slurmctld slurmd munged srun sbatch; do
    command -v "$program" >/dev/null || { skipped "$program is not installed (Debian: slurmctld, slurmd, slurm-client, munge)"; return; }
  done
  version="srun of $(slurmd -V)"
  start_slurm || { tail -n 3 "$work"/slurm/*.out; skipped "no cluster of Slurm starts here"; return; }
  for count in 2 4; do
    same_verdicts "$version" "$count" 1 "started by slurm" srun_on "$count"
  done
  same_verdicts "$version in a batch script" 2 2 "started by slurm" batch_on 2
  grep -q '^launcher *none: this process is alone' "$work/batch.out" || fail "a batch script is taken for a process of a step"
  ends_with_nothing_left "$version" KILL srun_on 2
  # scancel
  srun_on 2 run "$work/long.toml" >"$work/out" 2>&1 &
  local started=$!
  wait_for_workers
  on "${machines[0]}" scancel --user root
  { wait "$started" || true; } 2>/dev/null
  left_over "scancel"
  printf '%s: scancel leaves nothing\n' "$version"
  stop_slurm
}
