# folder-runner @VERSION@: what the lines of the crontab call; npx folder-runner cron --install writes it.
# sh cron <tier, due or work> <root> [options]
# sh cron exec <root> [options] <name> -- <command>
#
# It needs no more than any sh knows, and no program but date, mkdir, rm, sed and touch. What is missing is told once,
# with exit code 1, and again each day; other calls end quietly with 0: some hosts switch off lines that keep failing.
# The command of `exec` runs in any case. All variables here have a prefix, as it may have others of the crontab.
fr_name=$1 fr_root=$2
shift 2
# What is known of this root: the paths of Node and of the command, and what was told.
fr_notes=${0%/*}/roots$fr_root

quoted() {
  case $1 in
  *[!A-Za-z0-9_@:,./+=-]*) printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")" ;;
  *) printf %s "$1" ;;
  esac
}

# The command, as if it stood in the crontab alone.
plainly() {
  while [ "$1" != -- ]; do shift; done
  shift
  exec "$@"
}

miss() {
  fr_what="runs nothing"
  [ "$fr_name" = exec ] && fr_what="records no command"
  fr_sentence="folder-runner $fr_what in $(quoted "$fr_root"): $1"
  if [ "$fr_name" = --version ]; then
    echo "$fr_sentence" >&2
    exit 1
  fi
  fr_today="$(date +%Y-%m-%d) $1" fr_told=
  [ -r "$fr_notes/told" ] && IFS= read -r fr_told <"$fr_notes/told"
  if [ "$fr_told" = "$fr_today" ]; then
    [ "$fr_name" = exec ] && return 1
    exit 0
  fi
  (umask 077 && mkdir -p "$fr_notes" && printf '%s\n' "$fr_today" >"$fr_notes/told") 2>/dev/null
  if [ "$fr_name" = exec ]; then
    printf '%s\n' "$fr_sentence" >&2
    return 1
  fi
  printf '%s\n' "$fr_sentence"
  exit 1
}

# Sets newest, if that Node is new enough and newer than those before.
consider() {
  [ -f "$1" ] && [ -x "$1" ] || return 0
  fr_version=$("$1" --version 2>/dev/null) || return 0
  fr_minor=${fr_version#*.} fr_major=${fr_version%%.*}
  fr_minor=${fr_minor%%.*} fr_major=${fr_major#v}
  case $fr_major$fr_minor in *[!0-9]* | '') return 0 ;; esac
  fr_number=$((fr_major * 1000 + fr_minor))
  [ "$fr_number" -ge 22018 ] && [ "$fr_number" -gt "$fr_highest" ] && fr_highest=$fr_number fr_newest=$1
  return 0
}

# The one that was used before is gone: another version may stand beside it, or anywhere where hosts and people have it.
find_node() {
  fr_highest=0 fr_newest=
  fr_home=${HOME:-/nowhere}
  fr_beside=${fr_node%/*/*}
  for fr_each in "$fr_root/node_modules/node/bin/node" "$(command -v node)" /usr/bin/node /usr/local/bin/node \
    "${fr_beside%/*}"/*/bin/node "${fr_beside%/*/*}"/*/installation/bin/node \
    "$fr_home"/.nvm/versions/node/*/bin/node "$fr_home"/.local/share/fnm/node-versions/*/installation/bin/node \
    "$fr_home"/.fnm/node-versions/*/installation/bin/node "$fr_home"/.volta/tools/image/node/*/bin/node \
    "$fr_home"/.asdf/installs/nodejs/*/bin/node "$fr_home"/.local/share/mise/installs/node/*/bin/node \
    "$fr_home"/nodevenv/*/*/bin/node "$fr_home"/bin/node "$fr_home"/.local/bin/node "$fr_home"/n/bin/node "$fr_home"/node*/bin/node \
    /opt/alt/alt-nodejs*/root/usr/bin/node /opt/cpanel/ea-nodejs*/bin/node /opt/plesk/node/*/bin/node \
    /opt/node*/bin/node /opt/*/node*/bin/node /usr/local/node*/bin/node /usr/local/n/versions/node/*/bin/node \
    /opt/homebrew/bin/node /home/linuxbrew/.linuxbrew/bin/node /snap/bin/node; do
    consider "$fr_each"
  done
}

