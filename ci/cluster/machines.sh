# Network namespaces as machines, each with an address and a host name that the others know. Sourced by ci/cluster-check.
id=$$
bridge=csb$((id % 100000))
machines=()
addresses=()

# False, with the reason in $work/why, where this machine does not let anybody make others.
can_make_machines() { ip link add "$bridge" type bridge 2>"$work/why"; }

# make_machines N: the arrays machines and addresses have them afterwards.
make_machines() {
  ip link set "$bridge" up
  printf '127.0.0.1 localhost\n' >"$work/hosts"
  local number machine
  for number in $(seq "$1"); do
    machine=m$number-$id
    ip netns add "$machine"
    machines+=("$machine")
    addresses+=("10.77.0.$number")
    ip link add "$(cable "$number")" type veth peer name eth0 netns "$machine"
    ip link set "$(cable "$number")" master "$bridge" up
    ip -n "$machine" addr add "10.77.0.$number/24" dev eth0
    ip -n "$machine" link set eth0 up
    ip -n "$machine" link set lo up
    printf '10.77.0.%s %s\n' "$number" "$machine" >>"$work/hosts"
  done
  for machine in "${machines[@]}"; do
    mkdir -p "/etc/netns/$machine"
    cp "$work/hosts" "/etc/netns/$machine/hosts"
  done
}

# The end of a machine's cable that is not in it.
cable() { printf 'csv%s' "$1$((id % 100000))"; }

remove_machines() {
  local machine
  for machine in "${machines[@]}"; do
    ip netns pids "$machine" 2>/dev/null | xargs -r kill -KILL 2>/dev/null || true
    ip netns del "$machine" 2>/dev/null || true
    rm -rf "/etc/netns/$machine"
  done
  ip link del "$bridge" 2>/dev/null || true
}

# on MACHINE COMMAND...: on that machine, under its host name. In a subshell the command takes its place, so that signals reach it.
on() {
  local machine=$1 take_place=()
  shift
  [ "$BASHPID" = "$$" ] || take_place=(exec)
  "${take_place[@]}" ip netns exec "$machine" unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' sh "$machine" "$@"
}

# Processes on a machine, without the services of a cluster.
processes_on() {
  local pid
  for pid in $(ip netns pids "$1"); do
    case $(cat "/proc/$pid/comm" 2>/dev/null) in
      slurm* | '') ;;
      *) printf '%s ' "$pid" ;;
    esac
  done
}

# left_over AFTER_WHAT: fails if a process is left on a machine.
left_over() {
  local machine waited
  for machine in "${machines[@]}"; do
    waited=0
    while [ -n "$(processes_on "$machine")" ]; do
      sleep 0.1 # a process that is about to end
      waited=$((waited + 1))
      [ "$waited" -lt 100 ] || fail "processes are left on $machine after $1: $(processes_on "$machine")"
    done
  done
}

# slow MACHINE_NUMBER RATE: both directions of its cable carry at most so much.
slow() {
  tc -n "${machines[$(($1 - 1))]}" qdisc add dev eth0 root tbf rate "$2" burst 16kb latency 2s
  tc qdisc add dev "$(cable "$1")" root tbf rate "$2" burst 16kb latency 2s
}

# As fast as before.
fast_again() {
  tc -n "${machines[$(($1 - 1))]}" qdisc del dev eth0 root
  tc qdisc del dev "$(cable "$1")" root
}
