import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { callCommand } from '../support/command.ts';
import { listFaultPoints, runWithFault } from '../support/faults/faults.ts';
import { sample } from '../support/faults/rounds.ts';
import { type FakeCrontab, makeFakeCrontab, makeTemporaryRoot } from '../support/root.ts';

/* Whenever an import of a crontab is killed, each command is run by its old line or by its script: never by both. */

const LINES = ['*/15 * * * * date >> dates', '0 7 * * 1 uname -a'] as const;
const scripts = ['jobs/15min/date.sh', 'jobs/15min/uname.sh'];

interface Place {
  readonly root: string;
  readonly crontab: FakeCrontab;
  readonly before: Buffer;
  readonly call: (...args: readonly string[]) => ReturnType<typeof callCommand>;
}

/** Its tier is called by the crontab already: whatever lies in there is run by the next pass. */
async function makePlace(): Promise<Place> {
  const crontab = makeFakeCrontab();
  // What scripts write at home is to stay in the test.
  const settings = JSON.stringify({ env: { HOME: crontab.env.HOME } });
  const root = makeTemporaryRoot({ 'jobs/15min/own.sh': 'true\n', 'runner.config.json': settings });
  const call = (...args: readonly string[]) => callCommand(args, { cwd: root, env: crontab.env });
  crontab.write(`MAILTO=me\n${LINES.join('\n')}\n`);
  await call('cron', '--install');
  return { root, crontab, before: crontab.read() as Buffer, call };
}

/** By which each command is run if a pass begins now: "line", "script", "both" or "nothing". */
function runBy({ root, crontab }: Place): string[] {
  const lines = (crontab.read()?.toString() ?? '').split('\n');
  return LINES.map((line, index) => {
    const isScript = existsSync(join(root, scripts[index] as string));
    if (lines.includes(line)) return isScript ? 'both' : 'line';
    return isScript ? 'script' : 'nothing';
  });
}

const steps = { apply: ['cron', '--import', '--apply'], undo: ['cron', '--undo'] } as const;

async function prepare(kind: keyof typeof steps): Promise<Place> {
  const place = await makePlace();
  if (kind === 'undo') await place.call(...steps.apply);
  return place;
}

test.each(['apply', 'undo'] as const)(
  'killed at each step of %s, no command is run twice or not at all',
  async (kind) => {
    const traced = await prepare(kind);
    const points = await listFaultPoints(traced.root, steps[kind], { env: traced.crontab.env });
    expect(runBy(traced)).toEqual(kind === 'apply' ? ['script', 'script'] : ['line', 'line']);
    const seen = new Set<string>();
    for (const at of sample(points.flatMap((point) => [`before ${point}`, `after ${point}`]))) {
      const place = await prepare(kind);
      const { status } = await runWithFault(place.root, steps[kind], { at, env: place.crontab.env });
      expect({ at, status }).toEqual({ at, status: null });

      // What a pass would find; it settles what is left before it runs anything.
      await expectPassToRun(place, at);
      const by = runBy(place);
      expect({ at, by }).toEqual({ at, by: expect.toSatisfy(isOneOf(['line', 'line'], ['script', 'script'])) });
      seen.add(by[0] as string);

      await place.call(...steps.apply);
      expect({ at, by: runBy(place) }).toEqual({ at, by: ['script', 'script'] });
      await place.call(...steps.undo);
      expect({ at, by: runBy(place), left: existsSync(join(place.root, '.runner/unsettled-import')) }).toEqual({
        at,
        by: ['line', 'line'],
        left: false,
      });
      expect(place.crontab.read(), at).toEqual(place.before);
    }
    expect(seen.size).toBeGreaterThan(0);
  },
  600_000,
);

const isOneOf =
  (...answers: readonly (readonly string[])[]) =>
  (found: unknown) =>
    answers.some((answer) => JSON.stringify(answer) === JSON.stringify(found));

/** A pass as cron would call it once the next time has come: for the last one, the line has run. */
async function expectPassToRun(place: Place, at: string): Promise<void> {
  const fault = { env: place.crontab.env, clockMs: 16 * 60_000 };
  const { status, stderr } = await runWithFault(place.root, ['15min'], fault);
  expect({ at, status, stderr }).toEqual({ at, status: 0, stderr: '' });
  const dates = join(place.crontab.env.HOME as string, 'dates');
  const hasRun = existsSync(dates) && readFileSync(dates, 'utf8') !== '';
  expect({ at, hasRun }).toEqual({ at, hasRun: runBy(place)[0] === 'script' });
}