# Cron cannot say "each third day": whether it is the turn of this tier, counted from 1970, days by the local date.
is_turn() {
  fr_count=${fr_name%%[!0-9]*}
  fr_unit=${fr_name#"$fr_count"}
  [ -n "$fr_count" ] || return 0
  [ "$fr_unit" = min ] && [ $((fr_count % 60)) -eq 0 ] && fr_count=$((fr_count / 60)) fr_unit=hours
  [ "$fr_unit" = hours ] && [ $((fr_count % 24)) -eq 0 ] && fr_count=$((fr_count / 24)) fr_unit=days
  case $fr_unit in
  min) fr_step=60 fr_whole=60 ;;
  hours) fr_step=3600 fr_whole=24 ;;
  days) fr_step=86400 fr_whole=1 ;;
  *) return 0 ;;
  esac
  [ $((fr_whole % fr_count)) -eq 0 ] && return 0
  fr_seconds=$(date +%s)
  [ "$fr_unit" = days ] && fr_seconds=$((fr_seconds + $(ahead_of_utc)))
  # Cron calls it at each divisor of the whole.
  fr_divisor=$fr_count fr_rest=$fr_whole
  while [ "$fr_rest" -gt 0 ]; do
    fr_next=$((fr_divisor % fr_rest)) fr_divisor=$fr_rest
    fr_rest=$fr_next
  done
  [ $((fr_seconds / (fr_step * fr_divisor) % (fr_count / fr_divisor))) -eq 0 ]
}

# In seconds; a number with a zero in front would be octal.
ahead_of_utc() {
  fr_zone=$(date +%z)
  fr_hours=${fr_zone#?} fr_minutes=${fr_zone#???}
  fr_hours=${fr_hours%??}
  fr_sign=${fr_zone%????}1
  echo "$((fr_sign * (${fr_hours#0} * 3600 + ${fr_minutes#0} * 60)))"
}

[ -d "$fr_root/jobs" ] || miss "that folder has no jobs folder any more. If it was moved, run \`npx folder-runner cron \
--install\` in its new place, and take the lines of the old one out with \`crontab -e\`." || plainly "$@"

fr_node='' fr_command=''
fr_searched=
if [ -r "$fr_notes/paths" ]; then
  {
    IFS= read -r fr_node
    IFS= read -r fr_command
  } <"$fr_notes/paths"
fi
if [ ! -x "$fr_node" ]; then
  fr_gone=${fr_node:+ (it was $fr_node)}
  find_node
  fr_node=$fr_newest fr_searched=yes
  [ -n "$fr_node" ] || miss "there is no Node 22.18 or newer$fr_gone. Install one, then run: cd $(quoted "$fr_root") && \
npx folder-runner cron --install" || plainly "$@"
fi
fr_known=$fr_command
for fr_each in "$fr_command" "$fr_root/node_modules/folder-runner/dist/bin.cjs" \
  "${fr_node%/bin/node}/lib/node_modules/folder-runner/dist/bin.cjs"; do
  fr_command=$fr_each
  [ -f "$fr_command" ] && break
done
[ -f "$fr_command" ] || miss "its package is missing. Put it back with: cd $(quoted "$fr_root") && \
npm install folder-runner" || plainly "$@"

[ "$fr_name" = --version ] && exec "$fr_node" "$fr_command" --version
[ -e "$fr_notes/told" ] && rm -f "$fr_notes/told"
is_turn || exit 0

if [ -d "$fr_root/.runner" ]; then
  [ -e "$fr_notes/began" ] || touch "$fr_notes/began" 2>/dev/null
elif [ -e "$fr_notes/began" ]; then
  rm -f "$fr_notes/began"
  printf '%s\n' "folder-runner: $(quoted "$fr_root/.runner") is gone, with the log and the waiting jobs that were in it. \
A new log begins. If the root leads to another release now, see docs/cron.md. To restore a backup: \
cd $(quoted "$fr_root") && npx folder-runner restore <file>"
fi

# By which the command knows this file, and whether anything in it or in the notes is to be put right.
RUNNER_CRON_SCRIPT=$0 RUNNER_CRON_VERSION=@VERSION@
[ -z "$fr_searched" ] && [ "$fr_command" = "$fr_known" ] || RUNNER_CRON_VERSION=
export RUNNER_CRON_SCRIPT RUNNER_CRON_VERSION
exec "$fr_node" "$fr_command" --root "$fr_root" "$fr_name" "$@"
