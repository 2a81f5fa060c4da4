import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { readLedgers } from '../../../src/execution/warm/files.ts';
import { createHandlerRunners, type HandlerRunner } from '../../../src/execution/warm/run.ts';
import { type HandlerPlace, openOneHandler, openPlace, runAlone } from '../../support/run.ts';
import { until } from '../../support/until.ts';

const MB = 1024 * 1024;
const isRunning = (pid: number): boolean => existsSync(`/proc/${pid}`);
const countProcesses = ({ pids }: HandlerPlace): number => new Set(pids).size;
const good = 'export default ({ data }) => ({ got: data });\n';

describe('an end that is more than a throw has the process replaced', () => {
  const later = 'await new Promise((resolve) => setTimeout(resolve, 60_000));';

  test.each([
    [
      'process.exit(0)',
      'process.exit(0);',
      { exitCode: 13, reason: 'Error: process.exit(0) was called before the handler had ended' },
    ],
    ['another exit code', 'process.exit(3);', { exitCode: 3, reason: 'exit code 3', error: null }],
    [
      'an uncaught error',
      `setTimeout(() => { throw new RangeError('late'); }, 5); ${later}`,
      { exitCode: 1, reason: 'RangeError: late', error: { name: 'RangeError', message: 'late' } },
    ],
    [
      'an unhandled rejection',
      `Promise.reject(new Error('nobody waits')); ${later}`,
      { exitCode: 1, reason: 'Error: nobody waits' },
    ],
    [
      'a promise that never settles',
      'await new Promise(() => {});',
      { exitCode: 13, reason: "Error: the handler's promise never settled" },
    ],
  ])('%s', async (_, code, expected) => {
    const place = openOneHandler({ bad: `export default async () => { ${code} };\n`, good });
    expect(await place.run('good', { data: 1 })).toMatchObject({ outcome: 'succeeded' });
    expect(await place.run('bad')).toMatchObject({ outcome: 'failed', signal: null, measuredBy: 'self', ...expected });
    expect(place.runner.pid).toBeNull();
    expect(await place.run('good', { data: 2 })).toMatchObject({
      outcome: 'succeeded',
      warning: null,
      result: '{"got":2}',
    });
    expect(countProcesses(place)).toBe(2);
  });

  test('a signal', async () => {
    const place = openOneHandler({
      bad: `export default () => { process.kill(process.pid, 'SIGSEGV'); };\n`,
      good,
    });
    expect(await place.run('bad')).toMatchObject({
      outcome: 'killed',
      exitCode: null,
      signal: 'SIGSEGV',
      reason: 'killed by SIGSEGV, not by the runner',
    });
    expect(await place.run('good')).toMatchObject({ outcome: 'succeeded' });
  });

  test('a heap that is full', async () => {
    const place = openPlace({
      'bad.mjs': `// @memory 32mb\nexport default () => { const all = []; for (;;) all.push(new Array(1000).fill({})); };\n`,
      'good.mjs': good,
    });
    expect(await place.run('bad')).toMatchObject({
      outcome: 'killed',
      reason: 'heap limit of 32 MB reached; raise it with @memory',
    });
    expect(await place.run('good')).toMatchObject({ outcome: 'succeeded' });
  });

  test('a file that cannot be imported, since Node would not try it again', async () => {
    const place = openPlace({
      'bad.mjs': `import { existsSync } from 'node:fs';
if (!existsSync('there')) throw new Error('not there');
export default () => 'there';\n`,
      'missing.mjs': `import './nowhere.mjs';\nexport default () => {};\n`,
      'wrong.ts': `export default ( => {};\n`,
    });
    expect(await place.run('bad')).toMatchObject({ reason: 'Error: not there' });
    writeFileSync(join(place.root, 'there'), '');
    expect(await place.run('bad')).toMatchObject({ outcome: 'succeeded', result: '"there"' });
    expect((await place.run('missing')).reason).toContain('nowhere.mjs');
    expect((await place.run('wrong')).reason).toContain('SyntaxError');
  });
});

