import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { planWrap, unwrapLine } from '../../../src/hosting/crontab/import/wrap.ts';
import { runCommand } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { type FakeCrontab, makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';
import { type CronEntry, readAsCron, runAsCron, runWrapped } from './as-cron.ts';

const textOf = (crontab: FakeCrontab): string => crontab.read()?.toString() ?? '';

const place = { root: '/home/me/site', script: '/home/me/.folder-runner/cron', user: 'me' };

test('any line is either left as it is or can be taken back byte for byte', () => {
  const pieces = fc.array(
    fc.constantFrom("'", '"', '\\', '%', '\\%', ' ', '\t', '$(date)', '`x`', 'é', 'a', '#', '\r', '--', '&& b', '> f'),
    { maxLength: 14 },
  );
  fc.assert(
    fc.property(fc.array(pieces, { minLength: 1, maxLength: 4 }), (commands) => {
      const text = commands.map((parts) => `5 4 * * * ${parts.join('')}`).join('\n');
      const { original, wrapped, lines } = planWrap(Buffer.from(text, 'latin1'), place);
      expect(original.toString('latin1')).toBe(text);
      const back = wrapped
        .toString('latin1')
        .split('\n')
        .map((line) => unwrapLine(line, place.root)?.line ?? line);
      expect(back.join('\n')).toBe(text);
      const names = lines.flatMap(({ name }) => name ?? []);
      expect(new Set(names).size).toBe(names.length);
      expect(planWrap(wrapped, place).wrapped).toEqual(wrapped);
    }),
    { numRuns: 2_000 },
  );
});

test('the shell gets the same command, whatever quotes, percent signs and backslashes it has', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n' });
  const crontab = makeFakeCrontab();
  const home = join(root, 'home');
  mkdirSync(home);
  const commands = [
    String.raw`printf '%s\n' "it's" 'a "b"' \\ \'x\' a\ b`.replaceAll('%', '\\%'),
    String.raw`date -d @0 +\%F; echo "$0 $#"; echo done >> file`,
    'cat; exit 3%first line%second \\% line',
    `echo "$GREETING" | tr a-z A-Z; umask; echo $PPID >/dev/null; kill -TERM $$`,
    'nohup sh -c "sleep 0; echo late" & wait',
    `echo 'caf\u00e9' # comment`,
  ];
  const text = `GREETING='it is'\n${commands.map((command) => `* * * * * ${command}`).join('\n')}\n`;
  const bytes = Buffer.from(text);
  crontab.write(bytes);
  const site = { cwd: root, env: { ...crontab.env, HOME: home } };
  expect(runCommand(['cron', '--import', '--wrap'], site)).toMatchObject({ status: 0, stderr: '' });
  const before = readAsCron(text, false).map((entry) => runAsCron(entry, home));
  const after = readAsCron(textOf(crontab), false);
  expect(after).toHaveLength(commands.length);
  for (const [index, entry] of after.entries()) {
    const { status } = runWrapped(entry, home);
    // A shell reports a signal of the command that it has become.
    expect(status ?? 143, entry.command).toBe(before[index]?.status ?? 143);
    const { script } = queryLog<{ script: string }>(root, 'select script from runs order by id desc limit 1')[0] as {
      script: string;
    };
    const [run] = queryLog<{ output: string }>(root, 'select output from runs where script = ?', script);
    expect(run?.output, entry.command).toBe(before[index]?.output);
  }
});

test.each([
  ['/usr/local/bin/push hunter2', 'exec/push'],
  ['sh bin/push.sh hunter2', 'exec/push'],
  ['php artisan schedule:run', 'exec/artisan-schedule-run'],
  ['php /home/me/shop/bin/console cache:clear', 'exec/shop-console-cache-clear'],
])('%s is named %s: the first word of an unknown program may be a password', (command, name) => {
  const { lines } = planWrap(Buffer.from(`* * * * * ${command}\n`), place);
  expect(lines.map((each) => each.name)).toEqual([name]);
});

