import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { findSigns } from '../../../src/execution/result/signs.ts';
import { findProgram } from '../../../src/system/process/programs.ts';
import { executable } from '../../support/root.ts';
import { runOne } from '../../support/run.ts';

const DOUBT = 'exit code 0, but its output tells of a failure: ';

/** Printed by the programs themselves; some of these are not on every machine. */
test.each([
  ['/site/jobs/hourly/a.sh: line 3: mysqldump: command not found', 'mysqldump'],
  ['bash: line 1: wp: command not found', 'wp'],
  ['/my site/jobs/hourly/two words.sh: line 3: wp: command not found', 'wp'],
  ['jobs/hourly/two words.sh: 3: wp: not found', 'wp'],
  ['/site/a.sh: 3: wp\r: not found', null],
  ['/site/a.sh: 4: \r: not found', null],
  ['sh: 1: wp: not found', 'wp'],
  ['/site/v1.2/build: 3: wp: not found', 'wp'],
  ['./a.bash: 3: wp: not found', 'wp'],
  ['./a.sh: 12: eval: wp: not found', 'wp'],
  ['/site/jobs/hourly/a.sh: line 2: wp: not found', 'wp'],
  ['a.zsh:3: command not found: wp', 'wp'],
  ['zsh:1: command not found: wp', 'wp'],
  ['a.ksh[3]: wp: not found [No such file or directory]', 'wp'],
  ['env: ‘php8’: No such file or directory', 'php8'],
  ['/usr/bin/env: ‘php8’: No such file or directory', 'php8'],
  ["nohup: failed to run command 'wp': No such file or directory", 'wp'],
  ['xargs: wp: No such file or directory', 'wp'],
  ['sudo: wp: command not found', 'wp'],
  ['sh: 1: /opt/wp: not found', null],
  ['/site/a.sh: line 2: /root/log: Permission denied', null],
  ['/site/a.sh: 2: cannot create /root/log: Permission denied', null],
  ["/site/a.sh: line 4: syntax error near unexpected token `fi'", null],
  ['/site/a.sh: 4: Syntax error: "fi" unexpected', null],
  ['/site/a.sh: line 4: unexpected EOF while looking for matching `"\'', null],
  ['/site/a.sh: line 5: cd: /nowhere: No such file or directory', null],
  ["/site/a.sh: 5: cd: can't cd to /nowhere", null],
  ['/site/a.sh: line 6: [: =: unary operator expected', null],
  ['/site/a.sh: line 7: NAME: unbound variable', null],
  ['/site/a.sh: line 8:  7442 Killed                  mysqldump shop', null],
  ['/site/a.sh: 2: echo: echo: I/O error', null],
  ['Segmentation fault (core dumped)', null],
  ["-e:1:in `<main>': boom (RuntimeError)", null],
  ["<internal:/usr/lib/ruby/x.rb>:85:in `require': cannot load such file -- x (LoadError)", null],
  ['-e:1: syntax error, unexpected end-of-input', null],
  ['Undefined subroutine &main::x called at -e line 1.', null],
  ['In Connection.php line 829:', null],
  ['Error: Error establishing a database connection', null],
  ["mysqldump: unknown option '--no-such-option'", null],
  ['2026-11-23 18:28:12 ERROR 404: File not found.', null],
  ['Connecting to 127.0.0.1:1... failed: Connection refused.', null],
  ['npm error code ENOENT', null],
  ['FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory', null],
  ['PHP Fatal error:  Uncaught Error: Call to undefined function x() in /site/a.php:1', null],
  ['PHP Parse error:  syntax error, unexpected token "}" in /site/a.php on line 9', null],
  ['Fatal error: Allowed memory size of 134217728 bytes exhausted in /site/a.php on line 3', null],
  ['<b>Fatal error</b>:  Uncaught Error in <b>/site/a.php</b> on line <b>3</b><br />', null],
  ['Could not open input file: artisan', null],
  ["python3: can't open file '/site/a.py': [Errno 2] No such file or directory", null],
  ["mysqldump: Got error: 1045: \"Access denied for user 'shop'@'localhost'\" when trying to connect", null],
  ["ERROR 2002 (HY000): Can't connect to local MySQL server through socket '/tmp/mysql.sock' (2)", null],
  ['pg_dump: error: connection to server at "localhost" (127.0.0.1), port 5432 failed: Connection refused', null],
  ['rsync error: some files/attrs were not transferred (code 23) at main.c(1347) [sender=3.2.7]', null],
  ['tar: Exiting with failure status due to previous errors', null],
  ['curl: (6) Could not resolve host: example.org', null],
  ['me@backup.example.org: Permission denied (publickey,password).', null],
  ['cp: error writing /backup/a.tar: No space left on device', null],
])('a sign of a failure: %s', (line, missing) => {
  expect(findSigns(`before\n${line}\nafter\n`)).toEqual([{ line, missing }]);
});

