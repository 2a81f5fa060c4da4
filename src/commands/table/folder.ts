import { durationReader } from '../../settings/readers.ts';
import { scriptSettings } from '../../settings/script-settings.ts';
import { by, define, readBudget, readCount } from '../shared/command.ts';

/** `--timeout <duration>` and its like, from the options of scripts. */
const optionsOfExec = Object.fromEntries(
  scriptSettings.flatMap(({ tag, read, ofExec }) =>
    typeof ofExec === 'object' ? [[`--${tag} <${ofExec.value}>`, { about: ofExec.about, read: by(read) }]] : [],
  ),
);

export const folder = define({
  disable: {
    about: 'stop running a script until you enable it again: its file gets the ending .disabled',
    help: `
Examples:
  runner disable hourly/clean-tmp      renames clean-tmp.sh to clean-tmp.sh.disabled
  runner disable clean-tmp backup      both, or neither if one of the names is wrong

A run that has begun ends as usual. The file keeps its content and its history in the report. To stop
a script for some hours only, or on all machines that share a database, use \`npx folder-runner pause\`.`,
    args: { '<script...>': { about: 'scripts or handlers, by name or file', completes: 'scripts' } },
    load: async () => (await import('../site/disable.ts')).disable,
  },
  enable: {
    about: 'run a disabled script again',
    help: `
Examples:
  runner enable hourly/clean-tmp    renames clean-tmp.sh.disabled back to clean-tmp.sh`,
    args: { '<script...>': { about: 'scripts or handlers, by name or file', completes: 'disabled' } },
    load: async () => (await import('../site/disable.ts')).enable,
  },
  due: {
    about: 'run all tiers that are due (one crontab line is enough)',
    options: {
      '--budget <duration>': {
        about: 'total time for this call; scripts that would exceed it wait for the next call',
        read: readBudget,
      },
      '--dry-run': 'show what would run, in which order and how; run nothing',
      '--json': 'with --dry-run: as JSON',
    },
    help: `
A tier is due when a new period has begun since its last pass: a new hour, a new day. It runs once,
however many periods were missed. With \`catchUp: 'skip'\` in a tier's settings, a pass that is more
than an hour late is left out. A pass that was killed is due again. A script with a @schedule also runs
when its time has come.

Examples:
  runner due                   run all tiers that are due: one crontab line is enough
  runner due --budget 55s      start no script that usually takes longer than the time left;
                               these come first in the next call
  0 * * * *  …/runner due      for a host that allows one line, once an hour`,
    load: async () => (await import('../run/due.ts')).due,
  },
  exec: {
    about: 'run any command as a script: locked by its name, recorded, retried, watched',
    usage: '[options] <name> -- <command...>',
    args: {
      '<name>': { about: 'its name in the log: letters, digits, - and _', completes: 'commands' },
      '[command...]': 'the command and its arguments',
    },
    options: {
      ...optionsOfExec,
      '--overlap': 'while a call of the name runs, run beside it, as cron does, instead of being skipped',
      '--alert': 'tell of a failure as passes do, also on a terminal',
      '--no-alert': 'tell nobody of a failure, also without a terminal',
    },
    help: `
The command is the script exec/<name>: \`report\`, \`status\`, \`why\`, \`show\`, \`tail\`, \`stop\`, \`pause\` and
\`mute\` take that name. A second call of the same name is skipped while the first one runs, and so is one
during a pause; both exit with 0. It has the caller's folder, environment, umask and standard input.

On a terminal you see its output as it comes; under cron the log keeps it, and cron mails failures. What you
redirect (> file, | program) the command writes there itself. Further options: \`scripts\` in the settings.

Examples:
  runner exec backup -- mysqldump --all-databases --result-file=dump.sql
  runner exec sync --timeout 10m --retries 2 -- rclone sync site remote:site
  runner exec import -- /bin/sh -c 'fetch-orders | php import.php'
  runner report exec/backup

Exit codes: those of the command; 128 and the number of the signal that ended it; 124 at its time limit;
126 or 127 if it cannot be started; 0 if the call was skipped; 2 wrong usage.`,
    load: async () => (await import('../run/exec.ts')).execCommand,
  },
  stop: {
    about: 'stop a running script or job now',
    args: { '<run>': 'the number of the run, or a script: its run that goes on' },
    options: { '--no-wait': 'only ask for the end; do not wait for it', '--json': 'as JSON' },
    help: `
The processes of the run get SIGTERM, and 10 s later SIGKILL if they are still there. Nothing else is
ended. A stopped run is neither a success nor a failure: nobody is alerted, and it is not tried again.
A job of the queue becomes cancelled; a script runs again with its next pass.

Examples:
  runner stop hourly/import          the run of this script that goes on; tells how it ended
  runner stop 4632                   the run with that number; \`npx folder-runner status\` lists them
  runner stop mail/welcome           the job that this handler works on
  runner stop 4632 --no-wait         returns at once
  runner stop 4632 --json            for programs; docs/json.md names the keys

Exit codes: 0 the run has ended, or was asked to with --no-wait; 1 nothing to stop, or it still runs;
2 usage error.`,
    load: async () => (await import('../run/stop.ts')).stopCommand,
  },
  pause: {
    about: 'pause a tier, a script, jobs by name, or everything, until resumed',
    args: {
      '[name...]': {
        about: 'tiers, <tier>/<script>, `queue`, or names of jobs (default: everything)',
        completes: 'pausables',
      },
    },
    options: {
      '--for <duration>': {
        about: 'how long: 30m, 2h, 7d (default: until `npx folder-runner resume`)',
        read: by(durationReader('30m, 2h or 7d')),
      },
      '--fail': 'queue jobs only: fail due jobs instead of letting them wait',
      '--json': 'as JSON',
    },
    help: `
Running scripts and jobs finish; nothing that is paused is started until the pause ends. Passes of a
paused tier are recorded as skipped. \`npx folder-runner run\` still starts a paused script. Pausing again
replaces the previous pause.

Examples:
  runner pause                            everything, until \`npx folder-runner resume\`
  runner pause hourly --for 2h            one tier, for two hours
  runner pause daily/backup --for 3d      one script
  runner pause daily/backup weekly        both, or neither if one of the names is wrong
  runner pause queue                      all jobs of the queue
  runner pause 'mail/*' --for 2h          its jobs with a matching name
  runner pause 'mail/*' --fail            matching jobs fail as soon as they are due`,
    load: async () => (await import('../run/pause.ts')).pauseCommand,
  },
  resume: {
    about: 'end a pause, or all of them',
    args: {
      '[name...]': {
        about: 'the names given to `npx folder-runner pause` (default: all pauses)',
        completes: 'pausables',
      },
    },
    options: { '--json': 'as JSON' },
    help: `
The next call runs everything that waited meanwhile.

Examples:
  runner resume                 end all pauses
  runner resume hourly          end the pause of that tier; those of its scripts stay
  runner resume daily/backup    end the pause of that script
  runner resume weekly monthly  end both pauses
  runner resume 'mail/*'        end the pause of these jobs; \`queue\`: of the whole queue`,
    load: async () => (await import('../run/pause.ts')).resumeCommand,
  },
  repeat: {
    about: 'explain a rule of a job or a script and show its next times',
    args: { '<rule>': 'such as "daily at 10:00", "0 7 * * 1" or "SCHEDULED, +1 HOUR"' },
    options: {
      '--scheduled <time>': 'when the previous run was scheduled',
      '--started <time>': 'when that run started',
      '--finished <time>': 'when that run finished',
      '--count <number>': {
        about: 'how many times to show, up to 1000',
        default: '5',
        read: (word, option) => readCount(word, option, 1000),
      },
      '--missed <policy>': {
        about: 'policy for missed times: shows when a job would really run',
        choices: ['all', 'once', 'skip'],
      },
      '--script': 'read the rule as the @schedule of a script, where every 2 hours follows the clock',
      '--json': 'as JSON',
    },
    help: `
Write times as 2026-03-10 (midnight) or "2026-03-10 13:00:00", in UTC unless they end in Z or an offset
such as +01:00. Times you leave out default to the ones you give, or to now. Each
further time is computed as if the job had run at the previous one. Without --missed the times are exactly
those of the rule, including past ones. docs/scripts.md has the rules.

Examples:
  runner repeat 'SCHEDULED, +1 HOUR'
  runner repeat 'FINISHED, +1 DAY, START OF DAY' --finished '2026-03-10 13:45'
  runner repeat 'SCHEDULED, +1 HOUR' --scheduled 2026-03-10 --missed once
  runner repeat 'weekdays every 15min from 09:00 to 17:00'
  runner repeat '0 7 * * 1'             cron's five fields: every Monday at seven
  runner repeat --script 'every 2 hours'
  runner repeat 'every 2 weeks from 2026-11-30 on monday and friday at 09:00'
  runner repeat 'monthly on the last working day at 18:00 except holidays.txt'
  runner repeat 'weekly on monday at 01:00 in Europe/Berlin' --count 3 --json`,
    reads: true,
    load: async () => (await import('../jobs/repeat.ts')).explain,
  },
  migrate: {
    about: 'move the activity log to a database server, or back to a file',
    options: {
      '--to <place>': 'the new place: `sqlite`, or a variable or file with the address of a database',
      '--from <place>': 'where it is now (default: as RUNNER_DATABASE_URL says)',
      '--wait <duration>': {
        about: 'how long to wait for running scripts and claimed jobs: 10m',
        read: by(durationReader('30s or 10m')),
      },
      '--dry-run': 'only show what would be copied',
      '--reopen': 'use an old log again, as it was when it was moved',
      '--json': 'as JSON',
    },
    help: `
A place is \`sqlite\` (.runner/activity.db), the name of an environment variable that holds the address of a
database, or a file that holds it and only you may read. An address with a password is refused here:
others would see it in \`ps\`.

The log stays in use while it is copied. At the end it cannot be written for a moment: recent changes are
copied, every row is compared, and the old log is closed. It is not deleted. If the command is interrupted,
the same call continues.

Examples:
  runner migrate --to ~/database-url --dry-run    what would be copied
  runner migrate --to RUNNER_DATABASE_URL         from the SQLite file to that database
  runner migrate --to ~/database-url --wait 10m   waits for running scripts to end
  runner migrate --to sqlite                      back, with everything that has happened since
  runner migrate --reopen --from sqlite           use the old log again, as it was when it was moved

Exit codes: 0 moved, 1 not moved: the log is used as before, 2 usage error. See docs/database.md.`,
    load: async () => (await import('../site/migrate.ts')).migrateCommand,
  },
  backup: {
    about: 'copy the activity log, also while passes write to it',
    args: { '<file>': 'file for the copy, with an ending; or a folder: activity-<date>.db' },
    options: { '--force': 'replace an existing copy' },
    help: `
Examples:
  runner backup ~/activity.db            a copy of the log in this file
  runner backup ~/backups                a copy named activity-<date>.db in this folder, which must be there
  runner backup --force ~/activity.db    replaces yesterday's copy

The copy contains the log at one moment, also while passes write to it, and nothing else: not jobs/,
the settings or .env. It is checked before it gets its name. Only you can read it. Only another copy is ever replaced.

Exit codes: 0 the copy was made, 1 no copy was made, 2 usage error.`,
    load: async () => (await import('../site/backup.ts')).backup,
  },
  restore: {
    about: 'replace the activity log with a backup',
    args: { '<backup>': 'a file that `npx folder-runner backup` has made' },
    help: `
Examples:
  runner restore ~/backups/activity-20261101-040000.db

The backup is checked first. The log is then replaced in one step, or not at all; what it held is kept
beside it. Only rows are taken from the backup, and nothing in it is run. Tokens, pauses and unsent messages
stay as they are now. Nothing may be running: call \`npx folder-runner pause\` before, and
\`npx folder-runner resume\` afterwards. Jobs that waited when the backup was made wait again, even if they
were processed since.

Exit codes: 0 the log was restored, 1 it was not, 2 usage error.`,
    load: async () => (await import('../site/backup.ts')).restore,
  },
  uninstall: {
    about: 'take the crontab lines out; with --purge also remove .runner/',
    options: {
      '--purge': 'also remove the log and all that .runner/ holds',
      '--yes': 'do not ask on a terminal before --purge removes anything',
    },
    help: `
Examples:
  runner uninstall            takes the crontab lines out, and says what is left
  runner uninstall --purge    also removes .runner/: the log, the output of all runs, waiting jobs

On a terminal --purge asks first, unless --yes is given; elsewhere it does not ask.
Your scripts in jobs/ and the settings always stay. Remove the package itself afterwards, by
npm uninstall folder-runner: crontab lines that are left without it run nothing, and say so once a day.`,
    load: async () => (await import('../site/cron.ts')).uninstall,
  },
  completion: {
    about: 'print what bash, zsh or fish needs to complete calls of runner',
    args: { '<shell>': { about: 'for which shell', choices: ['bash', 'zsh', 'fish'] } },
    help: `
Examples:
  runner completion bash > ~/.local/share/bash-completion/completions/runner
  eval "$(runner completion zsh)"                            in ~/.zshrc, after compinit
  runner completion fish > ~/.config/fish/completions/runner.fish

Commands, options, tiers, scripts, names and numbers of jobs then complete with the Tab key.`,
    reads: true,
    load: async () => (await import('../site/completion.ts')).printCompletion,
  },
});
