# PyTorch's torchrun, one on each machine. Sourced by ci/cluster-check.

# torchrun_on MACHINES ARGUMENT...: collspec with two processes on each of so many machines.
torchrun_on() {
  local count=$1 number status=0 one
  shift
  torchruns=()
  # The machine with the store starts last: torchrun may give it any rank.
  for number in $(seq "$count" -1 1); do
    on "${machines[$((number - 1))]}" torchrun --no-python --nnodes "$count" --nproc-per-node 2 --rdzv-backend c10d \
      --rdzv-endpoint "${machines[0]}:29400" --rdzv-id "check-$id" "$collspec" "$@" &
    torchruns+=($!)
  done
  printf '%s\n' "${torchruns[@]}" >"$work/torchruns"
  for one in "${torchruns[@]}"; do
    wait "$one" || status=$?
  done
  return "$status"
}

check_torchrun() {
  command -v torchrun >/dev/null || { skipped "torchrun is not installed (PyPI: torch)"; return; }
  local version count
  version=$(torchrun_version)
  for count in 2 4; do
    same_verdicts "$version" "$count" 1 "started by torchrun" torchrun_on "$count"
  done
  rm -f "$work/torchruns"
  torchrun_on 2 run "$work/long.toml" >"$work/out" 2>&1 &
  local started=$!
  wait_for_workers
  xargs kill -TERM <"$work/torchruns"
  { wait "$started" || true; } 2>/dev/null
  left_over "torchrun got SIGTERM"
  printf '%s: after SIGTERM nothing is left\n' "$version"
}

torchrun_version() {
  local python
  python=$(dirname "$(command -v torchrun)")/python3
  printf 'torchrun of PyTorch %s' "$("$python" -c 'import torch; print(torch.__version__)' 2>/dev/null || echo '(version unknown)')"
}
