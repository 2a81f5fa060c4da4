import { expect, test } from 'vitest';
import { createApi } from '../../../src/dashboard/api/api.ts';
import { type AnswerRecord, leaveOut } from '../../../src/dashboard/api/left-out.ts';
import { recordOf } from '../../../src/dashboard/api/schema-of.ts';
import { keepOpen } from '../../../src/dashboard/keep-open.ts';
import type { LiveSite } from '../../../src/dashboard/site.ts';
import { activityRecord } from '../../../src/report/model/activity.ts';
import { pauseRecord } from '../../../src/report/model/pauses.ts';
import { runDetailsRecord } from '../../../src/report/model/runs/details.ts';
import { runRecord } from '../../../src/report/model/runs/run.ts';
import { workerRecord } from '../../../src/report/model/workers.ts';
import { FAILING } from '../../../src/store/words.ts';
import { type Field, field, LEFT_OUT, record, type Shape, shown } from '../../../src/system/base/record.ts';

/** What is opened is a number, the next one each time; `told` has what happens to each. */
function setUp() {
  const state = { identity: 'a', fails: false, isGood: true, opened: 0 };
  const told: string[] = [];
  const kept = keepOpen({
    identity: () => state.identity,
    open: async () => {
      if (state.fails) throw new Error('not now');
      return ++state.opened;
    },
    isGood: () => state.isGood,
    retire: (number) => void told.push(`retired ${number}`),
    close: async (number) => {
      told.push(`closed ${number}`);
      if (number === 13) throw new Error('it does not close');
    },
  });
  return { state, told, kept, which: () => kept.use(async (number) => number) };
}

test('it is opened once for all, and closed at the end', async () => {
  const { told, kept, which } = setUp();
  expect(await Promise.all([which(), which()])).toEqual([1, 1]);
  expect(await which()).toBe(1);
  await kept.close();
  expect(told).toEqual(['retired 1', 'closed 1']);
});

test('another one in its place is opened, and the one before closed once nobody uses it', async () => {
  const { state, told, kept, which } = setUp();
  const gate = Promise.withResolvers<void>();
  const first = kept.use(async (number) => {
    await gate.promise;
    return number;
  });
  state.identity = 'b';
  expect(await which()).toBe(2);
  expect(told).toEqual(['retired 1']);
  gate.resolve();
  expect(await first).toBe(1);
  await kept.close();
  expect(told.toSorted()).toEqual(['closed 1', 'closed 2', 'retired 1', 'retired 2']);
});

test('a log that cannot be opened is tried again, and does not hold up the end of the server', async () => {
  const { state, told, kept, which } = setUp();
  state.fails = true;
  await expect(which()).rejects.toThrow('not now');
  state.fails = false;
  expect(await which()).toBe(1);
  state.fails = true;
  state.identity = 'b';
  await expect(which()).rejects.toThrow('not now');
  await kept.close();
  expect(told).toEqual(['retired 1', 'closed 1']);
});

test('a log with a fault serves the present request, and no later one', async () => {
  const { state, told, which } = setUp();
  state.isGood = false;
  expect(await which()).toBe(1);
  state.isGood = true;
  expect(await which()).toBe(2);
  await expect.poll(() => told).toEqual(['retired 1', 'closed 1']);
});

test('a log that cannot be closed does not hold up the end of the server', async () => {
  const { state, told, kept, which } = setUp();
  state.opened = 12;
  expect(await which()).toBe(13);
  await kept.close();
  expect(told).toEqual(['retired 13', 'closed 13']);
});

const added = {
  addedText: field.text,
  addedList: field.list(field.text),
  addedRecord: field.one(record(null, { script: shown.text })),
  addedMap: field.map(shown.number),
  addedNumber: field.number,
  addedFlag: field.flag.orNull,
};
const secret = {
  ...{ addedText: 'CANARY', addedList: ['CANARY'], addedRecord: { script: 'CANARY' }, addedMap: { CANARY: 1 } },
  ...{ addedNumber: 7, addedFlag: true, unknown: 'CANARY' },
};
const emptied = {
  ...{ addedText: '', addedList: [], addedRecord: {}, addedMap: {}, addedNumber: null, addedFlag: null, unknown: '' },
};

