import { appendFileSync, readdirSync, renameSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cronPlace, runner, startCommand } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';
import { startDashboard } from '../../support/web/dashboard.ts';

const SECRET = 'open-sesame-1001';

/** Writes what is in its environment, then the word from the file that lets it go on. */
const script = `echo "first $API_TOKEN"
while ! [ -e "$RUNNER_ROOT/go" ]; do sleep 0.02; done
cat "$RUNNER_ROOT/go"
`;

async function openFollowed(env: Readonly<Record<string, string>>) {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': script,
    'runner.config.mjs': `export default ${JSON.stringify({ env })}`,
  });
  const pass = startCommand(['--root', root, 'hourly'], cronPlace(root));
  const { url } = await startDashboard(root);
  const ask = async (from?: number) => {
    const response = await fetch(`${url}api/runs/1/output${from === undefined ? '' : `?from=${from}`}`);
    const { headers, status } = response;
    const flag = (name: string) => headers.get(name) === 'true';
    const next = Number(headers.get('x-next'));
    return { status, text: await response.text(), next, isAnew: flag('x-anew'), isOver: flag('x-over') };
  };
  await until('its first line is there', async () => (await ask(0)).text.includes('first'));
  const letGo = async (word: string) => {
    // Whole as soon as it is there: who waits for it reads it once.
    writeFileSync(join(root, 'go.new'), word);
    renameSync(join(root, 'go.new'), join(root, 'go'));
    await pass.ended;
  };
  return { root, ask, letGo };
}

test('a run is followed byte by byte to its end', async () => {
  const { ask, letGo } = await openFollowed({ API_TOKEN: 'none' });
  const first = await ask(0);
  expect(first).toMatchObject({ text: 'first none\n', isAnew: true, isOver: false });
  expect(await ask(first.next)).toMatchObject({ text: '', next: first.next, isAnew: false, isOver: false });
  await letGo('läst\n');
  const last = await ask(first.next);
  expect(last).toMatchObject({ text: 'läst\n', isAnew: false, isOver: true });
  expect(await ask(last.next)).toMatchObject({ text: '', next: last.next, isOver: true });
  expect(await ask()).toMatchObject({ text: 'first none\nläst\n', status: 200 });
});

test('secrets are masked while it runs; masked in the end, its output is told anew', async () => {
  const { ask, letGo } = await openFollowed({ API_TOKEN: SECRET });
  const first = await ask(0);
  expect(first.text).toBe('first [API_TOKEN]\n');
  // What was written counts, not what is shown.
  expect(first.next).toBe(`first ${SECRET}\n`.length);
  await letGo(`again ${SECRET}`);
  const whole = { text: 'first [API_TOKEN]\nagain [API_TOKEN]', isAnew: true, isOver: true };
  expect(await ask(first.next)).toMatchObject(whole);
  expect((await ask()).text).toBe(whole.text);
});

test('what was cut, or is long, is told anew: head and tail of it', async () => {
  const { root, ask, letGo } = await openFollowed({ API_TOKEN: 'none' });
  const folder = join(root, '.runner/output');
  const file = join(folder, readdirSync(folder)[0] as string);
  const { next } = await ask(0);
  // The beginning of a secret might stand in a line without an end, which is shown after a second.
  const askUntilMore = async (from: number): ReturnType<typeof ask> => {
    let answer = await ask(from);
    await until('more is shown', async () => {
      answer = await ask(from);
      return answer.text !== '';
    });
    return answer;
  };
  appendFileSync(file, Buffer.from([...Buffer.from('ä'), 0xc3]));
  // Half a character is not a character yet.
  const half = await askUntilMore(next);
  expect(half).toMatchObject({ text: 'ä', next: next + 2 });
  appendFileSync(file, Buffer.from([0xa4]));
  expect((await askUntilMore(half.next)).text).toBe('ä');
  appendFileSync(file, `${'x'.repeat(99)}\n`.repeat(20_000));
  const long = await ask(half.next);
  expect(long).toMatchObject({ isAnew: true, isOver: false });
  expect(long.text).toMatch(/^first none\n[\s\S]*\n\[… \d+ bytes left out …\]\n[\s\S]*x\n$/);
  expect(long.text.length).toBeLessThan(600_000);
  truncateSync(file, 5);
  expect(await askUntilMore(long.next)).toMatchObject({ text: 'first', isAnew: true, next: 5 });
  await letGo('');
});

test('a run that there is not, and a byte that is none, are told', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n' });
  runner(root, 'hourly');
  const { url } = await startDashboard(root);
  expect((await fetch(`${url}api/runs/7/output?from=0`)).status).toBe(404);
  expect((await fetch(`${url}api/runs/1/output?from=-1`)).status).toBe(400);
  expect(await (await fetch(`${url}api/runs/1/output?from=0`)).text()).toBe('');
});
