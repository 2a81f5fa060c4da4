import { mkdirSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createApi } from '../../../src/dashboard/api/api.ts';
import { openSite } from '../../../src/dashboard/site.ts';
import { callAt, cronEnv } from '../../support/command.ts';
import { engine } from '../../support/engines/engines.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { openTestQueue } from '../../support/queue.ts';

/** A verb of the site, as the command line and the API are asked for it. */
interface Step {
  readonly command: readonly string[];
  /** Method and path below `/api/`. */
  readonly request: string;
  readonly body?: object;
  /** The event and its detail that record it; absent: it changes nothing. */
  readonly told?: string;
  /** Why it is refused. */
  readonly refusal?: string;
  /** Why the API, which is asked for one thing, refuses to end what is not there; the command says nothing. */
  readonly absence?: string;
  /** The key of the command's JSON under which the API's answer stands in a list; absent: both are the same. */
  readonly key?: string;
}

/** Whoever runs the tests: both surfaces change the site in that name. */
const me = userInfo().username;

const incidents = '`npx folder-runner incidents` lists them.';
const acknowledge = { command: ['acknowledge', '1'], request: 'POST incidents/1/acknowledge', key: 'acknowledged' };
const close = { command: ['incidents', 'close', '1'], request: 'POST incidents/1/close', key: 'closed' };

/** Each step finds the log as those before have left it. */
const steps: readonly Step[] = [
  { command: ['pause', 'hourly'], request: 'PUT pauses/hourly', told: 'paused hourly' },
  {
    ...{ command: ['pause', 'hourly', '--for', '2h'], request: 'PUT pauses/hourly', body: { for: '2h' } },
    told: 'paused hourly until 2026-03-10T15:00:00.000Z',
  },
  {
    command: ['pause', 'a', '--for', '1d'],
    request: 'PUT pauses/a',
    body: { for: '1d' },
    told: `paused hourly/a until 2026-03-11T13:00:00.000Z`,
  },
  {
    ...{ command: ['pause', 'mail/*', '--fail'], request: 'PUT pauses/mail/*', body: { fail: true } },
    told: 'paused queue/mail/* fails',
  },
  { command: ['pause'], request: 'PUT pauses/*', told: 'paused *' },
  {
    ...{ command: ['pause', 'hourly/a', '--fail'], request: 'PUT pauses/hourly/a', body: { fail: true } },
    refusal:
      "--fail needs names of jobs of the queue, such as `npx folder-runner pause 'mail/*' --fail`, or " +
      '`npx folder-runner pause queue --fail` for all of them.',
  },
  {
    ...{ command: ['pause', 'mail/[a-m'], request: 'PUT pauses/mail/%5Ba-m' },
    refusal: 'A pattern must be a glob with a ] for each [, and [[] for a [ itself, found "mail/[a-m".',
  },
  {
    ...{ command: ['pause', 'houly'], request: 'PUT pauses/houly' },
    refusal:
      'There is no tier, no script, no handler and no waiting job "houly"; did you mean hourly? ' +
      '`npx folder-runner list` shows them all; use queue/houly for jobs that do not exist yet.',
  },
  { command: ['resume', 'hourly/a'], request: 'DELETE pauses/hourly/a', told: 'resumed hourly/a' },
  {
    ...{ command: ['resume', 'mail/welcome'], request: 'DELETE pauses/mail/welcome' },
    absence: 'queue/mail/welcome has no pause of its own; GET /api/pauses lists them.',
  },
  { command: ['resume', 'mail/*'], request: 'DELETE pauses/mail/*', told: 'resumed queue/mail/*' },
  { command: ['resume', 'hourly'], request: 'DELETE pauses/hourly', told: 'resumed hourly' },
  { command: ['resume'], request: 'DELETE pauses/*', told: 'resumed *' },
  {
    ...{ command: ['resume', 'hourly'], request: 'DELETE pauses/hourly' },
    absence: 'hourly has no pause of its own; GET /api/pauses lists them.',
  },
  {
    ...{ command: ['mute', 'hourly', '--for', '1d'], request: 'PUT mutes/hourly', body: { for: '1d' }, key: 'mutes' },
    told: 'muted hourly until 2026-03-11T13:00:00.000Z',
  },
  { command: ['mute', 'mail/*'], request: 'PUT mutes/mail/*', told: 'muted mail/*', key: 'mutes' },
  {
    ...{ command: ['mute', '[a'], request: 'PUT mutes/%5Ba' },
    refusal: 'The pattern must be a name or a glob with * and ?, such as hourly/import or \'mail/*\', found "[a".',
  },
  {
    ...{ command: ['mute', 'hourli'], request: 'PUT mutes/hourli' },
    refusal:
      'There is no script, handler or tier "hourli"; did you mean hourly? `npx folder-runner list` shows all scripts.',
  },
  { command: ['unmute', 'hourly'], request: 'DELETE mutes/hourly', told: 'unmuted hourly' },
  {
    ...{ command: ['unmute', 'hourly'], request: 'DELETE mutes/hourly' },
    absence: 'There is no mute of hourly; GET /api/mutes lists them.',
  },
  { ...acknowledge, told: 'incident-acknowledged #1 hourly/a' },
  acknowledge,
  {
    ...{ command: ['acknowledge', '2'], request: 'POST incidents/2/acknowledge' },
    refusal: `No open incident has the number 2; ${incidents}`,
  },
  { ...close, told: 'incident-closed #1 hourly/a' },
  { ...close, refusal: `No open incident has the number 1; ${incidents}` },
  { ...acknowledge, refusal: `No open incident has the number 1; ${incidents}` },
];

