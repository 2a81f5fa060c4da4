import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { cronPlace, runner, startCommand } from '../../support/command.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';
import { lookAt, openDashboard } from '../../support/web/browser.ts';

/** The page of a run of this Node script, which succeeds. */
async function openRunOf(source: string, query = ''): Promise<Page> {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.mjs': source });
  expect(runner(root, 'hourly').status).toBe(0);
  return await openDashboard(root, `#/runs/1${query}`);
}

test('the output of a running script is followed until the reader scrolls up', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/talk.sh': executable(
      '#!/bin/sh\ni=0; while [ $i -lt 200 ]; do echo "line $i"; i=$((i+1)); done\n' +
        'until [ -e "$RUNNER_ROOT/more" ]; do sleep 0.05; done\necho "and more"\n' +
        'until [ -e "$RUNNER_ROOT/end" ]; do sleep 0.05; done\necho "good bye"\n',
    ),
  });
  const run = startCommand(['--root', root, 'hourly'], cronPlace(root));
  const page = await openDashboard(root, '#/scripts/hourly/talk');
  await page.getByText('line 199').waitFor();
  const box = page.getByRole('region', { name: /Output of run/ });
  const isAtEnd = () => box.evaluate((element) => element.scrollTop + element.clientHeight >= element.scrollHeight - 4);
  expect(await isAtEnd()).toBe(true);
  await lookAt(page, 'live');
  // Whoever has scrolled up reads on in peace.
  await box.evaluate((element) => element.scrollTo(0, 0));
  await page.getByRole('button', { name: 'Follow the output again' }).waitFor();
  writeFileSync(join(root, 'more'), '');
  await page.getByText('and more').waitFor();
  expect(await box.evaluate((element) => element.scrollTop)).toBe(0);
  await page.getByRole('button', { name: 'Follow the output again' }).click();
  await until('it is at its end again', isAtEnd);
  writeFileSync(join(root, 'end'), '');
  await run.ended;
  await page.getByRole('heading', { name: 'Running now' }).waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'Run 1', exact: true }).click();
  await page.getByText('good bye').waitFor();
});

