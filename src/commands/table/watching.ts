import { durationReader } from '../../settings/readers.ts';
import { by, define, readCount, watchKeys } from '../shared/command.ts';

export const watching = define({
  next: {
    about: 'show what will run, and what did not come',
    options: {
      '--for <duration>': {
        about: 'how far to look ahead: 1h, 7d (default: 24h; at most 31d)',
        read: by(durationReader('1h, 24h or 7d')),
        conflicts: ['until'],
      },
      '--until <time>': 'up to a local time: 18:00, tomorrow, "2026-11-01 10:00"',
      '--tier <tier>': { about: 'only this tier; queue: only jobs of the queue', completes: 'tiers' },
      '--limit <n>': { about: 'maximum number of entries (default: 50)', read: readCount },
      '--json': 'as JSON',
    },
    help: `
Examples:
  runner next                  the coming 24 hours, in the order of time
  runner next --for 7d         the coming week
  runner next --until 18:00    up to this evening
  runner next --tier hourly    only the passes of hourly, and its scripts
  runner next --tier queue     only jobs of the queue
  runner next --json           for programs; docs/json.md names the keys

First comes what should have run by now and did not. Usual durations are medians of the last successful
runs; a dash means that none is known. Several jobs of a name within a minute are one line; when looking
ahead for more than a day, so is whatever comes several times within 15 minutes.`,
    reads: true,
    load: async () => (await import('../show/next.ts')).showNext,
  },
  tail: {
    about: "show the output of a script's newest run, live while it runs",
    args: { '<script>': { about: 'the name of the script, or its file', completes: 'scripts' } },
    options: {
      '-f, --follow':
        'follow until the run ends; if none is running, show how the last one ended and wait for the next',
    },
    help: `
Examples:
  runner tail hourly/clean-tmp       the output of its newest run, live while it runs
  runner tail hourly/clean-tmp -f    follow it until it ends, or wait for its next run

The output goes to stdout, notes about the run go to stderr.`,
    reads: true,
    load: async () => (await import('../live/tail.ts')).tail,
  },
  watch: {
    about: 'watch scripts, runs, the queue and output, live in this terminal',
    help: `${watchKeys}\n
Examples:
  runner watch                     the root of this folder
  runner watch --root ~/site
  ssh -t me@example.org runner watch`,
    reads: true,
    load: async () => (await import('../live/watch.ts')).watch,
  },
  web: {
    about: 'serve the dashboard and its REST API until Ctrl-C',
    options: {
      '--socket <path>': 'the socket to listen at (default: .runner/web.sock)',
      '--port <number>': 'listen at a TCP port instead; 0: any that is free',
      '--host <address>': 'with --port, the address to listen at (default: 127.0.0.1)',
      '--url <address>': 'where a proxy or Passenger serves it: https://example.org/runner',
      '--login': 'ask for a login at the socket, too: print an address with a key',
      '--loader': { about: 'Passenger or LiteSpeed decides where it listens', isHidden: true },
    },
    help: `
It listens at a socket in the state folder, which only you can open, and which an SSH tunnel leads to. With
--port it listens at a TCP port, which all users of this machine can reach: it prints an address with a key
that logs in one browser. With --url everybody logs in with a token.

Examples:
  runner web                                      at the socket; prints the line for the tunnel
  runner web --port 8787                          for a browser on this machine
  runner web --url https://example.org/runner --socket ~/web/runner.sock
                                                  behind the web server, which passes requests for that path on
  runner web token add laptop --manage            create a token; \`npx folder-runner web token --help\` has more`,
    load: async () => (await import('../live/web.ts')).serve,
    commands: {
      token: {
        about: 'create, list and revoke tokens',
        help: `
The log keeps only a hash of a token. Programs send it as \`Authorization: Bearer <token>\`; the page asks
for it once and then keeps a session of 7 days at most.

Examples:
  runner web token add laptop --manage             may change things, until it is revoked
  runner web token add grafana --expires 90d       may read, for 90 days
  runner web token add wallboard --wall            sees states, but no data, errors or output
  runner web token list                            names, what they may do, when they were last used
  runner web token revoke laptop                   ends it, and the sessions that it has opened`,
        commands: {
          add: {
            about: 'create a token, and print it, only this once',
            args: { '<name>': 'its name, which the activity shows with each change' },
            options: {
              '--wall': 'allow seeing states, names and figures only',
              '--read': 'also data, errors and output (the default)',
              '--run': 'also starting, stopping, retrying, adding jobs',
              '--manage': 'everything: also pausing, muting, deleting',
              '--expires <duration>': {
                about: 'how long it is valid: 12h, 90d (default: until it is revoked)',
                read: by(durationReader('12h or 90d')),
              },
              '--json': 'as JSON',
            },
            load: async () => (await import('../live/web.ts')).addToken,
          },
          list: {
            about: 'list the tokens',
            options: { '--json': 'as JSON' },
            reads: true,
            load: async () => (await import('../live/web.ts')).listTokens,
          },
          revoke: {
            about: 'end a token, and its sessions',
            args: { '<name>': 'its name' },
            options: { '--json': 'as JSON' },
            load: async () => (await import('../live/web.ts')).revokeToken,
          },
        },
      },
    },
  },
  activity: {
    about: 'show what happened to jobs and workers, in order',
    options: {
      '--worker <id>': { about: 'only what this worker did', read: readCount },
      '--job <id>': { about: 'only what happened to this job', read: readCount },
      '--since <time>': 'start of the time range (default: the whole log)',
      '--until <time>': 'end of the time range (default: now)',
      '--order <what>': { about: 'which entries come first', choices: ['newest', 'oldest'], default: 'newest' },
      '--limit <n>': { about: 'maximum number of entries', default: '50', read: readCount },
      '--json': 'as JSON',
    },
    help: `
Examples:
  runner activity                         the newest 50 events of jobs and workers
  runner activity --worker 7              one worker: its start, its runs, its end
  runner activity --job 12                one job; \`npx folder-runner job 12\` shows more of it
  runner activity --since 2h --order oldest --limit 1000
                                          the last two hours, oldest first
  runner activity --json                  for programs; docs/json.md names the keys

A time is a duration back from now (90m, 12h, 7d) or local (2026-11-01, "2026-11-01 10:00"); a day given
to --until includes that whole day. docs/json.md has all events.`,
    reads: true,
    load: async () => (await import('../show/show.ts')).showActivity,
  },
  metrics: {
    about: 'show runs, times and CPU by hour, day or week, and which scripts cost most',
    args: {
      '[name]': {
        about: 'only this script, handler or tier, period by period; queue: all jobs of the queue',
        completes: 'scripts',
      },
    },
    options: {
      '--period <period>': 'length of a period: 1h, 6h, 12h, 1d, 1w',
      '--since <time>': 'start of the time range (default: 7d; with a name or --period, it depends on the period)',
      '--json': { about: 'as JSON', conflicts: ['csv'] },
      '--csv': { about: 'as CSV', conflicts: ['json'] },
      '--prometheus': 'everything since the log began, in Prometheus’ text format',
      '--output <file>': 'with --prometheus: write this file, in one step (for node_exporter: *.prom)',
    },
    help: `
Examples:
  runner metrics                            the scripts that cost most, in the last 7 days
  runner metrics hourly/clean-tmp           one script, hour by hour, the last day
  runner metrics clean-tmp --period 1d      day by day, the last 30 days
  runner metrics queue --period 1w          all jobs of the queue, week by week
  runner metrics --since 90d --json         for programs; docs/metrics.md explains the figures
  runner metrics --period 1d --csv > metrics.csv
  runner metrics --prometheus --output /var/lib/node_exporter/runner.prom

Hours, days and weeks are in UTC; weeks begin on Monday. A time is a duration back from now (12h, 7d, 26w)
or local (2026-11-01); the whole period that contains it is shown. Metrics are kept for five years, also
after runs are deleted.`,
    reads: true,
    load: async () => (await import('../monitor/metrics.ts')).showMetrics,
  },
  check: {
    about: 'check tiers, scripts, queue, log and disk, as a monitoring plugin',
    args: { '[code...]': 'only these checks: tier-overdue, jobs-waiting … (default: all)' },
    options: { '--json': 'as JSON' },
    help: `
Looks for problems in the log and on the disk, and changes nothing. The first line and the exit code are
those of a monitoring plugin, for Nagios, Monit and similar programs; docs/status.md has lines for them.

Examples:
  runner check                             all checks, each with what it found
  runner check tier-overdue jobs-waiting   only these
  runner check --json                      for programs; docs/json.md names the keys

Exit codes: 0 ok, 1 warning, 2 critical, 3 unknown: the log cannot be read, nothing has run yet, or a usage error.`,
    reads: true,
    load: async () => (await import('../monitor/check.ts')).check,
  },
  incidents: {
    about: 'show what is wrong, since when and how often',
    options: { '--all': 'also incidents that are over', '--json': 'as JSON' },
    help: `
An incident opens when a script or handler fails for good, or when a check finds a problem. It is over
when a run succeeds or the check finds nothing. For a handler, it is over when no job has failed for an
hour and one has succeeded since. It also ends when its script, handler or tier is gone.

Examples:
  runner incidents           what is wrong now
  runner incidents close 12  incident 12 is over
  runner incidents --all     also the last 100 that are over
  runner incidents --json    for programs; docs/json.md names the keys`,
    reads: true,
    load: async () => (await import('../monitor/incidents.ts')).listIncidents,
    commands: {
      close: {
        about: 'end incidents by hand',
        args: { '<number...>': 'their numbers; `npx folder-runner incidents` lists them' },
        options: { '--json': 'as JSON' },
        help: `
Whoever was told of the incident is told once that it was closed. If the script fails again, or the check
still finds the problem, a new incident opens.

Examples:
  runner incidents close 12
  runner incidents close 12 13 14`,
        load: async () => (await import('../monitor/incidents.ts')).close,
      },
    },
  },
  acknowledge: {
    about: 'end the daily reminders of an incident',
    args: {
      '<incident>': {
        about: 'its number, or the script, handler, tier or other subject it is about',
        completes: 'scripts',
      },
    },
    options: { '--json': 'as JSON' },
    help: `
Acknowledging ends the daily reminders. You are still told when the incident is over, and of new errors.

Examples:
  runner acknowledge 12             the incident with that number; \`npx folder-runner incidents\` lists them
  runner acknowledge hourly/import  all open incidents of that script
  runner acknowledge mail/welcome   all open incidents of that handler`,
    load: async () => (await import('../monitor/incidents.ts')).acknowledge,
  },
  mute: {
    about: 'silence incidents of a script, handler or tier for a while',
    args: { '<pattern...>': { about: 'names: hourly/import, or patterns such as "mail/*"', completes: 'scripts' } },
    options: {
      '--for <duration>': {
        about: 'how long: 30m, 2h, 7d (default: until `npx folder-runner unmute`)',
        read: by(durationReader('30m, 2h or 7d')),
      },
      '--json': 'as JSON',
    },
    help: `
Incidents still open and end while they are muted; you are told the rest when the mute ends.
Scripts and jobs still run: \`npx folder-runner pause\` stops them. Muting again replaces the previous mute.

Examples:
  runner mute hourly/import            until \`npx folder-runner unmute hourly/import\`
  runner mute hourly --for 2h          a whole tier, for two hours
  runner mute 'mail/*' --for 1d        handlers with a matching name
  runner mute '*' --for 30m            everything, during a deploy`,
    load: async () => (await import('../monitor/incidents.ts')).mute,
  },
  unmute: {
    about: 'end a mute, or all of them',
    args: {
      '[pattern...]': { about: 'the patterns given to `npx folder-runner mute` (default: all)', completes: 'scripts' },
    },
    options: { '--json': 'as JSON' },
    help: `
The next pass reports what was held back in the meantime.

Examples:
  runner unmute hourly/import    the pattern given to \`npx folder-runner mute\`
  runner unmute                  end all mutes`,
    load: async () => (await import('../monitor/incidents.ts')).unmute,
  },
  alert: {
    about: 'add, list, test and remove alert channels',
    help: `
Examples:
  runner alert add mail me@example.org
  runner alert add slack -               asks for the URL on stdin, so that no list of processes shows it
  runner alert test                      sends a test message by all channels
  runner alert list
  runner alert remove slack              takes \`alert add\` back

More in docs/alerts.md.`,
    commands: {
      add: {
        about: 'add a channel to runner.config.json, its secrets to .env, and send a test message',
        args: {
          '<kind>': {
            about: 'mail, slack, discord, teams, ntfy, telegram, pushover, webhook or command',
            choices: ['mail', 'slack', 'discord', 'teams', 'ntfy', 'telegram', 'pushover', 'webhook', 'command'],
          },
          '<target>': 'address, URL, topic, chat, user or command line; `-`: read it from stdin',
          '[token]': 'telegram and pushover: the token of the bot or application',
        },
        options: {
          '--name <name>': 'its name (default: its kind)',
          '--smtp <url>': 'mail: the server, smtps://user:password@host (default: the local sendmail)',
          '--no-test': 'send no test message',
        },
        help: `
Settings in TypeScript or JavaScript stay as they are: the lines to paste are printed instead.

Examples:
  runner alert add mail me@example.org --smtp smtps://me:password@mail.example.org
  runner alert add slack https://hooks.slack.com/services/T/B/x
  runner alert add ntfy my-topic --name phone
  runner alert add telegram 4711 110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw

Exit codes: 0 added, 1 not added or the test message was not sent, 2 usage error.`,
        load: async () => (await import('../monitor/alert-channels.ts')).addChannel,
      },
      list: {
        about: 'list the channels, and the variables that they need',
        options: { '--json': 'as JSON' },
        reads: true,
        load: async () => (await import('../monitor/alert-channels.ts')).listChannels,
      },
      remove: {
        about: 'remove a channel from runner.config.json, and from .env what `alert add` has written for it',
        args: { '<name>': 'its name in `npx folder-runner alert list`' },
        load: async () => (await import('../monitor/alert-channels.ts')).removeChannel,
      },
      test: {
        about: 'send a test message through the alert channels',
        args: { '[channel]': 'only by this channel (default: by all)' },
        options: { '--cron': "with the crontab's variables instead of this shell's", '--json': 'as JSON' },
        help: `
Sends a test message now, by each channel of \`alerts.channels\` in the settings or of RUNNER_ALERTS, and
prints the answers. A variable that a channel needs must be set in .env or where the runner is started,
usually in the crontab: --cron takes the variables from there.

Examples:
  runner alert test            by all channels
  runner alert test mail       by this channel only
  runner alert test --cron     with the variables that the crontab sets
  RUNNER_ALERTS=mail:me@example.org runner alert test

Exit codes: 0 all were sent, 1 some were not, 2 usage error. More in docs/alerts.md.`,
        load: async () => (await import('../monitor/alert.ts')).testAlerts,
      },
    },
  },
});