/** A root with a tier, a handler and an open incident, and its two surfaces. */
async function openSurfaces() {
  const { root, clock } = await openTestQueue();
  for (const folder of ['jobs/hourly', 'jobs/queue/mail']) mkdirSync(join(root, folder), { recursive: true });
  for (const file of ['jobs/hourly/a.sh', 'jobs/queue/mail/welcome.sh']) writeFileSync(join(root, file), 'exit 0\n');
  const columns = 'subject, code, severity, opened_at, last_at';
  changeLog(root, `insert into incidents (${columns}) values ('hourly/a', 'script-failing', 'warning', 1, 1)`);
  const env = { ...process.env, ...engine.environment() };
  const site = openSite({ root, env, version: '0', now: () => clock.at, distFolder: '' });
  onTestFinished(() => site.close());
  const api = createApi(site, { name: me, permission: 'manage' });
  return {
    command: async ({ command, key }: Step) => {
      const place = { cwd: root, env: { ...cronEnv(root), TZ: 'UTC' } };
      const { status, stdout, stderr } = await callAt([...command, '--json'], place, clock.at);
      if (status !== 0) return { answer: null, refusal: stderr.trim().replace(/^runner: /, '') };
      const answer = JSON.parse(stdout);
      return { answer: key === undefined ? answer : answer[key][0] };
    },
    API: async ({ request, body }: Step) => {
      const [method = '', path] = request.split(' ');
      const headers = new Headers(body === undefined ? {} : { 'content-type': 'application/json' });
      const sent = { method, headers, body: body === undefined ? null : JSON.stringify(body) };
      const answered = await api.request(`http://127.0.0.1/api/${path}`, sent);
      const answer = JSON.parse(await answered.text());
      return answered.status === 200 ? { answer } : { answer: null, refusal: answer.detail };
    },
    events: () =>
      queryLog<{ event: string; detail: string; actor: string | null }>(
        root,
        'select event, detail, actor from events order by id',
      ),
    state: () =>
      ['pauses', 'mutes', 'incidents'].map((table) => JSON.stringify(queryLog(root, `select * from ${table}`))),
  };
}

/** The answers, and the log, after each step of a surface. */
const lives: unknown[][] = [];

test.each(['command', 'API'] as const)(
  'by %s, what changes a site answers, records and refuses the same',
  async (surface) => {
    const site = await openSurfaces();
    const life: unknown[] = [];
    let count = site.events().length;
    for (const step of steps) {
      const what = step.command.join(' ');
      const before = site.state();
      const { answer, refusal } = await site[surface](step);
      expect(refusal, what).toBe(step.refusal ?? (surface === 'API' ? step.absence : undefined));
      const told = site.events().slice(count);
      const expected = step.told === undefined ? [] : [[step.told, me]];
      expect(
        told.map(({ event, detail, ...by }) => [`${event} ${detail}`, by.actor]),
        what,
      ).toEqual(expected);
      count += told.length;
      if (step.told === undefined) expect(site.state(), what).toEqual(before);
      else expect(site.state(), what).not.toEqual(before);
      life.push([what, step.absence === undefined ? answer : null, site.state()]);
    }
    lives.push(life);
    expect(life).toEqual(lives[0]);
  },
);

test.each([
  ['pauses', 'pause'],
  ['mutes', 'mute'],
])('the API names the field of a wrong length: %s', async (path, what) => {
  const { API, state } = await openSurfaces();
  const before = state();
  expect(await API({ command: [], request: `PUT ${path}/hourly`, body: { for: 'soon' } })).toEqual({
    answer: null,
    refusal: `The length of the ${what} must be a duration such as 30s, 10m or 2h, found "soon".`,
  });
  expect(state()).toEqual(before);
});