describe('what an earlier run left behind', () => {
  const leaves = `export default ({ data }) => {
  if (data.left) setTimeout(() => { throw new Error('boom'); }, data.left);
};\n`;
  const sentence =
    'something of an earlier run of job 7 failed after that run had ended (Error: boom), so its process was replaced';

  test('and fails between two runs is told, and harms no run', async () => {
    const place = openOneHandler({ leaves, good });
    expect(await place.run('leaves', { data: { left: 10 } })).toMatchObject({ outcome: 'succeeded', warning: null });
    await until('the process has ended itself', () => place.runner.pid === null);
    expect(await place.run('good')).toMatchObject({ outcome: 'succeeded', warning: sentence });
    expect(await place.run('good')).toMatchObject({ outcome: 'succeeded', warning: null });
    expect(countProcesses(place)).toBe(2);
  });

  test('and fails during the next run is told, and harms it not', async () => {
    const place = openOneHandler({
      leaves,
      slow: `export default async () => { await new Promise((resolve) => setTimeout(resolve, 200)); return 1; };\n`,
    });
    await place.run('leaves', { data: { left: 50 } });
    expect(await place.run('slow')).toMatchObject({
      outcome: 'succeeded',
      result: '1',
      warning: sentence,
      error: null,
    });
    expect(await place.run('slow')).toMatchObject({ outcome: 'succeeded', warning: null });
    expect(countProcesses(place)).toBe(2);
  });

  test('and fails just as the next run comes lets that run begin anew', async () => {
    const place = openOneHandler({
      leaves,
      good: `import { appendFileSync } from 'node:fs';\nexport default () => appendFileSync('ran', 'x');\n`,
    });
    for (let round = 0; round < 30; round += 1) {
      await place.run('leaves', { data: { left: 3 } });
      await sleep(2 + (round % 4) * 0.5);
      expect(await place.run('good')).toMatchObject({ outcome: 'succeeded' });
    }
    expect(readFileSync(join(place.root, 'ran'), 'utf8')).toBe('x'.repeat(30));
  });

  test('and ends the process during the next run does not end that', async () => {
    const place = openOneHandler({
      leaves: `import { exit } from 'node:process';
export default ({ data }) => { setTimeout(() => (data ? exit(3) : process.exit()), 50); };\n`,
      slow: `export default async () => { await new Promise((resolve) => setTimeout(resolve, 200)); return 1; };\n`,
      exits: 'export default () => process.exit(4);\n',
    });
    for (const [data, call] of [
      [true, 'process.exit(3)'],
      [false, 'process.exit()'],
    ] as const) {
      await place.run('leaves', { data });
      expect(await place.run('slow')).toMatchObject({
        outcome: 'succeeded',
        result: '1',
        warning: expect.stringContaining(`(Error: ${call} was called)`),
      });
    }
    await place.run('leaves', { data: true });
    expect(await place.run('exits')).toMatchObject({ outcome: 'failed', reason: 'exit code 4' });
  });

  test('and ends the process between two runs is told', async () => {
    const place = openOneHandler({
      leaves: 'export default () => { setTimeout(() => process.exit(3), 5); };\n',
      good,
    });
    await place.run('leaves');
    await until('the process has ended itself', () => place.runner.pid === null);
    expect(await place.run('good')).toMatchObject({
      outcome: 'succeeded',
      warning: expect.stringContaining('something of an earlier run of job 7 failed after that run had ended'),
    });
  });

  test('and is printed between two runs belongs to neither', async () => {
    const place = openOneHandler({
      prints: `import { existsSync } from 'node:fs';
export default ({ log }) => {
  log('mine');
  const look = () => {
    if (!existsSync('go')) return setTimeout(look, 5);
    log('of a context that is closed');
    console.log('late');
  };
  look();
};\n`,
      good: `export default ({ log }) => log('good');\n`,
    });
    expect(await place.run('prints')).toMatchObject({ output: { text: 'mine\n' } });
    writeFileSync(join(place.root, 'go'), '');
    await until('it has printed', () => readOutput(place) === 'mine\nlate\n');
    expect(await place.run('good')).toMatchObject({ output: { text: 'good\n' }, warning: null });
    expect(countProcesses(place)).toBe(2);
  });

  test('in the process is put back', async () => {
    const place = openOneHandler({
      changes: `import { writeFileSync } from 'node:fs';
export default () => {
  process.env.MODE = 'changed';
  delete process.env.HOME;
  process.chdir('/');
  process.umask(0o777);
  process.exitCode = 9;
  process.title = 'changed';
  process.argv.push('changed');
  for (const event of ['SIGTERM', 'SIGUSR2', 'message', 'warning', 'uncaughtException']) process.on(event, () => {});
  writeFileSync(process.env.RUNNER_TMPDIR + '/left', 'x');
};\n`,
      looks: `import { readdirSync } from 'node:fs';
export default () => ({
  mode: process.env.MODE, home: process.env.HOME, cwd: process.cwd(), umask: process.umask(), exitCode: process.exitCode ?? null,
  listeners: ['SIGTERM', 'SIGUSR2', 'message', 'uncaughtException'].map((event) => process.listenerCount(event)),
  title: process.title, argv: process.argv, warnings: process.listenerCount('warning'),
  left: readdirSync(process.env.RUNNER_TMPDIR),
});\n`,
    });
    const variables = { MODE: 'first' };
    const before = (await place.run('looks', { variables })).result;
    expect(await place.run('changes', { variables })).toMatchObject({ outcome: 'succeeded' });
    expect((await place.run('looks', { variables })).result).toBe(before);
    expect(JSON.parse(before ?? '')).toMatchObject({
      mode: 'first',
      home: userInfo().homedir,
      cwd: place.root,
      exitCode: null,
      listeners: [0, 0, 0, 1],
      left: [],
    });
    expect(countProcesses(place)).toBe(1);
  });

  test('of listeners that it has removed is put back', async () => {
    const place = openOneHandler({
      removes: `export default () => {
  for (const event of ['uncaughtException', 'exit', 'beforeExit']) process.removeAllListeners(event);
  process.on('uncaughtException', () => {});
};\n`,
      fails: `export default () => new Promise(() => { setTimeout(() => { throw new RangeError('late'); }, 5); });\n`,
      waits: 'export default () => new Promise(() => {});\n',
    });
    await place.run('removes');
    expect(await place.run('fails')).toMatchObject({
      outcome: 'failed',
      reason: 'RangeError: late',
      error: { name: 'RangeError' },
    });
    await place.run('removes');
    expect(await place.run('waits')).toMatchObject({ reason: "Error: the handler's promise never settled" });
  });

  test.each([
    ['removed', ''],
    ['made a file', `writeFileSync(folder, '');`],
    ['made a link', "symlinkSync(process.env.RUNNER_ROOT + '/jobs', folder);"],
    ['closed', 'mkdirSync(folder, { mode: 0o400 });'],
    ['opened to all', 'mkdirSync(folder); chmodSync(folder, 0o755);'],
  ])('of its temporary folder, which it has %s, is made anew', async (_, code) => {
    const place = openPlace({
      'a.mjs': `import { chmodSync, lstatSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
export default ({ data }) => {
  const folder = process.env.RUNNER_TMPDIR;
  if (lstatSync(folder).mode !== 0o40700) throw new Error('it is not a private folder');
  writeFileSync(folder + '/mine', '');
  if (!data) return;
  rmSync(folder, { recursive: true });
  ${code}
};\n`,
    });
    for (const data of [1, 0, 1, 0]) {
      expect(await place.run('a', { data })).toMatchObject({ outcome: 'succeeded', reason: null });
    }
    expect(countProcesses(place)).toBe(1);
    expect(readdirSync(join(place.root, 'jobs/queue'))).toContain('a.mjs');
  });

  test('but what its module sets up at its import stays', async () => {
    const place = openPlace({ 'a.mjs': `process.env.SET_UP = 'yes';\nexport default () => process.env.SET_UP;\n` });
    expect((await place.run('a')).result).toBe('"yes"');
    expect((await place.run('a')).result).toBe('"yes"');
  });
});