test.each(['sit\u00e9', 'web\u010d \u{1f600}'])(
  'a site and a home in a folder %s have their lines wrapped, run and undone',
  (name) => {
    const root = join(makeTemporaryRoot(), name);
    mkdirSync(join(root, 'jobs'), { recursive: true });
    const crontab = makeFakeCrontab();
    const text = "# caf\u00e9\n* * * * * echo 'caf\u00e9' >> ran\n";
    crontab.write(Buffer.from(text));
    const site = { cwd: root, env: { ...crontab.env, HOME: root } };
    expect(runCommand(['cron', '--import', '--wrap'], site)).toMatchObject({ status: 0, stderr: '' });
    const [entry] = readAsCron(textOf(crontab), false);
    expect(runWrapped(entry as CronEntry, root)).toEqual({ status: 0, output: '' });
    expect(readFileSync(join(root, 'ran'), 'utf8')).toBe('caf\u00e9\n');
    expect(queryLog(root, 'select script, outcome from runs')).toEqual([{ script: 'exec/echo', outcome: 'succeeded' }]);
    const wrapped = textOf(crontab);
    expect(runCommand(['cron', '--import', '--wrap'], site).status).toBe(0);
    expect(textOf(crontab)).toBe(wrapped);
    expect(runCommand(['cron', '--undo'], site).stdout).toContain('1 line of your crontab is as before');
    expect(textOf(crontab)).toBe(text);
  },
);

