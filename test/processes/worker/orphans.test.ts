import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openQueue } from '../../../src/index.ts';
import type { Queue } from '../../../src/queue/api.ts';
import { cronPlace, runCommand, startCommand } from '../../support/command.ts';
import { endOrphans, isAlive } from '../../support/faults/faults.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { addJob, endInPeace, readJobRuns, startWaiting, untilState, WITHIN_MS } from '../../support/faults/queue.ts';
import { queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

/** Says that it runs, waits until it may end, then does what `rest` says. */
const waiting = (rest: string): string => `
  import { existsSync, writeFileSync } from 'node:fs';
  console.log('begun');
  writeFileSync('started', '');
  const timer = setInterval(() => { if (existsSync('go')) { clearInterval(timer); ${rest} } }, 10);
`;

const outcomes = 'select outcome, exit_code, measured_by, reason, output from runs order by id';
const jobs = 'select name, state, reason from jobs order by id';

/** A pass whose runner was killed while its only script ran. */
async function killRunner(root: string, afterMs = 0): Promise<void> {
  endOrphans(root);
  const pass = startCommand(['hourly', '--root', root], cronPlace(root));
  await until('the script runs', () => existsSync(join(root, 'started')));
  if (afterMs > 0) await until('its process is in the log', () => recordedPid(root) !== null);
  pass.kill('SIGKILL');
  await pass.ended;
}

function recordedPid(root: string): number | null {
  return queryLog<{ pid: number | null }>(root, 'select pid from runs')[0]?.pid ?? null;
}

const nextPass = (root: string) => runCommand(['hourly', '--root', root], cronPlace(root));
const endScript = (root: string): void => writeFileSync(join(root, 'go'), '');
const leftFiles = (root: string): string[] =>
  ['output', 'results', 'tmp'].flatMap((name) => readdirSync(join(root, '.runner', name)));

async function untilResult(root: string): Promise<void> {
  const results = join(root, '.runner', 'results');
  await until('the script has ended', () => readdirSync(results).some((name) => name.endsWith('.json')));
}

test.each([
  ['console.log("done");', { outcome: 'succeeded', exit_code: 0, reason: null }],
  ['process.exit(4);', { outcome: 'failed', exit_code: 4, reason: 'exit code 4' }],
  ['throw new Error("late");', { outcome: 'failed', exit_code: 1, reason: 'exit code 1: Error: late' }],
])('a script that ends after its runner died has its true end: %s', async (rest, end) => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.mjs': waiting(rest) });
  await killRunner(root);
  endScript(root);
  await untilResult(root);
  nextPass(root);
  const [lost] = queryLog<{ output: string }>(root, outcomes);
  expect(lost).toMatchObject({ ...end, measured_by: 'self' });
  expect(lost?.output).toMatch(/^begun\n/);
  expect(queryLog(root, 'select state from jobs where id = 1')).toEqual([
    { state: end.outcome === 'succeeded' ? 'finished' : 'failed' },
  ]);
  expect(leftFiles(root)).toEqual([]);
});

test.each([
  ['its process was written down', 100],
  ['its runner died before it wrote the process down', 0],
])('a script that outlives its runner is not started a second time: %s', async (_, afterMs) => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.mjs': waiting('console.log("done");'),
    'jobs/hourly/b.sh': 'exit 0\n',
  });
  await killRunner(root, afterMs);
  expect(nextPass(root).status).toBe(0);
  expect(queryLog(root, 'select script, outcome from runs order by id')).toEqual([
    { script: 'hourly/a', outcome: 'running' },
    { script: 'hourly/b', outcome: 'succeeded' },
  ]);
  const detail = expect.stringMatching(
    /^hourly\/a is still running \(pid .+\), left by a runner that died \(pid \d+ on .+\)$/,
  );
  const told = "select detail from activity where event = 'run-orphaned'";
  expect(queryLog(root, told)).toEqual([{ detail }]);
  expect(queryLog(root, jobs)).toContainEqual({ name: 'hourly/a', state: 'running', reason: null });
  endScript(root);
  await untilResult(root);
  nextPass(root);
  expect(queryLog(root, "select outcome from runs where script = 'hourly/a'")).toEqual([
    { outcome: 'succeeded' },
    { outcome: 'succeeded' },
  ]);
});

