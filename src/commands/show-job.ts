import { parseExactly } from '../config/exact-json.ts';
import { selectPauses } from '../queue/pauses.ts';
import { readJob } from '../queue/read-job.ts';
import { noSuchJob } from '../queue/refusals.ts';
import { findHold } from '../report/find-hold.ts';
import type { JobStory } from '../report/job-json.ts';
import {
  selectActivityOfJob,
  selectChildren,
  selectRunsOfJob,
} from '../report/select-job-story.ts';
import type { Database } from '../store/open-store.ts';
import type { CommandContext } from './command-context.ts';
import { withLog } from './open-log.ts';

interface ShowOptions {
  readonly json?: true;
  readonly root?: string;
}

const MOST_CHILDREN = 1000;
const MOST_RUNS = 100;
const MOST_ACTIVITY = 200;

/** `runner job <id>`: everything about one job of the queue. */
export async function showJob(
  context: CommandContext,
  id: number,
  options: ShowOptions,
): Promise<void> {
  const text = await withLog(context, options.root, async ({ db }) =>
    describe(context, await readStory(db, id, context.now()), options),
  );
  const { openTextOutput } = await import('../report/text-output.ts');
  await openTextOutput(context.stdout).write(text);
}

async function readStory(db: Database, id: number, nowMs: number): Promise<JobStory> {
  const job = await readJob(db, id, parseExactly);
  if (job === null) throw noSuchJob(id);
  return {
    job,
    hold: findHold(await selectPauses(db, nowMs), job),
    children: await selectChildren(db, id, MOST_CHILDREN),
    runs: await selectRunsOfJob(db, id, MOST_RUNS),
    activity: await selectActivityOfJob(db, job, MOST_ACTIVITY),
  };
}

async function describe(
  context: CommandContext,
  story: JobStory,
  { json }: ShowOptions,
): Promise<string> {
  if (json) {
    const { formatJson } = await import('../report/json.ts');
    return formatJson((await import('../report/job-json.ts')).jobStoryToJson(story));
  }
  const { createScreen } = await import('../report/terminal/screen.ts');
  return (await import('../report/terminal/render-job.ts')).renderJob(story, createScreen(context));
}
