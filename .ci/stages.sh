# shellcheck shell=bash
# What a stage of `.ci/run` is: which are chosen, how they run, alone or side by side, and what is said of them in the
# end. It is sourced there.

# $@: names of stages; none: all. Sets `chosen` to these, and to those that prepare what they need.
choose_stages() {
  local name
  chosen=" ${*:-${stages[*]}} "
  for name in "$@"; do
    if [[ " ${stages[*]} " != *" $name "* ]]; then
      printf '.ci/run: there is no stage "%s"; the stages are: %s\n' "$name" "${stages[*]}" >&2
      exit 2
    fi
  done
  # The stages of README leave their clones to those that follow.
  if is_chosen package && ! is_chosen readme-root; then chosen+='root-clone '; fi
  if [[ $chosen =~ \ (lengthy|integration|mariadb|postgres|machines|nodes)\  ]]; then
    chosen+='debian '
    is_chosen readme-user || chosen+='user-clone '
  fi
  if [[ $chosen =~ \ (lengthy|integration|postgres|machines)\  ]]; then chosen+='mysql '; fi
}

is_chosen() {
  [[ $chosen == *" $1 "* ]]
}

set_up() {
  work=$(mktemp -d)
  trap clean_up EXIT
  chmod 755 "$work"
  mkdir --mode 1777 "$work/results"
  # Of the user above, as deep as somebody's projects may lie.
  clone="$work/home/projects-of-somebody/websites/shop.example.org/private/tools/folder-runner"
  # There once it is unpacked; tests start servers with it.
  mysqld="$work/unstable/mysqld"
}

# Does nothing unless it is chosen. A function in a shell of its own, as `set -e` does nothing within `if` or before
# `||`.
stage() {
  is_chosen "$1" || return 0
  local title=$2 code=0 start=$SECONDS
  shift 2
  printf '\n=== %s\n' "$title"
  set +e
  (set -e && "$@")
  code=$?
  set -e
  printf '=== %s: %s, %s s\n' "$title" "$([ $code = 0 ] && echo ok || echo "FAILED with $code")" $((SECONDS - start)) |
    tee -a "$work/stages"
  [ $code = 0 ] || failed_stages+=("$title")
}

# Stages that wait more than they work; told one after the other. $@: a name, a title, its function, and so on.
side_by_side() {
  local names=() titles=() pids=() index
  while [ $# -gt 0 ]; do
    (failed_stages=(); stage "$1" "$2" "$3"; [ ${#failed_stages[@]} = 0 ]) >"$work/side-$1.log" 2>&1 &
    pids+=($!) titles+=("$2") names+=("$1")
    shift 3
  done
  for index in "${!pids[@]}"; do
    wait "${pids[index]}" || failed_stages+=("${titles[index]}")
    cat "$work/side-${names[index]}.log"
  done
}

# Parts of a stage, of which the last one is told as it goes. $@: their functions.
beside() {
  local part pids=() code=0
  for part in "${@:1:$#-1}"; do
    (set -e; "$part") >"$work/$part.log" 2>&1 &
    pids+=($!)
  done
  (set -e; "${!#}") &
  pids+=($!)
  for part in "${pids[@]}"; do wait "$part" || code=1; done
  for part in "${@:1:$#-1}"; do cat "$work/$part.log"; done
  return "$code"
}

# What failed comes last: of a long output, it is the end that people are shown.
conclude() {
  local code=0
  printf '\n'
  cat "$work/results/not-tested" 2>/dev/null || true
  # The package is tried without vitest.
  if compgen -G "$work/results/*.json" >/dev/null; then
    node "$project/.ci/sum-up.mjs" "$work/results" "$clone" || code=1
  fi
  cat "$work/stages"
  for stage in ${failed_stages[@]+"${failed_stages[@]}"}; do printf 'FAILED STAGE: %s\n' "$stage"; done
  printf 'All of it took %s s.\n' "$SECONDS"
  [ ${#failed_stages[@]} = 0 ] && [ $code = 0 ]
}
