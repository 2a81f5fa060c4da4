import { durationReader } from '../../settings/readers.ts';
import { define } from '../shared/command.ts';
import { by, readBudget, readCount } from '../shared/option-readers.ts';

export const scripts = define({
  disable: {
    about: 'stop running a script until you enable it again: its file gets the ending .disabled',
    help: `
Examples:
  runner disable hourly/clean-tmp      renames clean-tmp.sh to clean-tmp.sh.disabled
  runner disable clean-tmp backup      both, or neither if one of the names is wrong

A run that has begun ends as usual. The file keeps its content and its history in the report. To stop
a script for some hours only, or on all machines that share a database, use \`npx folder-runner pause\`.`,
    args: { '<script...>': 'scripts or handlers, by name or file' },
    load: async () => (await import('../scripts/disable.ts')).disable,
  },
  enable: {
    about: 'run a disabled script again',
    help: `
Examples:
  runner enable hourly/clean-tmp    renames clean-tmp.sh.disabled back to clean-tmp.sh`,
    args: { '<script...>': 'scripts or handlers, by name or file' },
    load: async () => (await import('../scripts/disable.ts')).enable,
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
  pause: {
    about: 'pause a tier, a script, jobs by name, or everything, until resumed',
    args: { '[name...]': 'tiers, <tier>/<script>, `queue`, or names of jobs (default: everything)' },
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
    args: { '[name...]': 'the names given to `npx folder-runner pause` (default: all pauses)' },
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
  runner repeat 'weekly on monday at 01:00 in Europe/Berlin' --count 3 --json`,
    reads: true,
    load: async () => (await import('../jobs/repeat.ts')).explain,
  },
});
