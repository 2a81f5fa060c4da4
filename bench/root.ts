import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The command as it is built. */
export const runner = join(import.meta.dirname, '../dist/bin.cjs');

/** A new root on the disk that is measured, with these files in its `jobs/`. */
export function makeRoot(disk: string, files: Readonly<Record<string, string>>): string {
  const root = mkdtempSync(join(disk, 'root-'));
  for (const [name, content] of Object.entries(files)) {
    const path = join(root, 'jobs', name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  }
  writeFileSync(join(root, 'empty.cjs'), '');
  return root;
}

/** `count` files of the same content: `<tier>/s00.cjs`, `<tier>/s01.cjs` … */
export function scriptsOf(tier: string, count: number, content: string, extension = 'cjs') {
  const names = Array.from({ length: count }, (_, index) => String(index).padStart(2, '0'));
  return Object.fromEntries(names.map((name) => [`${tier}/s${name}.${extension}`, content]));
}

export const handlers = {
  'queue/no-op.mjs': 'export default async () => {};\n',
  'queue/other.mjs': 'export default async () => {};\n',
  'queue/alone.mjs': '/** @isolate */\nexport default async () => {};\n',
  'queue/stamp.mjs': 'export default async () => performance.timeOrigin + performance.now();\n',
};

/** A runner that was started. */
export interface Started {
  readonly pid: number;
  readonly ended: Promise<void>;
}

export function startRunner(root: string, args: readonly string[]): Started {
  const child = spawn(process.execPath, [runner, ...args], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const ended = new Promise<void>((resolve, reject) => {
    child.on('close', (code) => {
      if (code === 0) resolve();
      else reject(new Error(`npx folder-runner ${args.join(' ')} ended with ${code}`));
    });
  });
  return { pid: child.pid as number, ended };
}

/** The time from its start to its end. */
export async function timeRunner(root: string, args: readonly string[]): Promise<number> {
  const startMs = performance.now();
  await startRunner(root, args).ended;
  return performance.now() - startMs;
}
