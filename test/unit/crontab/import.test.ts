import { expect, test } from 'vitest';
import { shellBehind } from '../../../src/hosting/crontab/import/command.ts';
import { planImport } from '../../../src/hosting/crontab/import/plan.ts';
import { detectCrontabFormat, readVariablesOfCron } from '../../../src/hosting/crontab/import/read.ts';
import { planLines } from '../../../src/hosting/crontab/lines.ts';
import { tierCalls, workCall } from '../../../src/hosting/crontab/plan.ts';
import { machineZone } from '../../../src/system/base/zone.ts';
import { crontabNames, readCrontabFile } from '../../processes/crontab/sandbox.ts';
import { runCommand } from '../../support/command.ts';
import { makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';

/** What becomes of a crontab of this user. */
function plan(...lines: readonly string[]) {
  return planGiven({}, ...lines);
}

/** The same where cron gives these variables. */
function planGiven(given: Readonly<Record<string, string>>, ...lines: readonly string[]) {
  const root = makeTemporaryRoot();
  const place = { root, home: root, user: 'me', given: new Map(Object.entries(given)), mailTo: undefined };
  return planImport(Buffer.from(`${lines.join('\n')}\n`), 'crontab', place);
}

test('what BASH_ENV names is read before the command, as under cron', async () => {
  const { scripts } = await plan('SHELL=/bin/bash', 'BASH_ENV=$HOME/env.sh', '5 9 * * * cat <<< "here $GREET"');
  const lines = scripts[0]?.content.toString().split('\n') ?? [];
  expect(lines).toContain("export BASH_ENV='$HOME/env.sh'");
  expect(lines.at(-2)).toBe(`exec /bin/bash -c 'cat <<< "here $GREET"'`);
});

test('a value with text behind its quotes is a line that cron does not understand', async () => {
  const { lines } = await plan('MYVAR = "x" y', '@daily true');
  expect(lines[0]).toMatchObject({
    script: null,
    notes: ['Cron does not understand this line: its value does not end where its quotes end.'],
  });
});

test.each([
  ['55 22 * * 0 php close-week.php; sleep 360; php report.php', '15min', '15 minutes'],
  ['0 2 * * * mysqldump shop > shop.sql; sleep 400; rsync shop.sql nas:', '15min', '15 minutes'],
  ['0 2 * * * php a.php; sleep $((RANDOM \\% 3600)); php b.php', '15min', '15 minutes'],
  ['0 0 * * * cd /tmp && sleep `shuf -i 1-3600 -n 1` && php b.php', 'daily', 'a day'],
  ['0 2 * * * cd /tmp && sleep `shuf -i 1-3600 -n 1` && php b.php', '12hours', '12 hours'],
  ['0 22 * * 5 cd /tmp && sleep `shuf -i 1-3600 -n 1` && php b.php', '2hours', '2 hours'],
  ["0 2 * * * bash -c 'sleep $((RANDOM \\% 3600)); php b.php'", '12hours', '12 hours'],
  ["0 2 * * * bash -c 'php a.php; sleep $((RANDOM \\% 3600)); php b.php'", '15min', '15 minutes'],
])(
  '%s goes to %s: only a wait by chance, before all else, shows that its time cannot matter',
  async (line, tier, late) => {
    const { lines } = await plan(line);
    expect(lines[0]?.tier).toBe(tier);
    expect(lines[0]?.notes).toContain(`It may begin up to ${late} after its time.`);
  },
);

test('a wait at a boot is no reason for a tier', async () => {
  const { lines } = await plan('@reboot sleep 400; php start.php');
  expect(lines[0]?.notes).toContain(
    'It may wait 7 minutes, and the other scripts of 15min with it: remove the wait if it is not needed.',
  );
});

test.each(["bash -lc 'tool run'", "bash -c 'tool run'"])('what %s runs is not taken for a file', async (command) => {
  const { lines } = await plan(`0 5 * * * ${command}`);
  expect(lines[0]?.notes.join('\n')).not.toMatch(/tool run/);
});

const notesOf = (lines: readonly { readonly notes: readonly string[] }[], index = 0): string =>
  lines[index]?.notes.join('\n') ?? '';

test('a line whose wait would make each pass last into the next one stays in the crontab', async () => {
  const { lines } = await plan(
    '* * * * * echo tick',
    '* * * * * sleep 20; echo tick',
    '* * * * * sleep 40; echo tick',
    '*/5 * * * * sleep 290; echo tick',
    '0 3 * * * sleep 1000; echo tick',
  );
  expect(lines.map(({ tier }) => tier)).toEqual(['1min', '1min', null, '5min', '15min']);
  expect(notesOf(lines, 2)).toMatch(/^It waits 40 seconds, and .* a pass of 1min would still run when the next/);
});

test('a worker that does not end stays in the crontab', async () => {
  const { lines } = await plan(
    '*/5 * * * * flock -n /tmp/lock php artisan queue:work',
    '*/5 * * * * php artisan queue:work --stop-when-empty',
    '*/5 * * * * php bin/console messenger:consume async -vv',
    '*/5 * * * * php bin/console messenger:consume async --time-limit=240',
    '*/5 * * * * timeout 240 php artisan queue:work',
  );
  expect(lines.map(({ tier }) => tier)).toEqual([null, '5min', null, '5min', '5min']);
  expect(notesOf(lines)).toContain('queue:work keeps running: the other scripts of its tier would wait');
});

test('a lock that skips times hints at a command that takes long', async () => {
  const { lines } = await plan('*/5 * * * * flock -n /tmp/lock php sync.php', '*/5 * * * * flock /tmp/lock php a.php');
  const note = 'While it runs, the other scripts of 5min wait, and after 1h it is ended';
  expect(notesOf(lines)).toContain(note);
  expect(notesOf(lines, 1)).not.toContain(note);
});

test('a line with a time of day is told of the frequent ones that wait for it', async () => {
  const note = 'The more frequent scripts of 15min wait while it runs';
  const { lines } = await plan('30 2 * * * sh backup.sh', '*/15 * * * * sh poll.sh');
  expect(notesOf(lines)).toContain(note);
  expect(notesOf(lines, 1)).not.toContain(note);
  expect(notesOf((await plan('30 2 * * * sh backup.sh', '*/5 * * * * sh poll.sh')).lines)).not.toContain(note);
});

test.each([
  ['[ "$(date -d tomorrow +\\%d)" = "01" ] && echo month-end', 'its test says no'],
  ['[ -x f ] && ./f > /dev/null 2>&1', 'its test says no'],
  ['cd /tmp && [ $(expr $(date +\\%W) \\% 2) -eq 1 ] && ./f | tee -a log', 'its test says no'],
  ['./f | grep -v notice', 'grep finds nothing'],
])('%s may end with 1, which cron did not mind', async (command, why) => {
  expect(notesOf((await plan(`0 3 * * * ${command}`)).lines)).toContain(`It ends with code 1 when ${why}, and that`);
});

test.each([
  '[ -f lock ] && exit; ./f',
  '[ -f lock ] || ./f',
  '[ -x f ] && ./f || true',
  'if [ -x f ] && [ -x g ]; then ./f; fi',
  '[ -x f ] && ./f &',
  './f | grep notice | sort',
])('%s does not', async (command) => {
  expect(notesOf((await plan(`0 3 * * * ${command}`)).lines)).not.toContain('It ends with code 1');
});

test.each([
  ...['source env.sh', '[[ -f x ]]; true', 'cat <<< hello', 'sort <(ls)', 'echo {1..3}', 'cp a.{txt,bak}', 'x=(1 2)'],
  ...['echo ${x^^}', 'echo "${x:0:3}"', 'set -euo pipefail; ./f', 'pushd x', 'function f { ls; }; f', '((x++))'],
  ...['ls |& cat', 'trap "echo failed" ERR; ./f', 'declare -A x'],
])('%s is of bash', async (command) => {
  const note = 'is of bash, and /bin/sh, which is ';
  expect(notesOf((await plan(`0 3 * * * ${command}`)).lines)).toContain(note);
  expect(notesOf((await plan('SHELL=/bin/bash', `0 3 * * * ${command}`)).lines)).not.toContain('is of bash');
  expect(notesOf((await plan(`0 3 * * * bash -c '${command}'`)).lines)).not.toContain('is of bash');
});

test.each([
  "awk '{print $1,$2}' f",
  "grep -E 'a{1,3}' f",
  'find . -exec rm {} +',
  'echo $((1 + 2))',
  'echo "a (b, c)"',
])('%s is no bash', async (command) => {
  expect(notesOf((await plan(`0 3 * * * ${command}`)).lines)).not.toContain('is of bash');
});

test.each([
  ['5 0 1 * * close-month', '15min'],
  ['44 23 * * 5 report', '15min'],
  ['55 23 28-31 * * close-month', '5min'],
  ['59 23 * * * count-today', '1min'],
  ['23 * * * * ping', '15min'],
  ['0 * * * * ping', 'hourly'],
  ['15,45 * * * * ping', '15min'],
  ['*/30 * * * * ping', '30min'],
  ['3-59/15 * * * * ping', '12min'],
  ['@monthly close-month', '15min'],
  ['@midnight close-day', '15min'],
])('%s goes to %s: it never begins on another day than under cron', async (line, tier) => {
  const { lines } = await plan(line);
  expect(lines[0]?.tier).toBe(tier);
  const isMoved = ['5min', '1min', '12min'].includes(tier) || /^(?:23|15)/.test(line);
  expect(notesOf(lines).includes('to begin before midnight')).toBe(isMoved);
});

test('the day of a line with a zone of its own is that of its zone and that of the machine', async () => {
  const machine = machineZone() ?? 'UTC';
  const at = new Date().toLocaleTimeString('sv-SE', { timeZone: 'Asia/Tokyo' });
  const here = new Date().toLocaleTimeString('sv-SE', { timeZone: machine });
  const ahead = (Number(at.slice(0, 2)) - Number(here.slice(0, 2)) + 24) % 24;
  const hour = (23 + ahead) % 24;
  const { lines } = await plan('CRON_TZ=Asia/Tokyo', `55 ${hour} * * * echo`, '55 23 * * * echo', '5 1 * * * echo');
  expect(lines.map(({ tier }) => tier)).toEqual(['5min', '5min', '15min']);
});

test('lines that ran side by side are told that they wait for one another', async () => {
  const { lines } = await plan('30 2 * * 0 tar czf a.tgz b', '17 3 * * * mysqldump shop > shop.sql');
  for (const index of [0, 1]) {
    expect(notesOf(lines, index)).toContain('Other scripts of 15min that are due wait while it runs');
  }
  expect(notesOf((await plan('30 2 * * 0 tar czf a.tgz b')).lines)).not.toContain('wait while it runs');
});

const scriptOf = async (given: Readonly<Record<string, string>>, ...lines: readonly string[]) => {
  const found = await planGiven(given, ...lines);
  return { content: found.scripts[0]?.content.toString() ?? '', notes: notesOf(found.lines) };
};

test('what cron gives from the host’s files is passed on, and no value is written down', async () => {
  const given = { JAVA_HOME: '/opt/java', http_proxy: 'http://me:geheim@proxy', LANG: 'de_DE.UTF-8' };
  const { content, notes } = await scriptOf(given, '0 5 * * * ./sync');
  expect(content).toContain('# @env JAVA_HOME\n# @env http_proxy\n# @env LANG\nexport PATH=/usr/bin:/bin\ncd "$HOME"');
  expect(content + notes).not.toContain('geheim');
  expect(notes).toContain('Cron of this host gives it JAVA_HOME, http_proxy and LANG, by PAM');
});

test('the crontab’s variables take precedence over the host’s, and those below a line do not reach it', async () => {
  const given = { APP_ENV: 'prod', LANG: 'de_DE.UTF-8', PYTHONPATH: '/opt/lib' };
  const { content, notes } = await scriptOf(given, 'LANG=C', '0 5 * * * ./sync', 'APP_ENV=dev');
  expect(content.match(/^(?:# @env|export|unset).*$/gm)).toEqual([
    ...['export PATH=/usr/bin:/bin', 'export APP_ENV=prod', 'export PYTHONPATH=/opt/lib', 'export LANG=C'],
  ]);
  expect(notes).not.toContain('Cron of this host');
});

test('what cron gives is read as PAM of Debian and of Enterprise Linux does', () => {
  const environment = 'JAVA_HOME="/opt/java"\n# no\nexport http_proxy=http://proxy:3128 \nPATH=/opt/bin:/bin\n';
  const debian = makeTemporaryRoot({
    'etc/pam.d/cron':
      '@include common-auth\nsession required pam_env.so # x\nsession required pam_env.so envfile=/etc/default/locale\n',
    'etc/pam.d/common-auth': 'auth [success=1 default=ignore] pam_unix.so nullok\n',
    'etc/environment': environment,
    'etc/default/locale': "LANG='de_DE.UTF-8'\n",
  });
  const values = { JAVA_HOME: '/opt/java', http_proxy: 'http://proxy:3128' };
  expect(Object.fromEntries(readVariablesOfCron(debian))).toEqual({ ...values, LANG: 'de_DE.UTF-8' });
  const redHat = makeTemporaryRoot({
    'etc/pam.d/crond': 'account include password-auth\nauth    include password-auth\nsession include password-auth\n',
    'etc/pam.d/password-auth': 'auth required pam_env.so\nsession required pam_limits.so\n',
    'etc/environment': environment,
  });
  expect(Object.fromEntries(readVariablesOfCron(redHat))).toEqual(values);
  const others = [{ 'etc/environment': environment }, { 'etc/pam.d/cron': 'session required pam_env.so readenv=0\n' }];
  for (const files of others) {
    expect([...readVariablesOfCron(makeTemporaryRoot({ 'etc/environment': environment, ...files }))]).toEqual([]);
  }
});

test.each([
  ['/bin/echo "100% sure"', true],
  ['tar czf b-$(date +%F).tgz x', true],
  ['tar czf b-`date +%F`.tgz x', true],
  ['date +%F', false],
  ['mail -s hello me%Hello%there', false],
])('%s is cut at its %%', async (command, isBroken) => {
  const notes = notesOf((await plan(`5 5 * * * ${command}`)).lines);
  expect(notes).toContain('The first % without a backslash ends its command, for cron, too');
  expect(notes.includes('The command is broken there')).toBe(isBroken);
  expect(notesOf((await plan(`5 5 * * * ${command.replaceAll('%', '\\%')}`)).lines)).not.toContain('The first %');
});

test('$RANDOM is a number where the shell of the line has it, and no wait elsewhere', async () => {
  const line = '0 2 * * * sleep $((RANDOM \\% 3600)); php b.php';
  const bash = (await plan('SHELL=/bin/bash', line)).lines;
  expect([bash[0]?.tier, notesOf(bash)]).toEqual(['12hours', expect.stringContaining('It may wait 60 minutes')]);
  expect(notesOf(bash)).not.toContain('$RANDOM is of bash');
  // It is a link to bash on some systems, and has a $RANDOM of its own on others.
  if (shellBehind('/bin/sh') !== 'dash') return;
  const sh = (await plan(line)).lines;
  expect([sh[0]?.tier, notesOf(sh)]).toEqual(['15min', expect.not.stringContaining('It may wait')]);
  expect(notesOf(sh)).toContain('$RANDOM is of bash, and empty in /bin/sh, which is dash here, under cron, too');
});

test.each([
  ['2>> rsync.err', 'It writes its errors to rsync.err: the log has the rest of its output.'],
  ['2>/dev/null', 'It discards its errors; remove `2> /dev/null` to keep them in the log.'],
  ['> out 2>&1', 'It writes its output to out, so the log has none of it.'],
])('of %s it is told what the log misses', async (redirection, note) => {
  const { lines } = await plan(`0 3 * * * true ${redirection}`);
  expect(lines[0]?.notes.filter((each) => each.includes('the log'))).toEqual([note]);
});

test.each([
  '. ~/.profile; mytool',
  'PATH=$PATH:/opt/x/bin mytool',
  'export PATH=/opt/x/bin:$PATH; mytool',
  "bash -lc 'mytool run'",
])('whether %s finds its program, only the shell knows', async (command) => {
  expect(notesOf((await plan(`0 3 * * * ${command}`)).lines)).not.toContain('is not found on its PATH');
});

test('top needs a terminal unless it writes for a file', async () => {
  const { lines } = await plan('0 3 * * * top -b -n1 > top.txt', '0 3 * * * top');
  expect(lines.map(({ notes }) => notes.includes('top needs a terminal here, and scripts have none.'))).toEqual([
    false,
    true,
  ]);
});

test.each([
  'runner monthly',
  'runner yearly',
  'runner 12hours --budget 55s',
  'runner --root=/x hourly',
  'runner --root /x hourly',
  "runner --root '/my x' hourly",
  'runner --budget 55s due',
  'runner due',
  'runner work --for 55s',
  'runner --root /x report --mail',
  'folder-runner hourly',
  '/home/u/node_modules/.bin/folder-runner daily',
  '/home/u/node_modules/.bin/runner daily',
  '$HOME/node_modules/.bin/runner 15min',
  'npx folder-runner hourly',
  'npx --yes folder-runner@latest hourly',
  'npx -p folder-runner runner hourly',
  'npm exec -- runner hourly',
  'node /path/dist/bin.cjs hourly',
  '/opt/node/bin/node --max-old-space-size=64 "/my path/dist/bin.cjs" --root /x hourly',
  'cd /x && RUNNER_HOST=a nice -n 19 npx folder-runner hourly > /dev/null 2>&1',
  '[ -x /x/node ] && flock -n /x/lock /x/node /x/bin.cjs hourly || true',
  "sh -c 'cd /x && runner hourly'",
  "su me -c 'runner hourly'",
])('%s calls a runner already', async (command) => {
  const { lines } = await plan(`0 * * * * ${command}`);
  expect(lines[0]).toMatchObject({ script: null, notes: ['It calls a runner already.'] });
});

test('so does a line that is printed to be pasted', async () => {
  const calls = [...tierCalls(['hourly', '3days']), workCall(15)];
  const { lines: printed } = planLines({ root: '/my x', script: '~/.folder-runner/cron', calls });
  const { lines } = await plan(...printed);
  expect(lines.map(({ notes }) => notes)).toEqual(printed.map(() => ['It calls a runner already.']));
});

test.each([
  'cd /home/me/folder-runner && php cron.php',
  'tar czf folder-runner.tgz public_html',
  'echo runner hourly',
  'rails runner Orders.daily',
  '/opt/ci/runner register',
  'gitlab-runner daily',
  'node /x/app.js hourly',
  'npm run hourly',
  'test-runner hourly',
])('%s does not', async (command) => {
  const { lines } = await plan(`0 * * * * ${command}`);
  expect(lines[0]?.script).not.toBeNull();
});

const detect = (lines: readonly string[], path: string | null = null) =>
  detectCrontabFormat(Buffer.from(`${lines.join('\n')}\n`), path);

test.each(crontabNames)('%s is read as what it is, without a doubt', (name) => {
  const format = name === 'certbot' ? 'cron.d' : 'crontab';
  expect(detectCrontabFormat(Buffer.from(readCrontabFile(name), 'latin1'), null)).toEqual({ format, note: null });
});

test.each([
  ['a user of this machine', ['@daily daemon run-it --all']],
  ['users of most servers, though not of this one', ['@daily www-data run-it', '5 * * * * nginx run-it']],
  ['root beside a user that nobody knows', ['@daily root run-it', '5 * * * * shopkeeper run-it']],
])('lines with %s are those of cron.d', (_, lines) => {
  expect(detect(lines)).toEqual({ format: 'cron.d', note: null });
});

test('a file in /etc/cron.d is one, whatever it holds', () => {
  expect(detect(['@daily rclone sync a b'], '/etc/cron.d/site')).toEqual({ format: 'cron.d', note: null });
});

test.each([
  [['@daily shopkeeper /bin/sh /srv/clean.sh', '5 * * * * shopkeeper php8.2 /srv/cron.php']],
  [['MAILTO=me', '@reboot shopkeeper /usr/bin/env sh /srv/start.sh']],
])('before a program each time, an unknown word is taken for a user, and that is said: %j', (lines) => {
  const note = 'shopkeeper is taken for a user, as in /etc/cron.d; if it is a program, add --format crontab.';
  expect(detect(lines)).toEqual({ format: 'cron.d', note });
});

test.each([
  [['@daily shopkeeper exec web', '5 * * * * shopkeeper sync /srv']],
  [['@daily shopkeeper /opt/shop/bin/clean']],
  [['@daily shopkeeper cd /srv && ./clean']],
])('before what may be an argument as well, it stays a program, and that is said: %j', (lines) => {
  const note = 'shopkeeper is taken for a program; if it is a user, as in /etc/cron.d, add --format cron.d.';
  expect(detect(lines)).toEqual({ format: 'crontab', note });
});

test.each([
  [['@daily wp cron event run --due-now']],
  [['@daily restic backup /srv']],
  [['@daily nginx -s reload']],
  [['@daily php /bin/true']],
  [['@daily chronic /bin/true']],
  [['@daily env /bin/true']],
  [['@daily shopkeeper']],
  [['@daily shopkeeper /bin/true', '@daily clean-up']],
  [['@daily shopkeeper /bin/true', '@daily docker exec web']],
  [['@daily shopkeeper /srv']],
  [['@daily bin/shopkeeper /bin/true']],
  [['# nothing']],
])('other lines are those of a crontab: %j', (lines) => {
  expect(detect(lines)).toEqual({ format: 'crontab', note: null });
});

test('the doubt is a note beside the plan, and --format ends it', () => {
  const call = (...args: readonly string[]) =>
    runCommand(['cron', '--import', '-', '--json', ...args], {
      cwd: makeTemporaryRoot(),
      env: makeFakeCrontab().env,
      input: '@daily shopkeeper /bin/sh /srv/clean.sh\n',
    });
  const commandOf = ({ stdout }: { readonly stdout: string }): string => JSON.parse(stdout).lines[0].command;
  const guessed = call();
  expect(guessed.stderr).toMatch(/^Note: shopkeeper is taken for a user, .*\n$/);
  expect(commandOf(guessed)).toBe('/bin/sh /srv/clean.sh');
  const told = call('--format', 'crontab');
  expect([told.stderr, commandOf(told)]).toEqual(['', 'shopkeeper /bin/sh /srv/clean.sh']);
});
