import { cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { cronEnv, type Ended, runCommand, runNode } from '../support/command.ts';
import { checkInvariants } from '../support/faults/invariants.ts';
import { queryLog } from '../support/log.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';

const project = new URL('../../', import.meta.url).pathname;
const files = {
  'jobs/hourly/good.mjs': 'console.log("from Node");\n',
  'jobs/hourly/bad.sh': executable('#!/bin/sh\necho from a shell\nexit 3\n'),
};

/** The built package elsewhere, as a host has it on which better-sqlite3 cannot be loaded. */
const packages: Readonly<Record<string, (folder: string) => void>> = {
  'a binary that is none': (folder) => breakBinary(folder, 'not a binary'),
  'an empty binary': (folder) => breakBinary(folder, ''),
  'no binary': (folder) => {
    copyBetterSqlite(folder);
    writeFileSync(join(folder, 'prebuilds/.keep'), '');
  },
  'no package': () => {},
  'a package that throws': (folder) => {
    copyBetterSqlite(folder);
    writeFileSync(join(folder, 'lib/index.js'), 'throw new Error("broken");');
  },
};

function copyBetterSqlite(folder: string): void {
  const from = join(project, 'node_modules/better-sqlite3');
  for (const part of ['lib', 'package.json']) cpSync(join(from, part), join(folder, part), { recursive: true });
  mkdirSync(join(folder, 'prebuilds'));
}

function breakBinary(folder: string, content: string): void {
  copyBetterSqlite(folder);
  for (const name of readdirSync(join(project, 'node_modules/better-sqlite3/prebuilds'))) {
    writeFileSync(join(folder, 'prebuilds', name), content);
  }
}

interface Site {
  readonly root: string;
  run(...args: string[]): Ended;
  runWithout(...args: string[]): Ended;
}

function makeSite(breakPackage: (folder: string) => void): Site {
  const root = makeTemporaryRoot(files);
  const place = join(root, 'package');
  cpSync(join(project, 'dist'), join(place, 'dist'), { recursive: true });
  mkdirSync(join(place, 'node_modules'));
  breakPackage(join(place, 'node_modules/better-sqlite3'));
  const run = (env: NodeJS.ProcessEnv, args: readonly string[]): Ended =>
    runNode([join(place, 'dist/bin.cjs'), '--root', root, ...args], { cwd: '/', env });
  return {
    root,
    run: (...args) => run(cronEnv(root), args),
    runWithout: (...args) => run({ ...cronEnv(root), NODE_OPTIONS: '--no-experimental-sqlite' }, args),
  };
}

describe.each(Object.entries(packages))('with %s', (_what, breakPackage) => {
  test('passes are recorded and reported as ever, without a word about it', () => {
    const site = makeSite(breakPackage);
    const pass = site.run('hourly');
    expect(pass).toMatchObject({ status: 1, stdout: '' });
    expect(pass.stderr).toContain('hourly/bad');
    expect(pass.stderr).not.toMatch(/sqlite|warning|database/i);
    const report = site.run('report', '--json');
    expect(report).toMatchObject({ status: 0, stderr: '' });
    const { scripts } = JSON.parse(report.stdout) as { scripts: { script: string }[] };
    expect(scripts.map(({ script }) => script).toSorted()).toEqual(['hourly/bad', 'hourly/good']);
    const show = site.run('show', '2');
    expect([show.status, show.stderr]).toEqual([0, '']);
    expect(show.stdout).toContain('from Node');
    checkInvariants(site.root);
  });
});

test('where better-sqlite3 loads, Node’s own SQLite is not looked at', () => {
  const root = makeTemporaryRoot(files);
  const env = { ...cronEnv(root), NODE_OPTIONS: '--no-experimental-sqlite' };
  expect(runCommand(['--root', root, 'hourly'], { cwd: '/', env }).status).toBe(1);
  expect(queryLog(root, 'select count(*) as runs from runs')).toEqual([{ runs: 2 }]);
});

test('what one driver wrote the other one goes on with, back and forth', () => {
  const site = makeSite(packages['an empty binary'] as (folder: string) => void);
  const countRuns = () => queryLog<{ runs: number }>(site.root, 'select count(*) as runs from runs');
  for (const runs of [2, 4, 6, 8]) {
    const args = ['--root', site.root, 'hourly'];
    const place = { cwd: '/', env: cronEnv(site.root) };
    expect((runs % 4 === 0 ? runCommand(args, place) : site.run('hourly')).status).toBe(1);
    expect(countRuns()).toEqual([{ runs }]);
  }
  checkInvariants(site.root);
});

test('without any driver, what reads says in a sentence what is the matter', () => {
  const site = makeSite(packages['an empty binary'] as (folder: string) => void);
  site.run('hourly');
  const { status, stdout, stderr } = site.runWithout('report');
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
  expect(stderr).toMatch(
    /^runner: \S+activity\.db cannot be opened: SQLite could not be loaded \(better-sqlite3: .+; .+ has no node:sqlite\)\. Install .+\.\n$/,
  );
});

test('without any driver the scripts run all the same', () => {
  const site = makeSite(packages['no package'] as (folder: string) => void);
  const { status, stderr } = site.runWithout('hourly');
  expect(status).toBe(1);
  expect(stderr).toContain('hourly/bad');
  expect(stderr).toContain('SQLite could not be loaded');
  expect(existsSync(join(site.root, '.runner/activity.db'))).toBe(false);
  expect(readdirSync(join(site.root, '.runner/spool'))).toHaveLength(1);
  expect(site.run('hourly').status).toBe(1);
  const runs = queryLog(site.root, 'select script, count(*) as runs from runs group by script');
  expect(runs).toEqual([
    { script: 'hourly/bad', runs: 2 },
    { script: 'hourly/good', runs: 2 },
  ]);
});
