import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { openQueue } from '../../src/index.ts';
import { formatBytes, formatCount, formatDuration, formatRate, formatRatio } from '../../src/system/base/format.ts';
import { callCommand, cronEnv, pathWithoutCrontab } from '../support/command.ts';
import { openPage } from '../support/web/browser.ts';
import { brokenImport, startDashboardWith, writeHistory } from '../support/web/dashboard.ts';

/** The server and its commands are here, half an hour apart from the viewer's minutes. */
const SERVER = 'Asia/Kolkata';
const VIEWER = 'Europe/Berlin';

/**
 * What a page shows, without what no command tells:
 * - what is pressed, typed, chosen or copied (`button`, `label`, `input`, `select`, `code`): it asks, and says nothing;
 * - output and data (`pre`): the text of scripts, shown as it is;
 * - pictures (`svg`, a chart's legend, the timeline of Next): a table beside them has the same figures, but for their
 *   scales, which are round numbers and hours of the viewer's clock.
 */
interface Shown {
  readonly times: readonly { readonly at: string; readonly text: string; readonly title: string }[];
  /** Whatever else. */
  readonly text: string;
}

const look = `(() => {
  const times = [...document.querySelectorAll('main time')].filter((time) => time.checkVisibility());
  const copy = document.querySelector('main').cloneNode(true);
  for (const each of copy.querySelectorAll('time, code, pre, button, select, label, input, svg, .u-legend, .next-line')) {
    each.replaceWith(' … ');
  }
  const walker = document.createTreeWalker(copy, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode.data);
  return {
    times: times.map((time) => ({ at: time.dateTime, text: time.textContent, title: time.title })),
    text: texts.join(' ¦ ').replaceAll(/\\s+/g, ' '),
  };
})()`;

async function openAt(page: Page, address: string): Promise<Shown> {
  // Otherwise the answer about another range of time stays until the new one comes.
  await page.goto('about:blank');
  await page.goto(address);
  await page.locator('main h1').waitFor();
  // It asks several questions, and is what it is once none of them changes it.
  const wordsOf = async () => ((await page.evaluate(look)) as Shown).text.replaceAll(/\d+/g, '0');
  await expect
    .poll(
      async () => {
        const before = await wordsOf();
        await page.waitForTimeout(400);
        return before === (await wordsOf()) && before.length > 120;
      },
      { timeout: 20_000 },
    )
    .toBe(true);
  return (await page.evaluate(look)) as Shown;
}

/** All that a command says, as JSON. */
class Said {
  readonly instants = new Set<number>();
  readonly numbers = new Set<string>();
  readonly strings = new Set<string>();
  /** Their times are of the zone that the foot of each page names. */
  readonly rules = new Set<string>();

  add(value: unknown): void {
    if (typeof value === 'number') this.#addNumber(value);
    else if (typeof value === 'string') this.#addText(value);
    else if (Array.isArray(value)) this.#addList(value);
    else if (value !== null && typeof value === 'object') this.#addObject(value as Record<string, unknown>);
  }

  #addNumber(value: number): void {
    const percent = (digits: number) => `${Number((value * 100).toFixed(digits))}`;
    const texts = [String(value), formatCount(Math.round(value)), formatDuration(value), formatBytes(value)];
    for (const text of [...texts, formatRate(value), `${percent(0)} %`, `${percent(1)} %`]) this.numbers.add(text);
  }

  #addText(text: string): void {
    for (const [instant] of text.matchAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g)) this.instants.add(Date.parse(instant));
    // A name, or a sentence: a number alone would be one of the page's.
    if (/\d/.test(text) && /[a-z]{2}/i.test(text)) this.strings.add(text);
  }

  /** How many there are, of them all and of each kind. */
  #addList(list: readonly unknown[]): void {
    this.#addNumber(list.length);
    const kinds = new Map<string, number>();
    for (const each of list) {
      this.add(each);
      for (const [key, value] of Object.entries(Object(each))) {
        const kind = `${key} ${JSON.stringify(value)}`;
        kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      }
    }
    for (const count of kinds.values()) this.#addNumber(count);
    this.#addShares(list);
  }

  /** What each has of all that they cost. */
  #addShares(list: readonly unknown[]): void {
    const costOf = (each: unknown): number => Number(Object(each).totalCpuMs ?? Object(each).total?.cpuMs) || 0;
    const costs = list.map(costOf);
    const all = list.find((each) => Object(each).kind === 'all');
    const sum = all === undefined ? costs.reduce((one, other) => one + other, 0) : costOf(all);
    for (const cost of costs) if (sum > 0) this.#addNumber(cost / sum);
  }

  #addObject(object: Record<string, unknown>): void {
    for (const [key, each] of Object.entries(object)) {
      if ((key === 'repeat' || key === 'rule') && typeof each === 'string') this.rules.add(each);
      this.add(each);
    }
    const { value, other: base } = object;
    if (typeof value === 'number' && typeof base === 'number')
      this.numbers.add(formatRatio(value, base).replace('×', ''));
    const { userCpuMs, systemCpuMs, durationMs } = object;
    if (typeof userCpuMs === 'number' && typeof systemCpuMs === 'number') {
      this.#addNumber(userCpuMs + systemCpuMs);
      const ofDuration = typeof durationMs === 'number' ? (userCpuMs + systemCpuMs) / durationMs : 0;
      this.numbers.add(String(Math.round(ofDuration * 100)));
    }
    const [started, ...others] = ['startedAt', 'scheduledFor', 'finishedAt'].map((key) =>
      Date.parse(String(object[key])),
    );
    for (const other of others) {
      const apart = Math.abs((started as number) - other);
      if (!Number.isNaN(apart)) this.#addNumber(apart);
    }
  }
}

