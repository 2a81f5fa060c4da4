import { setTimeout as sleep } from 'node:timers/promises';
import type { Site } from '../../discovery/site.ts';
import { GRACE_MS } from '../../execution/watch/watch.ts';
import { QueueError } from '../../queue/errors.ts';
import { formatJson } from '../../report/json.ts';
import { type RunRecord, runRecord, selectRunning } from '../../report/model/runs/run.ts';
import { selectStopped } from '../../report/model/runs/runs.ts';
import { findRun, findScript } from '../../report/names.ts';
import { loadSettings } from '../../settings/load.ts';
import type { Store } from '../../store/store.ts';
import { NoSuchName } from '../../system/base/errors.ts';
import { printableLine } from '../../system/base/text.ts';
import { isRowNumber, shellWord } from '../../system/base/values.ts';
import { userName } from '../../system/process/user.ts';
import { reconcile } from '../../worker/recovery/reconcile.ts';
import { stopRun } from '../../worker/recovery/stop-run.ts';
import { BEAT_MS } from '../../worker/recovery/tier-lock.ts';
import type { CommandContext } from '../shared/context.ts';
import { withLog, withWritableLog } from '../shared/open.ts';
import type { Given } from '../table.ts';

/** `runner stop`: ends one run, and tells how it ended. */
export async function stopCommand(context: CommandContext, given: Given<'stop'>): Promise<void> {
  const { run: word, root, json, wait } = given;
  const meant = await withLog(context, root, (site) => findOpenRun(context, site, word));
  const run = await withWritableLog(context, root, async (store, site) => {
    const at = context.now();
    const isWatched = await stopRun(store, meant, { by: userName(), at });
    if (!isWatched) await endHere(context, store, site);
    if (wait !== false) await waitForEnd(store, meant);
    return await selectStopped(await site.view(), meant);
  });
  const isLeft = wait !== false && run.outcome === 'running';
  if (isLeft) context.setExitCode(1);
  context.stdout.write(json ? formatJson(runRecord.toJson(run)) : `${describeStopped(run, isLeft)}\n`);
}

/** Its worker is dead: nobody else ends the run soon. */
async function endHere({ stderr, now }: CommandContext, store: Store, { root, state, env }: Site): Promise<void> {
  const { notes } = await reconcile({ root, state, settings: await loadSettings(root, env) }, store, now());
  for (const note of notes) stderr.write(`Note: ${printableLine(note)}\n`);
}

/** A run begins to be seen after 0.1 s. */
const BEGINNING_MS = 300;

async function findOpenRun(context: CommandContext, site: Site, word: string): Promise<RunRecord> {
  const log = await site.view();
  if (isRowNumber(word)) return await findRun(log, Number(word));
  const script = await findScript(site, word, context);
  const find = async () => (await selectRunning(log)).filter((run) => run.script === script);
  let runs = await find();
  if (runs.length === 0) {
    await sleep(BEGINNING_MS);
    runs = await find();
  }
  const [only, ...others] = runs;
  const name = printableLine(script);
  if (only === undefined) {
    const cure = `\`npx folder-runner show ${shellWord(script)}\` shows its newest run`;
    throw new QueueError('wrong-state', `${name} does not run: nothing was stopped; ${cure}.`);
  }
  if (others.length === 0) return await findRun(log, only.id);
  const numbers = runs.map(({ id }) => id).join(', ');
  throw new NoSuchName(`${runs.length} runs of ${name} go on, so name one of them by its number: ${numbers}.`);
}

const POLL_MS = 50;

/** Enough for the worker to see the request, on whatever machine, and for the grace of its processes. */
const LONGEST_WAIT_MS = 2 * BEAT_MS + GRACE_MS;

async function waitForEnd({ runs }: Store, { id, startedAtMs }: RunRecord): Promise<void> {
  const deadline = performance.now() + LONGEST_WAIT_MS;
  while (performance.now() < deadline) {
    const run = await runs.byNumber(id);
    if (run?.outcome !== 'running' || run.startedAt !== startedAtMs) return;
    await sleep(POLL_MS);
  }
}

function describeStopped({ id, script, outcome, reason }: RunRecord, isLeft: boolean): string {
  const name = `Run ${id} of ${printableLine(script)}`;
  if (isLeft) return `${name} still runs: it ends once its worker, or the next call on its machine, sees the request.`;
  if (outcome === 'running') return `${name} is asked to end.`;
  if (outcome === 'stopped') return `${name} was ${printableLine(reason ?? outcome)}.`;
  return `${name} ended before it was stopped: ${printableLine(reason ?? outcome)}.`;
}