test('a run that died with its runner has crashed, with its output', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable(
      '#!/bin/sh\n[ -e started ] && exit 0\necho one; echo two; touch started; sleep 60\n',
    ),
  });
  await killRunner(root, 100);
  process.kill(-Number(recordedPid(root)), 'SIGKILL');
  // Killed while it wrote its result down.
  writeFileSync(join(root, '.runner/results/1.1.json.4711'), '{"exitCode":');
  nextPass(root);
  const [crashed, next] = queryLog<{ outcome: string; reason: string; output: string }>(root, outcomes);
  expect(crashed).toMatchObject({ outcome: 'crashed', output: 'one\ntwo\n' });
  expect(crashed?.reason).toMatch(/^the runner \(pid \d+ on .+\) died while it ran.*; its last output line: two/);
  expect(next).toMatchObject({ outcome: 'succeeded' });
  expect(leftFiles(root)).toEqual([]);
});

test('a script that outlives its runner is ended at its time limit', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable('#!/bin/sh\n# @timeout 2s\n[ -e started ] && exit 0\ntouch started; sleep 60\n'),
  });
  await killRunner(root, 100);
  const pid = Number(recordedPid(root));
  await until('it is overdue', () => {
    nextPass(root);
    return queryLog<{ outcome: string }>(root, outcomes)[0]?.outcome !== 'running';
  });
  const [overdue] = queryLog<{ reason: string }>(root, outcomes);
  expect(overdue).toMatchObject({ outcome: 'timed-out' });
  expect(overdue?.reason).toMatch(/^ran into its time limit after its runner \(.+\) had died/);
  await until('nothing of it is left', () => !isAlive(-pid));
});

/** A root with a handler that writes down what it is told, and then does this in its call of that number. */
function makeSite(does = ''): string {
  return makeTemporaryRoot({
    'jobs/queue/told.mjs': `// @retries 1
// @retry-delay 1ms
import { appendFileSync, readFileSync } from 'node:fs';

export default ({ previouslyCrashed }) => {
  const file = process.env.RUNNER_ROOT + '/told';
  appendFileSync(file, previouslyCrashed + '\\n');
  const call = readFileSync(file, 'utf8').split('\\n').length - 1;
  ${does}
};
`,
  });
}

function readTold(root: string): string[] {
  const file = join(root, 'told');
  return existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : [];
}

test('a handler is told that its worker died in an earlier try, but not at an earlier time', async () => {
  const root = makeSite(`
  if (call === 1) for (const pid of [process.ppid, process.pid]) process.kill(pid, 'SIGKILL');
  if (call === 3) throw new Error('once');`);
  await addJob(root, 'told', { repeat: 'FINISHED, +1 SECOND' });
  await startWaiting(root).ended;
  const worker = startWaiting(root);
  await until('it was called at the next time, twice', () => readTold(root).length > 3, WITHIN_MS);
  worker.kill('SIGTERM');
  await worker.ended;
  expect(readTold(root).slice(0, 4)).toEqual(['false', 'true', 'false', 'false']);
});

test('a handler is told that the lease of an earlier try ran out', async () => {
  const root = makeSite();
  const id = await addJob(root, 'told');
  const queue = await openQueue({ root });
  await queue.claim('*', { lease: '1ms' });
  await queue.close();
  const worker = startWaiting(root);
  await untilState(root, id, 'finished');
  await endInPeace(root, worker);
  expect(readTold(root)).toEqual(['true']);
});

/*
 * A running job that somebody else moves on: its process is ended at the next renewal of its worker's leases.
 */

const LINES = 'lines';

/** The first run of all works until it is ended, and takes a moment for that. */
const node = `
import { appendFileSync, existsSync } from 'node:fs';
const say = (text) => appendFileSync('${LINES}', text + '\\n');
export default async ({ id }) => {
  const isFirst = !existsSync('${LINES}');
  if (isFirst) process.on('SIGTERM', () => setTimeout(() => { say('end ' + id); process.exit(1); }, 300));
  say('begin ' + id);
  if (isFirst) await new Promise((resolve) => setTimeout(resolve, 600_000));
  say('end ' + id);
};
`;