test.each([
  '0 errors, 0 warnings',
  'ERROR: none',
  'page not found: 404',
  'GET /missing 404: not found',
  'index.html: 404: foo: not found',
  '/var/www/shop.php: 12: foo: not found',
  'grep: old.txt: No such file or directory',
  'rm: cannot remove a: No such file or directory',
  "find: '/root': Permission denied",
  'No fatal error found',
  '2026-11-03 12:00:00 cron: job: not found in cache',
  'a traceback (most recent call last) was logged',
  'Killed 3 stale sessions',
  'kill: (4711) - No such process',
  'rsync warning: some files vanished before they could be transferred (code 24) at main.c(1347)',
  'Fatal: none',
])('no sign of one: %s', (line) => {
  expect(findSigns(`${line}\n`)).toEqual([]);
});

test('curl is heard behind its meter, which ends without a line feed', () => {
  const meter = '\r  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0';
  const said = 'curl: (6) Could not resolve host: nosuch.invalid';
  expect(findSigns(`${meter}${meter}${said}\n`).map(({ line }) => line)).toEqual([said]);
});

test('of a traceback and of a JavaScript stack it is the error that is told', () => {
  const python = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    x()\nKeyError: 7\n';
  const node = '/site/a.js:1\nx\n^\n\nReferenceError: x is not defined\n    at a.js:1:1\n\nNode.js v24.1.0\n';
  expect(findSigns(python + node).map(({ line }) => line)).toEqual(['KeyError: 7', 'ReferenceError: x is not defined']);
});

test('an output without line ends, and with a million of them, takes no time worth the name', () => {
  for (const piece of ['x/.', 'a: ', 'a.sh: line 1: ', '\n', 'sh: 1: ', '0']) {
    const text = piece.repeat(65_536 / piece.length);
    findSigns(text);
    const before = process.cpuUsage();
    findSigns(text);
    const { user } = process.cpuUsage(before);
    expect.soft(user / 1000, piece).toBeLessThan(200);
  }
});

