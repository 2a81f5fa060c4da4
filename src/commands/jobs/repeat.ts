import { Command, Option } from 'commander';
import { UsageError } from '../../base/errors.ts';
import type { PlannedTime } from '../../repeat/plan.ts';
import { explainRepeat, type Moments, type RepeatRule } from '../../repeat/rule.ts';
import { formatInstant, hostZone } from '../../repeat/time.ts';
import { createClock } from '../../report/text/format.ts';
import type { MissedPolicy } from '../../store/schema.ts';
import type { CommandContext } from '../shared/context.ts';
import { readCount } from '../shared/options.ts';

interface RepeatOptions {
  readonly scheduled?: string;
  readonly started?: string;
  readonly finished?: string;
  readonly count: string;
  readonly missed?: MissedPolicy;
  readonly json?: true;
}

const EXAMPLES = `
Write times as 2026-03-10 (midnight) or "2026-03-10 13:00:00", in UTC unless they end in Z or an offset
such as +01:00. A missing time takes the value of the others; without any, all are now. Each further
time is computed as if the job had run at the previous one. Without --missed the times are exactly
those of the rule, including past ones. docs/repeat.md has the rules.

Examples:
  runner repeat 'SCHEDULED, +1 HOUR'
  runner repeat 'FINISHED, +1 DAY, START OF DAY, +4 HOURS' --finished '2026-03-10 13:45'
  runner repeat 'SCHEDULED, +1 HOUR' --scheduled 2026-03-10 --finished '2026-03-10 09:30' --missed once
  runner repeat 'weekly on monday at 01:00 in Europe/Berlin' --count 3 --json`;

const missedPolicies: readonly MissedPolicy[] = ['all', 'once', 'skip'];
const MISSED_HELP = 'policy for missed times: shows when a job would really run';

/** `runner repeat`: what a repeat rule means. */
export function repeatCommand(context: CommandContext): Command {
  const command = new Command('repeat');
  return command
    .description('explain a repeat rule of the queue and show its next times')
    .argument('<rule>', 'such as "SCHEDULED, +1 HOUR" or "daily at 10:00"')
    .option('--scheduled <time>', 'when the previous run was scheduled')
    .option('--started <time>', 'when that run started')
    .option('--finished <time>', 'when that run finished')
    .option('--count <number>', 'how many times to show, up to 1000', '5')
    .addOption(new Option('--missed <policy>', MISSED_HELP).choices(missedPolicies))
    .option('--json', 'as JSON')
    .addHelpText('after', EXAMPLES)
    .action((text: string) => explain(context, text, command.optsWithGlobals<RepeatOptions>()));
}

async function explain(
  context: CommandContext,
  text: string,
  options: RepeatOptions,
): Promise<void> {
  const { parseRepeat } = await import('../../repeat/parse.ts');
  const { openTextOutput } = await import('../../report/terminal/screen.ts');
  const { formatJson } = await import('../../report/json.ts');

  const output = openTextOutput(context.stdout);
  const count = readCount('--count', options.count, 1000);
  const moments = await readMoments(options, context.now());
  const parsed = parseRepeat(text);
  if ('problem' in parsed) {
    const { problem } = parsed;
    if (options.json) await output.write(formatJson({ valid: false, problem }));
    throw new UsageError(problem);
  }
  const explained = await computeTimes(parsed.rule, { moments, count, missed: options.missed });
  await output.write(options.json ? formatJson(repeatToJson(explained)) : renderRepeat(explained));
}

interface Wanted {
  readonly moments: Readonly<Record<keyof Moments, number>>;
  readonly count: number;
  readonly missed: MissedPolicy | undefined;
}

async function computeTimes(
  rule: RepeatRule,
  { moments, count, missed }: Wanted,
): Promise<ExplainedRepeat> {
  const { listPlans, listTimes } = await import('../../repeat/plan.ts');
  if (missed === undefined) return { rule, ...(await listTimes(rule, moments, count)), plan: null };
  const { defaultSettings } = await import('../../settings/settings.ts');
  const options = { missed, cap: defaultSettings.queue.missedCap, nowMs: moments.finished };
  const plans = await listPlans(rule, moments, options, count);
  const times = plans.map(({ runAt }) => runAt);
  return { rule, times, isStuck: false, plan: { missed, times: plans } };
}

/** Those that are not given are the same as the one that comes next to them. */
async function readMoments(options: RepeatOptions, nowMs: number): Promise<Wanted['moments']> {
  const { parseInstant } = await import('../../repeat/time.ts');
  const read = (option: keyof Moments): number | undefined => {
    const text = options[option];
    if (text === undefined) return undefined;
    const atMs = parseInstant(text);
    if (atMs !== null) return atMs;
    throw new UsageError(
      `--${option} expects a time in UTC such as 2026-03-10 or "2026-03-10 13:00:00", found ${JSON.stringify(text)}.`,
    );
  };
  const [scheduled, started, finished] = [read('scheduled'), read('started'), read('finished')];
  return {
    scheduled: scheduled ?? started ?? finished ?? nowMs,
    started: started ?? scheduled ?? finished ?? nowMs,
    finished: finished ?? started ?? scheduled ?? nowMs,
  };
}

/** A rule and the times that it gives. */
interface ExplainedRepeat {
  readonly rule: RepeatRule;
  readonly times: readonly number[];
  readonly isStuck: boolean;
  /** Null: the times are those of the rule alone. */
  readonly plan: { readonly missed: MissedPolicy; readonly times: readonly PlannedTime[] } | null;
}

/** `runner repeat --json`; docs/repeat.md has the keys. */
function repeatToJson({ rule, times, plan }: ExplainedRepeat): object {
  return {
    valid: true,
    rule: rule.text,
    explanation: explainRepeat(rule),
    next: times.map(formatInstant),
    ...(rule.kind === 'calendar' && localTimes(rule.zone ?? hostZone(), times)),
    ...(plan && {
      missed: plan.missed,
      plan: plan.times.map(({ runAt, scheduledFor, skipped }) => ({
        runAt: formatInstant(runAt),
        scheduledFor: formatInstant(scheduledFor),
        skipped,
      })),
    }),
  };
}

function localTimes(zone: string, times: readonly number[]) {
  const clock = createClock(0, zone);
  return { zone, local: times.map((time) => clock.dateTime(time)) };
}

/** `runner repeat`. */
function renderRepeat(explained: ExplainedRepeat): string {
  const { rule, times, isStuck, plan } = explained;
  const lines = plan === null ? times.map(describeTime(rule)) : plan.times.map(describePlan);
  if (isStuck) {
    lines.push('', 'It never moves forward: a job would wait 1 second and run again.');
  }
  if (lines.length === 0) lines.push('It gives no time before the year 10000.');
  return `${[rule.text, explainRepeat(rule), '', ...lines].join('\n')}\n`;
}

function describeTime(rule: RepeatRule): (time: number) => string {
  if (rule.kind === 'moment') return (time) => `${formatInstant(time)} UTC`;
  const clock = createClock(0, rule.zone ?? hostZone());
  return (time) => `${formatInstant(time)} UTC  ${clock.dateTime(time)} ${clock.zone}`;
}

function describePlan({ runAt, scheduledFor, skipped }: PlannedTime): string {
  const rest = skipped === 0 ? '' : `, ${skipped} skipped`;
  return `${formatInstant(runAt)} UTC  for ${formatInstant(scheduledFor)}${rest}`;
}
