import type { VerbQueue } from '../../queue/queue.ts';
import type { ChangePlan, JobSelection } from '../../queue/settle/many.ts';
import { formatJson } from '../../report/json.ts';
import { changePlanRecord } from '../../report/model/jobs.ts';
import { parseOpenWindow } from '../../report/text/filters.ts';
import { countOf } from '../../system/base/format.ts';
import { printableLine } from '../../system/base/text.ts';
import type { CommandContext } from '../shared/context.ts';
import { withQueue } from '../shared/queue.ts';
import type { Given } from '../table.ts';

/** `runner kick`: queues failed jobs again. */
export async function kick(context: CommandContext, options: Given<'kick'>): Promise<void> {
  const { pattern: patterns, count = Number.MAX_SAFE_INTEGER, root, json, dryRun, ...filter } = options;
  const { since, until, search } = filter;
  const isFiltered = [since, until, search, dryRun].some((each) => each !== undefined);
  const chosen = isFiltered ? { pattern: patterns, search, ...readWindow(filter, context.now()) } : null;
  await withQueue(context, root, async (queue) => {
    if (chosen === null) return tellKicked(context, options, await queue.kickMany(patterns, count));
    const failed = await queue.planChange('kick', { ...chosen, state: 'failed' });
    // As without filters: delayed jobs only if none has failed.
    const state = failed.jobs > 0 || failed.next !== null ? { state: 'failed' as const } : { due: 'delayed' as const };
    const selection = { ...chosen, ...state };
    if (dryRun !== true) return tellKicked(context, options, await kickSelected(queue, selection));
    const plan = 'state' in state ? failed : await queue.planChange('kick', selection);
    context.stdout.write(json ? formatJson(changePlanRecord.toJson(plan)) : describePlan(plan));
  });
}

function readWindow(options: Pick<Given<'kick'>, 'since' | 'until'>, nowMs: number) {
  const { sinceMs: since, untilMs: until } = parseOpenWindow(options, nowMs);
  return { since, until };
}

async function kickSelected(queue: VerbQueue, selection: JobSelection): Promise<number> {
  let [kicked, after]: [number, number | null | undefined] = [0, undefined];
  while (after !== null) {
    const step = await queue.selectStep({ ...selection, after });
    const changed = await queue.applyToMany('kick', step.ids);
    kicked += changed.filter(({ ok }) => ok).length;
    after = step.next;
  }
  return kicked;
}

function describePlan({ jobs, causes, next }: ChangePlan): string {
  const so = next === null ? '' : ' so far; the search stopped after a while';
  const lines = causes.map(
    ({ reason, jobs: count }) => `  ${count}  ${printableLine(reason ?? 'no reason is known')}\n`,
  );
  return `A kick would queue ${countOf(jobs, 'job')}${so}${jobs === 0 ? '.' : ':'}\n${lines.join('')}`;
}

function tellKicked({ stdout }: CommandContext, { json, pattern }: Given<'kick'>, kicked: number): void {
  const told = json
    ? JSON.stringify({ kicked })
    : `Kicked ${countOf(kicked, 'job')}${kicked === 0 ? hintFor(pattern) : '.'}`;
  stdout.write(`${told}\n`);
}

/** All other verbs take numbers. */
function hintFor(patterns: readonly string[]): string {
  const id = patterns.find((pattern) => /^\d+$/.test(pattern));
  return id === undefined ? '.' : `; \`npx folder-runner job ${id} kick\` kicks the job of that number.`;
}
