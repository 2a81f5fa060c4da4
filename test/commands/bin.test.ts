import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { commandPath } from '../support/run-command.ts';

interface Started {
  readonly printed: string;
  readonly exitCode: number | undefined;
  /** What the entry has loaded. */
  readonly loaded: readonly string[];
}

/** The built entry under a Node that claims to be of this version. */
function startUnder(version: string): Started {
  const loaded: string[] = [];
  let printed = '';
  const fakeProcess: { exitCode?: number } & Record<string, unknown> = {
    versions: { node: version },
    execPath: '/usr/bin/node',
    env: {},
    umask: () => 0o022,
    stderr: {
      write: (text: string) => {
        printed += text;
      },
    },
  };
  const fakeRequire = (name: string): unknown => {
    loaded.push(name);
    if (name.endsWith('path')) return { join: (...parts: string[]) => parts.join('/') };
    return { enableCompileCache: () => {}, main: () => {} };
  };
  const source = readFileSync(commandPath, 'utf8').replace(/^#!.*/, '');
  const folder = dirname(commandPath);
  runInNewContext(
    source,
    { process: fakeProcess, require: fakeRequire, exports: {}, module: {}, __dirname: folder },
    { filename: commandPath },
  );
  return { printed, exitCode: fakeProcess.exitCode, loaded };
}

describe('the entry', () => {
  test.for(['4.9.1', '18.20.8', '20.20.2', '21.7.3', '22.17.1'])('refuses Node %s', (version) => {
    const { printed, exitCode, loaded } = startUnder(version);
    expect(exitCode).toBe(2);
    expect(printed).toContain(
      `runner: needs Node 22.18 or newer, and this is ${version} (/usr/bin/node).`,
    );
    expect(printed).toContain('npx runner cron --install');
    expect(loaded.filter((name) => !/path$/.test(name))).toEqual([]);
  });

  test.for(['22.18.0', '22.23.3', '24.0.0', '26.10.0', '100.0.0'])('lets Node %s in', (version) => {
    const { printed, exitCode, loaded } = startUnder(version);
    expect({ printed, exitCode }).toEqual({ printed: '', exitCode: undefined });
    expect(loaded).toContain('./cli.cjs');
  });

  test('is written so that the oldest Node understands it', () => {
    expect(readFileSync(commandPath, 'utf8')).not.toMatch(
      /=>|\bconst\b|\blet\b|\?\.|\?\?|`[^`]*\$\{/,
    );
  });
});

const systemNode = spawnSync('/usr/bin/node', ['--version'], { encoding: 'utf8' });
const isOld = systemNode.status === 0 && Number(systemNode.stdout.slice(1).split('.')[0]) < 22;

test.runIf(isOld)('the machine’s own old Node is refused for real', () => {
  const { status, stdout, stderr } = spawnSync('/usr/bin/node', [commandPath, 'hourly'], {
    encoding: 'utf8',
  });
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  expect(stderr).toContain('runner: needs Node 22.18 or newer');
});
