import { mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { countsFileOf, isProbeResult, maskResult, readCounts } from '../../../src/execution/result/report.ts';
import { runFilesOf } from '../../../src/execution/run-files.ts';
import { readSpool } from '../../../src/store/spool/read.ts';
import { endLostRun } from '../../../src/worker/recovery/dead-workers.ts';
import { runPass } from '../../support/command.ts';
import { identifyDeadProcess } from '../../support/faults/faults.ts';
import { makeSpooledEnd, makeSpoolHeader, toLines } from '../../support/faults/spool.ts';
import { makeFinishedRun, queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { createMasker, openPlace, requestRun } from '../../support/run.ts';
import { writeLog } from '../../support/written-log.ts';

const masker = createMasker({ env: {}, secrets: [] }, {});

test('what scripts count stands with their runs', () => {
  const { root, run } = runPass({
    'a.mjs': `export default ({ log }) => { log.count('orders', 3); log.count('orders'); log.count('eur', -1.5); };\n`,
    'b.sh':
      'echo "prices 12" >> "$RUNNER_COUNTS"\necho "prices 30" >> "$RUNNER_COUNTS"\necho "prices many" >> "$RUNNER_COUNTS"\n',
    'c.mjs': `export default ({ log }) => { log.count('orders', 7); log.count('x y'); };\n`,
    'd.mjs': '',
  });
  const counts = queryLog<object>(
    root,
    `select substr(scripts.name, 8) as script, counts.name, value from counts join runs on runs.id = run_id
     join scripts on scripts.id = script_id order by 1, 2`,
  );
  expect(counts).toEqual([
    { script: 'a', name: 'eur', value: -1.5 },
    { script: 'a', name: 'orders', value: 4 },
    { script: 'b', name: 'prices', value: 42 },
    // What failed afterwards has counted all the same.
    { script: 'c', name: 'orders', value: 7 },
  ]);
  expect(run('b').warning).toBe('line 3 of RUNNER_COUNTS was ignored: it must be a finite number, found "prices many"');
  expect(run('c').error_message).toBe('log.count() needs a name of at most 64 letters, digits and _ . : / -');
});

test('each job of a handler counts for itself', async () => {
  const place = openPlace({
    'mail.mjs': `export default ({ data, log }) => {
      if (data.mails) log.count('mails', data.mails);
      if (data.exits) process.exit(1);
      setTimeout(() => log.count('late'), 0);
    };\n`,
    'alone.mjs': `// @isolate\nexport default ({ log }) => { log.count('mails', 5); };\n`,
  });
  const runs = [
    await place.run('mail', { data: { mails: 2 } }),
    await place.run('mail', { data: {} }),
    await place.run('mail', { data: { mails: 3, exits: true } }),
    await place.run('alone'),
  ];
  expect(runs.map(({ outcome, counts }) => [outcome, counts])).toEqual([
    ['succeeded', { mails: 2 }],
    ['succeeded', undefined],
    ['failed', { mails: 3 }],
    ['succeeded', { mails: 5 }],
  ]);
});

test('what a run has counted whose runner died is in the log', async () => {
  const { root, state } = await requestRun('lost.sh', 'true\n');
  const log = await writeLog(root);
  const files = runFilesOf(state, '1.1');
  mkdirSync(files.temporary);
  writeFileSync(countsFileOf(files), 'orders 2\n');
  const result = {
    exitCode: 0,
    error: null,
    userCpuMs: 1,
    systemCpuMs: 1,
    maxRssBytes: 1,
    counts: { orders: 1, eur: 5 },
  };
  writeFileSync(files.result, JSON.stringify(result));
  const end = await endLostRun({
    ...{ key: '1.1', root, state, masker, startedAt: 0, process: identifyDeadProcess(), runner: 'pid 1 on web3' },
    ...{ timeoutMs: 1000, graceMs: 1000, maxOutputBytes: 1000, lastSeenRssBytes: null, now: 5000 },
  });
  expect(end).toMatchObject({ outcome: 'succeeded', counts: { orders: 3, eur: 5 }, warning: null });
  const id = await log.addRun('hourly/lost', 1000);
  await log.store.runs.end([
    {
      ...{ jobId: 1, workerId: null, key: null, script: 'hourly/lost', contentHash: null, attempt: 1 },
      ...{ scheduledFor: null, startedAt: 1000, timeoutMs: null, runId: id, leftJob: null },
      end: makeFinishedRun({ counts: end?.counts ?? {} }),
    },
  ]);
  expect(queryLog(root, 'select name, value from counts order by name')).toEqual([
    { name: 'eur', value: 5 },
    { name: 'orders', value: 3 },
  ]);
});

test('the spool keeps them, and takes nothing else for them', () => {
  const path = `${makeTemporaryRoot()}/a.jsonl`;
  const read = (counts: unknown) => {
    const run = makeSpooledEnd('aaaaaaaa', { end: { ...makeFinishedRun(), counts: counts as Record<string, number> } });
    writeFileSync(path, toLines(makeSpoolHeader(), run), { mode: 0o600 });
    const [, line] = [...readSpool(path)];
    return line?.type === 'ended' ? line.end.counts : line?.type;
  };
  expect(read({ orders: 2 })).toEqual({ orders: 2 });
  expect(read(undefined)).toBeUndefined();
  for (const wrong of [3, [], { orders: 'many' }, { 'a\nb': 1 }]) expect(read(wrong)).toBe('not-understood');
});

test('whatever a script writes there, its run is recorded', () => {
  const temporary = makeTemporaryRoot();
  const read = (text: string) => {
    writeFileSync(countsFileOf({ temporary }), text);
    return readCounts({ temporary }, { own: 1 }, masker);
  };
  expect(read('\n a  1 \r\nb -2.5e1\n')).toEqual({ counts: { own: 1, a: 1, b: -25 }, warning: null });
  for (const line of [
    'a',
    'a b c',
    'a 0x10',
    'a Infinity',
    'a 1e999',
    `${'a'.repeat(65)} 1`,
    '__proto__',
    '- 1',
    '\0 1',
  ]) {
    const { counts, warning } = read(`${line}\nb 2\n`);
    expect([line, counts]).toEqual([line, { own: 1, b: 2 }]);
    expect(warning).toContain('line 1 of RUNNER_COUNTS was ignored: it must be ');
  }
  rmSync(countsFileOf({ temporary }));
  expect(readCounts({ temporary }, undefined, masker)).toEqual({ warning: null });
  mkdirSync(countsFileOf({ temporary }));
  expect(readCounts({ temporary }, { own: 1 }, masker)).toEqual({
    counts: { own: 1 },
    warning: expect.stringMatching(/^RUNNER_COUNTS was ignored: EISDIR/),
  });
  rmdirSync(countsFileOf({ temporary }));
  const many = Array.from({ length: 30 }, (_, index) => `n${index} 1`);
  const { counts, warning } = read(many.join('\n'));
  expect(Object.keys(counts ?? {}).length).toBe(20);
  expect(warning).toContain('line 20 of RUNNER_COUNTS was ignored: it must be at most 20 names, found "n19 1"');
});

test('a child cannot pass anything else for counts, and a secret among the names is masked', () => {
  const result = { exitCode: 0, error: null, userCpuMs: 1, systemCpuMs: 1, maxRssBytes: null };
  const many = Object.fromEntries(Array.from({ length: 21 }, (_, index) => [`n${index}`, 1]));
  expect(isProbeResult({ ...result, counts: { a: 1 } })).toBe(true);
  for (const counts of [{ a: '1' }, { 'a b': 1 }, null, 3, many]) {
    expect([counts, isProbeResult({ ...result, counts })]).toEqual([counts, false]);
  }
  const secret = createMasker({ env: { API_TOKEN: 'tok-1234567890' }, secrets: [] }, {});
  const masked = maskResult({ ...result, counts: { 'tok-1234567890': 1 } }, secret);
  expect(JSON.stringify(masked)).not.toContain('tok-1234567890');
});
