import type { Site } from '../../discovery/site.ts';
import { formatJson } from '../../report/json.ts';
import { activityRecord, selectActivity } from '../../report/model/activity.ts';
import { type RunDetails, readRun, runDetailsRecord } from '../../report/model/runs/details.ts';
import { readRunOutput } from '../../report/model/runs/output.ts';
import { selectNewestRun } from '../../report/model/runs/runs.ts';
import { findScript } from '../../report/names.ts';
import { renderActivity } from '../../report/terminal/jobs.ts';
import { renderComparison, renderOutputTitle, renderRun } from '../../report/terminal/runs.ts';
import { createScreen, openTextOutput, type TextOutput } from '../../report/terminal/screen.ts';
import { createClock } from '../../report/text/clock.ts';
import { parseOpenWindow } from '../../report/text/filters.ts';
import { UsageError } from '../../system/base/errors.ts';
import { printableLine, toPrintableLines } from '../../system/base/text.ts';
import { isRowNumber } from '../../system/base/values.ts';
import type { CommandContext } from '../shared/context.ts';
import { print, withLog } from '../shared/open.ts';
import type { Given } from '../table.ts';

/** `runner activity`: what happened to all jobs and workers. */
export async function showActivity(context: CommandContext, options: Given<'activity'>): Promise<void> {
  const { worker, job, order, limit } = options;
  const query = {
    ...parseOpenWindow(options, context.now()),
    ...{ workerId: worker, jobId: job, order },
    // One more than asked for tells whether there are more.
    limit: limit + 1,
  };
  const text = await withLog(context, options.root, async ({ view }) => {
    const found = await selectActivity(await view(), query);
    const shown = found.slice(0, limit);
    if (options.json) return formatJson({ activity: shown.map(activityRecord.toJson) });
    return renderActivity(shown, found.length > limit, createScreen(context));
  });
  await print(context, text);
}

/** `runner show`: everything about one run. */
export async function show(
  context: CommandContext,
  { run: word, root, json, full = false, with: otherWord }: Given<'show'>,
): Promise<void> {
  const output = openTextOutput(context.stdout);
  await withLog(context, root, async (log) => {
    const id = await findRunId(context, log, word);
    const other = otherWord === undefined ? null : await findRunId(context, log, otherWord);
    const run = await readRun(log, id, createClock(log.nowMs), other);
    const shown = { run, pieces: readRunOutput(log.state, run, full), full, output };
    if (json) await showJson(shown);
    else await showText(context, shown);
  });
}

interface Shown {
  readonly run: RunDetails;
  /** The run's output. */
  readonly pieces: AsyncIterable<string>;
  readonly full: boolean;
  readonly output: TextOutput;
}

async function showJson({ run, pieces, output }: Shown): Promise<void> {
  let text: string | null = null;
  for await (const piece of pieces) text = (text ?? '') + piece;
  await output.write(formatJson({ ...runDetailsRecord.toJson(run), output: text }));
}

async function showText(context: CommandContext, { run, pieces, full, output }: Shown): Promise<void> {
  const screen = createScreen(context);
  await output.write(renderRun(run, screen));
  if (run.comparison !== null) await output.write(renderComparison(run.id, run.comparison, screen));
  let isFirst = true;
  let last = '\n';
  for await (const text of toPrintableLines(pieces)) {
    if (isFirst) await output.write(renderOutputTitle(run, full, screen));
    isFirst = false;
    last = text;
    if (!(await output.write(text))) return;
  }
  if (!last.endsWith('\n')) await output.write('\n');
}

/** The number of a run; for a script or handler, that of its newest run. */
async function findRunId(context: CommandContext, site: Site, word: string): Promise<number> {
  if (isRowNumber(word)) return Number(word);
  if (/^[\d-]/.test(word) && !word.includes('/')) throw noRunNumber(word);
  const script = await findScript(site, word, context);
  const newest = await selectNewestRun(await site.view(), script);
  if (newest === null) throw new UsageError(`${printableLine(script)} has never run.`);
  return newest.id;
}

function noRunNumber(word: string): UsageError {
  return new UsageError(
    `npx folder-runner show needs the number of a run or the name of a script, found ${JSON.stringify(word)}; ` +
      '`npx folder-runner report <script>` lists the runs of a script with their numbers.',
  );
}
