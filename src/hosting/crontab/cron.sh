# folder-runner @VERSION@: what the lines of the crontab call; npx folder-runner cron --install writes it.
# sh cron <tier, due or work> <root> [options]
#
# It needs no more than any sh knows, and no program but date, mkdir, rm, sed and touch. What is missing is told once,
# with exit code 1, and again each day; other calls end quietly with 0: some hosts switch off lines that keep failing.
name=$1 root=$2
shift 2
# What is known of this root: the paths of Node and of the command, and what was told.
notes=${0%/*}/roots$root

quoted() {
  case $1 in
  *[!A-Za-z0-9_@:,./+=-]*) printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")" ;;
  *) printf %s "$1" ;;
  esac
}

miss() {
  sentence="folder-runner runs nothing in $(quoted "$root"): $1"
  if [ "$name" = --version ]; then
    echo "$sentence" >&2
    exit 1
  fi
  today="$(date +%Y-%m-%d) $1" told=
  [ -r "$notes/told" ] && IFS= read -r told <"$notes/told"
  [ "$told" = "$today" ] && exit 0
  (umask 077 && mkdir -p "$notes" && printf '%s\n' "$today" >"$notes/told") 2>/dev/null
  printf '%s\n' "$sentence"
  exit 1
}

# Sets newest, if that Node is new enough and newer than those before.
consider() {
  [ -f "$1" ] && [ -x "$1" ] || return 0
  version=$("$1" --version 2>/dev/null) || return 0
  minor=${version#*.} major=${version%%.*}
  minor=${minor%%.*} major=${major#v}
  case $major$minor in *[!0-9]* | '') return 0 ;; esac
  number=$((major * 1000 + minor))
  [ "$number" -ge 22018 ] && [ "$number" -gt "$highest" ] && highest=$number newest=$1
  return 0
}

# The one that was used before is gone: another version may stand beside it, or anywhere where hosts and people have it.
find_node() {
  highest=0 newest=
  home=${HOME:-/nowhere}
  beside=${node%/*/*}
  for each in "$root/node_modules/node/bin/node" "$(command -v node)" /usr/bin/node /usr/local/bin/node \
    "${beside%/*}"/*/bin/node "${beside%/*/*}"/*/installation/bin/node \
    "$home"/.nvm/versions/node/*/bin/node "$home"/.local/share/fnm/node-versions/*/installation/bin/node \
    "$home"/.fnm/node-versions/*/installation/bin/node "$home"/.volta/tools/image/node/*/bin/node \
    "$home"/.asdf/installs/nodejs/*/bin/node "$home"/.local/share/mise/installs/node/*/bin/node \
    "$home"/nodevenv/*/*/bin/node "$home"/bin/node "$home"/.local/bin/node "$home"/n/bin/node "$home"/node*/bin/node \
    /opt/alt/alt-nodejs*/root/usr/bin/node /opt/cpanel/ea-nodejs*/bin/node /opt/plesk/node/*/bin/node \
    /opt/node*/bin/node /opt/*/node*/bin/node /usr/local/node*/bin/node /usr/local/n/versions/node/*/bin/node \
    /opt/homebrew/bin/node /home/linuxbrew/.linuxbrew/bin/node /snap/bin/node; do
    consider "$each"
  done
}

# Cron cannot say "each third day": whether it is the turn of this tier, counted from 1970, days by the local date.
is_turn() {
  count=${name%%[!0-9]*}
  unit=${name#"$count"}
  [ -n "$count" ] || return 0
  [ "$unit" = min ] && [ $((count % 60)) -eq 0 ] && count=$((count / 60)) unit=hours
  [ "$unit" = hours ] && [ $((count % 24)) -eq 0 ] && count=$((count / 24)) unit=days
  case $unit in
  min) step=60 whole=60 ;;
  hours) step=3600 whole=24 ;;
  days) step=86400 whole=1 ;;
  *) return 0 ;;
  esac
  [ $((whole % count)) -eq 0 ] && return 0
  seconds=$(date +%s)
  [ "$unit" = days ] && seconds=$((seconds + $(ahead_of_utc)))
  # Cron calls it at each divisor of the whole.
  divisor=$count rest=$whole
  while [ "$rest" -gt 0 ]; do
    next=$((divisor % rest)) divisor=$rest
    rest=$next
  done
  [ $((seconds / (step * divisor) % (count / divisor))) -eq 0 ]
}

# In seconds; a number with a zero in front would be octal.
ahead_of_utc() {
  zone=$(date +%z)
  hours=${zone#?} minutes=${zone#???}
  hours=${hours%??}
  sign=${zone%????}1
  echo "$((sign * (${hours#0} * 3600 + ${minutes#0} * 60)))"
}

[ -d "$root/jobs" ] || miss "that folder has no jobs folder any more. If it was moved, run \`npx folder-runner cron \
--install\` in its new place, and take the lines of the old one out with \`crontab -e\`."

node='' command=''
searched=
if [ -r "$notes/paths" ]; then
  {
    IFS= read -r node
    IFS= read -r command
  } <"$notes/paths"
fi
if [ ! -x "$node" ]; then
  gone=${node:+ (it was $node)}
  find_node
  node=$newest searched=yes
  [ -n "$node" ] || miss "there is no Node 22.18 or newer$gone. Install one, then run: cd $(quoted "$root") && \
npx folder-runner cron --install"
fi
known=$command
for each in "$command" "$root/node_modules/folder-runner/dist/bin.cjs" \
  "${node%/bin/node}/lib/node_modules/folder-runner/dist/bin.cjs"; do
  command=$each
  [ -f "$command" ] && break
done
[ -f "$command" ] || miss "its package is missing. Put it back with: cd $(quoted "$root") && npm install folder-runner"

[ "$name" = --version ] && exec "$node" "$command" --version
[ -e "$notes/told" ] && rm -f "$notes/told"
is_turn || exit 0

if [ -d "$root/.runner" ]; then
  [ -e "$notes/began" ] || touch "$notes/began" 2>/dev/null
elif [ -e "$notes/began" ]; then
  rm -f "$notes/began"
  printf '%s\n' "folder-runner: $(quoted "$root/.runner") is gone, with the log and the waiting jobs that were in it. \
A new log begins. If the root leads to another release now, see docs/cron.md. To restore a backup: \
cd $(quoted "$root") && npx folder-runner restore <file>"
fi

# By which the command knows this file, and whether anything in it or in the notes is to be put right.
RUNNER_CRON_SCRIPT=$0 RUNNER_CRON_VERSION=@VERSION@
[ -z "$searched" ] && [ "$command" = "$known" ] || RUNNER_CRON_VERSION=
export RUNNER_CRON_SCRIPT RUNNER_CRON_VERSION
exec "$node" "$command" --root "$root" "$name" "$@"