const wholeOf = (atMs: number, zone: string): string =>
  new Date(atMs).toLocaleString('sv-SE', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' });

/** What of its times no command has told, or is not by the viewer's clock. */
function findWrongTimes({ times, text }: Shown, said: Said, windows: readonly number[]): string[] {
  const now = Date.now();
  const isSaid = (atMs: number) => said.instants.has(atMs) || windows.some((ms) => Math.abs(now - ms - atMs) < 180_000);
  const wrong = times.flatMap(({ at, text: shown, title }) => {
    const atMs = Date.parse(at);
    const whole = wholeOf(atMs, VIEWER);
    const clocks = shown.match(/\d\d:\d\d(?::\d\d)?/g) ?? [];
    return [
      ...(isSaid(atMs) ? [] : [`${at} (${shown}) is told by no command`]),
      ...(title.startsWith(`${whole} ${VIEWER} · `) ? [] : [`${at} has the title ${title}`]),
      ...clocks.filter((clock) => !whole.includes(` ${clock}`)).map((clock) => `${at} is shown as ${clock}`),
    ];
  });
  const known = new Set([...said.instants].map((atMs) => wholeOf(atMs, VIEWER).slice(11, 16)));
  const sentences = [...said.rules].reduce((left, rule) => left.replaceAll(rule, ''), text);
  const inSentences = sentences.match(/\b\d\d:\d\d\b/g) ?? [];
  return [...wrong, ...inSentences.filter((clock) => !known.has(clock)).map((clock) => `${clock} in a sentence`)];
}

const unitMs: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * What no command tells: words with a number in them, years, processes of workers, and how much of a list is shown at
 * first (its length is compared).
 */
const fixed =
  /\bp95\b|95th|95% began|\b60 minutes|last 7 days|Last 20\b|one processor|\b20\d\d\b|pid ¦ \d+|\b50 of (?=\d)/g;

/** Its numbers that no command has told. */
function findWrongNumbers({ text }: Shown, said: Said): string[] {
  const now = Date.now();
  const longestFirst = [...said.strings].toSorted((one, other) => other.length - one.length);
  const rest = longestFirst.reduce((left, each) => left.replaceAll(each, ' … '), text.replaceAll(fixed, ' … '));
  const unit = '(?:ms|s|m|h|d|[KMG]?B)';
  const tokens = rest.match(
    new RegExp(`(?<![\\w:-])\\d+(?:,\\d{3})*(?:\\.\\d+)?(?:${unit}(?: \\d+${unit})?| ?%)?(?![\\w:])`, 'g'),
  );
  const isElapsed = (token: string): boolean => {
    const parts = [...token.matchAll(/(\d+)([smhd])\b/g)];
    const ms = parts.reduce((sum, [, count, name = '']) => sum + Number(count) * (unitMs[name] as number), 0);
    return parts.length > 0 && [...said.instants].some((at) => Math.abs(Math.abs(now - at) - ms) < 90_000);
  };
  return (tokens ?? []).filter((token) => !said.numbers.has(token) && !isElapsed(token));
}

/** Passes, failures, a running script, an incident, pauses, and jobs of each kind. */
async function makeSite() {
  const { root } = await writeHistory({
    failing: { 'hourly/import-orders': brokenImport },
    running: { 'daily/send-newsletter': 65_000 },
  });
  writeFileSync(join(root, 'runner.config.json'), JSON.stringify({ timezone: SERVER }), { mode: 0o600 });
  const place = { cwd: root, env: { ...cronEnv(root), PATH: pathWithoutCrontab, TZ: SERVER } };
  const call = async (...args: readonly string[]) => {
    const { stdout, stderr } = await callCommand(args, place);
    return stdout || stderr;
  };
  const queue = await openQueue({ root });
  const failed = await queue.add('mail/welcome');
  const taken = await queue.claim('mail/welcome');
  await queue.fail(taken ?? 0, { reason: 'no such address' });
  await queue.add('mail/welcome', {}, { runAt: new Date(Date.now() + 5_400_000) });
  const repeating = await queue.add('export', {}, { repeat: 'daily at 03:10' });
  await queue.add('report');
  await queue.close();
  await call('pause', '15min', '--for', '2h');
  await call('pause', 'queue/export', '--for', '3h');
  // It is skipped, and the log says until when.
  await call('15min');
  const { id: failedRun } = JSON.parse(await call('show', 'hourly/import-orders', '--json'));
  return { root, call, failed, repeating, failedRun };
}

const WEEK_MS = 604_800_000;

test('each time and each number of a page is what the commands say of the same log, by the clock of its viewer', async () => {
  const { root, call, failed, repeating, failedRun } = await makeSite();
  // Each hour has five runs.
  const goodRun = failedRun - 5;
  const { url } = await startDashboardWith({ PATH: pathWithoutCrontab }, root);
  const page = await openPage(url);
  const script = 'hourly/import-orders';
  const scripts = [
    '15min/check-mailbox',
    script,
    'hourly/clean-uploads',
    'daily/backup-database',
    'daily/send-newsletter',
  ];
  const ofAll = ['status', 'report --since 7d', 'incidents --all', 'check'];
  // Settings in force are told by no command: the page quotes the file, and what stands where it says nothing.
  const pages: readonly (readonly [address: string, commands: readonly string[]])[] = [
    ['#/', [...ofAll, 'jobs --count']],
    ['#/scripts', ofAll],
    [`#/scripts/${script}`, [...ofAll, `report ${script} --since 60d`, `why ${script}`]],
    ['#/scripts/15min/check-mailbox', [...ofAll, 'report 15min/check-mailbox --since 60d', 'why 15min/check-mailbox']],
    ['#/scripts/queue/mail/welcome', [...ofAll, 'report queue/mail/welcome --since 60d']],
    ['#/runs', [...scripts, 'queue/mail/welcome'].map((name) => `report ${name} --since 60d --limit 500`)],
    [`#/runs/${failedRun}`, [`show ${failedRun}`, `run ${script} --dry-run`]],
    [`#/runs/${goodRun}`, [`show ${goodRun}`, `run ${script} --dry-run`]],
    [
      `#/runs/${failedRun}?with=${goodRun}`,
      [`show ${failedRun}`, `show ${failedRun} --with ${goodRun}`, `show ${goodRun}`, `run ${script} --dry-run`],
    ],
    ['#/queue', ['status', 'jobs', 'jobs --totals', 'jobs --count', 'jobs --pace']],
    [`#/jobs/${failed}`, [`job ${failed}`, `activity --job ${failed}`]],
    [`#/jobs/${repeating}`, [`job ${repeating}`, `activity --job ${repeating}`, 'jobs export --upcoming 5', 'status']],
    ['#/workers', ['status', 'activity --limit 1000', 'list']],
    ['#/activity', ['activity --limit 100', 'activity --limit 1000']],
    ['#/incidents', ['incidents --all', 'check', 'status']],
    ['#/next', ['next --limit 1000', 'list']],
    ['#/next?for=7d', ['next --for 7d --limit 1000', 'list']],
    ['#/metrics', ['metrics --since 7d --period 6h', 'metrics']],
  ];
  const wrong: Record<string, readonly string[]> = {};
  for (const [address, commands] of pages) {
    const shown = await openAt(page, `${url}${address}`);
    const said = new Said();
    for (const command of commands) {
      const answer = await call(...command.split(' '), '--json');
      expect(answer, command).toMatch(/^[{[]/);
      said.add(JSON.parse(answer));
    }
    const found = [...findWrongTimes(shown, said, [WEEK_MS]), ...findWrongNumbers(shown, said)];
    if (found.length > 0) wrong[address] = found;
  }
  expect(wrong).toEqual({});
}, 180_000);
