import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { machineZone } from '../../../src/system/base/zone.ts';
import { callCommand, runCommand } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { type FakeCrontab, makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';

const OWN = Buffer.from(
  '# caf\xe9\nPATH=/usr/local/bin:/usr/bin:/bin\n  */5 *  * * *  date +\\%F >> dates\n0 7 * * 1 echo monday\n# the end\n',
  'latin1',
);

interface Place {
  readonly root: string;
  readonly crontab: FakeCrontab;
  readonly cron: (...args: readonly string[]) => ReturnType<typeof callCommand>;
}

function makePlace(content: Buffer | string = OWN): Place {
  const crontab = makeFakeCrontab();
  // What scripts write at home is to stay in the test.
  const root = makeTemporaryRoot({ 'runner.config.json': JSON.stringify({ env: { HOME: crontab.env.HOME } }) });
  mkdirSync(join(root, 'jobs'), { recursive: true });
  crontab.write(content);
  return { root, crontab, cron: (...args) => callCommand(['cron', ...args], { cwd: root, env: crontab.env }) };
}

const crontabText = ({ crontab }: Place): string => crontab.read()?.toString('latin1') ?? '';

function scriptsIn(root: string): string[] {
  const files = readdirSync(join(root, 'jobs'), { recursive: true, withFileTypes: true });
  return files
    .filter((file) => file.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(root.length + 1))
    .sort();
}

test('without --apply nothing is changed, and --json gives the plan alone', async () => {
  const place = makePlace();
  const { status, stdout } = await place.cron('--import', '--json');
  expect(status).toBe(0);
  const { lines, ...rest } = JSON.parse(stdout);
  expect(rest).toEqual({});
  expect(lines.map((line: object) => Object.keys(line))).toEqual(
    lines.map(() => ['line', 'command', 'tier', 'script', 'schedule', 'notes']),
  );
  expect(lines[1]).toMatchObject({
    line: 4,
    command: 'echo monday',
    tier: '15min',
    script: 'jobs/15min/echo.sh',
    schedule: '0 7 * * 1',
  });
  expect((await place.cron('--import')).stdout).toContain('Nothing was changed: add --apply to do it.');
  expect(place.crontab.read()).toEqual(OWN);
  expect(readdirSync(join(place.root, 'jobs'))).toEqual([]);
  expect(existsSync(join(place.root, '.runner/imported-crontab.json'))).toBe(false);
});

test('--apply keeps the old lines as comments that name the root, and scripts that only their owner can read', async () => {
  const place = makePlace();
  const { root } = place;
  expect((await place.cron('--import', '--apply')).status).toBe(0);
  expect(scriptsIn(root)).toEqual(['jobs/15min/echo.sh', 'jobs/5min/date.sh']);
  expect(statSync(join(root, 'jobs/5min/date.sh')).mode & 0o777).toBe(0o700);
  const lines = crontabText(place).split('\n');
  expect(lines.slice(0, 5)).toEqual([
    '# caf\xe9',
    'PATH=/usr/local/bin:/usr/bin:/bin',
    `# folder-runner ${root}/jobs/5min/date.sh:   */5 *  * * *  date +\\%F >> dates`,
    `# folder-runner ${root}/jobs/15min/echo.sh: 0 7 * * 1 echo monday`,
    '# the end',
  ]);
  expect(lines.filter((line) => /^[\d*]/.test(line)).map((line) => line.split(' ').at(-2))).toEqual(['5min', '15min']);
});

test('what was imported is not imported again, and what has come since is', async () => {
  const place = makePlace();
  await place.cron('--import', '--apply');
  expect((await place.cron('--import', '--apply')).stdout).toContain('There is nothing to import');
  place.crontab.write(Buffer.concat([place.crontab.read() as Buffer, Buffer.from('0 8 * * * echo new\n')]));
  await place.cron('--import', '--apply');
  expect(scriptsIn(place.root)).toEqual(['jobs/15min/echo-2.sh', 'jobs/15min/echo.sh', 'jobs/5min/date.sh']);
  expect((await place.cron('--undo')).stdout).toContain(
    '3 lines of your crontab are as before, and 3 scripts were removed',
  );
  expect(crontabText(place)).toBe(`${OWN.toString('latin1')}0 8 * * * echo new\n`);
  expect(scriptsIn(place.root)).toEqual([]);
});

test('--undo gives back the crontab byte for byte, and removes scripts, tiers and the block', async () => {
  const place = makePlace();
  await place.cron('--import', '--apply');
  expect((await place.cron('--undo')).status).toBe(0);
  expect(place.crontab.read()).toEqual(OWN);
  expect(readdirSync(join(place.root, 'jobs'))).toEqual([]);
  expect((await place.cron('--undo')).stdout).toContain('There is no import into');
});

test('--undo gives back a block with blank lines of its owner', async () => {
  const place = makePlace();
  mkdirSync(join(place.root, 'jobs/hourly'));
  await place.cron('--install');
  place.crontab.write(Buffer.from(crontabText(place).replace(/^# END/m, '\n# mine\n\n# END'), 'latin1'));
  const before = place.crontab.read();
  await place.cron('--import', '--apply');
  expect(place.crontab.read()).not.toEqual(before);
  await place.cron('--undo');
  expect(place.crontab.read()).toEqual(before);
});

test.each([
  ['as it was', ''],
  ['with lines that have come since', '@yearly true'],
])('--undo gives back a crontab without a newline at its end with one, %s', async (_, since) => {
  const text = OWN.toString('latin1').trimEnd();
  const place = makePlace(Buffer.from(text, 'latin1'));
  await place.cron('--import', '--apply');
  place.crontab.write(Buffer.from(`${crontabText(place)}${since}`, 'latin1'));
  expect(await place.cron('--undo')).toMatchObject({ status: 0, stderr: '' });
  expect(crontabText(place)).toBe(`${text}\n${since === '' ? '' : `${since}\n`}`);
  expect(scriptsIn(place.root)).toEqual([]);
});

test('--undo finds scripts that were moved to another tier or renamed: none runs beside its line', async () => {
  const place = makePlace();
  const { root } = place;
  await place.cron('--import', '--apply');
  mkdirSync(join(root, 'jobs/hourly'));
  renameSync(join(root, 'jobs/5min/date.sh'), join(root, 'jobs/hourly/date.sh'));
  renameSync(join(root, 'jobs/15min/echo.sh'), join(root, 'jobs/15min/monday.sh'));
  writeFileSync(join(root, 'jobs/hourly/echo.sh'), 'echo mine\n');
  await place.cron('--install');
  const { stdout } = await place.cron('--undo');
  expect(stdout).toContain('2 lines of your crontab are as before, and 2 scripts were removed');
  expect(scriptsIn(root)).toEqual(['jobs/hourly/echo.sh']);
});

test('--undo gives the old lines back where the root has another path by now', async () => {
  const place = makePlace();
  await place.cron('--import', '--apply');
  const root = `${place.root}-at-a-longer-path`;
  onTestFinished(() => rmSync(root, { recursive: true }));
  renameSync(place.root, root);
  const { stdout } = await callCommand(['cron', '--undo'], { cwd: root, env: place.crontab.env });
  expect(stdout).toContain('2 lines of your crontab are as before, and 2 scripts were removed');
  const left = crontabText(place).replace(/^# BEGIN[\s\S]*# END .*\n/m, '');
  expect(left).toBe(OWN.toString('latin1'));
});

test('--remove says that lines stay commented out, and uninstall wants them back first', async () => {
  const place = makePlace();
  const { root, crontab } = place;
  await place.cron('--import', '--apply');
  const { stderr } = await place.cron('--remove');
  expect(stderr).toContain('2 lines of your crontab stay commented out, and nothing runs the scripts instead: ');
  const uninstall = () => callCommand(['uninstall', '--purge'], { cwd: root, env: crontab.env });
  expect(await uninstall()).toMatchObject({
    status: 2,
    stderr:
      `runner: Scripts in ${root} stand for 2 lines of your crontab, so nothing was removed: ` +
      '`npx folder-runner cron --undo` brings these lines back first.\n',
  });
  await place.cron('--undo');
  expect(place.crontab.read()).toEqual(OWN);
  expect((await uninstall()).status).toBe(0);
});

test('BASH_ENV of the crontab is read by the shell of the command, as under cron', async () => {
  const place = makePlace();
  const { root, crontab } = place;
  writeFileSync(join(root, 'env.sh'), 'export GREET=hello\n');
  crontab.write(`SHELL=/bin/bash\nBASH_ENV=${root}/env.sh\n5 9 * * * cat <<< "here $GREET"\n`);
  await place.cron('--import', '--apply');
  runCommand(['run', '15min/cat'], { cwd: root, env: crontab.env });
  expect(queryLog<{ output: string }>(root, 'select output from runs')).toEqual([{ output: 'here hello\n' }]);
});

test('--undo keeps what was changed since, in the crontab and in the scripts, and names it', async () => {
  const place = makePlace();
  const { root, crontab } = place;
  await place.cron('--import', '--apply');
  writeFileSync(join(root, 'jobs/5min/date.sh'), '#!/bin/sh\ndate -u\n');
  crontab.write(Buffer.concat([Buffer.from('MAILTO=me\n'), crontab.read() as Buffer, Buffer.from('@yearly true\n')]));
  const { stdout } = await place.cron('--undo');
  expect(stdout).toContain('Kept, because it was changed since: jobs/5min/date.sh\n');
  expect(crontabText(place)).toBe(`MAILTO=me\n${OWN.toString('latin1')}@yearly true\n`);
  expect(scriptsIn(root)).toEqual(['jobs/5min/date.sh']);
});

test('a changed script does not run beside its old line where the crontab called the root before', async () => {
  const place = makePlace();
  mkdirSync(join(place.root, 'jobs/hourly'));
  writeFileSync(join(place.root, 'jobs/hourly/mine.sh'), 'true\n');
  await place.cron('--install');
  const installed = place.crontab.read();
  await place.cron('--import', '--apply');
  writeFileSync(join(place.root, 'jobs/5min/date.sh'), '#!/bin/sh\ndate -u\n');
  const { stdout } = await place.cron('--undo');
  expect(stdout).toContain('jobs/5min/date.sh.disabled');
  expect(place.crontab.read()).toEqual(installed);
  expect(scriptsIn(place.root)).toEqual(['jobs/5min/date.sh.disabled', 'jobs/hourly/mine.sh']);
});

test('a script whose old line was deleted goes on running after --undo', async () => {
  const place = makePlace();
  await place.cron('--import', '--apply');
  place.crontab.write(crontabText(place).replace(/^# folder-runner .*monday\n/m, ''));
  const { stdout } = await place.cron('--undo');
  expect(stdout).toContain('Left, because its old line was deleted from the crontab: jobs/15min/echo.sh');
  expect(scriptsIn(place.root)).toEqual(['jobs/15min/echo.sh']);
});

test('a file is imported as it is, and its lines are taken out of the crontab if they are there', async () => {
  const place = makePlace('0 7 * * 1 echo monday\n0 8 * * * echo mine\n');
  writeFileSync(join(place.root, 'lines'), '0 7 * * 1 echo monday\r\n0 * * * * echo of the file');
  const { stdout } = await place.cron('--import', 'lines', '--apply');
  expect(stdout).toContain('If cron still runs the lines of that file from elsewhere, take them out there');
  expect(scriptsIn(place.root)).toEqual(['jobs/15min/echo.sh', 'jobs/hourly/echo-2.sh']);
  const lines = crontabText(place).split('\n');
  expect(lines.slice(0, 3)).toEqual([
    `# folder-runner ${place.root}/jobs/15min/echo.sh: 0 7 * * 1 echo monday`,
    '0 8 * * * echo mine',
    `# folder-runner ${place.root}/jobs/hourly/echo-2.sh`,
  ]);
  await place.cron('--undo');
  expect(crontabText(place)).toBe('0 7 * * 1 echo monday\n0 8 * * * echo mine\n');
  expect(scriptsIn(place.root)).toEqual([]);
});

test('lines come from stdin, in the format of /etc/cron.d where each names a user', () => {
  const place = makePlace('');
  const input = '*/15 * * * * daemon echo one\n0 3 * * * root echo two\n';
  const { stdout } = runCommand(['cron', '--import', '-', '--json'], {
    cwd: place.root,
    env: place.crontab.env,
    input,
  });
  const { lines } = JSON.parse(stdout);
  expect(lines.map(({ command }: { command: string }) => command)).toEqual(['echo one', 'echo two']);
  expect(lines[0].notes[0]).toMatch(/^It runs as daemon, but your scripts run as \w/);
});

test('a host that keeps its own crontab has nothing of it', async () => {
  const root = makeTemporaryRoot();
  const crontab = makeFakeCrontab('#!/bin/sh\n[ "$1" = -l ] && cat "$FAKE_CRONTAB"\ncat >/dev/null\n');
  crontab.write(OWN);
  const { status, stderr } = await callCommand(['cron', '--import', '--apply'], { cwd: root, env: crontab.env }).catch(
    (error: Error) => ({ status: 2, stderr: error.message }),
  );
  expect({ status, stderr }).toMatchObject({ status: 2, stderr: expect.stringContaining('your host keeps its own') });
  expect(readdirSync(join(root, 'jobs'))).toEqual([]);
  expect(existsSync(join(root, '.runner/unsettled-import'))).toBe(false);
});

test('a crontab that cannot be written leaves everything as it was', async () => {
  const root = makeTemporaryRoot();
  const crontab = makeFakeCrontab('#!/bin/sh\n[ "$1" = -l ] && exec cat "$FAKE_CRONTAB"\necho no room >&2\nexit 1\n');
  crontab.write(OWN);
  const { stderr } = await callCommand(['cron', '--import', '--apply'], { cwd: root, env: crontab.env });
  expect(stderr).toContain('no room');
  expect(readdirSync(join(root, 'jobs'))).toEqual([]);
  expect(existsSync(join(root, '.runner/unsettled-import'))).toBe(false);
});

test('before there is a jobs folder the plan can be looked at, and says what to run first', async () => {
  const { crontab } = makePlace();
  const cwd = makeTemporaryRoot({ 'package.json': '{}' });
  rmSync(join(cwd, 'jobs'), { recursive: true, force: true });
  const place = { cwd, env: crontab.env };
  const { status, stdout } = await callCommand(['cron', '--import'], place);
  expect({ status, stdout }).toEqual({ status: 0, stdout: expect.stringContaining('→ jobs/15min/echo.sh') });
  expect(stdout).toContain('there is no jobs folder yet: to do it, run `npx folder-runner init`');
  expect(await callCommand(['cron', '--import', '--apply'], place)).toMatchObject({ status: 2 });
  expect(readdirSync(cwd)).toEqual(['package.json']);
  expect(crontab.read()).toEqual(OWN);
});

test.each([
  [['--apply'], '--apply needs --import'],
  [['--import', '--install'], 'cannot be combined.'],
  [['--import', 'nowhere'], 'nowhere cannot be read'],
  [['--import', '/etc/crontab', '--apply'], '/etc/crontab is a file that cron itself reads'],
  [['--import', '--format', 'systemd'], 'crontab, cron.d'],
])('%j is refused in one sentence', async (args, sentence) => {
  const { status, stderr } = await makePlace().cron(...args);
  expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringContaining(sentence) });
});

test('a script holds the line, its time, its variables and what it reads', async () => {
  const place = makePlace(
    "MAILTO=me\nHOME=/var/tmp\nGREETING = ' hello  you '\nCRON_TZ=Europe/Berlin\n@daily cat; echo 50\\%%one%two\n",
  );
  await place.cron('--import', '--apply');
  expect(readFileSync(join(place.root, 'jobs/15min/cat.sh'), 'utf8')).toBe(
    `#!/bin/sh
# Line 5 of the crontab: @daily cat; echo 50\\%%one%two
# @schedule 0 0 * * *
# @timezone Europe/Berlin
# @timeout 6h
export PATH=/usr/bin:/bin
export MAILTO=me
export HOME=/var/tmp
export GREETING=' hello  you '
export CRON_TZ=Europe/Berlin
unset LANG
cd "$HOME" || exit
exec <<'END'
one
two
END
cat; echo 50%
`,
  );
});

/** The lines of an imported script, from that behind its tags on. */
const bodyOf = (place: Place, path: string): string[] =>
  readFileSync(join(place.root, path), 'latin1')
    .trimEnd()
    .split('\n')
    .filter((line) => !line.startsWith('#'));

test('a script has the variables of its line and no locale, whatever the crontab sets below it', async () => {
  const place = makePlace('0 1 * * * echo one\nHOME=/var/tmp\nTZ=Asia/Tokyo\n0 2 * * * echo two\n');
  await place.cron('--import', '--apply');
  expect(bodyOf(place, 'jobs/15min/echo.sh')).toEqual([
    'export PATH=/usr/bin:/bin',
    'unset LANG',
    'cd "$HOME" || exit',
    'echo one',
  ]);
  const second = ['export PATH=/usr/bin:/bin', 'export HOME=/var/tmp', 'export TZ=Asia/Tokyo', 'unset LANG'];
  expect(bodyOf(place, 'jobs/15min/echo-2.sh')).toEqual([...second, 'cd "$HOME" || exit', 'echo two']);
});

test('TZ in a crontab is for its commands: the times are those of the machine', async () => {
  const place = makePlace('TZ=Asia/Tokyo\n0 1 * * * echo one\n');
  await place.cron('--import', '--apply');
  const zone = machineZone();
  expect(zone).not.toBeNull();
  expect(readFileSync(join(place.root, 'jobs/15min/echo.sh'), 'utf8')).toContain(`\n# @timezone ${zone}\n`);
});

test('a backslash at the end of a line is left to the shell as cron left it', async () => {
  const place = makePlace('0 1 * * * echo one \\\n');
  const { stdout } = await place.cron('--import', '--apply');
  expect(stdout).toContain('It ends in a backslash, but no line of a crontab goes on in the next one');
  expect(bodyOf(place, 'jobs/15min/echo.sh').at(-1)).toBe("exec /bin/sh -c 'echo one \\'");
});

test.each([
  ['0 1 * * * cd /tmp && sleep 5 &', 'It leaves a program running in the background'],
  ['0 1 * * * sleep 5 &> log', '&> is of bash'],
  ['0 1 * * * date > log-$(date +\\%F)', 'It writes its output to log-$(...), so'],
  ['SHELL=/bin/bash -x\n0 1 * * * true', 'SHELL is /bin/bash -x, which is not a program here'],
])('%j is noted', async (lines, note) => {
  const { stdout } = await makePlace(`${lines}\n`).cron('--import');
  expect(stdout).toContain(note);
});

test.each([
  '0 1 * * * (sleep 1; true) & wait',
  'SHELL=/bin/bash\n0 1 * * * sleep 5 &> log',
  '0 1 * * * true > log 2>&1',
  '0 1 * * * case $(date +\\%u) in 6|7) true;; esac',
])('%j is not', async (lines) => {
  const { stdout } = await makePlace(`${lines}\n`).cron('--import');
  expect(stdout).not.toMatch(/in the background|is of bash|not found/);
});

/** What the lines of the root's block call. */
const callsIn = (place: Place): string[] =>
  crontabText(place)
    .split('\n')
    .flatMap((line) => {
      const [, call] = /^[\d*].* sh \S+\/cron (.*)$/.exec(line) ?? [];
      return call === undefined ? [] : call.replace(` ${place.root}`, '');
    });

/** The note of mail of each line, by what it runs. */
async function mailNotes(place: Place, ...args: readonly string[]): Promise<Record<string, string | undefined>> {
  const { stdout } = await place.cron('--import', ...args, '--json');
  const lines: readonly { command: string; notes: readonly string[] }[] = JSON.parse(stdout).lines;
  return Object.fromEntries(
    lines.map(({ command, notes }) => [command, notes.find((note) => /mail/i.test(note)) ?? 'none']),
  );
}

const SEVERAL = '@daily one\nMAILTO=a@x\n@daily two\nMAILTO=""\n@daily three\nMAILTO = b@x\n@daily four\n';

test('failures are mailed by the MAILTO at the end of the crontab, where the lines of the runner come', async () => {
  const now = 'failures of the script are mailed to b@x, by the MAILTO above the lines of the runner.';
  expect(await mailNotes(makePlace(SEVERAL))).toEqual({
    one: `Cron mailed its output to your account; ${now}`,
    two: `Cron mailed its output to a@x; ${now}`,
    three: `Cron mailed nothing of it; ${now}`,
    four: 'Cron mailed its output to b@x; of the script only failures are mailed.',
  });
});

test('an empty MAILTO at the end of the crontab keeps mail from all scripts', async () => {
  const now = 'of the script not even failures are mailed, as MAILTO is empty above the lines of the runner: ';
  expect(await mailNotes(makePlace(`${SEVERAL}MAILTO=\n# the end\n`))).toMatchObject({
    one: `Cron mailed its output to your account; ${now}set it there, or set up alerts.`,
    four: `Cron mailed its output to b@x; ${now}set it there, or set up alerts.`,
    three: 'MAILTO is empty: nobody gets mail of its failures, unless you set up alerts.',
  });
});

test('the MAILTO above an installed block counts, not one below it', async () => {
  const place = makePlace('MAILTO=a@x\n@daily one\n');
  mkdirSync(join(place.root, 'jobs/hourly'));
  await place.cron('--install');
  place.crontab.write(`${crontabText(place)}MAILTO=b@x\n@daily two\n`);
  expect(await mailNotes(place)).toEqual({
    one: 'Cron mailed its output to a@x; of the script only failures are mailed.',
    two:
      'Cron mailed its output to b@x; failures of the script are mailed to a@x, by the MAILTO above the lines of the ' +
      'runner.',
  });
});

test('of a file the MAILTO does not count, but that of the crontab', async () => {
  const place = makePlace('');
  writeFileSync(join(place.root, 'lines'), SEVERAL);
  const now = 'are mailed to your account, as no MAILTO stands above the lines of the runner.';
  expect(await mailNotes(place, 'lines')).toEqual({
    one: 'none',
    two: `Cron mailed its output to a@x; failures of the script ${now}`,
    three: `Cron mailed nothing of it; failures of the script ${now}`,
    four: `Cron mailed its output to b@x; failures of the script ${now}`,
  });
});

test('an import calls no tier that somebody has left out of the crontab', async () => {
  const place = makePlace('0 7 * * 1 echo monday\n');
  for (const tier of ['hourly', 'daily']) {
    mkdirSync(join(place.root, 'jobs', tier));
    writeFileSync(join(place.root, 'jobs', tier, 'a.sh'), 'true\n');
  }
  await place.cron('--install', '--tiers', 'hourly');
  await place.cron('--import', '--apply');
  expect(callsIn(place)).toEqual(['15min', 'hourly']);
});

test('an import installs the kind of lines that its options ask for', async () => {
  const place = makePlace();
  await place.cron('--import', '--apply', '--due', '--budget', '55s', '--work', '15m');
  expect(callsIn(place)).toEqual(['due --budget 55s', 'work --for 14m']);
  place.crontab.write(Buffer.from(`0 8 * * * echo new\n${crontabText(place)}`, 'latin1'));
  await place.cron('--import', '--apply', '--tiers', '5min, 15min', '--no-work');
  expect(callsIn(place)).toEqual(['5min', '15min']);
  await place.cron('--undo');
  expect(crontabText(place)).toBe(`0 8 * * * echo new\n${OWN.toString('latin1')}`);
});

test('what --import installs without options is as it was installed before', async () => {
  const place = makePlace();
  mkdirSync(join(place.root, 'jobs/hourly'));
  await place.cron('--install', '--due', '--work');
  await place.cron('--import', '--apply');
  expect(callsIn(place)).toEqual(['due', 'work --for 55s']);
});

test('--tiers without the tier of an imported script is refused, as nothing would run it', async () => {
  const place = makePlace();
  mkdirSync(join(place.root, 'jobs/hourly'));
  const { status, stderr } = await place.cron('--import', '--apply', '--tiers', 'hourly');
  expect({ status, stderr }).toEqual({
    status: 2,
    stderr:
      'runner: Nothing was changed: --tiers leaves out 5min and 15min, where imported scripts would be, and nothing ' +
      'would run them. Name these tiers, too, or leave out --tiers.\n',
  });
  expect(place.crontab.read()).toEqual(OWN);
  expect(readdirSync(join(place.root, 'jobs'))).toEqual(['hourly']);
});

test('--undo keeps the lines of tiers that somebody has installed since', async () => {
  const place = makePlace();
  await place.cron('--import', '--apply');
  mkdirSync(join(place.root, 'jobs/weekly'));
  writeFileSync(join(place.root, 'jobs/weekly/a.sh'), 'true\n');
  await place.cron('--install');
  expect(callsIn(place)).toEqual(['5min', '15min', 'weekly']);
  await place.cron('--undo');
  expect(callsIn(place)).toEqual(['weekly']);
  expect(crontabText(place)).toContain(OWN.toString('latin1'));
});

test('below another SHELL the script is run by that, and its line, which any shell reads, is added', async () => {
  const place = makePlace('SHELL=/bin/csh\n30 2 * * * echo hi\n');
  expect((await place.cron('--import', '--apply')).status).toBe(0);
  expect(readFileSync(join(place.root, 'jobs/15min/echo.sh'), 'utf8')).toContain("exec /bin/csh -c 'echo hi'");
});
