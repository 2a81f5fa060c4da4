import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from '../../base/errors.ts';
import type { Script } from '../../discovery/script.ts';
import { resumeCommandOf, wordsOfPaused } from '../../queue/pauses.ts';

import {
  amountOf,
  type Check,
  type CheckFinding,
  listOf,
  note,
  ok,
  problem,
  problemOf,
  unknownWithoutLog,
  warning,
} from './check.ts';

const names = ['runner.config.ts', 'runner.config.js', 'runner.config.mjs', 'runner.config.json'];

export const checkConfig: Check = {
  name: 'settings',
  run: async ({ root, settings }) => {
    const name = names.find((each) => existsSync(join(root, each)));
    try {
      await settings();
      return [ok(name === undefined ? 'none: the defaults' : `${name} is right`)];
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      const sentences = error.message.split('\n');
      return sentences.map((sentence) => describeWrong(sentence, name ?? 'the settings'));
    }
  },
};

function describeWrong(sentence: string, name: string): CheckFinding {
  // A file that others could have written: the sentence itself says how to close it.
  if (sentence.includes('allow it with')) return problemOf(sentence);
  return problem(
    sentence,
    `Correct it in ${name}: until then no script runs; docs/options.md has every setting.`,
  );
}

const SEE_LIST = '`runner list` shows why for each of them, and how to fix it.';

export const checkJobs: Check = {
  name: 'jobs',
  run: async ({ discovery }) => {
    const { tiers, unread, handlers } = await discovery();
    const scripts = tiers.flatMap((tier) => tier.scripts);
    const all = [...scripts, ...handlers];
    const refused = all.filter(({ refusals }) => refusals.length > 0);
    const doubtful = all.filter(({ warnings }) => warnings.length > 0);
    return [
      describeCount(tiers.length, scripts.length, handlers.length),
      ...unread.map(({ reason }) => problem(reason, 'Until then nothing in it is run.')),
      ...(refused.length === 0
        ? []
        : [
            problem(`${amountOf(refused.length, 'script')} refused: ${namesOf(refused)}`, SEE_LIST),
          ]),
      ...(doubtful.length === 0
        ? []
        : [warning(`probably a mistake in ${namesOf(doubtful)}`, SEE_LIST)]),
    ];
  },
};

function describeCount(tiers: number, scripts: number, handlers: number): CheckFinding {
  const ofQueue = handlers > 0 ? `, ${amountOf(handlers, 'handler')} of queued jobs` : '';
  const count = `${amountOf(scripts, 'script')} in ${amountOf(tiers, 'tier')}${ofQueue}`;
  if (scripts + handlers > 0) return ok(count);
  return note(
    count,
    'Drop a script into jobs/hourly; `runner init` makes the folders with examples.',
  );
}

function namesOf(scripts: readonly Script[]): string {
  return listOf(scripts.map(({ name }) => name));
}

export const checkPauses: Check = {
  name: 'pauses',
  run: async ({ log, isLogUnread }) => {
    if (await isLogUnread()) return [unknownWithoutLog];
    const pauses = (await log()).facts?.pauses ?? [];
    if (pauses.length === 0) return [ok('none')];
    return pauses.map(({ name, kind, until }) => {
      const end = until === null ? 'until it is resumed' : `until ${new Date(until).toISOString()}`;
      const what = kind === 'fail-fast' ? 'fails instead of running' : 'is paused';
      return note(`${wordsOfPaused(name)} ${what} ${end}`, `\`${resumeCommandOf(name)}\` ends it.`);
    });
  },
};
