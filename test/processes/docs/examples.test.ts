import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { globSync } from 'glob';
import { describe, expect, onTestFinished, test } from 'vitest';
import { cronPlace, runCommand } from '../../support/command.ts';
import { startOwnPostgres } from '../../support/engines/own-server.ts';
import { makeTemplate } from '../../support/root.ts';
import {
  type Example,
  type ExamplePlace,
  makeExamplePlace,
  readExamples,
  repository,
  runExample,
  writeExampleFile,
} from '../../support/site.ts';
import { bringForeignFiles } from './foreign-files.ts';

const pages = globSync(['README.md', 'bench/README.md', 'docs/**/*.md'], { cwd: repository }).sort();

/** Examples that no test can run here, by their first line, and what else sees to them. */
const runElsewhere: Readonly<Record<string, string>> = {
  'npm install && npm start': '.ci/run, on a fresh clone',
  'npm install && npm test': '.ci/run, on a fresh clone',
  'npm run bench -- tiers': 'takes minutes: bench/ is run by hand',
  'env -i HOME="$HOME" LOGNAME="$LOGNAME" SHELL=/bin/sh PATH=/usr/bin:/bin \\':
    'a form to be filled in; test/processes/hosting/cron-command.test.ts runs a line in cron’s environment',
  'npx folder-runner stop hourly/import    # the run of this script that goes on, or the number of a run':
    'test/processes/worker/stop-run.test.ts, while a run goes on',
  "npx folder-runner kick 'mail/*' --since today --dry-run":
    'test/engines/cli/jobs.test.ts, with jobs that have failed',
};

const isRunHere = (example: Example): boolean => !(firstLine(example) in runElsewhere);
/** What begins with `#!` is a file that the page gives no name. */
const isCommands = ({ language, file, content }: Example): boolean =>
  language === 'sh' && file === null && !content.startsWith('#!');
const firstLine = ({ content }: Example): string => content.split('\n', 1)[0]?.trim() ?? '';

/** types.test.ts checks TypeScript, test/command/store/activity-log-page.test.ts runs the queries. */
const isTried = (example: Example): boolean =>
  example.file !== null || isCommands(example) || example.language === 'json';
const otherPages = pages.filter((page) => {
  return page !== 'README.md' && readExamples(page).some((example) => isTried(example));
});

describe('The examples of', () => {
  test.each(otherPages)(
    '%s do what the page says',
    async (page) => {
      const place = makeExamplePlace();
      const examples = await withDatabase(readExamples(page));
      if (!examples.some(isScript) || page === 'docs/database.md') copyNewRoot(place.root);
      bringForeignFiles(page, place);
      tryExamples(place, examples);
    },
    180_000,
  );

  test('README.md lead from nothing to the mail that it shows', () => {
    const { env } = makeExamplePlace();
    const home = env.HOME as string;
    bringNpm(home);
    const [install, fail, ...rest] = readExamples('README.md').filter(isCommands) as [Example, Example, ...Example[]];
    // The home is no `~` there: the system knows another one of the user's.
    const lines = install.shown?.replaceAll('/home/me/', '/home/me/site/').replaceAll('~', '/home/me/site') ?? null;
    runExample({ root: home, env }, { ...install, shown: lines });
    const place = { root: join(home, 'runner'), env };
    runExample(place, fail);
    const { content, ...mail } = readExamples('README.md').find(({ content }) => /^Subject: /.test(content)) as Example;
    const [, call = '', body = ''] = /^Subject: Cron <\S+> (.+)\n\n([\s\S]+)$/.exec(content) ?? [];
    const shown = body.replaceAll('/home/me/runner', '/home/me/site');
    runExample(place, { ...mail, content: `${call.replace('/home/me', '~')} # exits 1`, shown });
    expect(rest.filter(isRunHere)).toEqual([]);
  });

  test('all pages are run, but for those that something else runs', () => {
    const examples = pages.flatMap(readExamples);
    const shells = examples.filter(({ language }) => /^(?:bash|console|shell|zsh)$/.test(language));
    expect(
      shells.map(({ place }) => place),
      'commands that are not marked as sh',
    ).toEqual([]);
    const lines = examples.filter(isCommands).map(firstLine);
    expect(lines).toEqual(expect.arrayContaining(Object.keys(runElsewhere)));
  });
});

/** Installs what was built. test/integration/first-hour.test.ts and .ci/run have the packed tarball. */
function bringNpm(home: string): void {
  const link = `mkdir node_modules && ln -s '${repository}' node_modules/folder-runner`;
  const npm = `#!/bin/sh\ntest "$*" = 'install folder-runner' && ${link} && echo 'added 3 packages in 4s'\n`;
  writeFileSync(join(home, 'bin/npm'), npm, { mode: 0o755 });
}

/** What pages call their database. */
const DATABASE = 'postgres://fleet:a-long-password@db.example.com/fleet';

/** Examples that use a database get one for themselves. */
async function withDatabase(examples: readonly Example[]): Promise<readonly Example[]> {
  if (!examples.some(({ language, content }) => language === 'sh' && content.includes(DATABASE))) return examples;
  const server = await startOwnPostgres();
  onTestFinished(() => server.stop());
  return examples.map((each) => ({ ...each, content: each.content.replaceAll(DATABASE, server.url()) }));
}

/** A page that brings no scripts is for a reader who has called `runner init`, and runs a tier. */
const copyNewRoot = makeTemplate({}, (root) => {
  rmSync(join(root, 'jobs'), { recursive: true });
  for (const args of [['init'], ['hourly']]) {
    expect(runCommand(args, { ...cronPlace(root), cwd: root })).toMatchObject({ status: 0, stderr: '' });
  }
});

function isScript({ file }: Example): boolean {
  return file?.startsWith('jobs/') === true;
}

function tryExamples(place: ExamplePlace, examples: readonly Example[]): void {
  examples.forEach((example, index) => {
    tryExample(place, example, examples.slice(index + 1));
  });
}

function tryExample(place: ExamplePlace, example: Example, later: readonly Example[]): void {
  if (example.file !== null) {
    writeExampleFile(place, example.file, example.content);
    if (isRightConfig(example, later)) expectLoadable(place, example);
  } else if (isCommands(example) && isRunHere(example)) {
    runExample(place, example);
  } else if (example.language === 'json') {
    expect(() => JSON.parse(example.content), example.place).not.toThrow();
  }
}

/** What a wrong one prints stands in the example after it. */
function isRightConfig({ file }: Example, later: readonly Example[]): boolean {
  const next = later.find(isCommands);
  return file?.startsWith('runner.config.') === true && !next?.content.includes('# exits 2');
}

function expectLoadable({ root, env }: ExamplePlace, { place }: Example): void {
  const { status, stderr } = runCommand(['list'], { cwd: root, env });
  expect({ place, status, stderr }).toEqual({ place, status: 0, stderr: '' });
}