describe('what a job has left that cannot be put back has the process replaced, and its run says so', () => {
  const said = (what: string): string =>
    `it changed ${what}, which later jobs of its process would have met, so its process was replaced`;

  const changes = {
    'Object.prototype.isAdmin': 'Object.prototype.isAdmin = true',
    'Object.prototype.hidden': `Object.defineProperty(Object.prototype, 'hidden', { value: 1 })`,
    'a property of Object.prototype': `Object.prototype['of a customer'] = 1`,
    'Array.prototype.last': 'Array.prototype.last = function () { return this.at(-1); }',
    'Object.assign': 'Object.assign = () => ({})',
    'JSON.parse': 'const { parse } = JSON; JSON.parse = (text) => parse(text)',
    'JSON.stringify': `JSON.stringify = () => 'not JSON'`,
    'console.log': 'console.log = () => {}',
    'Date.now': 'Date.now = () => 0',
    'Math.random': 'Math.random = () => 0.5',
    'globalThis.fetch': 'globalThis.fetch = async () => null',
    'globalThis.WebSocket': 'globalThis.WebSocket = class {}',
    'globalThis.leak': `globalThis.leak = 'of a customer'`,
    'process.cwd': `process.cwd = () => '/'`,
    'fs.readFileSync': `fs.readFileSync = () => 'nothing'`,
    'os.hostname': `os.hostname = () => 'another'`,
  };

  test('a built-in object that differs', async () => {
    const place = openPlace({
      'a.mjs': `import fs from 'node:fs';\nimport os from 'node:os';
export default ({ data }) => { if (data) new Function('fs', 'os', data)(fs, os); return { got: 1 }; };\n`,
    });
    const end = { outcome: 'succeeded', result: '{"got":1}' };
    for (const [what, code] of Object.entries(changes)) {
      expect(await place.run('a', { data: '' })).toMatchObject({ ...end, warning: null });
      expect(await place.run('a', { data: code })).toMatchObject({ ...end, warning: said(what) });
    }
    const count = Object.keys(changes).length;
    expect(place.pids.filter((pid, index) => pid === place.pids[index - 1])).toHaveLength(count);
    expect(countProcesses(place)).toBe(count);
  });

  test('also where the job has thrown', async () => {
    const place = openOneHandler({
      leaves: `export default () => { Object.prototype.isAdmin = true; throw new Error('no'); };\n`,
      looks: `export default () => ({}).isAdmin ?? 'none';\n`,
    });
    const [leaves, looks] = [await place.request('leaves'), await place.request('looks')];
    expect(await runAlone(place.runner, leaves)).toMatchObject({ outcome: 'failed', reason: 'Error: no' });
    place.runner.removeFiles(place.state, leaves.key);
    expect(await runAlone(place.runner, looks)).toMatchObject({ outcome: 'succeeded', result: '"none"' });
  });

  test('an interval that goes on', async () => {
    const place = openOneHandler({
      leaves: `import { setInterval as timer } from 'node:timers';
export default ({ data }) => { (data ? timer : setInterval)(() => {}, 5); };\n`,
      clears: 'export default () => { clearInterval(setInterval(() => {}, 5)); setInterval(() => {}, 5).unref(); };\n',
    });
    const warning =
      'it left a setInterval() running, which later jobs of its process would have met, so its process was replaced';
    for (const data of [0, 1]) {
      expect(await place.run('clears')).toMatchObject({ outcome: 'succeeded', warning: null });
      expect(await place.run('leaves', { data })).toMatchObject({ outcome: 'succeeded', warning });
    }
    expect(countProcesses(place)).toBe(2);
  });

  test('but not what its module sets up at its import, nor what Node loads late', async () => {
    const place = openPlace({
      'a.mjs': `Array.prototype.last = function () { return this.at(-1); };
globalThis.count = 0;
const parse = JSON.parse;
JSON.parse = (text) => parse(text);
setInterval(() => {}, 1000);
export default async () => {
  const { hostname } = await import('node:os');
  globalThis.count += 1;
  return [typeof WebSocket, typeof crypto.subtle, typeof navigator, typeof Response, hostname() !== '', globalThis.count];
};\n`,
    });
    for (const count of [1, 2, 3]) {
      const result = JSON.stringify(['function', 'object', 'object', 'function', true, count]);
      expect(await place.run('a')).toMatchObject({ outcome: 'succeeded', warning: null, result });
    }
    expect(countProcesses(place)).toBe(1);
  });
});

