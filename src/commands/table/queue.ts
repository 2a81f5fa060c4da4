import {
  readByteSize,
  readDelayMs,
  readDurationMs,
  readPositiveNumber,
  readWholeNumber,
} from '../../settings/readers.ts';
import { UsageError } from '../../system/base/errors.ts';
import { describeFound } from '../../system/base/values.ts';
import { by, define, readCount, readPathOption } from '../shared/command.ts';

/** Options that choose and order jobs: counts and times have none of them. */
const OF_LISTS = ['state', 'order', 'since', 'until', 'limit', 'before', 'after'];

export const queue = define({
  add: {
    about: 'add a job to the queue',
    args: {
      '[name]': { about: 'name of its handler: mail/welcome for jobs/queue/mail/welcome.ts', completes: 'handlers' },
      '[data]': 'JSON for the handler; - reads it from stdin (default: {})',
    },
    options: {
      '--at <when>': 'not before: "+10 minutes", "tomorrow 07:00", "2026-12-24 18:00" (default: now)',
      '--priority <n>': 'higher ones run first (default: 500)',
      '--retries <n>': 'how often it is retried (default: as its handler says)',
      '--retry-delay <delay>': 'delay before each retry: 5m, "exponential 30s 6h"',
      '--unique <key>': 'at most one unfinished job has this key',
      '--on-duplicate <what>':
        'if a job has that key: keep it, replace or merge its data, or replace-all that is given (default: keep)',
      '--repeat <rule>': 'rule for running again after each finish: "daily at 10:00", "SCHEDULED, +1 HOUR"',
      '--missed <what>': 'what to do about missed times: all, once or skip (default: all)',
      '--parent <id>': 'the job that waits for this one',
      '--on-child-failure <what>': 'what to do when a child job fails: resume or fail (default: resume)',
      '--group <name>': 'jobs of one group share a limit on how many run at once',
      '--lease <duration>': 'how long a claim is valid (default: as the settings say)',
      '--many': 'read jobs from stdin, one JSON object per line',
      '--json': 'print the number, and whether it was added, as JSON',
    },
    help: `
Examples:
  runner add mail/welcome '{"to":"a@example.org"}'     a job for jobs/queue/mail/welcome.*
  runner add mail/welcome - < mail.json                large or secret data, from stdin
  runner add export --at '+10 minutes' --priority 750  later, and before others
  runner add export --at '2026-12-24 18:00'            local time of this machine
  runner add export --unique export:7                  only if no unfinished job has that key
  runner add cleanup --repeat 'SCHEDULED, +1 HOUR'     again and again
  runner add --many < jobs.jsonl                       one job per line, all or none:
                                                       {"name":"export"}

Higher priorities run first; 500 is the default. The keys of a line are the options of the
TypeScript API: runAt, priority, retries, retryDelay, uniqueKey, repeat … docs/queue.md has them all.

Exit codes: 0 added, 1 not possible in the present state, 2 usage error.`,
    load: async () => (await import('../jobs/queue.ts')).add,
  },
  work: {
    about: 'process jobs of the queue',
    args: {
      '[pattern...]': {
        about: 'names: mail/welcome, or patterns such as "mail/*" (default: all with a handler here)',
        completes: 'handlers',
      },
    },
    options: {
      '--for <duration>': {
        about: 'wait for new jobs until this time is over, then claim no more',
        read: by(readDurationMs),
      },
      '--wait <duration>': { about: 'how long to wait for a job when none is due', read: by(readDelayMs) },
      '--max-jobs <n>': { about: 'stop after this many jobs', read: by(readWholeNumber(1, 1_000_000_000)) },
      '--max-memory <size>': {
        about: 'claim no more once the worker and its children use more than this',
        read: by(readByteSize('1mb')),
      },
      '--max-load <n>': { about: 'claim none while the load average is higher', read: by(readPositiveNumber(10_000)) },
      '--concurrency <n>': {
        about: 'how many jobs at the same time, 1 to 64 (default: 1)',
        read: by(readWholeNumber(1, 64)),
      },
      '--adaptive': 'find the best number of jobs at the same time, up to --concurrency',
      '--fail-unknown': 'fail jobs without a handler here instead of leaving them',
      '--watch-file <path>': {
        about: 'finish when this file changes, as with .runner/restart',
        read: by(readPathOption),
      },
      '--json': 'print at the end how many succeeded, failed and were released, as JSON',
    },
    help: `
Handlers are scripts in jobs/queue/: jobs/queue/mail/welcome.ts processes the jobs named mail/welcome.
Jobs with the highest priority run first. Any number of workers may overlap; each job goes to one of
them. Without --for and --wait a worker ends when nothing is due.

On SIGTERM or Ctrl-C, a worker finishes the jobs in hand and claims no more; a second signal ends them
and puts them back into the queue. Workers also finish when runner.config or the runner has changed,
or after \`touch .runner/restart\`.

Examples:
  runner work                               all jobs that are due now
  runner work --for 55s                     called by cron each minute, see runner cron --work
  runner work 'mail/*' --for 14m            only jobs with a matching name
  runner work --for 55s --concurrency 2     two at the same time
  runner work --max-load 4 --adaptive --concurrency 8 --for 14m`,
    load: async () => (await import('../run/work.ts')).work,
  },
  jobs: {
    about: 'list the jobs of the queue',
    args: {
      '[pattern]': {
        about: 'names: mail/welcome, or a pattern such as "mail/*" (default: all)',
        completes: 'handlers',
      },
    },
    options: {
      '--state <state>': 'only this state; several separated by commas',
      '--upcoming <n>': {
        about: 'the next n run times, in order',
        read: (word, option) => readCount(word, option, 1000),
        conflicts: ['pace', 'count', 'totals', ...OF_LISTS],
      },
      '--pace': {
        about: 'whether the workers keep up: waiting times, added and ended jobs, by name',
        conflicts: ['count', 'totals', ...OF_LISTS],
      },
      '--count': { about: 'number of jobs by name and state', conflicts: ['totals', ...OF_LISTS] },
      '--totals': { about: 'what has happened since the log began, by name', conflicts: OF_LISTS },
      '--order <what>': 'newest; oldest; next: order of processing; soonest: by time; kick (default: newest)',
      '--since <time>': 'only jobs added since then: 12h, yesterday, 2026-11-01, "2026-11-01 10:00"',
      '--until <time>': 'only jobs added before then; a day is included',
      '--limit <n>': { about: 'maximum number of jobs (default: 50)', read: readCount },
      '--before <id>': 'only jobs with lower numbers',
      '--after <id>': 'only jobs with higher numbers',
      '--json': 'as JSON',
    },
    help: `
Examples:
  runner jobs                         the newest 50 jobs of the queue
  runner jobs 'mail/*'                only matching names; * also matches /
  runner jobs --state failed          failed and buried jobs; \`npx folder-runner kick\` queues them again
  runner jobs --state ready           due jobs; delayed: jobs that wait for their time
  runner jobs --order next            waiting jobs in the order of processing
  runner jobs --order kick --limit 1  the job that \`npx folder-runner kick '*' --count 1\` would kick
  runner jobs --state failed --since 2026-11-01 --until 2026-11-02
                                      failed jobs that were added on these two days
  runner jobs --order oldest --after 250
                                      the next page: jobs with numbers above 250
  runner jobs --count                 how many jobs of each name are in each state
  runner jobs --totals                what has happened to jobs of each name since the log began
  runner jobs --pace                  do I need more workers?
  runner jobs --upcoming 10           the next ten run times, including repeating jobs
  runner jobs --json                  for programs; docs/json.md names the keys

States: queued, claimed, running, retrying, paused, failed, finished, cancelled. \`npx folder-runner job <id>\` shows one job.`,
    reads: true,
    load: async () => (await import('../jobs/jobs.ts')).showJobs,
  },
  job: {
    about: 'show one job of the queue, or change jobs: finish, retry, kick, cancel …',
    usage: '[options] <id...> [verb]',
    args: {
      '<id...>': {
        about: 'the number of a job, or several; then the verb (default: show the job)',
        completes: 'jobs',
      },
    },
    options: {
      '--token <token>': 'token of the claim',
      '--result <json>': 'its result; - reads it from stdin',
      '--data <json>': 'replaces its data; - reads it from stdin',
      '--delay <duration>': { about: 'not before this time has passed: 10m', conflicts: ['at'] },
      '--at <when>': 'not before: "+10 minutes", "tomorrow 07:00", "2026-12-24 18:00"',
      '--priority <n>': 'higher ones run first',
      '--name <name>': 'its new name',
      '--reason <text>': 'reason, in one sentence',
      '--repeat <rule>': 'its repeat rule: "SCHEDULED, +1 HOUR"',
      '--no-repeat': 'stop repeating it',
      '--ignore-repeat': 'repeating job: use --delay or --at instead of its next time',
      '--lease <duration>': 'how long the claim is valid from now on',
      '--may-retry': 'only this try has failed: its retries decide what follows',
      '--forget-try': 'do not count the last claim as a try',
      '--json': 'as JSON',
    },
    help: `
Verbs and their options:
  finish   --result --data --token     running: it is done; stores its result
  retry    --delay --at --priority --name --data --reason --ignore-repeat --token
                                       running: puts it back into the queue
  fail     --reason --data --may-retry --token
                                       running: it has failed; with --may-retry only this try
  bury     --reason --priority --token running, waiting: sets it aside until it is kicked
  kick                                 failed, delayed: makes it due at once
  cancel                               waiting: it will not run
  touch    --lease --token             running: renews its claim
  delete   --token                     not running: removes it with its runs
  update   --data --priority --at --repeat --no-repeat --token
                                       any state: changes the job, but not its state
  requeue  --name --forget-try         any state: queues it again, first in line

Examples:
  runner job 12                                     show its data, runs and activity
  runner job 12 --json                              for programs; docs/json.md names the keys
  runner job 12 finish --token "$token" --result '{"sent":true}'
  runner job 12 retry --delay 10m --reason 'the server is busy'
  runner job 12 update --data - < data.json         large or secret data, from stdin
  runner job 12 13 14 requeue                       each by itself: a refused one does not stop the others

With \`--token\`, the command works only while that claim is valid.
Exit codes: 0 done, 1 not possible in the present state, 2 usage error. With several numbers, stderr
says why a job was refused, the others are changed, and the exit code is the highest of all.`,
    reads: (_, words) => words.length === 1,
    load: async () => (await import('../jobs/job.ts')).job,
  },
  claim: {
    about: 'claim a job of the queue, to process it yourself',
    args: {
      '[pattern...]': {
        about: 'names: mail/welcome, or patterns such as "mail/*" (default: all)',
        completes: 'handlers',
      },
    },
    options: {
      '--wait <duration>': 'how long to wait for a job (default: not at all)',
      '--lease <duration>': 'how long the claim is valid (default: as the job or the settings say)',
      '--min-priority <n>': 'only jobs of this priority or a higher one',
      '--count <n>': {
        about: 'maximum number of jobs; with --follow, of jobs that you have not ended (default: 1)',
        read: readCount,
      },
      '--holding <id>': {
        about: 'a job that you still hold: the wait ends when its claim is about to expire; may be repeated',
        repeated: true,
        conflicts: ['follow'],
      },
      '--follow': 'claim one job after another; each verdict is read from stdin',
      '--for <duration>': { about: 'with --follow: claim no job after this time', read: by(readDurationMs) },
      '--job <id>': {
        about: 'only this job; kicks it if it is not due yet or has failed',
        conflicts: ['wait', 'minPriority', 'count', 'holding', 'follow'],
      },
    },
    help: `
Prints the job as JSON, with its data, the number of the try and the token of this claim; with --count
as {"jobs":[…]}. You must end the job before the lease expires:
\`npx folder-runner job <id> finish --token <token>\`, or retry, fail, bury; touch renews the lease.

Examples:
  runner claim 'mail/*'                      the next job, if one is due
  runner claim 'mail/*' export --wait 30s    waits for a job, without polling
  runner claim --lease 10m                   for work that takes longer
  runner claim --count 20                    up to twenty at once
  runner claim --min-priority 750            only jobs of this priority or a higher one
  runner claim --job 12                      this job, even if it is not due yet or has failed
  runner claim --wait 1m --holding 7         stops waiting when the claim of job 7 is about to expire
  job=$(runner claim --wait 1m) || exit 0    in a shell
  runner claim 'mail/*' --follow --for 55s   one process for many jobs, for a program in any language:
    prints     {"job":{"id":7,"name":"mail/welcome","data":{},…}}
    reads      {"id":7,"verb":"finish","result":{"sent":true}}
    prints     {"ok":{"id":7,"verb":"finish"}}, once that is on the disk

With --follow, the verbs are finish, retry, fail, bury, touch and update, with the options of the TypeScript
API; docs/queue.md has an example in PHP. Jobs that you have not ended at the end of its input are given back.

Exit codes: 0 a job was claimed, 1 there was none (nothing is printed), 2 usage error. With --job and --holding,
1 can have another reason, which stderr says. With --follow, 0 means that its input or its time was over.`,
    load: async () => (await import('../jobs/claim.ts')).claim,
  },
  kick: {
    about: 'queue failed jobs with these names again',
    args: { '<pattern...>': { about: 'names: mail/welcome, or a pattern such as "mail/*"', completes: 'handlers' } },
    options: {
      '--count <n>': {
        about: 'maximum number of jobs (default: all)',
        read: readCount,
        conflicts: ['since', 'until', 'search', 'dryRun'],
      },
      '--since <time>': 'only jobs added since then: 12h, yesterday, "last night", 2026-11-01',
      '--until <time>': 'only jobs added before then; a day is included',
      '--search <text>': 'only jobs with this text in their data, result or reason',
      '--dry-run': 'only show how many jobs it would be, by the reasons of their failures',
      '--json': 'as JSON',
    },
    help: `
Failed and buried jobs are queued again with their tries reset, the earliest failures first. Only if
there are none with a matching name, delayed jobs become due at once.

Examples:
  runner kick 'mail/*'              all matching jobs that have failed
  runner kick mail/welcome --count 10
  runner kick '*' --json            {"kicked":3}
  runner kick 'mail/*' --since today --dry-run
                                    how many of today's jobs have failed, and why
  runner kick '*' --search 'SMTP 421'
                                    only jobs that failed with these words

\`npx folder-runner job <id> kick\` kicks one job.`,
    load: async () => (await import('../jobs/kick.ts')).kick,
  },
  import: {
    about: 'import the jobs of LaterJob or Bedrock::Jobs',
    args: {
      '<system>': { about: 'the system that the queue is from: laterjob or bedrock', read: readSystem },
      '[file]': 'its SQLite database',
    },
    options: {
      '--table <name>': 'the table of its jobs (default: later_job_queue, jobs)',
      '--name <job>': 'laterjob: the name of its jobs here (default: that of the table)',
      '--time-zone <zone>': 'laterjob: time zone of its times (default: UTC)',
      '--missed <what>': {
        about: 'repeating jobs: what to do about missed times',
        choices: ['all', 'once', 'skip'],
        default: 'all',
      },
      '--with-ended': 'also jobs that have finished, failed or been cancelled',
      '--skip-bad': 'leave out jobs that cannot be imported, instead of stopping',
      '--dry-run': 'only show what would be done',
      '--json': 'as JSON',
    },
    help: `
Stop the other system's workers first: work that they do afterwards would be done again here. The file
is only read. A second import adds only jobs that were not imported before. All jobs are imported, or
none. docs/coming-from.md lists what becomes of each state and setting.

Examples:
  runner import bedrock bedrock.db --dry-run          what would be done
  runner import bedrock bedrock.db --with-ended       also failed and finished jobs
  runner import laterjob app.db --name mail/send      all its jobs are for jobs/queue/mail/send.*
  runner import laterjob app.db --table mail_queue    another of its queues
  runner import laterjob app.db --time-zone Europe/Berlin

Exit codes: 0 done, 1 the log cannot be written, 2 usage error, or jobs that cannot be imported.`,
    load: async () => (await import('../jobs/import.ts')).importFile,
  },
});

type System = 'laterjob' | 'bedrock';

/** @throws {UsageError} for another one */
function readSystem(word: string): System {
  if (word === 'laterjob' || word === 'bedrock') return word;
  const hint = /^cron(?:tab)?$/.test(word) ? '; did you mean `npx folder-runner cron --import`?' : '.';
  throw new UsageError(`import needs laterjob or bedrock, found ${describeFound(word)}${hint}`);
}