describe('a wrapped crontab', () => {
  const text = 'MAILTO=me@example.org\n# a comment\n30 2 * * * sh bin/backup.sh\n*/5 * * * * echo "50\\%"\n';
  const setUp = () => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n', 'home/bin/backup.sh': 'echo saved\n' });
    const crontab = makeFakeCrontab();
    crontab.write(Buffer.from(text));
    const site = { cwd: root, env: { ...crontab.env, HOME: join(root, 'home') } };
    const call = (...args: string[]) => runCommand(args, site);
    return { root, crontab, call, home: join(root, 'home') };
  };

  test('has readable names, and its lines are known to why, doctor and uninstall', () => {
    const { root, crontab, call } = setUp();
    const { stdout } = call('cron', '--import', '--wrap');
    expect(stdout).toContain('→ exec/backup');
    expect(textOf(crontab)).toMatch(
      /^30 2 \* \* \* \/bin\/sh \S+\/\.folder-runner\/cron exec \S+ --overlap backup -- \/bin\/sh -c 'sh bin\/backup\.sh'$/m,
    );
    for (const entry of readAsCron(textOf(crontab), false)) runWrapped(entry, join(root, 'home'));
    expect(call('why', 'exec/backup').stdout).toContain('Its crontab line calls it at');
    const { stdout: told } = call('doctor', '--json');
    const wrong = JSON.parse(told).checks.filter(
      ({ found, status }: Record<string, string>) => status !== 'ok' && /exec/.test(found ?? ''),
    );
    expect(wrong).toEqual([]);
    expect(call('uninstall', '--purge', '--yes')).toMatchObject({ status: 2 });
    expect(call('cron', '--undo').status).toBe(0);
    expect(textOf(crontab)).toBe(text);
  });

  test('is left alone by another wrap, which says so, and an import names the command that moves a line', () => {
    const { crontab, call } = setUp();
    call('cron', '--import', '--wrap');
    const before = textOf(crontab);
    for (const option of ['--dry-run', '--json', '--wrap']) {
      const { status, stdout } = call('cron', '--import', '--wrap', option);
      expect(status).toBe(0);
      if (option === '--json') continue;
      expect(stdout).toContain('line 3: 30 2 * * * sh bin/backup.sh\n  → exec/backup, as before\n');
      expect(stdout).toContain('There is nothing more to wrap, so nothing was changed.');
    }
    expect(textOf(crontab)).toBe(before);
    crontab.write(`${before}0 5 * * * echo new\n`);
    const { stdout } = call('cron', '--import', '--wrap', '--dry-run');
    expect(stdout).toContain('\n+ 0 5 * * * ');
    expect(stdout).toContain('\n1 line would be wrapped.');
    expect(call('cron', '--import').stdout.replaceAll(/\s+/g, ' ')).toContain(
      'It is recorded as exec/backup; `npx folder-runner cron --import exec/backup` makes a script of it.',
    );
  });

  test('takes the lines of tiers beside it, and keeps them when it is undone', () => {
    const { root, crontab, call } = setUp();
    call('cron', '--import', '--wrap');
    call('cron', '--install');
    expect(call('cron', '--undo').status).toBe(0);
    const left = textOf(crontab);
    expect(left.startsWith(text)).toBe(true);
    expect(left).toContain(`# BEGIN folder-runner ${root}`);
    expect(call('cron', '--remove').status).toBe(0);
    expect(textOf(crontab)).toBe(text);
  });

  test('is undone around changes by hand; the old crontab is kept if it has other lines', () => {
    const { root, crontab, call } = setUp();
    const file = join(root, '.runner/crontab.original');
    for (const [change, undone, isKept] of [
      [(now: string) => `${now}0 5 * * * echo new\n`, `${text}0 5 * * * echo new\n`, false],
      [(now: string) => now.replace('30 2', '40 2'), text.replace('30 2', '40 2'), true],
    ] as const) {
      crontab.write(text);
      call('cron', '--import', '--wrap');
      crontab.write(change(textOf(crontab)));
      const { status, stdout, stderr } = call('cron', '--undo');
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
      expect(stdout.endsWith(`Kept, because some of its lines are gone or changed: ${file}\n`)).toBe(isKept);
      expect(textOf(crontab)).toBe(undone);
      expect(existsSync(file)).toBe(isKept);
    }
    expect(readFileSync(file, 'utf8')).toBe(text);
  });

  test('is kept in its file when something else has replaced it, and is named by --undo and by another wrap', () => {
    const { root, crontab, call } = setUp();
    call('cron', '--import', '--wrap');
    const file = join(root, '.runner/crontab.original');
    for (const [other, ...args] of [
      ['', 'cron', '--undo'],
      [text.replace('5', '6'), 'cron', '--undo'],
      [text.replace('5', '6'), 'cron', '--import', '--wrap'],
    ] as const) {
      crontab.write(other);
      const refused = call(...args);
      expect(refused).toMatchObject({ status: 2, stdout: '' });
      expect(refused.stderr).toContain(
        `\`crontab ${file}\` restores it; to keep the present crontab, delete that file`,
      );
      expect(readFileSync(file, 'utf8')).toBe(text);
      expect(textOf(crontab)).toBe(other);
    }
    const present = textOf(crontab);
    rmSync(file);
    expect(call('cron', '--import', '--wrap')).toMatchObject({ status: 0, stderr: '' });
    expect(call('cron', '--undo')).toMatchObject({ status: 0, stderr: '' });
    expect(textOf(crontab)).toBe(present);
    expect(existsSync(file)).toBe(false);
  });

  test('restored by hand from its file, it is as undone', () => {
    const { root, crontab, call } = setUp();
    call('cron', '--import', '--wrap');
    const file = join(root, '.runner/crontab.original');
    crontab.write(readFileSync(file));
    expect(call('cron', '--undo')).toMatchObject({ status: 0, stderr: '' });
    expect(existsSync(file)).toBe(false);
  });

  test.each([
    ['refuses it', 'exit 1'],
    ['keeps its own', 'cat >/dev/null'],
  ])('can be undone after a second wrap on a host that now %s, and when its copy is gone', (_, writes) => {
    const { root, crontab, call } = setUp();
    call('cron', '--import', '--wrap');
    crontab.write(`${textOf(crontab)}0 5 * * * echo new\n`);
    const program = join(crontab.env.HOME ?? '', 'bin/crontab');
    const kept = readFileSync(program);
    writeFileSync(program, `#!/bin/sh\nif [ "$1" = -l ]; then cat "$FAKE_CRONTAB"; else ${writes}; fi\n`);
    expect(call('cron', '--import', '--wrap')).toMatchObject({ status: 2 });
    writeFileSync(program, kept);
    expect(readFileSync(join(root, '.runner/crontab.original'), 'utf8')).toBe(text);
    crontab.write(textOf(crontab).replace('0 5 * * * echo new\n', ''));
    rmSync(join(root, '.runner/crontab.original'));
    expect(call('cron', '--undo')).toMatchObject({ status: 0, stderr: '' });
    expect(textOf(crontab)).toBe(text);
  });

  test('has a line that is commented out as it is, wrapped or not', () => {
    const { crontab, call } = setUp();
    call('cron', '--import', '--wrap');
    const [, , line = ''] = textOf(crontab).split('\n');
    const commented = `#${line}\n${text}`;
    crontab.write(commented);
    expect(call('cron', '--import', '--wrap').status).toBe(0);
    expect(textOf(crontab)).toContain(`#${line}\n`);
    expect(textOf(crontab)).toContain(line.replace('30 2', '\n30 2'));
    expect(call('cron', '--undo').stdout).toContain('2 lines of your crontab are as before');
    expect(textOf(crontab)).toBe(commented);
  });

  test('moves one line into a folder by one command, and back', () => {
    const { root, crontab, call } = setUp();
    call('cron', '--import', '--wrap');
    const plan = call('cron', '--import', 'exec/backup');
    expect(plan.stdout).toContain('→ jobs/15min/backup.sh  @schedule 30 2 * * *');
    expect(plan.stdout).not.toContain('echo');
    expect(call('cron', '--import', 'exec/backup', '--apply')).toMatchObject({ status: 0 });
    expect(readFileSync(join(root, 'jobs/15min/backup.sh'), 'utf8')).toContain('\nsh bin/backup.sh\n');
    expect(textOf(crontab)).not.toMatch(/^30 2/m);
    expect(textOf(crontab)).toMatch(/^\*.* --overlap echo /m);
    expect(call('cron', '--import', 'exec/nothing').status).toBe(2);
    expect(call('cron', '--import', 'exec/echo', '--apply')).toMatchObject({ status: 0 });
    crontab.write(`${textOf(crontab)}0 5 * * * echo new\n`);
    expect(call('cron', '--import', '--wrap').status).toBe(0);
    expect(call('cron', '--undo')).toMatchObject({ status: 0, stderr: '' });
    expect(textOf(crontab)).toBe(`${text}0 5 * * * echo new\n`);
    expect(existsSync(join(root, 'jobs/15min/backup.sh'))).toBe(false);
  });

  test('runs its commands although the package, Node or the root is gone', () => {
    const { root, crontab, call, home } = setUp();
    call('cron', '--import', '--wrap');
    const [entry] = readAsCron(textOf(crontab), false);
    const notes = join(home, `.folder-runner/roots${root}/paths`);
    writeFileSync(notes, `${process.execPath}\n/gone/bin.cjs\n`);
    const first = runWrapped(entry as CronEntry, home);
    expect(first.output).toMatch(/^folder-runner records no command .*its package is missing[\s\S]*\nsaved\n$/);
    expect(runWrapped(entry as CronEntry, home)).toEqual({ status: 0, output: 'saved\n' });
    rmSync(join(root, 'jobs'), { recursive: true });
    expect(runWrapped(entry as CronEntry, home).output).toContain('saved\n');
  });

  test('runs a command beside itself as cron does, each recorded, but none during a pause', async () => {
    const { root, crontab, call, home } = setUp();
    crontab.write(Buffer.from('* * * * * echo begun >> log; while [ ! -e go ]; do sleep 0.02; done\n'));
    call('cron', '--import', '--wrap');
    const [entry] = readAsCron(textOf(crontab), false);
    const start = () =>
      execFileSync('/bin/sh', ['-c', `(${(entry as { command: string }).command}) >/dev/null 2>&1 &`], {
        ...{ cwd: home, env: { HOME: home, PATH: '/usr/bin:/bin', RUNNER_CALLED_BY: 'cron' } },
      });
    const begun = () =>
      existsSync(join(home, 'log')) ? readFileSync(join(home, 'log'), 'utf8').split('\n').length - 1 : 0;
    onTestFinished(() => writeFileSync(join(home, 'go'), ''));
    const { until } = await import('../../support/until.ts');
    for (const count of [1, 2, 3]) {
      start();
      await until(`${count} run`, () => begun() === count);
    }
    expect(call('pause', 'exec/echo').status).toBe(0);
    start();
    await until('it was skipped', () => queryLog(root, "select 1 from workers where state = 'skipped'").length === 1);
    writeFileSync(join(home, 'go'), '');
    const names = () =>
      queryLog<{ script: string }>(root, "select script from runs where outcome = 'succeeded' order by script");
    await until('all have ended', () => names().length === 3);
    expect(names().map(({ script }) => script)).toEqual(['exec/echo', 'exec/echo+2', 'exec/echo+3']);
    expect(begun()).toBe(3);
  });
});
