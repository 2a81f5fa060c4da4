import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { discover } from '../../../src/discovery/discover.ts';
import type { Tier } from '../../../src/discovery/script.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import {
  createStopRequest,
  createWorkerEvents,
  describeWorker,
  type StopRequest,
} from '../../../src/worker/invocation/invocation.ts';
import { runExecutors } from '../../../src/worker/loop/loop.ts';
import { PassRecorder } from '../../../src/worker/loop/pass-recorder.ts';
import { workOff } from '../../../src/worker/loop/script-executor.ts';
import { ScriptRecorder } from '../../../src/worker/loop/script-recorder.ts';
import { probePath } from '../../support/command.ts';
import { enqueueScripts } from '../../support/queue.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { openStoreOf } from '../../support/store.ts';
import { writeLog } from '../../support/written-log.ts';

/** A pass over a tier of these scripts, with its jobs queued. */
async function makePass(scripts: Readonly<Record<string, string>>) {
  const files = Object.entries(scripts).map(([name, text]) => [`jobs/hourly/${name}`, text]);
  const root = makeTemporaryRoot(Object.fromEntries(files));
  const { addPass, state } = await writeLog(root);
  const workerId = await addPass('hourly', Date.now(), { state: 'running' });
  const store = await openStoreOf(root);
  const runner = {
    root,
    state,
    settings: defaultSettings,
    environment: {},
    probePath,
    version: '0',
    now: Date.now,
  };
  const [tier] = (await discover(root, defaultSettings, { tier: 'hourly' })).tiers;
  const wanted = (tier?.scripts ?? []).map((script) => ({ script, scheduledFor: null }));
  const queued = await store.transaction((session) => enqueueScripts(session, wanted, Date.now()));
  const jobs = queued.map((job) => ({ ...job, attempt: 1 }));
  const events = createWorkerEvents();
  const call = { runner, trigger: 'cron' as const, stop: createStopRequest(), events, budget: null };
  const worker = describeWorker(call, { kind: 'tier', tier: tier as Tier });
  const replace = vi.fn((error: unknown) => Promise.reject(error));
  const recorder = new PassRecorder({ call, worker }, new ScriptRecorder({ store, workerId, runner }));
  const pass: Parameters<typeof workOff>[0] = {
    ...{ ...call, worker, tier: 'hourly' },
    // There is no other place.
    recorder: Object.assign(recorder, { replace }),
    admit: async () => null,
  };
  return { root, store, worker, pass, jobs, replace };
}

test('a pass that loses its log lets what runs come to its end, and starts nothing more', async () => {
  const { root, store, pass, jobs } = await makePass({
    'a.sh': 'sleep 0.5; touch ended',
    'b.sh': 'exit 0',
    'c.sh': 'touch started',
  });
  pass.events.on('run-started', ({ script }) => {
    if (script === 'hourly/b') void store.close();
  });
  const runner = { ...pass.runner, settings: { ...defaultSettings, concurrency: 2 } };
  await expect(workOff({ ...pass, runner }, jobs)).rejects.toThrow();
  expect(existsSync(join(root, 'ended'))).toBe(true);
  expect(existsSync(join(root, 'started'))).toBe(false);
  expect(pass.stop.reason).toMatch(/^the pass was aborted: /);
});

test.each([
  ['a defect of the runner surfaces', new TypeError('it is undefined'), 0],
  ['a full disk has it recorded elsewhere', Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' }), 1],
  ['a refused value has it recorded elsewhere', Object.assign(new Error('no'), { code: 'SQLITE_CONSTRAINT_CHECK' }), 1],
])('where the end of a run cannot be recorded, %s', async (_, error, replaced) => {
  const { store, worker, pass, jobs, replace } = await makePass({ 'a.sh': 'exit 0' });
  const first = new ScriptRecorder({ store, workerId: 1, runner: pass.runner });
  const turn = first.turn.bind(first);
  const failing: typeof turn = (ended, then) => (ended.length > 0 ? Promise.reject(error) : turn(ended, then));
  const failed = new PassRecorder({ call: pass, worker }, Object.assign(first, { turn: failing }));
  const recorder = Object.assign(failed, { replace });
  await expect(workOff({ ...pass, recorder }, jobs)).rejects.toBe(error);
  expect(replace).toHaveBeenCalledTimes(replaced);
});

/** Runs two turns unless it is stopped, and tells of all it does; `breakOff` may throw at any of it. */
function makeExecutor(stop: StopRequest, breakOff: (did: string) => void = () => {}) {
  const did: string[] = [];
  const tell = (what: string): void => {
    breakOff(what);
    did.push(what);
  };
  let turns = 0;
  const next = async (): Promise<number | null> => {
    if (stop.reason !== null || turns === 2) return null;
    turns += 1;
    return turns;
  };
  const run = async (turn: number): Promise<void> => {
    tell(`begins ${turn}`);
    await sleep(50);
    tell(`ends ${turn}`);
  };
  return { did, next, run, giveBack: async () => tell('gives back') };
}

const all = ['begins 1', 'ends 1', 'begins 2', 'ends 2', 'gives back'];

test.each([
  ['begins 1', ['gives back'], ['begins 1', 'ends 1', 'gives back']],
  ['ends 1', ['begins 1', 'gives back'], ['begins 1', 'ends 1', 'gives back']],
  ['gives back', all.slice(0, -1), all],
])(
  'one that breaks off where it %s lets the other end what it runs; both give back the rest',
  async (at, it, other) => {
    const stop = createStopRequest();
    const error = new Error('no more');
    const broken = makeExecutor(stop, (did) => {
      if (did === at) throw error;
    });
    const going = makeExecutor(stop);
    const onBroken = vi.fn();
    expect(await runExecutors([broken, going], { name: 'worker', stop, runner: { probePath }, onBroken })).toEqual([
      error,
    ]);
    expect(onBroken.mock.calls).toEqual([[error]]);
    expect(stop.reason).toBe('the worker was aborted: Error: no more');
    expect([broken.did, going.did]).toEqual([it, other]);
  },
);
