import { discover } from '../../../src/discovery/discover.ts';
import type { RunEnd } from '../../../src/execution/result/result.ts';
import { runScript } from '../../../src/execution/script/run-script.ts';
import type { RunRequest } from '../../../src/execution/start/process.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { createStateFolder, stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { type FileContent, makeTemporaryRoot } from '../places/temporary-root.ts';
import { createMasker } from './create-masker.ts';
import { probePath } from './run-command.ts';

/** Runs one script as a pass does, but with the limits that a test needs. */
export async function runOne(name: string, content: FileContent, overrides: Partial<RunRequest> = {}): Promise<RunEnd> {
  return await runScript(await requestRun(name, content, overrides));
}

/** A root with this one script, ready to be run. */
export async function requestRun(
  name: string,
  content: FileContent,
  overrides: Partial<RunRequest> = {},
): Promise<RunRequest> {
  const root = makeTemporaryRoot({ [`jobs/hourly/${name}`]: content });
  const { tiers } = await discover(root, defaultSettings, { tier: 'hourly' });
  const script = tiers[0]?.scripts[0];
  if (script === undefined) throw new Error(`${name} is no script.`);
  const state = stateFolderOf(root);
  createStateFolder(state);
  return {
    key: '1.1',
    script,
    root,
    state,
    probePath,
    attempt: 1,
    scheduledFor: 0,
    latenessMs: 0,
    lastSuccess: null,
    previouslyCrashed: false,
    timeoutMs: 30_000,
    graceMs: 10_000,
    maxOutputBytes: defaultSettings.maxOutputBytes,
    variables: {},
    environment: { HOME: root },
    masker: createMasker({ env: overrides.variables ?? {}, secrets: [] }, overrides.environment ?? {}),
    stop: new AbortController().signal,
    onStarted: () => {},
    ...overrides,
  };
}
