import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { RunEnd } from '../../../src/execution/result/result.ts';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { identifyProcess } from '../../../src/system/process/identity.ts';
import { endLostRun, type LostRunRequest } from '../../../src/worker/recovery/dead-workers.ts';
import { sweepWarmFiles } from '../../../src/worker/recovery/sweep.ts';
import { type Started, startNode } from '../../support/command.ts';
import { identifyDeadProcess, killGroup } from '../../support/faults/faults.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { createMasker } from '../../support/run.ts';
import { until } from '../../support/until.ts';

const child = new URL('./handler-runner.child.ts', import.meta.url).pathname;

/** Says that it runs, waits for a file `go`, and ends as its code says. */
const waits = (code: string): string => `import { existsSync, writeFileSync } from 'node:fs';
export default async (job) => {
  job.log('begun');
  writeFileSync('begun', '');
  while (!existsSync('go')) await new Promise((resolve) => setTimeout(resolve, 10));
  ${code}
};\n`;

interface Lost {
  readonly root: string;
  readonly runner: Started;
  has(file: string): boolean;
  go(): void;
  pidOf(run: number): number;
  /** Null: it still runs. */
  end(run: number, overrides?: Partial<LostRunRequest>): Promise<RunEnd | null>;
  awaitEnd(run: number, overrides?: Partial<LostRunRequest>): Promise<RunEnd | null>;
}

/** A runner that runs these handlers, and will be killed. */
function startRunner(handlers: Readonly<Record<string, string>>, ...names: string[]): Lost {
  const root = makeTemporaryRoot(
    Object.fromEntries(Object.entries(handlers).map(([name, code]) => [`jobs/queue/${name}`, code])),
  );
  const runner = startNode([child, root, ...names]);
  const has = (file: string): boolean => existsSync(join(root, file));
  const pidOf = (run: number): number => Number(readFileSync(join(root, `pid-${run}`), 'utf8'));
  onTestFinished(() => {
    if (has('pid-1')) killGroup(pidOf(1));
  });
  const end: Lost['end'] = (run, overrides = {}) =>
    endLostRun({
      key: `1.${run}`,
      root,
      state: stateFolderOf(root),
      startedAt: Date.now() - 1000,
      process: identifyProcess(pidOf(run)),
      runner: 'pid 4711 on web3',
      timeoutMs: 60_000,
      graceMs: 1000,
      maxOutputBytes: 1_000_000,
      masker: createMasker({ env: {}, secrets: [] }, {}),
      lastSeenRssBytes: null,
      now: Date.now(),
      ...overrides,
    });
  const awaitEnd: Lost['end'] = async (run, overrides) => {
    const ends: (RunEnd | null)[] = [];
    await until('it has ended', async () => {
      ends.push(await end(run, overrides));
      return ends.at(-1) !== null;
    });
    return ends.at(-1) ?? null;
  };
  return { root, runner, has, pidOf, end, awaitEnd, go: () => writeFileSync(join(root, 'go'), '') };
}

async function killRunner({ runner }: Lost): Promise<void> {
  runner.kill('SIGKILL');
  await runner.ended;
}

