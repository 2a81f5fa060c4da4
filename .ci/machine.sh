# shellcheck shell=bash
# What `.ci/run` makes of a machine: clones, a user, packages, servers, a cron of its own. It is sourced there.

# The n-th `sh` block under the heading, as it stands there.
readme_command() {
  awk -v wanted="$1" '
    /^## / { within = ($0 == "## Working on it") }
    within && /^```sh$/ { block++; next }
    /^```$/ { if (block == wanted) exit; next }
    within && block == wanted' "$project/README.md" | grep .
}

# $1: a folder for it. Without node_modules, dist or anything else that is not committed.
fresh_clone() {
  git clone --quiet --no-hardlinks "$project" "$1"
  cd "$1"
}

# $1: which one. The rest: what runs it, if it is somebody else.
run_readme_command() {
  local command
  command=$(readme_command "$1")
  printf '$ %s\n' "$command"
  "${@:2}" sh -euc "$command" </dev/null
}

# What the stage above leaves to those that follow, where it is not chosen.
make_root_clone() {
  umask 077
  mkdir "$work/private"
  fresh_clone "$work/private/main"
  npm ci
}

# What the stage above leaves to those that follow, where it is not chosen.
make_user_clone() {
  clone_for_user
  as_user npm ci
  # Tests of root run beside those of the user, and would make it first.
  as_user mkdir -p node_modules/.cache
}

clone_for_user() {
  as_root useradd --home-dir "$work/home" --shell /bin/sh "$user"
  (umask 002 && mkdir -p "$(dirname "$clone")" && fresh_clone "$clone")
  own_tests
}

# What root has left there is the user's again.
own_tests() {
  as_root chown --recursive "$user:" "$work/home"
}

# Somebody with a clock and a language of their own, whose group may write what they make, in the clone of the tests.
# $@: variables, a command.
as_user() {
  as_root runuser --user "$user" -- env --ignore-environment HOME="$work/home" USER="$user" LOGNAME="$user" \
    PATH="$PATH" CI="$CI" NO_COLOR="$NO_COLOR" TZ=America/St_Johns LC_ALL=tr_TR.UTF-8 FAULT_SEED="$FAULT_SEED" \
    TEST_MYSQLD="$mysqld" \
    sh -c 'umask 002 && cd "$0" && exec env "$@"' "$clone" "$@"
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo --non-interactive --preserve-env "$@"; fi
}

install_debian_packages() {
  local packages=(acl btrfs-progs cron faketime gawk gcc iproute2 libc6-dev logrotate man-db php-cli php-sqlite3 perl procps ruby sqlite3)
  packages+=(mariadb-client-core mariadb-server-core pgbouncer tmux)
  local patient=(-qq -o Acquire::Retries=5 -o DPkg::Lock::Timeout=120)
  as_root apt-get "${patient[@]}" update
  as_root apt-get "${patient[@]}" -o Dpkg::Use-Pty=0 install --yes --no-install-recommends "${packages[@]}" \
    >"$work/apt.log" 2>&1 || { cat "$work/apt.log"; return 1; }
  dpkg-query --show "${packages[@]}"
}

# No release of Debian has MySQL, its unstable branch does: unpacked, with the libraries that it was built for, beside
# what the machine has of its own. One day it may not be there; then that is said, and the rest is tested.
unpack_mysql() {
  local place="$work/unstable" code
  mkdir --parents "$place"/{state/lists/partial,cache/archives/partial,root}
  set +e
  (set -e && fetch_mysql "$place") >"$place/log" 2>&1
  code=$?
  set -e
  if [ $code = 0 ]; then "$mysqld" --version; return; fi
  cat "$place/log"
  rm -f "$mysqld"
  echo 'NOT TESTED: MySQL, as it could not be had from Debian unstable' | tee "$work/results/not-tested"
}

# $1: its folder.
fetch_mysql() {
  local mirror package libraries
  mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE)' | awk '$2 !~ /-/ { print $1; exit }')
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$1/sources.list"
  touch "$1/status"
  local own=(-qq -o Acquire::Retries=5 -o Dir::State="$1/state" -o Dir::State::status="$1/status"
    -o Dir::Cache="$1/cache" -o Dir::Etc::SourceList="$1/sources.list" -o Dir::Etc::SourceParts=/dev/null)
  as_root apt-get "${own[@]}" update
  as_root apt-get "${own[@]}" install --yes --download-only --no-install-recommends mysql-server-core
  for package in "$1"/cache/archives/*.deb; do dpkg-deb --extract "$package" "$1/root"; done
  libraries=$(dirname "$(find "$1/root/usr/lib" -path '*-linux-gnu*/libc.so.6')")
  printf '#!/bin/sh\nexec %s --library-path %s %s/root/usr/sbin/mysqld "$@"\n' \
    "$(find "$libraries" -name 'ld-linux-*')" "$libraries" "$1" >"$mysqld"
  chmod 755 "$mysqld"
  "$mysqld" --version
}

