import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { cronEnv, type Ended, runCommand } from './command.ts';
import { queryLog } from './log.ts';
import { type FileContent, makeTemporaryRoot } from './root.ts';

/** Writes its name, and fails as long as there is a file `bad-<name>`. */
const script = (name: string, ...tags: readonly string[]): FileContent =>
  `${['#!/bin/sh', ...tags.map((tag) => `# ${tag}`)].join('\n')}\necho ${name} >> ran\ntest ! -e bad-${name}\n`;

/**
 * A site whose scripts wait for each other.
 *
 * @param scripts tags by names such as `hourly/a`
 */
export function makeLinkedSite(
  scripts: Readonly<Record<string, readonly string[]>>,
  more: Readonly<Record<string, FileContent>> = {},
) {
  const nameOf = (path: string) => path.split('/')[1] as string;
  const files = Object.entries(scripts).map(([path, tags]) => [`jobs/${path}.sh`, script(nameOf(path), ...tags)]);
  const root = makeTemporaryRoot({ ...Object.fromEntries(files), ...more });
  const call = (...args: readonly string[]): Ended =>
    runCommand(args, { cwd: root, env: { ...cronEnv(root), RUNNER_CALLED_BY: 'person' } });
  return {
    root,
    call,
    /** What has run during the call, in its order. */
    ran: (...args: readonly string[]): string[] => {
      rmSync(join(root, 'ran'), { force: true });
      const { status, stderr } = call(...args);
      expect([0, 1], stderr).toContain(status);
      return readLines(join(root, 'ran'));
    },
    fail: (name: string) => writeFileSync(join(root, `bad-${name}`), ''),
    mend: (name: string) => rmSync(join(root, `bad-${name}`)),
    job: (name: string) =>
      queryLog<JobFacts>(root, `select state, links_met, ends_used from jobs where name = '${name}'`)[0],
  };
}

interface JobFacts {
  readonly state: string;
  readonly links_met: number;
  readonly ends_used: string | null;
}

function readLines(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').trimEnd().split('\n');
  } catch {
    return [];
  }
}