describe('a process serves until', () => {
  test('it has had enough jobs', async () => {
    const place = openPlace({ 'a.mjs': good }, { childJobs: 3 });
    for (let run = 0; run < 7; run += 1) await place.run('a');
    expect(countProcesses(place)).toBe(3);
  });

  test('it holds too much memory after a job', async () => {
    const leaks = `const kept = [];\nexport default () => { kept.push(Buffer.alloc(${60 * MB}, 1)); };\n`;
    const place = openPlace({ 'leaks.mjs': leaks }, { childMemoryBytes: 150 * MB });
    for (let run = 0; run < 4; run += 1) {
      expect(await place.run('leaks')).toMatchObject({ outcome: 'succeeded', warning: null });
    }
    expect(place.pids[0]).toBe(place.pids[1]);
    expect(countProcesses(place)).toBe(2);
  });

  test('it is old', async () => {
    const place = openPlace({ 'a.mjs': good }, { maxAgeMs: 300 });
    await place.run('a');
    await sleep(310);
    await place.run('a');
    expect(countProcesses(place)).toBe(2);
  });

  test.each([
    ['the handler', 'jobs/queue/a.ts'],
    ['what it imports', 'jobs/queue/_b.ts'],
    ['what that requires', 'lib/c.cjs'],
    ['a JSON file', 'lib/d.json'],
  ])('a file has changed: %s', async (_, changed) => {
    const place = openPlace({
      'a.ts': `import { text } from './_b.ts';\nexport default (): string => 'one ' + text;\n`,
      '_b.ts': `import c from '../../lib/c.cjs';\nexport const text: string = 'one ' + c;\n`,
      '../../lib/c.cjs': `module.exports = 'one ' + require('./d.json').d;\n`,
      '../../lib/d.json': '{ "d": "one" }\n',
    });
    expect((await place.run('a')).result).toBe('"one one one one"');
    const path = join(place.root, changed);
    const source = readFileSync(path, 'utf8');
    writeFileSync(path, source.replaceAll('one', 'two '));
    expect((await place.run('a')).result).toContain('two ');
    writeFileSync(`${path}.new`, source);
    renameSync(`${path}.new`, path);
    expect((await place.run('a')).result).toBe('"one one one one"');
    await place.run('a');
    expect(countProcesses(place)).toBe(3);
  });

  test('a package was installed', async () => {
    const place = openPlace({
      'a.mjs': `import one from 'one';\nexport default () => one;\n`,
      '../../node_modules/one/package.json': '{ "name": "one", "main": "index.js" }',
      '../../node_modules/one/index.js': 'module.exports = 1;\n',
      '../../node_modules/.package-lock.json': '{}',
    });
    await place.run('a');
    writeFileSync(join(place.root, 'node_modules/one/index.js'), 'module.exports = 2;\n');
    writeFileSync(join(place.root, 'node_modules/.package-lock.json'), '{ "packages": {} }');
    expect((await place.run('a')).result).toBe('2');
  });

  test('the next handler wants another process', async () => {
    const tells = `export default () => ({ nice: os.getPriority(), heap: process.execArgv, token: process.env.SHOP_TOKEN ?? null });
import os from 'node:os';\n`;
    const place = openPlace({
      'plain.mjs': tells,
      'small.mjs': `// @memory 64mb\n// @nice 3\n${tells}`,
      'token.mjs': `// @env SHOP_TOKEN\n${tells}`,
    });
    const environment = { HOME: place.root, SHOP_TOKEN: 'abc' };
    const run = async (name: string) => JSON.parse((await place.run(name, { environment })).result ?? '');
    const plain = await run('plain');
    expect(plain).toMatchObject({ heap: [], token: null });
    expect(await run('small')).toEqual({ nice: plain.nice + 3, heap: ['--max-old-space-size=64'], token: null });
    expect(await run('token')).toMatchObject({ heap: [], token: 'abc' });
    expect(await run('token')).toMatchObject({ token: 'abc' });
    expect(countProcesses(place)).toBe(3);
  });

  test('somebody has removed its files', async () => {
    const place = openPlace({ 'a.mjs': `export default ({ log }) => log('here');\n` });
    await place.run('a');
    for (const name of readdirSync(place.state.output)) {
      renameSync(join(place.state.output, name), join(place.root, 'taken'));
    }
    expect(await place.run('a')).toMatchObject({ output: { text: 'here\n' } });
  });
});