# $@: a command of root's, which sees no crontab, daemon or mail program of the machine, and leaves none behind:
# neither a run beside this one nor one that was killed can get in its way. It sees few of the manual's pages: Debian's
# daily script makes an index of all of them, which takes a minute where somebody has installed many.
with_own_cron() {
  local place
  place=$(mktemp -d "$work/cron-XXXXXX")
  chmod 755 "$place"
  as_root cp --archive /usr/sbin "$place/sbin"
  as_root rm -f "$place/sbin/sendmail"
  as_root install --directory --mode 1730 --group crontab "$place/crontabs"
  as_root install --directory "$place/man/man1"
  as_root install --directory --owner man "$place/index"
  find /usr/share/man/man1 -name '*.gz' | sort | sed -n 1,300p | as_root xargs cp --target-directory "$place/man/man1"
  as_root unshare --mount sh -euc '
    mount --bind "$0/sbin" /usr/sbin
    mount --bind "$0/crontabs" /var/spool/cron/crontabs
    mount --bind "$0/man" /usr/share/man
    mount --bind "$0/index" /var/cache/man
    mount -t tmpfs -o mode=755 tmpfs /run
    exec "$@"' "$place" "$@"
}

# Prints the folder that holds `node`.
install_node() {
  local folder="$work/node-$1"
  mkdir -p "$folder"
  echo '{ "private": true, "allowScripts": { "node": true } }' >"$folder/package.json"
  (cd "$folder" && npm install --silent --no-save "node@$1" >&2)
  echo "$folder/node_modules/node/bin"
}

# Servers of the user's own, which are there for these tests alone: nothing of them has to survive anything.
start_mariadb() {
  local data="$work/mariadb"
  as_root install --directory --owner "$user" "$data"
  # A server that starts clears its folder for temporary tables: not one of other servers, too.
  as_user mariadb-install-db --no-defaults --datadir="$data/data" --tmpdir="$data" --skip-test-db \
    --auth-root-authentication-method=normal >"$data/log" 2>&1 || { cat "$data/log"; return 1; }
  start_server mariadb /usr/sbin/mariadbd --skip-name-resolve
}

start_mysql() {
  local data="$work/mysql" alone=(--mysqlx=off --skip-log-bin --secure-file-priv=)
  as_root install --directory --owner "$user" "$data"
  as_user "$mysqld" --no-defaults --initialize-insecure --datadir="$data/data" --tmpdir="$data" "${alone[@]}" \
    >"$data/log" 2>&1 || { cat "$data/log"; return 1; }
  start_server mysql "$mysqld" "${alone[@]}"
}

# Until the shell of this stage ends. $1: whose it is, which names its folder. $2: the program. The rest: its options.
start_server() {
  local data="$work/$1" port server
  port=$(free_port)
  as_user "$2" --no-defaults "${@:3}" --datadir="$data/data" --tmpdir="$data" --socket="$data/socket" \
    --pid-file="$data/pid" --bind-address=127.0.0.1 --port="$port" --max-connections=300 \
    --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=OFF >"$data/log" 2>&1 &
  server=$!
  # This function has ended then.
  # shellcheck disable=SC2064
  trap "stop_server '$data/pid' $server" EXIT
  wait_for_server "$data/log" "$server"
  server_url="mysql://root@127.0.0.1:$port"
}

free_port() {
  (cd "$clone" && node_modules/.bin/node --input-type=module --eval \
    "import { findFreePort } from './test/support/engines/postgres-server.ts'; console.log(await findFreePort());")
}

# $1: what it writes. $2: who started it.
wait_for_server() {
  for _ in $(seq 900); do
    ! grep -q 'ready for connections' "$1" || return 0
    kill -0 "$2" 2>/dev/null || break
    sleep 0.1
  done
  cat "$1"
  return 1
}

# $1: the file with its pid. $2: who started it.
stop_server() {
  if [ -e "$1" ]; then as_root kill "$(cat "$1")"; fi
  wait "$2" || true
}

# What the tests have seen in the browser, for people to look at.
keep_screenshots() {
  rm -rf "$project/.ci/screenshots"
  cp -r "$work/results/screenshots" "$project/.ci/screenshots"
  printf 'screenshots kept in .ci/screenshots: %s\n' "$(ls "$project/.ci/screenshots" | wc -l)"
}

clean_up() {
  if id "$user" >/dev/null 2>&1; then as_root userdel --force "$user"; fi
  as_root rm -rf "$work"
}
