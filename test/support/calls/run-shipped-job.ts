import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { type Ended, nodeCache } from './run-command.ts';

const jobs = new URL('../../../jobs/', import.meta.url).pathname;

/** Calls a script's default function, if it has one, as the runner does. */
const HOST = `
  const { default: job } = await import(process.argv[1]);
  await job?.({ signal: new AbortController().signal, log: console.log });
`;

/**
 * The real script in a Node of its own, without the runner around it. Not blocking: what the script
 * talks to may live in the test.
 */
export async function runShippedJob(
  name: string,
  cwd: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const args = ['--input-type=module', '--eval', HOST, '--', join(jobs, name)];
  const child = spawn(process.execPath, args, {
    cwd,
    env: { HOME: join(cwd, 'home'), PATH: '/usr/bin:/bin', RUNNER_ROOT: cwd, ...nodeCache, ...variables },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 50_000,
  });
  const [stdout, stderr, status] = await Promise.all([
    readAll(child.stdout),
    readAll(child.stderr),
    new Promise<number | null>((resolve) => child.once('close', resolve)),
  ]);
  return { status, stdout, stderr };
}

async function readAll(stream: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