describe('each handler has a process of its own', () => {
  test.each([
    ['a built-in object', 'Array.prototype.map = () => [];'],
    ['JSON', "JSON.stringify = () => 'not JSON';"],
    ['what is global', 'globalThis.fetch = globalThis.setTimeout = globalThis.URL = null;'],
    ['a module of Node', 'syncBuiltinESMExports(Object.assign(fs, { readFileSync: () => 1 }));'],
    ['a method of process', 'process.cwd = process.chdir = process.umask = () => { throw new Error("gone"); };'],
    ['the classes of streams and events', 'events.prototype.on = events.prototype.once = () => {};'],
    ['a module that both load', 'shared.limit = 0;'],
    ['what is tested with `in`', 'Object.prototype.polluted = true;'],
  ])('so that %s is damaged for no other', async (_, damage) => {
    const imports = `import events from 'node:events';\nimport fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';\nimport shared from './_shared.mjs';\n`;
    const place = openPlace({
      '_shared.mjs': 'export default { limit: 3 };\n',
      'bad.mjs': `${imports}export default () => { ${damage} };\n`,
      'good.mjs': `${imports}export default async ({ log }) => {
  await new Promise((resolve) => setTimeout(resolve, 1));
  log([1, 2].map((each) => each * 2).join());
  const isWhole = fs.readFileSync('jobs/queue/good.mjs', 'utf8').length > 9 && process.cwd() === process.env.RUNNER_ROOT;
  return [isWhole, 'polluted' in {}, shared.limit, new URL('http://a/b').pathname, syncBuiltinESMExports.length];
};\n`,
    });
    const fine = { outcome: 'succeeded', output: { text: '2,4\n' }, warning: null, result: '[true,false,3,"/b",0]' };
    await place.run('bad');
    expect(await place.run('good')).toMatchObject(fine);
    await place.run('bad');
    expect(await place.run('good')).toMatchObject(fine);
  });

  test('which waits while others are called', async () => {
    const place = openPlace({ 'a.mjs': good, 'b.mjs': good, 'c.mjs': good });
    for (const name of ['a', 'b', 'c', 'a', 'b', 'c', 'b', 'a']) await place.run(name);
    const [a, b, c] = place.pids;
    expect(place.pids).toEqual([a, b, c, a, b, c, b, a]);
    expect(countProcesses(place)).toBe(3);
  });

  test('whatever parameters the names of its jobs have', async () => {
    const place = openPlace({ 'a.mjs': good });
    for (const name of ['a', 'a?user=1', 'a?user=2']) await place.run(name);
    expect(countProcesses(place)).toBe(1);
  });

  const names = Array.from({ length: 13 }, (_, index) => `h${index}`);
  const many = Object.fromEntries(names.map((name) => [`${name}.mjs`, good]));

  test('of at most ten: the one that has waited longest makes room', async () => {
    const place = openPlace(many);
    for (const name of names.slice(0, 10)) await place.run(name);
    await place.run('h0');
    await place.run('h10');
    await until('one has ended', () => place.pids.filter(isRunning).length === 11);
    expect(place.pids.slice(0, 3).map(isRunning)).toEqual([true, false, true]);
    await place.run('h1');
    expect(place.pids.at(-1)).not.toBe(place.pids[1]);
    expect(await place.run('h0')).toMatchObject({ outcome: 'succeeded', warning: null });
    expect(place.pids.at(-1)).toBe(place.pids[0]);
  });

  test('or of one, where the host has no room for more', async () => {
    const place = openPlace(many, { hasRoom: () => false });
    for (const name of names.slice(0, 3)) await place.run(name);
    await until('the others have ended', () => place.pids.filter(isRunning).length === 1);
    expect(place.pids.map(isRunning)).toEqual([false, false, true]);
  });

  test('for all executors of a worker, from one to the other as soon as its runs are in the log', async () => {
    const place = openPlace(many);
    const kept = { childJobs: 100, childMemoryBytes: 512 * MB, hasRoom: () => false };
    const [one, other] = createHandlerRunners(2, kept) as [HandlerRunner, HandlerRunner];
    onTestFinished(() => Promise.all([one.close(), other.close()]).then(() => {}));
    const run = async (runner: HandlerRunner, name: string): Promise<string> => {
      const request = await place.request(name, { onStarted: (pid) => place.pids.push(pid) });
      expect(await runAlone(runner, request)).toMatchObject({ outcome: 'succeeded', warning: null });
      return request.key;
    };
    const first = await run(one, 'h0');
    const second = await run(other, 'h0');
    expect(countProcesses(place)).toBe(2);
    for (const [runner, key] of [
      [one, first],
      [other, second],
    ] as const)
      runner.removeFiles(place.state, key);
    await run(one, 'h1');
    await run(other, 'h0');
    expect(place.pids.at(-1)).toBe(place.pids[1]);
    await run(other, 'h0');
    expect(countProcesses(place)).toBe(3);
  });

  test('which makes room only when the end of its run is in the log', async () => {
    const place = openPlace(many, { hasRoom: () => false });
    const first = await place.request('h0', { onStarted: (pid) => place.pids.push(pid) });
    await runAlone(place.runner, first);
    await place.run('h1');
    expect(place.runner.isWorn).toBe(true);
    expect(place.pids.map(isRunning)).toEqual([true, true]);
    expect([...readLedgers(place.state).keys()]).toContain(first.key);
    place.runner.removeFiles(place.state, first.key);
    expect(place.runner.isWorn).toBe(false);
    await until('it has ended', () => !isRunning(place.pids[0] as number));
  });
});

test('nothing is left of it when the runner is closed', async () => {
  const place = openPlace({ 'a.mjs': `export default ({ log }) => log('here');\n` });
  await place.run('a');
  const pid = place.pids[0] as number;
  await place.runner.close();
  expect(existsSync(`/proc/${pid}`)).toBe(false);
  expect([...readdirSync(place.state.output), ...readdirSync(place.state.temporary)]).toEqual([]);
  expect(place.runner.pid).toBeNull();
});

function readOutput({ state }: HandlerPlace): string {
  const entries = readdirSync(state.output, { recursive: true, withFileTypes: true });
  const file = entries.find((entry) => entry.isFile());
  return file === undefined ? '' : readFileSync(join(file.parentPath, file.name), 'utf8');
}
