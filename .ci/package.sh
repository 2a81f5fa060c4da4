# shellcheck shell=bash
# The stage `package` of `.ci/run`, which sources this.

# One after the other: packing builds anew what a bench measures.
try_package_and_bench() {
  (try_package)
  run_bench
}

# From root's clone: what packs it builds it anew, while tests use the build of the user's.
try_package() {
  local tarball site="$work/site" packages line command
  export PATH="$work/private/main/node_modules/node/bin:$PATH"
  tarball=$(cd "$work/private/main" && npm pack --silent --pack-destination "$work" | tail -n 1)
  git -C "$work/private/main" diff --exit-code
  ls -l "$work/$tarball"
  mkdir -p "$site" && cd "$site"
  npm install "$work/$tarball"
  packages=$(npm ls --all --parseable | tail -n +2 | wc -l)
  printf 'packages installed: %s, expected 3\n' "$packages"
  test "$packages" = 3
  check_size
  try_dashboard "$work/fresh-root"
  npx folder-runner init
  npx folder-runner hourly
  npx folder-runner report
  HOME="$site" npx folder-runner cron --print | tee "$work/lines"
  # The very line that cron would get, in the environment that cron gives.
  line=$(sed -nE 's/^([^ #]+ ){5}(.* hourly .*)$/\2/p' "$work/lines" | sed 's/\\%/%/g')
  for command in "$line" "${line/ hourly / report }"; do
    printf '$ %s\n' "$command"
    (cd / && env -i HOME="$site" LOGNAME="$(id -un)" SHELL=/bin/sh PATH=/usr/bin:/bin /bin/sh -c "$command") |
      tee "$work/said"
  done
  grep -q '^hourly .* succeeded' "$work/said"
}

# README says what is installed: here, that it is not much more, and never more than 40 MB.
check_size() {
  local megabytes files
  megabytes=$(du --summarize --block-size 1M node_modules | cut -f 1)
  files=$(find node_modules -type f | wc -l)
  printf 'installed: %s MB in %s files\n' "$megabytes" "$files"
  test "$megabytes" -le 40
  test "$files" -le 550
}

# Of the installed package, in a root in which nothing has ever run. $1: the root.
try_dashboard() {
  local socket=$1/.runner/web.sock web
  mkdir -p "$1/jobs"
  npx folder-runner --root "$1" report --html "$1/report.html"
  grep -q '<meta name="generator" content="folder-runner report">' "$1/report.html"
  node_modules/.bin/runner --root "$1" web >"$1/web.log" &
  web=$!
  for _ in $(seq 100); do grep -q 'http:' "$1/web.log" && break || sleep 0.1; done
  curl --silent --show-error --fail --output /dev/null --unix-socket "$socket" http://owner.localhost/
  curl --silent --show-error --fail --unix-socket "$socket" http://owner.localhost/api/overview | grep -q '"scripts"'
  kill -INT "$web"
  wait "$web"
}

run_bench() {
  cd "$work/private/main"
  # So little of it says only that it runs.
  BENCH_ROUNDS=1 BENCH_SCALE=0.004 npm run bench
}