const shell = `#!/bin/sh
id=$(sed 's/.*"id":\\([0-9]*\\).*/\\1/')
[ -e ${LINES} ] || { first=yes; trap 'sleep 0.3; echo "end $id" >> ${LINES}; exit 1' TERM; }
echo "begin $id" >> ${LINES}
while [ "$first" ]; do sleep 0.05; done
echo "end $id" >> ${LINES}
`;

const handlers = { node: { 'a.mjs': node }, shell: { 'a.sh': executable(shell) } } as const;

interface Site {
  readonly root: string;
  readonly queue: Queue;
  readonly lines: () => string[];
  readonly untilLines: (count: number) => Promise<void>;
}

async function openSite(kind: keyof typeof handlers): Promise<Site> {
  const files = Object.entries(handlers[kind]).map(([name, content]) => [`jobs/queue/${name}`, content] as const);
  const settings = { queue: { lease: '2s', groupLimit: 1 } };
  const root = makeTemporaryRoot({ ...Object.fromEntries(files), 'runner.config.json': JSON.stringify(settings) });
  const queue = await openQueue({ root });
  onTestFinished(() => queue.close());
  const path = join(root, LINES);
  const lines = () => (existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : []);
  const untilLines = (count: number) => until(`${count} lines`, () => lines().length >= count, WITHIN_MS);
  return { root, queue, lines, untilLines };
}

const verbs = {
  bury: (queue: Queue) => queue.bury(1),
  fail: (queue: Queue) => queue.fail(1),
  finish: (queue: Queue) => queue.finish(1),
  requeue: async (queue: Queue) => void (await queue.requeue([1])),
  retry: (queue: Queue) => queue.retry(1),
  delete: async (queue: Queue) => {
    await queue.bury(1);
    await queue.delete(1);
  },
} as const;

test.each([
  ['node', 'bury', 'failed'],
  ['node', 'finish', 'finished'],
  ['node', 'delete', undefined],
  ['shell', 'fail', 'failed'],
] as const)('the %s process of a running job ends once the job is taken by %s', async (kind, verb, state) => {
  const { root, queue, lines, untilLines } = await openSite(kind);
  await queue.add('a');
  const worker = startWaiting(root);
  await untilState(root, 1, 'running');
  await untilLines(1);
  await verbs[verb](queue);
  expect((await queue.get(1))?.state).toBe(state);
  await untilLines(2);
  expect(lines()).toEqual(['begin 1', 'end 1']);
  await until('nobody holds it', () => queryLog(root, 'select 1 from jobs where claim_token is not null').length === 0);
  expect((await queue.get(1))?.state).toBe(state);
  worker.kill('SIGTERM');
  expect((await worker.ended).status).toBe(0);
  checkInvariants(root);
});

test.each([
  ['node', 'requeue'],
  ['node', 'retry'],
  ['shell', 'requeue'],
] as const)('the next try of a job of %s begins only after %s has ended the one before', async (kind, verb) => {
  const { root, queue, lines, untilLines } = await openSite(kind);
  await queue.add('a');
  const workers = [startWaiting(root), startWaiting(root)];
  await untilState(root, 1, 'running');
  await untilLines(1);
  await verbs[verb](queue);
  await expect(queue.claimJob(1)).rejects.toThrow('the process of its earlier try has not ended yet');
  expect(await queue.claim()).toBeNull();
  await untilLines(4);
  expect(lines()).toEqual(['begin 1', 'end 1', 'begin 1', 'end 1']);
  expect(readJobRuns(root, 1)[0]).toMatchObject({ outcome: 'released' });
  await endInPeace(root, ...workers);
});

test('until its process has ended, a buried job keeps its place in its group and its unique key', async () => {
  const { root, queue, lines, untilLines } = await openSite('node');
  await queue.add('a', {}, { group: 'g', uniqueKey: 'k' });
  const worker = startWaiting(root, '--concurrency', '3');
  await untilState(root, 1, 'running');
  await untilLines(1);
  await queue.bury(1);
  const others = [await queue.add('a', {}, { group: 'g' }), await queue.add('a', {}, { uniqueKey: 'k' })];
  expect(others).toEqual([2, 3]);
  for (const id of others) await expect(queue.claimJob(id)).rejects.toThrow('cannot be claimed');
  await untilLines(6);
  expect(lines().slice(0, 2)).toEqual(['begin 1', 'end 1']);
  await endInPeace(root, worker);
  checkInvariants(root);
});
