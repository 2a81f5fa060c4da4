import { findScriptToRun } from '../../discovery/find-script.ts';
import { mayHaveToWait, type Script } from '../../discovery/script.ts';
import { findPause } from '../../queue/pauses.ts';
import { createClock } from '../../report/text/clock.ts';
import { describePaused } from '../../report/text/words.ts';
import { UsageError } from '../../system/base/errors.ts';
import { printableLine, withInstants } from '../../system/base/text.ts';
import { shellWord } from '../../system/base/values.ts';
import type { WorkerEvents } from '../../worker/invocation/invocation.ts';
import { runTier } from '../../worker/pass/run-tier.ts';
import { asksForPlan, type Call } from '../shared/command.ts';
import { type CommandContext, openRunner } from '../shared/context.ts';
import { readAwaited, readPauses } from '../shared/open.ts';
import type { Given } from '../table.ts';
import { runAndShow } from './run-tier.ts';

/** `runner run <script>`: one script now, as cron would run it. */
export async function runCommand(context: CommandContext, options: Given<'run'>, { words }: Call): Promise<void> {
  const { script: name, args: given, root, quiet, alert: isTold } = options;
  const args = argumentsAfterDashes(words, given);
  const isPlan = asksForPlan(options);
  const runner = await openRunner(context, root);
  const { tier, script } = await findScriptToRun({ ...runner, cwd: context.cwd }, name);
  const request = { kind: 'script' as const, tier, scripts: [script] };
  if (isPlan) {
    const { showPlan } = await import('./dry-run.ts');
    return await showPlan(context, runner, [request], { json: options.json, args });
  }
  await notePause(context, runner.root, script.name);
  if (mayHaveToWait(script)) await noteLinks(context, runner.root, script);
  const show = { isAwaited: true, isTold, isLive: quiet !== true, ...(args.length > 0 && { args }) };
  const { ends } = await runAndShow(context, runner, show, async (call) => {
    const isExplained = noteExplanation(call.events);
    const summary = await runTier(call, request);
    if (summary.ends?.length === 0 && !isExplained()) tellNotRun(context, script.name, call.stop.reason);
    return summary;
  });
  const isDone = ends !== null && ends.length > 0 && ends.every(({ outcome }) => outcome !== 'stopped');
  if (!isDone) context.setExitCode(1);
}

/** Two names are more likely a slip than a script and its argument. */
function argumentsAfterDashes(typed: readonly string[], given: readonly string[]): readonly string[] {
  if (given.length === 0 || typed.includes('--')) return given[0] === '--' ? given.slice(1) : given;
  throw new UsageError(
    `\`run\` runs one script, found also ${given.map((word) => JSON.stringify(word)).join(' ')}. ` +
      'Put arguments for the script after `--`.',
  );
}

/** @returns whether something has been told that explains why nothing was run */
function noteExplanation(events: WorkerEvents): () => boolean {
  let isExplained = false;
  for (const event of ['problem', 'pass-skipped', 'deferred'] as const) {
    events.on(event, () => {
      isExplained = true;
    });
  }
  return () => isExplained;
}

/** @param stopped why the call was to begin nothing; null: somebody else was quicker, or the log was away just then */
function tellNotRun(context: CommandContext, script: string, stopped: string | null): void {
  const reason =
    stopped ?? 'another call or machine has taken it over, or the log could not be reached at its beginning';
  const cure = `\`npx folder-runner why ${shellWord(script)}\` tells how it stands`;
  context.stderr.write(`runner: ${script} was not run: ${reason}; ${cure}.\n`);
}

/** A pause keeps a script out of passes only; `runner run` with its name runs it and prints a note. */
async function notePause(context: CommandContext, root: string, script: string): Promise<void> {
  const pause = findPause(await readPauses(context, root), script);
  if (pause === null) return;
  const what = describePaused(pause, '', createClock(context.now()));
  context.stderr.write(`Note: ${what}; ${printableLine(script)} runs all the same, because you named it.\n`);
}

/** A script that is run by name does not wait. */
async function noteLinks(context: CommandContext, root: string, script: Script): Promise<void> {
  const text = await readAwaited(context, root, script);
  if (!text) return;
  const told = withInstants(text, createClock(context.now()).short);
  context.stderr.write(`Note: ${printableLine(script.name)} ${told}; it runs all the same, because you named it.\n`);
}