test('a field that does not say that it may be shown is left out of a public report, whatever it is', () => {
  const run = record(null, { ...runRecord.fields, ...added });
  const answer = record(null, { runs: shown.list(shown.one(run)), byName: shown.map(shown.one(run)), ...added });
  const known = { script: 'queue/a?customer=4711', exitCode: 3, reason: 'exit code 3: CANARY', counts: { CANARY: 1 } };
  const found = leaveOut(answer, {
    runs: [{ ...known, ...secret }],
    byName: { one: { ...known, ...secret } },
    ...secret,
  });
  const seen = { script: 'queue/a', exitCode: 3, reason: 'exit code 3', counts: {}, ...emptied };
  expect(found).toEqual({ runs: [seen], byName: { one: seen }, ...emptied });
});

const api = createApi({} as LiveSite, { name: 'test', permission: 'read' });
const routes = api.openAPIRegistry.definitions.flatMap((each) => (each.type === 'route' ? [each.route] : []));
const answers = routes
  .filter(({ method }) => method === 'get')
  .flatMap(({ path, responses }) => {
    const content = responses[200] as { content?: Record<string, { schema: object }> } | undefined;
    const answered = recordOf(content?.content?.['application/json']?.schema);
    return answered === null ? [] : [{ path, answered }];
  });

test.for(answers)('the public answer of $path has only the fields that are shown', ({ answered }) => {
  expect(JSON.stringify(leaveOut(answered, fillRecord(answered)))).not.toContain('CANARY');
});

test('each question that a report asks has a record of what may be shown', () => {
  const asked = ['overview', 'status', 'tiers', 'scripts', 'health', 'pauses', 'mutes', 'next', 'activity'];
  const further = ['incidents', 'workers', 'jobs', 'jobs/counts', 'jobs/totals', 'runs', 'runs/{id}', 'jobs/{id}'];
  const found = answers.map(({ path }) => path);
  expect(found).toEqual(expect.arrayContaining([...asked, ...further].map((each) => `/api/${each}`)));
});

/** An answer in which each value that is not shown is a canary. */
function fillRecord({ fields }: AnswerRecord): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([name, each]) => [name, fillField(name, each)]));
}

function fillField(name: string, { shape, inPublic }: Field): unknown {
  if (inPublic !== 'shown') return fill(shape, 'CANARY');
  // What is found may quote scripts where it is of runs.
  return name === 'code' ? FAILING : fill(shape, 'shown');
}

function fill(shape: Shape, text: string): unknown {
  switch (shape.kind) {
    case 'list':
      return [fill(shape.of.shape, text)];
    case 'map':
      return { [text]: fill(shape.of.shape, text) };
    case 'record':
      return text === 'shown' ? fillRecord(shape.of) : { [text]: text };
    default:
      return text;
  }
}

test('an error and a warning of a run tell that they are there', () => {
  const error = { name: 'Error', message: 'CANARY', stack: 'CANARY' };
  const run = { reason: 'CANARY', warning: 'CANARY', outcome: 'timed-out', suspect: true, error };
  expect(leaveOut(runRecord, run)).toMatchObject({
    reason: 'timed out',
    warning: 'exit code 0, but its output tells of a failure',
    error: { name: LEFT_OUT, message: LEFT_OUT, stack: '' },
  });
});

test('a public report names no person', () => {
  for (const each of [pauseRecord, workerRecord, activityRecord]) {
    expect(leaveOut(each, { by: 'ada' })).toEqual({ by: null });
  }
  expect(leaveOut(runDetailsRecord, { startedBy: 'ada', stoppedBy: 'ada' })).toEqual({
    startedBy: null,
    stoppedBy: null,
  });
});