test('a failed run tells why, where, and what differs from the last good one; its output can do no harm', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/import.mjs': `import { existsSync } from 'node:fs';
const esc = String.fromCharCode(27);
for (let line = 1; line < 40; line += 1) console.log('order ' + line + ' imported');
export default () => {
  if (!existsSync('break')) return console.log('all is well');
  console.log('<img src=x onerror="document.title = 1"><script>document.title = 2</script>');
  console.log(esc + ']8;;javascript:alert(1)' + esc + '\\\\a link' + esc + ']8;;' + esc + '\\\\ ' + esc + '[31;1mred' + esc + '[0m ' + esc + '[38;2;10;200;30mgreen' + esc + '[0m' + esc + '[2J');
  throw new TypeError('<b>orders.csv</b> has no line 3');
};
`,
  });
  expect(runner(root, 'hourly').status).toBe(0);
  writeFileSync(join(root, 'break'), '');
  expect(runner(root, 'hourly').status).toBe(1);
  const page = await openDashboard(root, '#/runs/2', { expects: /404/ });
  await page.getByText('TypeError: <b>orders.csv</b> has no line 3').first().waitFor();
  await page
    .locator('.error-stack')
    .getByText(/at .*import\.mjs:8/)
    .waitFor();
  await page.getByText('<script>document.title = 2</script>').waitFor();
  expect(await page.locator('.ansi-red.ansi-bold').innerText()).toBe('red');
  expect(await page.locator('.ansi-mixed').innerText()).toBe('green');
  expect(await page.locator('.output-box').innerText()).toContain('a link red green');
  expect(await page.locator('.output-box :is(img, script), .output-box a:not(.line-number)').count()).toBe(0);
  expect(await page.title()).toMatch(/^hourly\/import #2 failed · /);
  await lookAt(page, 'run');

  // Search goes from match to match.
  await page.getByRole('searchbox', { name: 'Search in the output' }).fill('ORDER 3');
  await page.getByText(/^11 in \d+ lines$/).waitFor();
  await page.keyboard.press('Enter');
  await page.keyboard.press('Enter');
  await page.getByText(/^2 of 11 in \d+ lines$/).waitFor();
  expect(await page.locator('mark.current').innerText()).toBe('order 3');

  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download' }).click();
  expect((await download).suggestedFilename()).toBe('run-2.txt');

  await page.getByRole('button', { name: 'Show what differs' }).click();
  await page.getByText('36 lines that are the same').waitFor();
  expect(page.url()).toContain('#/runs/2?with=1');
  await page.getByText('Both ran the same file.').waitFor();
  await page.getByRole('row', { name: /^Duration \d/ }).waitFor();
  expect(await page.locator('.line-removed').allInnerTexts()).toEqual(['− all is well\n']);
  expect(await page.locator('.line-added').first().innerText()).toContain('+ <img src=x');
  await lookAt(page, 'difference');
  // Any run can be the other one; where there is none, the page says so and stays.
  await page.getByRole('button', { name: 'Show all of its output' }).click();
  await page.getByLabel('Compare with run').fill('99');
  await page.keyboard.press('Enter');
  await page.getByText('There is no run 99').first().waitFor();
  await page.getByText('TypeError: <b>orders.csv</b> has no line 3').first().waitFor();
  await page.getByRole('link', { name: 'Run before it' }).click();
  await page.getByRole('heading', { name: 'Run 1' }).waitFor();
  await page.getByText('all is well').waitFor();
  await page.getByRole('link', { name: 'Run after it' }).waitFor();
});

test('10 MB of output are shown a window at a time, and searched as a whole', async () => {
  const page = await openRunOf(
    '// @max-output 20mb\nconst line = "x".repeat(90);\nlet text = "";\n' +
      'for (let i = 1; i <= 110_000; i += 1) text += `${i} ${line}\\n`;\nprocess.stdout.write(text + "z".repeat(50_000));\n',
  );
  await page.getByText('Lines 1 to 1,000 of').waitFor();
  await page.evaluate(
    'globalThis.longest = 0; new PerformanceObserver((list) => {' +
      'for (const { duration } of list.getEntries()) longest = Math.max(longest, duration);' +
      "}).observe({ type: 'longtask', buffered: true })",
  );
  await page.getByRole('button', { name: 'Last' }).click();
  await page.getByText('109999 ').waitFor();
  await page.locator('main').getByRole('searchbox').fill('77123 ');
  await page.keyboard.press('Enter');
  await page.locator('mark.current').waitFor();
  // Nobody waits for it: not for the page, nor for a match. Longer on a machine that is busy.
  expect(await page.evaluate<number>('longest')).toBeLessThan(2000);
  expect(await page.locator('.output-box div').count()).toBeLessThanOrEqual(1001);
});

test('a line of an output has an address, addresses of the web are links, and a progress bar is one line', async () => {
  const page = await openRunOf(
    `const esc = String.fromCharCode(27);
for (let line = 1; line <= 2999; line += 1) console.log('line ' + line);
for (let part = 0; part <= 100; part += 10) process.stdout.write('\\r' + esc + '[32mprogress ' + part + ' %');
console.log(esc + '[0m');
console.log('see https://example.org/orders?id=7&full=1, or javascript:alert(1), or (http://example.net/a).');
console.log(esc + '[43myellow' + esc + '[0m ' + esc + '[48;5;201mpink' + esc + '[0m ' + esc + '[48;2;1;2;3mdark' + esc + '[0m');
console.log(String.fromCharCode(0x202e) + 'https://example.org/' + String.fromCharCode(0x202e) + 'x');
`,
    '?line=2000',
  );
  const wanted = page.locator('.line-wanted');
  await wanted.getByText('line 2000').waitFor();
  await until('the line is in view', async () => {
    const box = await wanted.boundingBox();
    return box !== null && box.y > 0 && box.y < 900;
  });
  await page.getByRole('button', { name: 'Last' }).click();
  const progress = page.locator('[data-line="3000"]');
  expect(await progress.innerText()).toBe('progress 100 %\n');
  expect(await progress.locator('.ansi-green').innerText()).toBe('progress 100 %');
  const links = page.locator('.output-box a[target=_blank]');
  expect(
    await links.evaluateAll((all) => all.map((each) => `${each.getAttribute('href')} ${each.getAttribute('rel')}`)),
  ).toEqual([
    'https://example.org/orders?id=7&full=1 noopener noreferrer',
    'http://example.net/a noopener noreferrer',
    'https://example.org/ noopener noreferrer',
  ]);
  const grounds = page.locator('[data-line="3002"] span');
  const looks = await grounds.evaluateAll((all) =>
    all.map((each) => (each as unknown as { style: { cssText: string } }).style.cssText),
  );
  expect(looks).toEqual(['--ansi-bg: var(--warning);', '--ansi-bg: rgb(255,0,255);', '--ansi-bg: rgb(1, 2, 3);']);
  // The address follows the line that is clicked, and the match that is gone to.
  await page.locator('[data-line="3001"] .line-number').click();
  await expect.poll(() => page.url()).toContain('#/runs/1?line=3001');
  await page.locator('main').getByRole('searchbox').fill('line 77');
  await page.keyboard.press('Enter');
  await expect.poll(() => page.url()).toContain('line=77');
  await page.getByText('1 of 11 in 3,003 lines').waitFor();
  await page.getByLabel('Wrap lines').uncheck();
  await page.reload();
  expect(await page.getByLabel('Wrap lines').isChecked()).toBe(false);
  await lookAt(page, 'output-lines');
});

test('a gap in an output is marked in its place, and the search says that it did not look there', async () => {
  const page = await openRunOf(
    '// @max-output 1mb\nconst line = "x".repeat(99);\nlet text = "first\\n";\n' +
      'for (let i = 1; i <= 60_000; i += 1) text += `${line}\\n`;\nprocess.stdout.write(text + "THE END\\n");\n',
  );
  await page.getByText(/^[\d,]+ bytes left out/).waitFor();
  await page.getByRole('link', { name: /^at line/ }).click();
  await page
    .locator('.line-wanted')
    .getByText(/bytes left out/)
    .waitFor();
  await page.locator('main').getByRole('searchbox').fill('THE END');
  await page.getByText(/^1 in [\d,]+ lines, not in what is left out$/).waitFor();
  await lookAt(page, 'output-gap');
});
