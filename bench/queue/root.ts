import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ask, type Contender } from './contender.ts';

const command = join(import.meta.dirname, '../../dist/bin.cjs');

export const ours: Contender = {
  name: 'folder-runner',
  program: join(import.meta.dirname, 'ours.child.ts'),
  verbs: ['add', 'bulk', 'work'],
};

const handlers: Readonly<Record<string, string>> = {
  'no-op.mjs': 'export default async () => {};\n',
  'alone.mjs': '/** @isolate */\nexport default async () => {};\n',
  'stamp.mjs': 'export default async () => performance.timeOrigin + performance.now();\n',
};

/** A root with handlers that do nothing, and one that says when it began. */
export function makeRoot(disk: string, queueSettings: object = {}): string {
  const root = mkdtempSync(join(disk, 'root-'));
  mkdirSync(join(root, 'jobs/queue'), { recursive: true });
  for (const [file, content] of Object.entries(handlers)) {
    writeFileSync(join(root, 'jobs/queue', file), content);
  }
  writeFileSync(join(root, 'runner.config.json'), JSON.stringify({ queue: queueSettings }));
  return root;
}

/** Starts `runner work` on it. */
export function startWork(root: string, args: readonly string[] = []): ChildProcess {
  return spawn(process.execPath, [command, 'work', ...args], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

/** The time from its start to its end. */
export async function timeWork(root: string, args: readonly string[] = []): Promise<number> {
  const startMs = performance.now();
  await ended(startWork(root, args));
  return performance.now() - startMs;
}

export async function ended(child: ChildProcess): Promise<void> {
  const code = await new Promise((resolve) => child.on('close', resolve));
  if (code !== 0) throw new Error(`runner work ended with ${code}`);
}

/** What was worked off must be in the log as finished, or its figure would mean nothing. */
export async function assertFinished(root: string, expected: number): Promise<void> {
  const { ms: finished } = await ask(ours, 'finished', root, 0);
  if (finished !== expected) throw new Error(`${finished} of ${expected} jobs are finished`);
}
