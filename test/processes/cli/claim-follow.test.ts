import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { commandPath, cronEnv, inRoot, jsonOf, makeQueueSite, startProcess, withInput } from '../../support/command.ts';
import { engine } from '../../support/engines/engines.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { addJob, readJobRow, readJobRuns } from '../../support/faults/queue.ts';
import { queryLog } from '../../support/log.ts';
import { makeExamplePlace, writeExampleFile } from '../../support/site.ts';
import { until } from '../../support/until.ts';

interface Line {
  readonly job?: { readonly id: number; readonly data: unknown; readonly token: string; readonly attempt: number };
  readonly ok?: { readonly id: number; readonly verb: string; readonly leasedUntil?: string };
  readonly error?: { readonly id: number | null; readonly code: string; readonly message: string };
  readonly deadlineSoon?: { readonly id: number; readonly leasedUntil: string };
}

/** A worker of somebody else's, which is this test. */
function follow(root: string, ...args: readonly string[]) {
  const child = spawn(process.execPath, [commandPath, 'claim', '--follow', ...args], {
    cwd: root,
    env: cronEnv(root),
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  // It may have been killed before it has read it.
  child.stdin.on('error', () => {});
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const exit = once(child, 'close').then(([code]) => code as number | null);
  const say = (line: object | string): void => {
    child.stdin.write(typeof line === 'string' ? line : `${JSON.stringify(line)}\n`);
  };
  const readText = async (): Promise<string | null> => {
    const { value, done } = await lines.next();
    return done === true ? null : value;
  };
  const read = async (): Promise<Line | null> => JSON.parse((await readText()) ?? 'null');
  return { child, exit, say, read, readText, end: () => child.stdin.end(), kill: () => child.kill('SIGKILL') };
}

/** A process that is busy takes what it reads later before a signal that came earlier, and two signals for one. */
async function tellToStop(child: ReturnType<typeof follow>['child']): Promise<void> {
  const statusOf = (what: RegExp): string => what.exec(readFileSync(`/proc/${child.pid}/status`, 'latin1'))?.[1] ?? '';
  const timesAsleep = (): number => Number(statusOf(/^voluntary_ctxt_switches:\s+(\d+)$/m));
  await until('it waits', () => statusOf(/^State:\s+(\w)/m) === 'S');
  const before = timesAsleep();
  child.kill('SIGTERM');
  await until('it has heard and waits again', () => timesAsleep() > before);
}

const finish = (id: number, options: object = {}) => ({ id, verb: 'finish', ...options });

describe('runner claim --follow', () => {
  test('hands out a job, takes the verdict, and says so once that is in the log; then the next one', async () => {
    const root = makeQueueSite();
    const [one, two] = [await addJob(root, 'export'), await addJob(root, 'export')];
    const { say, read, end, exit } = follow(root);
    expect(await read()).toMatchObject({ job: { id: one, attempt: 1, token: expect.any(String) } });
    expect(readJobRow(root, two).state).toBe('queued');
    say(finish(one, { result: { sent: true }, data: null, reason: undefined }));
    expect(await read()).toEqual({ ok: { id: one, verb: 'finish' } });
    expect(readJobRow(root, one)).toMatchObject({ state: 'finished', result: '{"sent":true}' });
    expect(await read()).toMatchObject({ job: { id: two } });
    say({ id: two, verb: 'update', data: { page: 2 }, priority: null });
    expect(await read()).toEqual({ ok: { id: two, verb: 'update' } });
    say({ id: two, verb: 'touch', lease: '1h' });
    const { ok } = (await read()) ?? {};
    expect(Date.parse(ok?.leasedUntil ?? '')).toBeGreaterThan(Date.now() + 3_500_000);
    say({ id: two, verb: 'retry', delay: '1h', reason: 'busy' });
    expect(await read()).toEqual({ ok: { id: two, verb: 'retry' } });
    expect(readJobRow(root, two)).toMatchObject({ state: 'retrying', data: '{"page":2}', attempts: 0, reason: 'busy' });
    end();
    expect([await read(), await exit]).toEqual([null, 0]);
    checkInvariants(root, { isSettled: false });
  });

  test('keeps data and results as they are written, on their way in and out', async () => {
    const root = makeQueueSite();
    const text = '{"10":1,"2":[12345678901234567890,1.0],"a":"\u2028"}';
    await inRoot(root, 'add', 'export', text);
    const verdict = `{"id":1, "verb":"finish", "result":${text}, "data":[ 1.50 ]}\n`;
    const { say, readText, end, exit } = follow(root, '--wait', '0s');
    expect(await readText()).toContain(`"data":${text.replace('\u2028', '\\u2028')},`);
    say(verdict);
    end();
    expect(await exit).toBe(0);
    expect(readJobRow(root, 1)).toMatchObject({ state: 'finished', result: text, data: '[1.50]' });
  });

  test('has so many out as are asked for, and no more', async () => {
    const root = makeQueueSite();
    for (let n = 0; n < 4; n += 1) await addJob(root, 'export');
    const { say, read, end, exit } = follow(root, '--count', '2', '--min-priority', '500');
    expect([(await read())?.job?.id, (await read())?.job?.id]).toEqual([1, 2]);
    say(finish(2));
    expect([await read(), (await read())?.job?.id]).toEqual([{ ok: { id: 2, verb: 'finish' } }, 3]);
    expect(readJobRow(root, 4).state).toBe('queued');
    end();
    expect(await exit).toBe(0);
  });

  test('gives back at the end of its input what has no verdict', async () => {
    const root = makeQueueSite();
    await addJob(root, 'export', { repeat: 'FINISHED, +1 DAY', retries: 0 });
    await addJob(root, 'mail/welcome');
    const { read, end, exit } = follow(root, '--count', '3');
    await read();
    await read();
    end();
    expect(await exit).toBe(0);
    const released = { outcome: 'released', reason: 'its worker ended before it had told what became of it' };
    for (const id of [1, 2]) {
      expect(readJobRow(root, id)).toMatchObject({ claim_token: null, attempts: 0 });
      expect(readJobRuns(root, id)).toMatchObject([released]);
    }
    // At once, the one that repeats as well.
    expect(jsonOf(await inRoot(root, 'claim', '--count', '2')).jobs).toMatchObject([{ attempt: 1 }, { attempt: 1 }]);
    checkInvariants(root, { isSettled: false });
  });

  test('answers a line that is none with a sentence, keeps the job, and goes on', async () => {
    const root = makeQueueSite();
    const id = await addJob(root, 'export');
    const { say, read, end, exit } = follow(root);
    await read();
    const such = 'such as {"id":7,"verb":"finish","result":{"sent":true}}.';
    const wrong: readonly [string, number | null, string, string][] = [
      ['finish', null, 'invalid', `The verdict is not valid JSON (not a JSON value); expected JSON ${such}`],
      ['[]', null, 'invalid', `A verdict must be an object ${such}`],
      ['null', null, 'invalid', `A verdict must be an object ${such}`],
      ['{"verb":"finish"}', null, 'invalid', 'A verdict needs the number of a job as its id'],
      [`{"id":${id}}`, id, 'invalid', 'The verb of a verdict is one of finish, retry, fail, bury, touch, update'],
      [`{"id":${id},"verb":"finsh"}`, id, 'invalid', 'found "finsh"; did you mean finish?'],
      [`{"id":${id},"verb":"toString"}`, id, 'invalid', 'found "toString"'],
      [
        `{"id":${id},"verb":"finish","reslut":1}`,
        id,
        'invalid',
        '`finish` has no option "reslut"; did you mean result?',
      ],
      [`{"id":${id},"verb":"retry","delay":"soon"}`, id, 'invalid', 'must be a duration'],
      ['{"id":99,"verb":"finish"}', 99, 'stale-claim', 'Job 99 is not in hand'],
      ['x'.repeat(17 * 1024 * 1024), null, 'invalid', 'A verdict must be a line of at most 16777216 bytes.'],
    ];
    for (const [line, of, code, message] of wrong) {
      say(`\n  \n${line}\n`);
      const { error } = (await read()) ?? {};
      expect(error).toMatchObject({ id: of, code, message: expect.stringContaining(message) });
    }
    // In parts, and without its end.
    say(`{"id":${id},"ve`);
    await sleep(20);
    say('rb":"finish"}');
    end();
    expect([await read(), await read(), await exit]).toEqual([{ ok: { id, verb: 'finish' } }, null, 0]);
    expect(readJobRow(root, id).state).toBe('finished');
  });

  test('refuses the verdict on a job that was lost meanwhile, and has room for the next one', async () => {
    const root = makeQueueSite();
    const id = await addJob(root, 'export');
    const { say, read, end, exit } = follow(root);
    await read();
    expect((await inRoot(root, 'job', String(id), 'requeue')).status).toBe(0);
    say({ id, verb: 'fail', reason: 'late' });
    expect(await read()).toMatchObject({
      error: { id, code: 'stale-claim', message: expect.stringContaining('nothing was changed') },
    });
    expect(await read()).toMatchObject({ job: { id, attempt: 2 } });
    end();
    expect(await exit).toBe(0);
  });

  test('waits for no verdict on a job whose lease is over', async () => {
    const root = makeQueueSite();
    for (let n = 0; n < 2; n += 1) await addJob(root, 'export');
    const { say, read, exit } = follow(root, '--lease', '200ms', '--for', '2500ms');
    for (const id of [1, 2]) {
      expect(await read()).toMatchObject({ job: { id } });
      // Too late for the second one to be followed by another.
      say({ id, verb: 'finish', result: 'x'.repeat(2 ** 20) });
      expect(await read()).toMatchObject({ error: { id, code: 'invalid' } });
      const message = `The claim of job ${id} (export) has expired: it was not renewed in time`;
      expect(await read()).toMatchObject({
        error: { id, code: 'stale-claim', message: expect.stringContaining(message) },
      });
    }
    expect([await read(), await exit]).toEqual([null, 0]);
  });

  test('a log that cannot be written leaves the job in hand: the verdict can be told again', async () => {
    const root = makeQueueSite();
    const id = await addJob(root, 'export');
    const { say, read, end, exit } = follow(root);
    await read();
    const makeRoom = engine.refuse(root, 'update on runs');
    say(finish(id));
    expect(await read()).toMatchObject({ error: { id, code: 'unavailable' } });
    makeRoom();
    say(finish(id));
    expect(await read()).toEqual({ ok: { id, verb: 'finish' } });
    end();
    expect(await exit).toBe(0);
  });

  test('tells once, while it waits for another job, that a claim is about to expire', async () => {
    const root = makeQueueSite();
    const id = await addJob(root, 'export');
    const { say, read, end, exit } = follow(root, '--count', '2', '--lease', '1500ms');
    await read();
    const { deadlineSoon } = (await read()) ?? {};
    expect(deadlineSoon).toEqual({
      id,
      leasedUntil: new Date(readJobRow(root, id).lease_expires_at ?? 0).toISOString(),
    });
    say({ id, verb: 'touch' });
    expect(await read()).toMatchObject({ ok: { verb: 'touch' } });
    expect(await read()).toMatchObject({ deadlineSoon: { id } });
    say(finish(id));
    expect(await read()).toMatchObject({ ok: { verb: 'finish' } });
    end();
    expect(await exit).toBe(0);
  });

  test('ends by itself: when its time is over, when no job comes, when it is told to stop', async () => {
    const root = makeQueueSite();
    for (let n = 0; n < 3; n += 1) await addJob(root, 'export');
    const inTime = follow(root, '--for', '3s');
    await inTime.read();
    await until('its time is over', () => Date.now() > (readJobRow(root, 1).started_at ?? 0) + 3_100);
    inTime.say(finish(1));
    expect([await inTime.read(), await inTime.read(), await inTime.exit]).toEqual([
      { ok: { id: 1, verb: 'finish' } },
      null,
      0,
    ]);

    const stopped = follow(root);
    await stopped.read();
    await tellToStop(stopped.child);
    stopped.say(finish(2));
    expect([await stopped.read(), await stopped.read(), await stopped.exit]).toEqual([
      { ok: { id: 2, verb: 'finish' } },
      null,
      0,
    ]);

    const broken = follow(root);
    await broken.read();
    await tellToStop(broken.child);
    broken.child.kill('SIGTERM');
    expect([await broken.read(), await broken.exit]).toEqual([null, 143]);
    expect(readJobRow(root, 3)).toMatchObject({ state: 'retrying', claim_token: null });

    const deployed = follow(root);
    await deployed.read();
    writeFileSync(join(root, '.runner/restart'), '');
    deployed.say({ id: 3, verb: 'retry' });
    expect([await deployed.read(), await deployed.read()]).toEqual([{ ok: { id: 3, verb: 'retry' } }, null]);

    const idle = follow(root, '--wait', '300ms');
    await idle.read();
    idle.say(finish(3));
    expect([await idle.read(), await idle.read(), await idle.exit]).toEqual([
      { ok: { id: 3, verb: 'finish' } },
      null,
      0,
    ]);
  });

  test('gives back what nobody reads', async () => {
    const root = makeQueueSite();
    const { child, exit } = follow(root, '--wait', '20s');
    child.stdout.destroy();
    await addJob(root, 'export');
    expect(await exit).toBe(1);
    expect(readJobRow(root, 1)).toMatchObject({ claim_token: null, attempts: 0 });
  });

  test('killed at any instant it loses no job, and each verdict that it has confirmed', async () => {
    const root = makeQueueSite();
    const count = 40;
    for (let n = 0; n < count; n += 1) await addJob(root, 'export', { lease: '500ms' });
    const confirmed = new Set<number>();
    const countOpen = () => queryLog(root, 'select 1 from jobs where finished_at is null').length;
    for (let round = 0; countOpen() > 0; round += 1) {
      const { say, read, kill, exit } = follow(root, '--count', '3', '--wait', '1s');
      // From one that has hardly begun to one that has the time for all.
      const timer = setTimeout(kill, round < 12 ? 100 + Math.random() * 500 : 60_000);
      for (let line = await read().catch(() => null); line !== null; line = await read().catch(() => null)) {
        if (line.job !== undefined) say(finish(line.job.id, { result: line.job.id }));
        if (line.ok !== undefined) {
          confirmed.add(line.ok.id);
          expect(readJobRow(root, line.ok.id).state).toBe('finished');
        }
      }
      await exit;
      clearTimeout(timer);
    }
    expect(confirmed.size).toBeGreaterThan(count / 2);
    const rows = queryLog<{ id: number; state: string; result: string }>(root, 'select id, state, result from jobs');
    for (const { id, state, result } of rows) expect([state, result]).toEqual(['finished', String(id)]);
    checkInvariants(root);
  });

  test.each([
    [['--for', '1m'], '--for goes with --follow'],
    [['--follow', '--for', 'soon'], '--for must be a duration'],
    [['--follow', '--wait', 'long'], 'The wait must be'],
    [['--follow', '--lease', '5'], 'A lease must be a duration'],
    [['--follow', '--count', '1001'], 'a whole number from 1 to 1000'],
    [['--follow', '--job', '1'], 'cannot be combined'],
    [['--follow', '--holding', '1'], 'cannot be combined'],
  ])('%j is wrong use', async (args, message) => {
    const ended = withInput(makeQueueSite(), '', 'claim', ...args);
    expect(ended).toMatchObject({ status: 2, stdout: '', stderr: expect.stringContaining(message) });
  });
});

const pythonWorker = `
import json, subprocess, sys

def send(to):
    if '@' not in to: raise ValueError(f'{to} is no address')
    return {'sent': True}

command = ['npx', 'folder-runner', 'claim', 'mail/*', '--follow', '--wait', '1s']
runner = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
for line in runner.stdout:
    message = json.loads(line)
    if 'error' in message: print(message['error']['message'], file=sys.stderr)
    if 'job' not in message: continue
    job = message['job']
    try:
        verdict = {'verb': 'finish', 'result': send(job['data']['to'])}
    except Exception as error:
        verdict = {'verb': 'fail', 'mayRetry': True, 'reason': str(error)}
    print(json.dumps({'id': job['id'], **verdict}), file=runner.stdin, flush=True)
sys.exit(runner.wait())
`;

test('two workers in Python process each job once', async () => {
  const place = makeExamplePlace();
  writeExampleFile(place, 'mail-worker.py', pythonWorker);
  writeExampleFile(place, 'jobs/README.md', '');
  const toLine = (n: number) =>
    JSON.stringify({ name: 'mail/welcome', data: { to: n === 7 ? 'nobody' : `${n}@a.org` } });
  expect(
    withInput(place.root, Array.from({ length: 30 }, (_, n) => toLine(n)).join('\n'), 'add', '--many').status,
  ).toBe(0);
  const start = () => startProcess('/usr/bin/env', ['python3', 'mail-worker.py'], { cwd: place.root, env: place.env });
  const ended = await Promise.all([start().ended, start().ended]);
  for (const { status, stderr } of ended) expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  const states = queryLog(
    place.root,
    'select state, count(*) as jobs, sum(attempts) as tries from jobs group by state',
  );
  expect(states).toEqual([
    { state: 'failed', jobs: 1, tries: 1 },
    { state: 'finished', jobs: 29, tries: 29 },
  ]);
  expect(queryLog(place.root, "select reason from jobs where state = 'failed'")).toEqual([
    { reason: 'nobody is no address' },
  ]);
  checkInvariants(place.root, { isSettled: false });
});
