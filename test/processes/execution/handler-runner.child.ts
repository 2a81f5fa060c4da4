import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openHandlers } from '../../../src/discovery/handlers.ts';
import { createHandlerRunners, type HandlerRunner } from '../../../src/execution/warm/run.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { createStateFolder, stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { probePath } from '../../support/command.ts';
import { createMasker } from '../../support/run.ts';

/** Runs these handlers, one after the other, as runs 1, 2, 3; then says so, and waits to be killed. */
const [root = '', ...names] = process.argv.slice(2);
const state = stateFolderOf(root);
createStateFolder(state);
const handlers = await openHandlers(root, defaultSettings);
const kept = { childJobs: 1000, childMemoryBytes: 1e9, hasRoom: () => true };
const [runner] = createHandlerRunners(1, kept) as [HandlerRunner];
for (const [index, name] of names.entries()) {
  const script = handlers.find(name);
  if (script === null) throw new Error(`There is no handler ${name}.`);
  const run = index + 1;
  const job = {
    id: run,
    name,
    data: '{"a":1}',
    attempt: 1,
    scheduledFor: null,
    startedAt: Date.now(),
    latenessMs: 0,
    lastSuccess: null,
    previouslyCrashed: false,
    parentData: null,
    children: null,
  };
  const request = {
    key: `1.${run}`,
    script,
    root,
    state,
    probePath,
    timeoutMs: 60_000,
    graceMs: 10_000,
    maxOutputBytes: 1_000_000,
    variables: {},
    environment: { HOME: root },
    masker: createMasker({ env: {}, secrets: [] }, {}),
    stop: new AbortController().signal,
    onStarted: (pid: number) => writeFileSync(join(root, `pid-${run}`), String(pid)),
    onUpdate: () => {},
    ...job,
    job,
  };
  await runner.run({ requests: [request], unsettled: new Set() });
  writeFileSync(join(root, `ended-${run}`), '');
}
setInterval(() => {}, 1000);
