import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { discover } from '../../src/discovery/discover.ts';
import { enqueueScripts } from '../../src/queue/add/scripts.ts';
import { defaultSettings } from '../../src/settings/settings.ts';
import { createWorkerEvents } from '../../src/worker/invocation/events.ts';
import type { TierPass } from '../../src/worker/invocation/invocation.ts';
import { createStopRequest } from '../../src/worker/invocation/stop.ts';
import { workOff } from '../../src/worker/loop/loop.ts';
import { createStoreRecorder } from '../../src/worker/record/run-recorder.ts';

import { openStoreOf } from '../support/state-of.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { writeLog } from '../support/written-log.ts';

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
    probePath: '/no/probe',
    version: '0',
    now: Date.now,
  };
  const [tier] = (await discover(root, defaultSettings, { tier: 'hourly' })).tiers;
  const when = { scheduledFor: null, at: Date.now() };
  const queued = await store.transaction((session) => enqueueScripts(session, tier?.scripts ?? [], when));
  const jobs = queued.map((job) => ({ ...job, attempt: 1 }));
  const events = createWorkerEvents();
  const pass: TierPass = {
    runner,
    trigger: 'cron',
    stop: createStopRequest(),
    events,
    budget: null,
    tier: 'hourly',
    recorder: createStoreRecorder(store, workerId, runner),
    admit: async () => null,
  };
  return { root, store, pass, jobs };
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