/** Programs that print their own words here. */
const programs: readonly (readonly [program: string, source: string, told: RegExp])[] = [
  ['sh', 'no-such-program\n', /no-such-program/],
  ['sh', 'echo x > /proc/nowhere/x\n', /\/proc\/nowhere/],
  ['sh', 'sh -c "if then"\n', /[Ss]yntax error/],
  ['bash', "bash -c 'no-such-program'\n", /no-such-program: command not found/],
  ['bash', 'bash -c "if then"\n', /syntax error/],
  ['python3', 'python3 -c "raise ValueError(7)"\n', /ValueError: 7/],
  ['php', `php -d display_errors=1 -d log_errors=0 -r 'no_such();'\n`, /Fatal error: .*no_such/],
  ['perl', 'perl -e "use No::Such;"\n', /Can't locate No\/Such\.pm/],
  ['node', `node -e 'throw new TypeError("x")'\n`, /TypeError: x/],
  ['tar', 'tar xf /no/such.tar\n', /tar: Error is not recoverable/],
  ['rsync', 'rsync /no/such/file "$RUNNER_TMPDIR/x"\n', /rsync error/],
  ['curl', 'curl -sS http://127.0.0.1:1/\n', /curl: \(7\)/],
  ['mysqldump', 'mysqldump --no-defaults --socket=/no/such shop\n', /mysqldump: (?:Got error|Error)/],
];

describe('a run that exits 0 in spite of it succeeds with a warning', () => {
  const PATH = `/usr/local/bin:/usr/bin:/bin:${process.env.PATH}`;
  for (const [program, source, told] of programs) {
    const isThere = findProgram(program, PATH) !== null;
    test.skipIf(!isThere)(`${program}: ${source.trim()}${isThere ? '' : ' (not on this machine)'}`, async () => {
      const end = await runOne('a.sh', `${source}echo done\n`, { variables: { PATH } });
      expect(end).toMatchObject({ outcome: 'succeeded', exitCode: 0, reason: null });
      expect(end.warning).toContain(DOUBT);
      expect(end.warning).toMatch(told);
    });
  }

  test('none where nothing is told of a failure', async () => {
    expect(await runOne('a.sh', 'echo done\n')).toMatchObject({ outcome: 'succeeded', warning: null });
  });

  test('how many more there are is told, and what else is noted comes behind', async () => {
    const end = await runOne('a.sh', 'nope-one\nnope-two\nnope-two\nsleep 20 &\n');
    expect(end.warning).toMatch(/: nope-one: not found \(and 2 more\); .*; left 1 process running/);
  });
});

describe('a program that is not found', () => {
  test('is named with the PATH, and with where it is on this machine', async () => {
    const home = `${process.env.TMPDIR ?? '/tmp'}/home-${process.pid}`;
    mkdirSync(join(home, 'bin'), { recursive: true });
    writeFileSync(join(home, 'bin/fetch-orders'), '#!/bin/sh\n');
    chmodSync(join(home, 'bin/fetch-orders'), 0o755);
    const options = { variables: { PATH: '/usr/bin:/bin' }, environment: { HOME: home } };
    const end = await runOne('a.sh', 'set -e\nfetch-orders\n', options);
    expect(end.reason).toMatch(
      /^exit code 127: \S+a\.sh: (?:line )?2: fetch-orders: (?:command )?not found; fetch-orders is at /,
    );
    expect(end.reason).toContain(
      `${home}/bin/fetch-orders, which is not on the PATH of scripts (/usr/bin:/bin): write the full path, or set env.PATH`,
    );
  });

  test('is said to be nowhere', async () => {
    const end = await runOne('a.sh', 'no-such-program\n', { variables: { PATH: '/usr/bin:/bin' } });
    expect(end.reason).toContain('no-such-program is not installed, or not on the PATH of scripts (/usr/bin:/bin)');
  });
});

describe('a script that was written on Windows', () => {
  const ends = String.raw`its lines end as on Windows (CRLF), which a shell takes as part of each command; convert it with: sed -i 's/\r$//' jobs/hourly/a.sh`;

  test.each(['/bin/sh', 'bash'])(
    'is told of, and how to convert it, not of a program that is there: %s',
    async (shell) => {
      const source = `# @shell ${shell}\r\nls\r\n\r\necho done`;
      const end = await runOne('a.sh', source);
      expect(end).toMatchObject({ outcome: 'succeeded' });
      expect(end.warning).toMatch(/ls\\?r?'?\r?: (?:command )?not found/);
      expect(end.warning).toContain(ends);
      expect(end.warning).not.toContain('PATH');
      expect((await runOne('a.sh', `${source}; exit 3`)).reason).toContain(ends);
    },
  );
});

describe('the cause of a failure in words', () => {
  const asks = 'Did the script wait for input? Scripts have no keyboard (stdin is empty).';

  test('python without a keyboard', async ({ skip }) => {
    if (findProgram('python3', '/usr/bin:/bin:/usr/local/bin') === null) skip('there is no python3');
    const end = await runOne('a.py', 'input("Go on? ")\n');
    expect(end.reason).toBe(`exit code 1: EOFError: EOF when reading a line; ${asks}`);
  });

  test('a pipe that ended early is no keyboard', async ({ skip }) => {
    if (findProgram('python3', '/usr/bin:/bin:/usr/local/bin') === null) skip('there is no python3');
    const end = await runOne('a.py', 'raise EOFError\n');
    expect(end.reason).toBe('exit code 1: EOFError');
  });

  test('`read` of a shell without one', async () => {
    const end = await runOne('a.sh', 'printf "Go on? [y/n] "\nread answer || exit 1\n');
    expect(end.reason).toBe(`exit code 1: ${asks}`);
    const loop = await runOne('a.sh', 'while read line; do echo "$line"; done < /dev/null\nexit 1\n');
    expect(loop.reason).toBe('exit code 1');
  });

  test('Node without one', async () => {
    const end = await runOne(
      'a.mjs',
      `import { createInterface } from 'node:readline/promises';\n` +
        'await createInterface({ input: process.stdin, output: process.stdout }).question("Go on? ");\n',
    );
    expect(end.reason).toContain(asks);
  });

  test('a default function that asks; one that waits for something else', async () => {
    const wait = (what: string) => `export default () => new Promise((ok) => { ${what} });\n`;
    const never = "exit code 13: Error: the promise of the script's default function never settled";
    expect((await runOne('a.mjs', wait('process.stdin.once("data", ok)'))).reason).toBe(`${never}; ${asks}`);
    expect((await runOne('a.mjs', wait(''))).reason).toBe(never);
  });

  test('a heap that is full in a Node process that a shell started', async () => {
    const source = `"${process.execPath}" --max-old-space-size=32 -e 'const a = []; for (;;) a.push(new Array(1000).fill({}))'\nexit 3\n`;
    const end = await runOne('a.sh', source);
    expect(end.reason).toMatch(/^exit code 3: .*had its heap full: set NODE_OPTIONS=--max-old-space-size=512/);
  });

  test('a PHP error', async ({ skip }) => {
    if (findProgram('php', '/usr/bin:/bin:/usr/local/bin') === null) skip('there is no php');
    const end = await runOne('a.php', '<?php\nthrow new Exception("no stock");\n');
    expect(end.reason).toMatch(/^exit code 255: (?:PHP )?Fatal error: {1,2}Uncaught Exception: no stock in /);
  });
});

test('an alias of tsconfig.json that Node does not know is named', async () => {
  const { requestRun } = await import('../../support/run.ts');
  const { runScript } = await import('../../../src/execution/script/run-script.ts');
  const request = await requestRun('a.ts', `import { db } from '@/lib/db';\ndb();\n`);
  const config = '{\n  // ours\n  "compilerOptions": { "paths": { "@/*": ["./src/*"] } },\n}\n';
  writeFileSync(join(request.root, 'tsconfig.json'), config);
  const end = await runScript(request);
  expect(end.reason).toMatch(/Cannot find package '@\/lib' imported from /);
  expect(end.reason).toContain("'@/*' is an alias that only tsconfig.json knows (paths), and Node does not read it");
});

describe('what a script demands of its output', () => {
  test.each<readonly [name: string, source: string, reason: string | null]>([
    ['a text that is there', '# @fail-on no rows\necho "2 no rows"\n', 'matches @fail-on no rows: 2 no rows'],
    ['a text in quotes', '# @fail-on "no rows"\necho "2 no rows"\n', 'matches @fail-on no rows: 2 no rows'],
    ['a text that is not', '# @fail-on no rows\necho "2 rows"\n', null],
    [
      'an expression',
      '# @fail-on /^err(or)?\\b/i\necho ok\necho "Error: 3"\n',
      'matches @fail-on /^err(or)?\\b/i: Error: 3',
    ],
    ['an expression that does not fit', '# @fail-on /^err(or)?\\b/i\necho "no error"\n', null],
    ['what is expected', '# @expect backup complete\necho backup complete\n', null],
    [
      'what is not there',
      '# @expect backup complete\necho backup begun\n',
      'no line of its output matches @expect backup complete',
    ],
    ['nothing printed', '# @expect /\\d+ rows/\ntrue\n', 'no line of its output matches @expect /\\d+ rows/'],
    ['two', '# @expect one\n# @expect two\necho one\n', 'no line of its output matches @expect two'],
    ['a carriage return', '# @expect /^100%$/\nprintf "50%%\\r100%%\\r\\n"\n', null],
    [
      'a colour',
      '# @fail-on /^ERROR: disk$/\nprintf "\\033[31mERROR\\033[0m: disk\\n"\n',
      'matches @fail-on /^ERROR: disk$/',
    ],
    ['a colour of what is expected', '# @expect /^done$/\nprintf "\\033(B\\033[1;32mdone\\033(B\\033[m\\n"\n', null],
    ['a title, a link', `# @expect /^done$/\nprintf '\\033]0;title\\adone\\n'\n`, null],
    [
      'a title without an end',
      `# @fail-on /^ERROR/\nprintf '\\033]0;title\\nERROR: 1\\n\\a'\n`,
      'matches @fail-on /^ERROR/: ERROR: 1',
    ],
    [
      'a meter that goes back',
      `# @fail-on /^ERROR/\nprintf '50%%\\033[2K\\033[1GERROR: 1\\n'\n`,
      'matches @fail-on /^ERROR/',
    ],
    ['a bell', `# @fail-on /^ERROR/\nprintf '\\aERROR: 1\\n'\n`, 'matches @fail-on /^ERROR/'],
    [
      'a colour that two reads divide',
      `# @expect /^done$/\nhead -c 262141 /dev/zero | tr '\\0' '\\n'; printf '\\033[32mdone\\033[0m\\n'\n`,
      null,
    ],
    ['UTF-8', '# @expect Übertragung fertig\necho Übertragung fertig\n', null],
  ])('%s', async (_, source, reason) => {
    const end = await runOne('a.sh', source);
    expect(end).toMatchObject({ outcome: reason === null ? 'succeeded' : 'failed', exitCode: 0 });
    expect(end.reason).toEqual(reason === null ? null : expect.stringContaining(`exit code 0, but`));
    if (reason !== null) expect(end.reason).toContain(reason);
  });

  test('@fail-on alone makes a failure of every known sign', async () => {
    const end = await runOne('a.sh', '# @fail-on\nno-such-program\ntrue\n');
    expect(end).toMatchObject({ outcome: 'failed', exitCode: 0, warning: null });
    expect(end.reason).toContain(`${DOUBT}`);
  });

  test.each([
    `printf '\\033[31mPHP Fatal error:  Uncaught Error: x\\033[0m\\n'`,
    `printf '10%%\\r\\033[KPHP Fatal error:  Uncaught Error: x\\n'`,
    `printf '\\033[2K\\033[1G\\033[31mPHP Fatal error:  Uncaught Error: x\\033[39m\\n'`,
  ])('colours hide no known sign: %s', async (line) => {
    const end = await runOne('a.sh', `${line}\n`);
    expect(end.warning).toBe(`${DOUBT}PHP Fatal error:  Uncaught Error: x`);
    expect(end.output.text).toContain('\x1b[');
  });

  test('@fail-on false: what its output says is no warning', async () => {
    const end = await runOne('a.sh', '# @fail-on false\nno-such-program\ntrue\n');
    expect(end).toMatchObject({ outcome: 'succeeded', warning: null });
  });

  test('a failure stays what it is', async () => {
    expect(await runOne('a.sh', '# @expect done\nexit 4\n')).toMatchObject({
      outcome: 'failed',
      reason: 'exit code 4',
    });
  });

  test('what is cut out of a long output is looked through as well', async () => {
    const source = (tag: string) => `# ${tag}\nseq 1 200000\necho the needle\nseq 1 200000\nsleep 0.3\nseq 1 200000\n`;
    const options = { maxOutputBytes: 64 * 1024 };
    const failed = await runOne('a.sh', source('@fail-on the needle'), options);
    expect(failed.output.droppedBytes).toBeGreaterThan(1_000_000);
    expect(failed).toMatchObject({ outcome: 'failed', output: { text: expect.not.stringContaining('the needle') } });
    expect(await runOne('a.sh', source('@expect the needle'), options)).toMatchObject({ outcome: 'succeeded' });
    expect(await runOne('a.sh', source('@expect /^the noodle$/'), options)).toMatchObject({ outcome: 'failed' });
  });

  test('an expression that takes for ever in JavaScript takes no time', async () => {
    const end = await runOne('a.sh', `# @fail-on /^(a+)+$/\necho ${'a'.repeat(5000)}b\n`);
    expect(end).toMatchObject({ outcome: 'succeeded' });
  });

  test('a secret in the line that fits is masked', async () => {
    const source = '# @fail-on password\n# @env SHOP_PASSWORD\necho "password is $SHOP_PASSWORD"\n';
    const end = await runOne('a.sh', source, { environment: { SHOP_PASSWORD: 'correct-horse-battery' } });
    expect(end.outcome).toBe('failed');
    expect(end.reason).not.toContain('correct-horse');
  });
});

test('@shell runs a script without a #! line, with its flags', async () => {
  const source = '# @shell bash -euo pipefail\nfalse | true\necho not reached\n';
  expect(await runOne('a.sh', source)).toMatchObject({ outcome: 'failed', exitCode: 1, output: { text: '' } });
  expect(await runOne('a', executable(source))).toMatchObject({ outcome: 'failed', exitCode: 1 });
  expect(await runOne('a.sh', source.replace('-euo', '+e -o'))).toMatchObject({ outcome: 'succeeded' });
});

test('@shell is refused where something else says what runs it', async () => {
  const { requestRun } = await import('../../support/run.ts');
  const refusals = async (name: string, content: Parameters<typeof executable>[0]) =>
    (await requestRun(name, executable(content))).script.refusals;
  expect(await refusals('a.sh', '#!/bin/bash\n# @shell bash -eu\n')).toEqual([
    'jobs/hourly/a.sh: @shell is for scripts without a #! line, and this one begins with #!/bin/bash; keep one of them',
  ]);
  expect(await refusals('a.mjs', '// @shell bash -eu\n')).toEqual([
    'jobs/hourly/a.mjs: @shell is for shell scripts, and this is not one; remove the tag',
  ]);
  expect(await refusals('b.sh', '# @shell fish -e\n')).toEqual([
    'jobs/hourly/b.sh:1: @shell must be a shell with its flags such as bash -euo pipefail, found "fish -e"',
  ]);
});
