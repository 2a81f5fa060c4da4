import { rmSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { openQueue } from '../../src/index.ts';
import { distinctPoints, type Fault, kindOf, listFaultPoints, runWithFault } from '../support/faults/faults.ts';
import { findViolations } from '../support/faults/invariants.ts';
import { copyRoot, drain } from '../support/faults/queue-rounds.ts';
import { sample, someAtATime } from '../support/faults/rounds.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';
import { readSnapshot } from './queue-snapshot.ts';
import { type Verb, verbs } from './queue-verbs.ts';

interface Round extends Planned {
  readonly at: string;
}

interface Planned {
  readonly verb: Verb;
  readonly template: string;
  readonly words: readonly string[];
  /** What the log says before and after it, if nothing happens to it. */
  readonly before: string;
  readonly after: string;
}

const files = {
  'jobs/queue/a.sh': executable('#!/bin/sh\n# @retry-delay 1ms\nexit 0\n'),
  'jobs/queue/gone.sh': executable('#!/bin/sh\nexit 0\n'),
  'runner.config.json': JSON.stringify({ queue: { archive: { gone: 'remove' } } }),
};

test('a verb that is killed at any change has done all of it, or nothing', async () => {
  const planned = await someAtATime(sample(verbs), plan);
  const told = await someAtATime(planned.flat(), survive);
  expect(told.flat()).toEqual([]);
  expect(planned.filter((each) => each.length < 2)).toEqual([]);
}, 600_000);

async function plan(verb: Verb): Promise<readonly Round[]> {
  const template = makeTemporaryRoot(files);
  const queue = await openQueue({ root: template });
  onTestFinished(() => queue.close());
  const words = (await verb.words(queue)).map(String);
  await queue.close();
  const done = copyRoot(template);
  const points = await listFaultPoints(done, words, inputOf(verb));
  const known = { verb, template, words, before: readSnapshot(template), after: readSnapshot(done) };
  const changes = points.slice(points.findIndex((each) => isChange.test(kindOf(each))));
  const distinct = distinctPoints(points).filter((point) => changes.includes(point));
  return distinct.flatMap((point) => sidesOf(point).map((side) => ({ ...known, at: `${side} ${point}` })));
}

const isChange = /^sql (insert|update|delete)/;

/** Whoever dies right after the one is about to do the next: only there it makes a difference. */
function sidesOf(point: string): readonly string[] {
  return kindOf(point) === 'sql commit' ? ['before', 'after'] : ['before'];
}

function inputOf({ input }: Verb): Fault {
  return input === undefined ? {} : { input };
}

async function survive({ verb, template, words, before, after, at }: Round): Promise<string[]> {
  const root = copyRoot(template);
  const { status, stdout } = await runWithFault(root, words, { ...inputOf(verb), at });
  const snapshot = readSnapshot(root);
  const isDone = snapshot === after;
  const wrong = [
    ...(status === null ? [] : [`ended with ${status}`]),
    ...(isDone || snapshot === before ? [] : [`neither done nor left undone: ${snapshot}`]),
    ...(isDone || stdout === '' ? [] : [`said ${stdout}, and nothing was done`]),
    ...(isDone || !/^after sql commit/.test(at) ? [] : ['was lost']),
  ];
  wrong.push(...(await repeat(root, { verb, words, isDone })));
  await release(root);
  wrong.push(...(await drain(root)), ...findViolations(root));
  if (wrong.length === 0) rmSync(root, { recursive: true });
  return wrong.map((each) => `${verb.name}, ${at}: ${each}`);
}

interface Repeated {
  readonly verb: Verb;
  readonly words: readonly string[];
  readonly isDone: boolean;
}

/** Whoever got no answer says it again. */
async function repeat(root: string, { verb, words, isDone }: Repeated): Promise<string[]> {
  const again = await runWithFault(root, words, inputOf(verb));
  const expected = verb.isOnce && isDone ? [1] : isDone ? [0, 1] : [0];
  return expected.includes(again.status ?? -1) ? [] : [`said again, it ended with ${again.status}: ${again.stderr}`];
}

/** What somebody outside still holds is theirs for an hour, and what is paused waits. */
async function release(root: string): Promise<void> {
  const queue = await openQueue({ root });
  for (const pattern of ['a', 'a*']) await queue.resume(pattern);
  const held = await queue.list({ state: ['running'] });
  await queue.requeue(held.map(({ id }) => id));
  await queue.close();
}
