import { spawn } from 'node:child_process';
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

/** A `runner work` that was started. */
export interface Work {
  readonly pid: number;
  readonly ended: Promise<void>;
}

export function startWork(root: string, args: readonly string[] = []): Work {
  const child = spawn(process.execPath, [command, 'work', ...args], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const ended = new Promise<void>((resolve, reject) => {
    child.on('close', (code) => {
      if (code === 0) resolve();
      else reject(new Error(`runner work ended with ${code}`));
    });
  });
  return { pid: child.pid as number, ended };
}

/** The time from its start to its end. */
export async function timeWork(root: string, args: readonly string[] = []): Promise<number> {
  const startMs = performance.now();
  await startWork(root, args).ended;
  return performance.now() - startMs;
}

/** What was worked off must be in the log as finished, or its figure would mean nothing. */
export async function assertFinished(root: string, expected: number): Promise<void> {
  const { ms: finished } = await ask(ours, 'finished', root, 0);
  if (finished !== expected) throw new Error(`${finished} of ${expected} jobs are finished`);
}