describe('a runner that is killed while a handler runs', () => {
  test.each([
    [
      'returns',
      `job.log('done'); return { sent: job.data.a };`,
      { outcome: 'succeeded', exitCode: 0, reason: null, result: '{"sent":1}' },
    ],
    [
      'throws',
      `job.log('done'); throw new TypeError('no luck');`,
      { outcome: 'failed', error: { name: 'TypeError', message: 'no luck' } },
    ],
    [
      'asks',
      `job.log('done'); job.retry({ delay: '1m' });`,
      { outcome: 'released', reason: 'asked for another try in 1m', ask: { kind: 'retry', delayMs: 60_000 } },
    ],
    ['exits', `job.log('done'); process.exit(0);`, { outcome: 'failed', exitCode: 13 }],
    [
      'tells of progress, which cannot be written down',
      `await job.update({ a: 2 }); job.log('done'); return 2;`,
      { outcome: 'succeeded', result: '2' },
    ],
  ])('lets it come to its end, and that is known: it %s', async (_, code, expected) => {
    const lost = startRunner({ 'first.mjs': 'export default () => 1;\n', 'a.mjs': waits(code) }, 'first', 'a');
    await until('it runs', () => lost.has('begun'));
    const process = identifyProcess(lost.pidOf(2));
    await killRunner(lost);
    expect(await lost.end(2, { process })).toBeNull();
    lost.go();
    const end = await lost.awaitEnd(2, { process });
    expect(end).toMatchObject({ measuredBy: 'self', output: { text: 'begun\ndone\n' }, ...expected });
    // Its end is known before its process has gone, which needs its files until then.
    await until('its files are swept', () => {
      sweepWarmFiles(lost.root, stateFolderOf(lost.root));
      return readdirSync(stateFolderOf(lost.root).temporary).length === 0;
    });
  });

  test('keeps the output of one that has ended before it could see that', async () => {
    const code = `export default (job) => {
  job.log('begun');
  process.kill(process.ppid, 'SIGKILL');
  process.exit(0);
};\n`;
    const lost = startRunner({ 'first.mjs': 'export default () => 1;\n', 'a.mjs': code }, 'first', 'a');
    await lost.runner.ended;
    const end = await lost.awaitEnd(2);
    expect(end).toMatchObject({ outcome: 'failed', output: { text: 'begun\n' } });
  });

  test('leaves it to its time limit', async () => {
    const lost = startRunner({ 'a.mjs': waits('') }, 'a');
    await until('it runs', () => lost.has('begun'));
    const process = identifyProcess(lost.pidOf(1));
    await killRunner(lost);
    const end = await lost.end(1, { process, timeoutMs: 0 });
    expect(end).toMatchObject({ outcome: 'timed-out', output: { text: 'begun\n' } });
  });

  test('is no reason to take it for dead where it began in a new process, of which nobody knew', async () => {
    const lost = startRunner({ 'a.mjs': waits('return 1;') }, 'a');
    await until('it runs', () => lost.has('begun'));
    await killRunner(lost);
    const process = identifyDeadProcess();
    expect(await lost.end(1, { process })).toBeNull();
    expect(await lost.end(1, { process: { ...process, pid: null } })).toBeNull();
    lost.go();
    const end = await lost.awaitEnd(1, { process });
    expect(end).toMatchObject({ outcome: 'succeeded', result: '1' });
  });

  test('has its files swept only when nobody needs them any more', async () => {
    const lost = startRunner({ 'a.mjs': waits('') }, 'a');
    await until('it runs', () => lost.has('begun'));
    const state = stateFolderOf(lost.root);
    const list = () => [...readdirSync(state.output), ...readdirSync(state.temporary)];
    sweepWarmFiles(lost.root, state);
    expect(list()).toHaveLength(3);
    const pid = lost.pidOf(1);
    await killRunner(lost);
    sweepWarmFiles(lost.root, state);
    expect(list()).toHaveLength(3);
    killGroup(pid);
    await until('it is gone', () => !existsSync(`/proc/${pid}`));
    sweepWarmFiles(lost.root, state);
    expect(list()).toEqual(['1.1.log']);
  });
});

test('a runner that is killed before it has written the end down loses nothing of it', async () => {
  const a = `export default ({ log }) => { log('done'); return { sent: true }; };\n`;
  const lost = startRunner({ 'a.mjs': a }, 'a', 'a');
  await until('it has ended', () => lost.has('ended-2'));
  const process = identifyProcess(lost.pidOf(2));
  await killRunner(lost);
  await until('the process is gone', () => !existsSync(`/proc/${process.pid}`));
  expect(await lost.end(2, { process })).toMatchObject({
    outcome: 'succeeded',
    result: '{"sent":true}',
    output: { text: 'done\n' },
  });
});
