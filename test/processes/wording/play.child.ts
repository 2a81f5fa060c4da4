/**
 * Plays one story with the product whose sources lie in a folder, and prints all of its behaviour: exit codes, what
 * JSON and the log hold besides sentences, and which facts a sentence names.
 */
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Readable, Writable } from 'node:stream';
import packageJson from '../../../package.json' with { type: 'json' };
import type { runCommandLine as Run } from '../../../src/commands/cli.ts';
import type { findWrongUse as Find } from '../../../src/commands/wrong-use.ts';
import type { createApi as Create } from '../../../src/dashboard/api/api.ts';
import type { openSite as Open } from '../../../src/dashboard/site.ts';
import type { LEFT_OUT as LeftOut } from '../../../src/system/base/record.ts';

const [sources = '', distFolder = '', root = ''] = process.argv.slice(2);
const { runCommandLine } = (await import(join(sources, 'commands/cli.ts'))) as { runCommandLine: typeof Run };
const { findWrongUse } = (await import(join(sources, 'commands/wrong-use.ts'))) as { findWrongUse: typeof Find };

const script = (code: string) => `#!/bin/bash\n${code}\n`;
const files = {
  'jobs/hourly/good.sh': script('echo fine'),
  'jobs/hourly/bad.sh': script('echo it was hunter2; exit 3'),
  'jobs/hourly/doubtful.sh': script("echo 'PHP Fatal error:  Uncaught Error: no'"),
  'jobs/hourly/missing.sh': script('nosuchcommand hunter2\ntrue'),
  'jobs/hourly/slow.sh': script('# @timeout 1s\nsleep 60'),
  'jobs/hourly/throws.mjs': "throw new Error('it was hunter2');\n",
  'jobs/hourly/asks.mjs': "import 'node:readline';\nexport default () => new Promise(() => {});\n",
  'jobs/hourly/refused.sh': script('# @timeout never'),
  'jobs/hourly/rare.sh': script('# @schedule every now and then'),
  'jobs/queue/fine.mjs': 'export default () => ({ sent: true });\n',
  'jobs/queue/failing.mjs': "export default () => { throw new Error('it was hunter2'); };\n",
  'jobs/queue/flaky.mjs': "// @retries 1\nexport default () => { throw new Error('once'); };\n",
};
for (const [name, content] of Object.entries(files)) {
  mkdirSync(dirname(join(root, name)), { recursive: true });
  writeFileSync(join(root, name), content, { mode: 0o755 });
}

const env = { PATH: process.env.PATH, HOME: root, TZ: 'UTC', RUNNER_ROOT: root };
const story: Record<string, unknown> = {};

