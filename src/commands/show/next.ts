import type { Site } from '../../discovery/site.ts';
import { formatJson } from '../../report/json.ts';
import { EXPECTED_END, isNearEnough, nextRecord, readNext } from '../../report/model/next/next.ts';
import { renderNext } from '../../report/terminal/next.ts';
import { createScreen } from '../../report/terminal/screen.ts';
import { UsageError } from '../../system/base/errors.ts';
import { readLocalTime } from '../../system/base/local-time.ts';
import { printableLine } from '../../system/base/text.ts';
import { DAY_MS } from '../../system/base/values.ts';
import type { CommandContext } from '../shared/context.ts';
import { print, withLogIfAny } from '../shared/open.ts';
import type { Given } from '../table.ts';

const DEFAULT_LIMIT = 50;

/** `runner next`: what will run, and what did not come. */
export async function showNext(context: CommandContext, options: Given<'next'>): Promise<void> {
  const text = await withLogIfAny(context, options.root, (site) => describeNext(context, site, options));
  await print(context, text);
}

async function describeNext(context: CommandContext, site: Site, options: Given<'next'>): Promise<string> {
  const { tier, limit = DEFAULT_LIMIT, json } = options;
  const untilMs = readEnd(options, site.nowMs);
  if (!isNearEnough(site.nowMs, untilMs)) throw new UsageError(`The time to look up to must be ${EXPECTED_END}.`);
  const next = await readNext(site, { untilMs, tier, limit });
  return json ? formatJson(nextRecord.toJson(next)) : renderNext(next, createScreen(context));
}

/** A day is meant with all its hours. */
function readEnd({ for: forMs = DAY_MS, until }: Given<'next'>, nowMs: number): number {
  if (until === undefined) return nowMs + forMs;
  const time = readLocalTime(until, nowMs, 'future');
  if (time !== null) return time.endMs;
  throw new UsageError(
    '--until must be a day such as tomorrow or friday, or a local time such as 18:00 or "2026-11-01 10:00", ' +
      `found ${JSON.stringify(printableLine(until))}.`,
  );
}
