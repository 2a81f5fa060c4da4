import { cronModes, define, languages, readLimit } from '../shared/command.ts';

const mode = (name: (typeof cronModes)[number], about: string) => ({
  about,
  conflicts: cronModes.filter((other) => other !== name),
});

export const firstDay = define({
  init: {
    about: 'create jobs/15min, jobs/hourly, jobs/daily and jobs/queue with one small example each',
    args: { '[folder]': 'the folder (default: --root, RUNNER_ROOT or the current folder)' },
    options: {
      '--force': 'also in a folder that a web server serves',
      '--digest': 'also a script in jobs/weekly that sends a report by mail',
    },
    help: `
Examples:
  runner init             in the current folder
  runner init ~/runner    in another one, which is created if it is missing
  runner init --digest    also jobs/weekly with a script that sends a report by mail

Existing files are never changed or overwritten.`,
    load: async () => (await import('../site/setup.ts')).init,
  },
  new: {
    about: 'create a script or a handler, with comments to start from',
    args: {
      '<tier/name>': { about: 'its name, such as hourly/import-orders or daily/backup.sh', completes: 'places' },
    },
    options: {
      '--lang <language>': { about: 'its language (default: by the extension, else ts)', choices: languages },
    },
    help: `
Examples:
  runner new hourly/import-orders             jobs/hourly/import-orders.ts, with comments to start from
  runner new daily/backup.sh                  the extension chooses the language
  runner new weekly/report --lang php         the same in PHP; jobs/weekly is created if it is missing
  runner new queue/mail/welcome               a handler of jobs named mail/welcome

A file that exists is never overwritten.`,
    load: async () => (await import('../site/new.ts')).createScript,
  },
  list: {
    about: 'show every tier, its scripts with their options, and ignored files',
    options: { '--json': 'as JSON' },
    help: `
Examples:
  runner list           each tier with its scripts; which files are ignored, and why
  runner list --json    for programs; docs/json.md names the keys

A refused script is skipped until you fix the problem shown.`,
    reads: true,
    load: async () => (await import('../show/status.ts')).list,
  },
  run: {
    about: 'run one script now, with its tier’s lock and cron’s environment',
    args: {
      '<script>': { about: 'its name, where the tier may be left out, or its file', completes: 'tier-scripts' },
      '[args...]': 'after --: arguments for the script',
    },
    options: {
      '--quiet': 'on a terminal: show how it ends, but not its output',
      '--alert': 'tell of a failure as passes do, also on a terminal',
      '--no-alert': 'tell nobody of a failure, also without a terminal',
      '--dry-run': 'show what would run, and how; run nothing',
      '--json': 'with --dry-run: as JSON',
    },
    help: `
On a terminal you see the script's output as it comes, and nobody else is told if it fails: there is no alert,
and no incident opens. A success ends an open incident. If a pass of the tier is already running, the
command says so and exits with 1. A run with arguments is not retried, and the log does not keep its arguments.

Examples:
  runner run clean-tmp                       the tier may be left out if only one has such a script
  runner run hourly/import -- --since 2026-11-01 orders.csv
  runner run clean-tmp --dry-run             its command, its environment and its limits; nothing is run
  runner run daily/backup --root ~/site`,
    load: async () => (await import('../run/run.ts')).runCommand,
  },
  cron: {
    about: 'print, install or remove the crontab lines that run the tiers, or import others',
    options: {
      '--print': mode('print', 'print the lines'),
      '--install': mode('install', 'put the lines into your crontab'),
      '--remove': mode('remove', 'take the lines out of your crontab'),
      '--import [file]': mode(
        'import',
        'show the scripts that would replace the lines of a crontab, or one wrapped line',
      ),
      '--undo': mode('undo', 'undo --import --apply, and --import --wrap'),
      '--wrap': 'with --import: keep each line at its times, and let `npx folder-runner exec` run its command',
      '--dry-run': 'with --import --wrap: show the lines before and after; change nothing',
      '--apply': 'with --import: write the scripts and change the crontab',
      '--format <name>': {
        about: 'with --import: lines of cron.d name a user after the times (default: by the file)',
        choices: ['crontab', 'cron.d'],
      },
      '--json': 'with --import: the plan as JSON',
      '--tiers <names>': {
        about: 'which tiers, separated by commas, or all (default: as installed, else all)',
        completes: 'tiers',
      },
      '--due': { about: 'one line, `npx folder-runner due`, for all tiers', conflicts: ['tiers'] },
      '--no-due': 'a line for each tier again',
      '--budget <duration>': 'with --due: total time for a call',
      '--work [every]': 'also a line that processes the queue (default: every 1m)',
      '--no-work': 'remove an existing line of --work',
    },
    help: `
Examples:
  runner cron --print                           the lines, to paste into a host's panel
  runner cron --install                         put them into your crontab, or bring them up to date
  runner cron --install --tiers hourly,daily    only these tiers
  runner cron --install --due                   one line for all of them, for hosts that allow only a few
  runner cron --print --due --budget 55s        and stay below the host's time limit for a line
  runner cron --install --work                  and a line that processes the queue, each minute
  runner cron --install --work 15m              the same, for hosts with a limit on frequency
  runner cron --remove                          take them out again
  runner cron --import                          show the scripts that would replace your crontab's lines
  runner cron --import --apply                  write these scripts, and comment the old lines out
  runner cron --import --apply --due            the same, with one line for all tiers
  runner cron --import lines.txt                show them for a file, - for stdin
  runner cron --import --wrap                   record each line as exec/<name>, at its own times
  runner cron --import --wrap --dry-run         show how the lines would be written
  runner cron --import exec/backup --apply      make a script of a wrapped line
  runner cron --undo                            bring the old lines back, and remove the scripts

The lines call ~/.folder-runner/cron, which finds Node and the package and says what is missing.
--install and --remove change only the
block between the two marker lines. What you chose before (--due, --tiers, --work), the times of
lines and what you have added to the block stay, unless an option says otherwise. A pass prints nothing if all scripts succeed; cron mails its summary of failures to
MAILTO. More in docs/cron.md.`,
    load: async () => (await import('../site/cron.ts')).cron,
  },
  status: {
    about: 'show what is running, waiting and paused, and what comes next',
    options: { '--json': 'as JSON' },
    help: `
Examples:
  runner status          what is running, waiting and paused, and when each tier is called next
  runner status --json   for programs; docs/json.md names the keys

The next call of a tier is the next time of its crontab line. If the crontab cannot be read, it is
estimated from the last call, because cron calls at the same minute of each period.`,
    reads: true,
    load: async () => (await import('../show/status.ts')).showStatus,
  },
  report: {
    about: 'show the runs and their results',
    args: { '[script]': { about: 'only this script, by name or file: its runs, newest first', completes: 'scripts' } },
    options: {
      '--since <time>': 'start of the time range (default: 7d)',
      '--until <time>': 'end of the time range (default: now)',
      '--tier <tier>': { about: 'only this tier', completes: 'tiers' },
      '--outcome <outcome>': 'only this outcome; several separated by commas',
      '--limit <count>': { about: 'maximum number of scripts or runs (default on a screen: 50 runs)', read: readLimit },
      '--json': { about: 'as JSON', conflicts: ['csv'] },
      '--csv': { about: 'as CSV', conflicts: ['json'] },
      '--mail': 'send a report of all scripts by mail: failures, slower scripts, highest costs',
      '--to <address>': 'with --mail: send it there (default: the mail channels of the settings)',
      '--html <file>': 'write the dashboard into this file, for a browser; needs no server',
      '--with-output': 'with --html: also output, errors and data of jobs',
      '--protect': 'with --html: require a login, by Apache (default if a web server serves the folder)',
      '--no-protect': 'with --html: require no login',
    },
    help: `
Examples:
  runner report                             all scripts, the last 7 days
  runner report --since 24h --tier hourly   one tier, the last day
  runner report --outcome failed            only scripts that failed in that time
  runner report hourly/clean-tmp            one script's runs, newest first
  runner report clean-tmp --since 2026-11-01 --until 2026-11-02
  runner report --json                      for programs; docs/json.md names the keys
  runner report --csv > report.csv          for a spreadsheet
  runner report --mail                      send it by mail: put this into a script of jobs/weekly
  runner report --mail --to me@example.org --since 30d
  runner report --html ~/public_html/status/index.html    the dashboard as one file, behind a login

A time is a duration back from now (90m, 12h, 7d, 4w) or local (2026-11-01, "2026-11-01 10:00");
a day given to --until includes that whole day. Success is the share of successful runs among all that
succeeded or failed; released runs are counted separately.
p50, p95 and max are durations of all ended runs; cpu is the median, memory the highest peak.`,
    reads: ({ mail }) => mail !== true,
    load: async () => (await import('../show/report.ts')).reportCommand,
  },
  why: {
    about: "explain why a script did or didn't run, and what to do about it",
    args: { '<script>': { about: 'the name of a script, or a file in jobs/', completes: 'scripts' } },
    options: { '--json': 'as JSON' },
    help: `
Examples:
  runner why hourly/clean-tmp        why it did or didn't run, and when it will
  runner why jobs/hourly/notes.txt   also for a file that is not a script
  runner why clean-tmp --json        for programs; docs/json.md names the keys

✔ fine · ! worth knowing · ✖ keeps it from running · → how to fix it`,
    reads: true,
    load: async () => (await import('../show/status.ts')).tellWhy,
  },
  show: {
    about: 'show everything about one run, with its output',
    args: { '<run>': { about: 'the number of the run, or a script: its newest run', completes: 'runs' } },
    options: {
      '--full': 'all stored output, not only its head and tail',
      '--with <run>': { about: 'its figures beside those of this run, or of a script’s newest run', completes: 'runs' },
      '--json': 'as JSON',
    },
    help: `
Examples:
  runner show 1234           the run with that number; \`npx folder-runner report <script>\` lists them
  runner show clean-tmp      the newest run of a script
  runner show 1234 --full    with all stored output, not only the head and tail from the log
  runner show 7 --with 3     its figures beside those of run 3, and whether the file has changed
  runner show 1234 --json    for programs; docs/json.md names the keys

Terminal sequences in the output are removed and control characters made visible; --json shows the
output as it was written.`,
    reads: true,
    load: async () => (await import('../show/show.ts')).show,
  },
  doctor: {
    about: 'check the host: Node, crontab, clock, disk, locks, limits, permissions, log',
    options: { '--json': 'as JSON' },
    help: `
Checks Node, the settings, the crontab (each line is tried in cron's environment), the clock, the disk,
locks, limits, permissions and the log, and changes nothing. Each problem comes with a fix:
  ok        fine
  note      good to know
  warning   works now, but may fail later
  problem   does not work

Examples:
  runner doctor             in the root or any folder below it
  runner doctor --json      for programs; docs/json.md names the keys
  runner doctor | grep -A1 problem

Exit codes: 0 no problem, 1 a problem, 2 usage error. More in docs/doctor.md.`,
    reads: true,
    load: async () => (await import('../site/doctor.ts')).examine,
  },
});