interface Told {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function call(...args: readonly string[]): Promise<Told> {
  const [stdout, stderr] = [new Collector(), new Collector()];
  let code = 0;
  await runCommandLine(args, {
    ...{
      caller: context.caller,
      cwd: root,
      env,
      now: Date.now,
      distFolder,
      version: packageJson.version,
      asksLittle: () => {},
    },
    stdout: stdout as unknown as NodeJS.WriteStream,
    stderr: stderr as unknown as NodeJS.WriteStream,
    setExitCode: (given) => {
      code = given;
    },
    findWrongUse: (place, words) => findWrongUse({ args: words, context: { ...context, cwd: place } }),
  });
  return { code, stdout: stdout.text, stderr: stderr.text };
}

class Collector extends Writable {
  text = '';

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

const context = {
  ...{ cwd: root, env, now: Date.now, distFolder, version: packageJson.version, asksLittle: () => {} },
  caller: { umask: process.umask(), zone: env.TZ },
  ...{ stdout: process.stderr, stderr: process.stderr, setExitCode: () => {}, findWrongUse: async () => null },
};

/** What a sentence names, whatever its words: commands, options, names in quotes, numbers. */
const factsIn = (text: string): string[] =>
  text.replaceAll(root, '<root>').match(/`[^`]*`|--[\w-]+|"[^"]*"|(?<![\w.])\d+(?![\w.])|<root>[\w./-]*/g) ?? [];

async function wrong(...args: readonly string[]): Promise<void> {
  const { code, stdout, stderr } = await call(...args);
  story[args.join(' ')] = { code, isSilent: stdout === '', facts: factsIn(stderr) };
}

async function json(...args: readonly string[]): Promise<void> {
  const { code, stdout, stderr } = await call(...args, '--json');
  if (stdout === '') throw new Error(`${args.join(' ')}: ${stderr}`);
  story[args.join(' ')] = { code, told: shapeOf(JSON.parse(stdout)) };
}

/** Numbers that no clock and no machine changes. */
const exact =
  /^(?:exitCode|exit_code|attempts?|id|job_?id|run_?id|priority|retries|runs|failed|succeeded|count|status|code)$/i;
/** Figures that a quick process may end without. */
const measured = /rss|cpu|ticks|^timeout_ms$/i;

/** The value without its sentences, and without what differs from call to call. */
function shapeOf(value: unknown, key = ''): unknown {
  if (measured.test(key)) return 'a figure';
  if (Array.isArray(value)) return value.map((each) => shapeOf(each, key));
  if (typeof value === 'number' || typeof value === 'bigint') return exact.test(key) ? Number(value) : 'a number';
  if (typeof value === 'string') return shapeOfText(value);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, shapeOf(each, name)]));
}

/** What a sentence consists of: a question, a further part. */
const marksIn = (text: string): string => text.replace(/[^?;]/g, '');

function shapeOfText(text: string): string {
  if (/^[[{]/.test(text)) return 'JSON';
  if (/\s/.test(text)) return `${/hunter2/.test(text) ? 'a sentence of a script' : 'a sentence'} ${marksIn(text)}`;
  return text
    .replaceAll(root, '<root>')
    .replace(/^\d{4}-\d\d-\d\dT.*Z$/, 'a time')
    .replace(/[0-9a-f]{8,}/g, 'hex')
    .replace(/\d+/g, '0');
}

await json('list');
await wrong('hurly');
await wrong('reprot');
await wrong('bury', '5');
await wrong('banana');
await wrong('report', '--sinse', '7d');
await wrong('report', '--json', '--csv');
await wrong('show');
await wrong('hourly', 'daily');
await wrong('activity', '--order', 'next');
await wrong('run', 'hourly/god');
await wrong('pause', 'houly');
await wrong('repeat', 'every now and then');
await wrong('add', 'fine', '--priority', 'x');
await wrong('add', 'fine', '--missed', 'never');
await wrong('job', '77', 'bury');
const lines = ['{"name":"fine"}', '', '{"name":"fine","runAt":"someday"}'];
Object.defineProperty(process, 'stdin', { value: Readable.from([Buffer.from(lines.join('\n'))]) });
await wrong('add', '--many');

for (const name of ['fine', 'failing', 'flaky']) await json('add', name);
const pass = await call('hourly');
story.pass = { code: pass.code, outcomes: pass.stderr.match(/timed-out|not-started/g) };
story.work = (await call('work')).code;
await json('job', '1');
for (const name of ['status', 'jobs', 'incidents', 'report', 'check']) await json(name);
story.why = (await call('why', 'hourly/bad')).code;

const { openSite } = (await import(join(sources, 'dashboard/site.ts'))) as { openSite: typeof Open };
const { createApi } = (await import(join(sources, 'dashboard/api/api.ts'))) as { createApi: typeof Create };
const site = openSite({ root, env, distFolder, version: packageJson.version, now: Date.now });
const api = createApi(site, { name: 'a test', permission: 'manage' });
const bodies = [
  ['POST', '/api/jobs', { name: '' }],
  ['POST', '/api/jobs', { name: 'fine', runAt: 'someday' }],
  ['POST', '/api/jobs', { name: 'fine', repeat: 'now and then' }],
  ['POST', '/api/jobs', { name: 'fine', uniqueKey: '' }],
  ['POST', '/api/jobs', { name: 'fine', prority: 1 }],
  ['POST', '/api/jobs', [{ name: 'fine' }, { name: 'fine', lease: 'x' }]],
  ['PATCH', '/api/jobs/1', { repeat: 'now and then' }],
  ['POST', '/api/jobs/1/kick', {}],
  ['GET', '/api/jobs/999', undefined],
  ['GET', '/api/jobs?limit=0', undefined],
  ['PUT', '/api/pauses/nothing', { for: 'x' }],
  ['GET', '/api/health', undefined],
] as const;
for (const [method, path, body] of bodies) {
  const headers = { 'content-type': 'application/json' };
  const answer = await api.request(path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  story[`${method} ${path} ${JSON.stringify(body)}`] = { code: answer.status, told: shapeOf(await answer.json()) };
}
await site.close();

const html = join(root, 'report.html');
story.html = (await call('report', '--html', html)).code;
const page = readFileSync(html, 'utf8');
story.leaks = /hunter2/.test(page);
const { LEFT_OUT } = (await import(join(sources, 'system/base/record.ts'))) as { LEFT_OUT: typeof LeftOut };
story.leftOut = page.split(LEFT_OUT).length - 1;

rmSync(join(root, 'jobs/hourly/bad.sh'));
await json('incidents', 'close', '2');
story.closing = (await call('hourly')).code;
await json('incidents', '--all');

// A file that others could have written: doctor says how to close it, which is no advice on its content.
writeFileSync(join(root, 'runner.config.json'), '{}');
chmodSync(join(root, 'runner.config.json'), 0o666);
await doctor('settings that others can write');
chmodSync(join(root, 'runner.config.json'), 0o600);
writeFileSync(join(root, 'runner.config.json'), '{"defaults":{"timeout":"never"},"retries":2}');
await doctor('wrong settings');
await wrong('hourly');

async function doctor(what: string): Promise<void> {
  const { checks: findings } = JSON.parse((await call('doctor', '--json')).stdout) as {
    checks: readonly { name: string; status: string; found: string; cure: string | null }[];
  };
  const own = findings.filter(({ name }) => ['settings', 'jobs', 'log', 'pauses', 'leftovers'].includes(name));
  story[what] = own.map(({ name, status, found, cure }) => ({
    ...{ name, status, found: factsIn(found), cure: cure && factsIn(cure) },
  }));
}

const log = new DatabaseSync(join(root, '.runner/activity.db'), { readOnly: true });
for (const table of ['jobs', 'runs', 'incidents', 'events']) {
  story[table] = log
    .prepare(`select * from ${table} order by 1`)
    .all()
    .map((row) => shapeOf({ ...row }));
}
log.close();
process.stdout.write(JSON.stringify(story));
process.exit(0);
