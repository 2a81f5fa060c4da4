import { existsSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { callCommand, commandPath } from '../../support/command.ts';
import { makeFakeCrontab, makeTemporaryRoot, writeFiles } from '../../support/root.ts';
import { writeLog } from '../../support/written-log.ts';
import { type CheckedStatus, check, look, makeCalledRoot, usual } from './doctor-place.ts';

const node = process.execPath;
const INSTALL = 'Run `npx folder-runner cron --install` to write them.';
const HOUR_MS = 3_600_000;

/** A root with this crontab. */
function makeRootWith(lines: (root: string) => string) {
  const root = makeTemporaryRoot(usual);
  const crontab = makeFakeCrontab();
  crontab.write(lines(root));
  return { root, env: crontab.env };
}

test('installed lines are found and really tried', async () => {
  const { root, env } = await makeCalledRoot();
  expect(await check(root, env, 'crontab')).toEqual([
    { status: 'ok', found: 'line 3, hourly: works in cron’s bare environment', cure: null },
    { status: 'ok', found: 'line 4, daily: works in cron’s bare environment', cure: null },
  ]);
  expect(existsSync(join(root, 'was-run'))).toBe(false);
});

test('a TZ above the lines is noted, as it changes no time', async () => {
  const { root, env, crontab } = await makeCalledRoot();
  crontab.write(`TZ=Asia/Kathmandu\n${crontab.read()}`);
  expect(await check(root, env, 'crontab', 'note')).toEqual([
    {
      status: 'note',
      found: expect.stringMatching(
        /^TZ=Asia\/Kathmandu stands above line 4 and changes no time: all times are in \S+$/,
      ),
      cure: 'Remove it; `timezone` in the settings chooses another zone.',
    },
  ]);
});

test('a variable of the crontab that a script reads, and does not get, is named with its cure', async () => {
  const { root, env, crontab } = await makeCalledRoot({
    'jobs/hourly/reads.sh': 'echo "$SHOP"\n',
    'jobs/hourly/asks.sh': '# @env SHOP\necho "$SHOP"\n',
    'jobs/hourly/sets.sh': 'SHOP=/srv\necho "$SHOP"\n',
    'jobs/hourly/node.mjs': "console.log(process.env.SHOP, 'SHOPS');\n",
    'jobs/hourly/other.sh': 'echo SHOP $HOME\n',
    'jobs/hourly/unset.sh': '# @env TOKEN\necho "$TOKEN $SHOPS"\n',
    'jobs/queue/handler.py': 'import os\nprint(os.environ["SHOP"])\n',
  });
  crontab.write(`SHOP=/srv/shop\n${crontab.read()}`);
  const withheld = (name: string) => ({
    status: 'warning',
    found: `${name} reads SHOP, which the crontab sets and scripts do not get`,
    cure: 'Add the comment `# @env SHOP` to the script, or write the value into .env.',
  });
  const unset = (names: string, values: string) => ({
    status: 'warning',
    found: `hourly/unset reads ${names}, which nothing sets`,
    cure: `Write the ${values} into .env.`,
  });
  expect(await check(root, env, 'jobs', 'warning')).toEqual([
    ...[withheld('hourly/node'), withheld('hourly/reads'), unset('TOKEN, SHOPS', 'values')],
    withheld('queue/handler'),
  ]);
  writeFiles(root, { '.env': { content: 'SHOP=/srv\nTOKEN=x\n', mode: 0o600 } });
  expect(await check(root, env, 'jobs', 'warning')).toEqual([unset('SHOPS', 'value')]);
});

test('without any line the tiers that nothing calls are named', async () => {
  const root = makeTemporaryRoot(usual);
  expect(await check(root, makeFakeCrontab().env, 'crontab')).toEqual([
    { status: 'problem', found: 'no line calls hourly (1 script), daily (1 script)', cure: INSTALL },
  ]);
});

test('a line that is missing is told of its tier', async () => {
  const root = makeTemporaryRoot(usual);
  const { env } = makeFakeCrontab();
  await callCommand(['cron', '--install', '--tiers', 'daily'], { cwd: root, env });
  expect(await check(root, env, 'crontab', 'problem')).toMatchObject([
    {
      found: 'no line calls hourly (1 script), as --tiers daily was chosen',
      cure: 'Run `npx folder-runner cron --install --tiers all`, which writes a line for each tier.',
    },
  ]);
});

test('tiers without a line that something calls all the same are only noted', async () => {
  const root = makeTemporaryRoot(usual);
  const log = await writeLog(root);
  await log.addPass('hourly', Date.now() - HOUR_MS);
  await log.addPass('daily', Date.now() - 20 * HOUR_MS);
  expect(await check(root, makeFakeCrontab().env, 'crontab')).toMatchObject([
    {
      status: 'note',
      found: expect.stringMatching(/^no line calls .* now, but they ran recently without a terminal$/),
    },
  ]);
});

test('a tier that was not called for more than two periods is a problem', async () => {
  const { root, env } = await makeCalledRoot();
  const log = await writeLog(root);
  await log.addPass('hourly', Date.now() - 3 * HOUR_MS);
  await log.addPass('daily', Date.now() - 20 * HOUR_MS);
  expect(await check(root, env, 'calls')).toEqual([
    {
      status: 'problem',
      found: expect.stringMatching(/^hourly was last called 3h(?: \d+s)? ago, and should be every 1h$/),
      cure: 'If its crontab line works, ask the host whether cron runs for you, or was switched off.',
    },
    { status: 'ok', found: expect.stringMatching(/^daily was called 20h(?: \d+s)? ago$/), cure: null },
  ]);
});

test('one line with `npx folder-runner due` calls all tiers; whether its own times are meant, its writer knows', async () => {
  const { root, env } = makeRootWith(
    (folder) => `0 4 * * 1 ${node} ${commandPath} --root ${folder} due --budget 55s\n`,
  );
  const log = await writeLog(root);
  await log.addPass('hourly', Date.now() - 10 * 24 * HOUR_MS);
  await log.addPass('daily', Date.now() - HOUR_MS);
  const found = await look(root, env, 'crontab', 'calls');
  expect(found.of('crontab')).toMatchObject([{ status: 'ok', found: 'line 1, due: works in cron’s bare environment' }]);
  expect(found.of('calls')).toEqual([
    {
      status: 'note',
      found: expect.stringMatching(/^hourly was last called 10d .*ago, and should be every 1h$/),
      cure: 'If its crontab line has other times than you want, correct them.',
    },
    { status: 'ok', found: expect.stringMatching(/^daily was called 1h /), cure: null },
  ]);
});

test('times that somebody has given to a line are theirs; those of `due` go by the tiers', async () => {
  const { root, crontab, env } = await makeCalledRoot();
  const { env: ofDue, ...due } = makeFakeCrontab();
  crontab.write(String(crontab.read()).replace(/^\d+ \* \* \* \* /m, '0 5 * * * '));
  expect(await check(root, env, 'crontab', 'note')).toEqual([]);
  await callCommand(['cron', '--install', '--due', '--budget', '55s'], { cwd: root, env: ofDue });
  due.write(String(due.read()).replace(/^\d+ \* \* \* \* /m, '0 5 * * * '));
  expect(await check(root, ofDue, 'crontab')).toEqual([
    {
      status: 'note',
      found: 'line 3 of the marked block is not what `npx folder-runner cron` would write now',
      cure: INSTALL,
    },
    { status: 'ok', found: 'line 3, due: works in cron’s bare environment', cure: null },
  ]);
});

test('long lines of an earlier version work, and are named', async () => {
  const { root, env } = makeRootWith((folder) => {
    const lines = ['hourly', 'daily'].map((tier) => `7 4 * * * ${node} ${commandPath} --root ${folder} ${tier}\n`);
    return `# BEGIN folder-runner ${folder}\n${lines.join('')}# END folder-runner ${folder}\n`;
  });
  expect(await check(root, env, 'crontab')).toEqual([
    { status: 'note', found: 'line 2, 3 of the marked block were written by an earlier version', cure: INSTALL },
    ...['2, hourly', '3, daily'].map((line) => ({
      status: 'ok',
      found: `line ${line}: works in cron’s bare environment`,
      cure: null,
    })),
  ]);
});

test('a package, or a script of the lines, that went away is found by trying the line', async () => {
  const { root, env } = await makeCalledRoot();
  const script = join(env.HOME as string, '.folder-runner');
  const problems = (reason: string) =>
    ['line 3, hourly', 'line 4, daily'].map((line) => ({
      status: 'problem',
      found: expect.stringMatching(`^${line}: does not work in cron’s bare environment: .*${reason}`),
      cure: INSTALL,
    }));
  writeFileSync(join(script, 'roots', root, 'paths'), `${node}\n/nowhere/dist/bin.cjs\n`);
  expect(await check(root, env, 'crontab', 'problem')).toEqual(problems('its package is missing'));
  renameSync(join(script, 'cron'), join(script, 'gone'));
  expect(await check(root, env, 'crontab', 'problem')).toEqual(problems('/cron is not there'));
});

test('programs of others are never started, whatever words they are called with', async () => {
  const folder = makeTemporaryRoot({});
  const program = '#!/bin/sh\ntouch "$(dirname "$0")/was-run"\n';
  for (const name of ['cleanup', 'runner', 'bin.cjs', 'npx', 'node.sh']) {
    writeFileSync(join(folder, name), program, { mode: 0o755 });
  }
  const lines = [
    'cd $SITE && ./cleanup bin.cjs hourly',
    'cd $SITE && ./cleanup folder-runner --root $SITE hourly',
    './node.sh bin.cjs --root $ROOT hourly',
    '$SITE/bin.cjs --root $ROOT hourly',
    'cd $SITE && ./runner --root $ROOT hourly',
    'cd $SITE && nice ./runner --root $ROOT hourly',
    `${node} $SITE/bin.cjs --root $ROOT hourly`,
    '$SITE/npx folder-runner --root $ROOT hourly',
    'sh $SITE/.folder-runner/cron hourly $ROOT',
  ];
  mkdirSync(join(folder, '.folder-runner'));
  writeFileSync(join(folder, '.folder-runner/cron'), program);
  const { root, env } = makeRootWith(
    (each) => `SITE=${folder}\nROOT=${each}\n${lines.map((line) => `5 * * * * ${line}\n`).join('')}`,
  );
  await look(root, env, 'crontab');
  expect(existsSync(join(folder, 'was-run'))).toBe(false);
  expect(existsSync(join(folder, '.folder-runner/was-run'))).toBe(false);
});

test('a command that went away is told by the first line of its error', async () => {
  const { root, env } = makeRootWith((folder) => `5 * * * * ${node} /nowhere/dist/bin.cjs --root ${folder} hourly\n`);
  expect((await check(root, env, 'crontab', 'problem')).at(-1)).toEqual({
    status: 'problem',
    found: expect.stringMatching(/^line 1, hourly: does not work .*: \/nowhere\/dist\/bin\.cjs: not found$/),
    cure: 'Correct line 1 with `crontab -e`, or delete it and run `npx folder-runner cron --install`.',
  });
});

test('a line that finds Node by its PATH is tried with cron’s, and with what the crontab sets', async () => {
  const folder = join(node, '..');
  const call = (root: string) => `5 * * * * cd ${root} && node ${commandPath} hourly >/dev/null 2>&1\n`;
  const set = makeRootWith((root) => `PATH="${folder}:/usr/bin:/bin"\n${call(root)}`);
  expect(await check(set.root, set.env, 'crontab', 'ok')).toMatchObject([
    { found: 'line 2, hourly: works in cron’s bare environment' },
  ]);
  const unset = makeRootWith((root) => `PATH=/nowhere\n${call(root)}`);
  expect(await check(unset.root, unset.env, 'crontab', 'problem')).toMatchObject([
    { found: 'no line calls daily (1 script)' },
    { found: expect.stringMatching(/line 2, hourly: .*node: not found/) },
  ]);
});

test('what else stands in a line is not done', async () => {
  const { root, env } = makeRootWith(
    (folder) =>
      `5 * * * * touch ${folder}/before; nice -n 5 ${node} ${commandPath} --root '${folder}' hourly >${folder}/out 2>&1 && touch ${folder}/after\n`,
  );
  expect(await check(root, env, 'crontab', 'ok')).toHaveLength(1);
  for (const name of ['before', 'out', 'after', 'was-run']) {
    expect(existsSync(join(root, name)), name).toBe(false);
  }
});

test('lines with a sieve, quotes and an escaped % are read as cron reads them', async () => {
  const root = join(makeTemporaryRoot({ "it's 100%/jobs/3days/a.mjs": '' }), "it's 100%");
  const { env } = makeFakeCrontab();
  await callCommand(['cron', '--install'], { cwd: root, env: { ...env, TZ: process.env.TZ } });
  expect(await check(root, env, 'crontab')).toMatchObject([
    { status: 'ok', found: 'line 3, 3days: works in cron’s bare environment' },
  ]);
});

test('a root that a symlink leads to is the same one', async () => {
  const { root, env } = makeRootWith((folder) => {
    symlinkSync('.', join(folder, 'link'));
    return `5 * * * * ${node} ${commandPath} --root ${folder}/link due\n`;
  });
  expect(await check(root, env, 'crontab', 'ok')).toHaveLength(1);
});

test.each([
  ['a % that cron takes for the end', (line: string) => `${line} 2>>log-$(date +%F)\n`, /has a % without/],
  ['the line end of Windows', (line: string) => `${line}\r\n`, /ends in a carriage return/],
  ['no newline at the end', (line: string) => line, /has no newline at its end/],
])('%s is a problem', async (_, write, sentence) => {
  const { root, env } = makeRootWith((folder) => write(`5 * * * * ${node} ${commandPath} --root ${folder} due`));
  expect(await check(root, env, 'crontab', 'problem')).toEqual([
    {
      status: 'problem',
      found: expect.stringMatching(sentence),
      cure: expect.stringMatching(/^Correct line 1 with `crontab -e`/),
    },
  ]);
});

test('a line is read by its own shell, with the variables that cron knows', async () => {
  const { root, env } = makeRootWith(
    (folder) =>
      `NODE=${node}\nSITE = "${folder}"\n` +
      `5 * * * * RUNNER_ROOT="$SITE" "$NODE" ${commandPath} hourly 2>/dev/null\n` +
      '6 * * * * cd $SITE/jobs && nice $NODE ../dist/bin.cjs daily; echo done\n' +
      `7 * * * * $NODE_24 ${commandPath} --root $SITE due\n`,
  );
  symlinkSync(join(commandPath, '..'), join(root, 'dist'));
  const found = await look(root, env, 'crontab');
  expect(found.of('crontab', 'ok')).toMatchObject([
    { found: 'line 3, hourly: works in cron’s bare environment' },
    { found: 'line 4, daily: works in cron’s bare environment' },
  ]);
  expect(found.of('crontab', 'problem')).toMatchObject([
    { found: expect.stringMatching(/^line 5, due: does not work/) },
  ]);
});

test('lines whose words only another command could tell are not tried', async () => {
  const { root, env } = makeRootWith(
    (folder) =>
      `5 * * * * $(touch ${folder}/before; which node) ${commandPath} --root ${folder} due\n` +
      `6 * * * * cd ${folder} && ${node} ${commandPath} --root $(touch before; pwd) due; cd /gone\n`,
  );
  expect(await check(root, env, 'crontab')).toEqual(
    ['line 1, due', 'line 2, without a tier'].map((line) => ({
      status: 'note',
      found: `${line}: not tried, because it contains shell commands`,
      cure: 'Write full paths into it.',
    })),
  );
  expect(existsSync(join(root, 'before'))).toBe(false);
});

test('a line that its shell cannot read is a problem', async () => {
  const { root, env } = makeRootWith((folder) => `5 * * * * cd ${folder}/gone && ${node} ${commandPath} due\n`);
  expect((await check(root, env, 'crontab', 'problem')).at(-1)).toMatchObject({
    found: expect.stringMatching(/^line 1, due: the shell cannot read it: .*gone/),
    cure: expect.stringMatching(/^Correct line 1/),
  });
});

test('lines of other roots are left alone, those of a root that is gone are told', async () => {
  const { root, env } = await makeCalledRoot();
  const other = makeRootWith(
    (folder) =>
      `5 * * * * ${node} ${commandPath} --root ${root} due\n` +
      `6 * * * * ${node} ${commandPath} --root ${folder} due\n` +
      `7 * * * * ${node} ${commandPath} --root /gone/site hourly\n`,
  );
  expect(await check(root, env, 'crontab', 'warning')).toEqual([]);
  expect(await check(other.root, other.env, 'crontab')).toEqual([
    {
      status: 'warning',
      found: 'line 3 calls the root /gone/site, which has no jobs folder',
      cure: expect.stringMatching(/^Remove it with `crontab -e`/),
    },
    { status: 'ok', found: 'line 2, due: works in cron’s bare environment', cure: null },
  ]);
});

test('a tier whose folder went away is a problem, one that is called twice a warning', async () => {
  const { root, crontab, env } = await makeCalledRoot();
  renameSync(join(root, 'jobs/daily'), join(root, 'jobs/nightly'));
  crontab.write(`${crontab.read()}9 * * * * ${node} ${commandPath} --root ${root} hourly\n`);
  const found = await look(root, env, 'crontab');
  expect(found.of('crontab', 'problem')).toEqual([
    {
      status: 'problem',
      found: `line 4, daily: the command refuses it: There is no tier "daily" in ${root}/jobs; the tiers here are hourly, nightly; did you mean \`npx folder-runner tail\`?`,
      cure: INSTALL,
    },
  ]);
  expect(found.of('crontab', 'warning')).toEqual([
    { status: 'warning', found: 'hourly is called by the lines 3, 6', cure: 'Remove all but one with `crontab -e`.' },
  ]);
});

test('lines that work off the queue are tried as any other, and may be several', async () => {
  const { root, crontab, env } = await makeCalledRoot();
  await callCommand(['cron', '--install', '--work'], { cwd: root, env });
  const more = `${node} ${commandPath} --root ${root} work 'mail/*' --for 14m`;
  crontab.write(`${crontab.read()}*/15 * * * * ${more}\n`);
  const works = 'works in cron’s bare environment';
  expect(await check(root, env, 'crontab')).toEqual(
    ['3, hourly', '4, daily', '5, work', '7, work'].map((line) => ({
      status: 'ok',
      found: `line ${line}: ${works}`,
      cure: null,
    })),
  );
});

test('a queue that no line serves is noted', async () => {
  const root = makeTemporaryRoot({ 'jobs/queue/a.mjs': '' });
  const { env } = makeFakeCrontab();
  expect(await check(root, env, 'crontab')).toEqual([
    {
      status: 'note',
      found: 'no line processes the queue (1 handler)',
      cure: 'Run `npx folder-runner cron --install --work`, which writes one.',
    },
  ]);
  await callCommand(['cron', '--install', '--work'], { cwd: root, env });
  expect(await check(root, env, 'crontab')).toMatchObject([
    { status: 'ok', found: 'line 3, work: works in cron’s bare environment' },
  ]);
});

/** What is found out about lines with these words, or at these times. */
async function judgeLines(lines: readonly string[], status: CheckedStatus) {
  const { root, env } = makeRootWith((folder) =>
    lines
      .map((line) => line.replace('RUNNER', `${node} ${commandPath} --root ${folder}`))
      .map((line) => `${line}\n`)
      .join(''),
  );
  const found = await check(root, env, 'crontab', status);
  expect(existsSync(join(root, 'was-run'))).toBe(false);
  expect(existsSync(join(root, '.runner'))).toBe(false);
  return { root, found: found.map((each) => each.found).filter((line) => line.startsWith('line ')) };
}

test('arguments that the command refuses are problems, and nothing is run to find out', async () => {
  const { root, found } = await judgeLines(
    [
      '0 * * * * RUNNER hurly',
      '0 * * * * RUNNER dues',
      '0 * * * * RUNNER due --buget 5s',
      '0 * * * * RUNNER due --budget soon',
      '0 * * * * RUNNER hourly daily',
      '0 * * * * RUNNER queue',
      '0 * * * * RUNNER work --for ever',
      '0 * * * * RUNNER work --max-job 5',
      '0 * * * * RUNNER run hourly/b',
      '0 * * * * RUNNER backup',
      '0 * * * * RUNNER run hourly/a',
      "0 * * * * RUNNER work 'mail/*' --for 14m --concurrency 2",
      '0 * * * * RUNNER report --help',
    ],
    'problem',
  );
  const refuses = 'the command refuses it';
  expect(found).toEqual([
    `line 1, hurly: ${refuses}: There is no tier "hurly" in ${root}/jobs; did you mean hourly?`,
    `line 2, dues: ${refuses}: There is no tier "dues" in ${root}/jobs; the tiers here are daily, hourly; did you mean \`npx folder-runner due\`?`,
    `line 3, due: ${refuses}: Unknown option --buget; did you mean --budget?`,
    `line 4, due: ${refuses}: --budget must be a duration such as 55s or 14m, found "soon".`,
    expect.stringMatching(`^line 5, hourly: ${refuses}: Too many arguments`),
    expect.stringMatching(`^line 6, queue: ${refuses}: jobs/queue is not a tier`),
    expect.stringMatching(`^line 7, work: ${refuses}: --for must be a duration`),
    `line 8, work: ${refuses}: Unknown option --max-job; did you mean --max-jobs?`,
    expect.stringMatching(`^line 9, run: ${refuses}: There is no script "hourly/b"`),
    expect.stringMatching(`^line 10, backup: ${refuses}: Missing <file>`),
  ]);
});

test('a folder with the command’s name is not taken for the command', async () => {
  const site = makeTemporaryRoot({ 'runner/jobs/hourly/a.mjs': '' });
  const root = join(site, 'runner');
  const { env, write } = makeFakeCrontab();
  write(`5 * * * * [ -d ${root} ] && cd ${root} && ${node} ${commandPath} hourly\n`);
  expect(await check(root, env, 'crontab')).toMatchObject([
    { status: 'ok', found: 'line 1, hourly: works in cron’s bare environment' },
  ]);
});

test('half a block is a problem', async () => {
  const { root, crontab, env } = await makeCalledRoot();
  crontab.write((crontab.read()?.toString() ?? '').replace(/# END.*\n/, ''));
  expect(await check(root, env, 'crontab', 'problem')).toEqual([
    {
      status: 'problem',
      found: expect.stringMatching(/^The crontab holds only one of the two lines/),
      cure: 'Delete the rest of it with `crontab -e`, then run `npx folder-runner cron --install`.',
    },
  ]);
});

test('without a crontab program the panel is pointed to', async () => {
  const root = makeTemporaryRoot(usual);
  expect(await check(root, { PATH: '/nowhere', HOME: root }, 'crontab')).toEqual([
    {
      status: 'note',
      found: 'There is no `crontab` program here',
      cure: "Paste the lines of `npx folder-runner cron --print` into the cron page of your host's panel.",
    },
  ]);
});

test('a crontab program that refuses is told with its reason', async () => {
  const root = makeTemporaryRoot(usual);
  const { env } = makeFakeCrontab('#!/bin/sh\necho "you are not allowed to use this program" >&2\nexit 1\n');
  expect(await check(root, env, 'crontab')).toMatchObject([
    { status: 'note', found: '`crontab -l` could not show your crontab: you are not allowed to use this program' },
  ]);
});

test('without a tier that has a period there is nothing to call', async () => {
  const root = makeTemporaryRoot({ 'jobs/manual/a.mjs': '' });
  mkdirSync(join(root, 'jobs/hourly'));
  writeFileSync(join(root, 'jobs/README.md'), '');
  const found = await look(root, makeFakeCrontab().env, 'crontab', 'calls');
  expect(found.of('crontab')).toMatchObject([{ status: 'ok' }]);
  expect(found.of('calls')).toMatchObject([{ status: 'ok' }]);
});
