import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runCommand } from '../support/command.ts';
import { makeExamplePlace, readExamples, repository, writeExampleFile } from '../support/site.ts';
import { livePast, makeExampleSite } from './example-site.ts';
import { drawTerminal, readPicture } from './terminal-picture.ts';

const picture = join(repository, 'docs/images/report.svg');

/** Made anew by `PICTURES=docs/images npx vitest run test/browser/report-picture.test.ts`. */
test('the picture of a report in README.md is what the command prints today', () => {
  const site = makeExamplePlace();
  makeExampleSite(site);
  for (const { file, content } of readExamples('README.md')) {
    if (file?.startsWith('jobs/')) writeExampleFile(site, file, content);
  }
  livePast(site);
  const env = { ...site.env, COLUMNS: '100', FORCE_COLOR: '1' };
  const { status, stdout } = runCommand(['report'], { cwd: site.root, env });
  expect(status).toBe(0);
  const drawn = drawTerminal(stdout, 'runner report: each script with its last run, times, memory and errors');
  if (process.env.PICTURES !== undefined) writeFileSync(picture, drawn);
  expect(wordsOf(readFileSync(picture, 'utf8'))).toEqual(wordsOf(drawn));
});

/** Figures, which of them are known, and how wide columns are for them, differ from run to run; a time has its date unless that is today's. */
function wordsOf(svg: string): string[] {
  const lines = readPicture(svg).map((line) =>
    line
      .replace(/[▁▂▃▄▅▆▇█ ·]+/g, ' ')
      .replace(/\b\d+ [A-Z][a-z]{2} +(?=\d)/g, '')
      .replace(/\S*\d\S*|–/g, '0')
      .trim(),
  );
  expect(lines.length).toBeGreaterThan(5);
  return lines;
}
