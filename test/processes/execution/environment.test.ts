import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { scriptSettings } from '../../../src/settings/script-settings.ts';
import {
  commandPath,
  cronPlace,
  probePath,
  readRuns,
  runPass,
  runPassAgain,
  startProcess,
} from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const account = userInfo();
const PRINT = 'env | sort\n';

function readEnvironment(output: string | null): Record<string, string> {
  const lines = (output ?? '').trim().split('\n');
  return Object.fromEntries(lines.map((line) => [line.split('=', 1)[0], line.slice(line.indexOf('=') + 1)]));
}

test('a script gets an allow-listed environment and nothing of the runner’s secrets', () => {
  const { root, run } = runPass(
    { 'a.sh': PRINT },
    {
      env: {
        DATABASE_URL: 'mysql://secret',
        LC_ALL: 'de_DE.UTF-8',
        NODE_OPTIONS: '--max-old-space-size=512',
        SMTP_PASSWORD: 'secret',
        TZ: 'Europe/Berlin',
      },
    },
  );
  const { output } = run('a');
  const [pass] = queryLog<{ scheduled_for: number }>(root, 'select scheduled_for from workers');
  const environment = readEnvironment(output);
  expect(output).not.toContain('secret');
  // What the shell itself adds.
  for (const name of ['_', 'PWD', 'OLDPWD', 'SHLVL']) delete environment[name];
  expect(environment).toEqual({
    HOME: account.homedir,
    LANG: 'C.UTF-8',
    LOGNAME: account.username,
    PATH: expect.stringMatching(/^\/.*:\/usr\/local\/bin:\/usr\/bin:\/bin$/),
    RUNNER_ATTEMPT: '1',
    RUNNER_COUNTS: `${root}/.runner/tmp/1.1/.counts`,
    RUNNER_LAST_SUCCESS: '',
    RUNNER_LATENESS_MS: expect.stringMatching(/^\d+$/),
    RUNNER_PREVIOUSLY_CRASHED: '',
    RUNNER_ROOT: root,
    RUNNER_HOST: hostname(),
    RUNNER_SCHEDULED_FOR: new Date(pass?.scheduled_for ?? 0).toISOString(),
    RUNNER_RUN: '1.1',
    RUNNER_SCRIPT: 'hourly/a',
    SHELL: '/bin/sh',
    RUNNER_TMPDIR: `${root}/.runner/tmp/1.1`,
    USER: account.username,
  });
});

test('by hand from any shell and under cron it is the same', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': `${PRINT}umask; ulimit -S -c; pwd; tty\n`,
    'jobs/hourly/b.mjs': 'console.log(process.env, process.umask(), process.cwd());\n',
  });
  const call = async (shell: string, env: NodeJS.ProcessEnv = {}) => {
    const place = cronPlace(root);
    const command = `${shell}; exec "${process.execPath}" "${commandPath}" hourly --root "${root}"`;
    await startProcess('/bin/sh', ['-c', command], { ...place, env: { ...place.env, ...env } }).ended;
    const { run } = readRuns(root);
    return ['a', 'b'].map((name) => (run(name).output ?? '').replaceAll(/RUNNER_(?!ROOT|HOST|SCRIPT).*/g, ''));
  };
  const rich = {
    ...{ HOME: '/elsewhere', USER: 'me', LOGNAME: 'me', SHELL: '/bin/zsh', PATH: '/opt/bin:/usr/bin:/bin' },
    ...{ LANG: 'de_DE.UTF-8', LC_ALL: 'C', LC_CTYPE: 'POSIX', LANGUAGE: 'de:en', TMPDIR: root, EDITOR: 'vi' },
    ...{ http_proxy: 'http://proxy:3128', HTTPS_PROXY: 'http://proxy:3128', NODE_OPTIONS: '--no-warnings' },
    TZ: 'Asia/Tokyo',
  };

  const underCron = await call('umask 022');
  const byHand = await call('umask 077', rich);

  expect(byHand).toEqual(underCron);
  expect(byHand[0]).toContain('LANG=C.UTF-8');
  // Without a variable at all, as some panels call it.
  expect(await call('umask 002; unset HOME LOGNAME SHELL PATH')).toEqual(underCron);
});

test('what differs on purpose is named by @env and by the settings, which win', () => {
  const settings = { env: { LC_ALL: 'en_US.UTF-8', TMPDIR: '/var/tmp', SITE: 'settings' }, umask: '027' };
  const { run } = runPass(
    { 'a.sh': `# @env LANG HOME LC_ALL SITE\n${PRINT}umask\n`, 'b.sh': `${PRINT}umask\n` },
    {
      env: { LANG: 'de_DE.UTF-8', HOME: '/elsewhere', LC_ALL: 'C', SITE: 'caller' },
      files: { 'runner.config.json': JSON.stringify(settings) },
    },
  );
  const fromSettings = { LC_ALL: 'en_US.UTF-8', TMPDIR: '/var/tmp', SITE: 'settings' };
  expect(readEnvironment(run('a').output)).toMatchObject({ ...fromSettings, LANG: 'de_DE.UTF-8', HOME: '/elsewhere' });
  expect(readEnvironment(run('b').output)).toMatchObject({
    ...fromSettings,
    ...{ LANG: 'C.UTF-8', HOME: account.homedir },
  });
  for (const name of ['a', 'b']) expect(run(name).output).toMatch(/^0027$/m);
});

test('TZ is the zone of the settings, whatever the caller has', () => {
  const config = { 'runner.config.json': '{ "timezone": "Europe/Berlin" }' };
  const { run } = runPass({ 'a.sh': PRINT }, { env: { TZ: 'Asia/Tokyo' }, files: config });
  expect(readEnvironment(run('a').output)).toMatchObject({ TZ: 'Europe/Berlin' });
});

test('@env lets a variable through, to that script alone', () => {
  const env = { API_KEY: 'short', OTHER: 'too' };
  const { run } = runPass({ 'a.sh': `# @env API_KEY, NOT_SET\n${PRINT}`, 'b.sh': PRINT }, { env });
  expect(readEnvironment(run('a').output)).toMatchObject({ API_KEY: 'short' });
  expect(run('a').output).not.toMatch(/OTHER|NOT_SET/);
  expect(run('b').output).not.toContain('API_KEY');
});

test('no value goes through the argument vector: everybody on the host can read it', () => {
  const settings = { env: { SITE: 'example.org' } };
  const { run, root } = runPass(
    {
      'a.mjs': `import { readFileSync } from 'node:fs';
// @env API_KEY
console.log(readFileSync('/proc/self/cmdline', 'utf8').replaceAll('\\0', ' '));\n`,
      'b.sh': `# @env API_KEY\ntr '\\0' ' ' < /proc/$$/cmdline\n`,
    },
    { env: { API_KEY: 'short' }, files: { 'runner.config.json': JSON.stringify(settings) } },
  );
  const [first] = run('a').output?.split(probePath) ?? [];
  expect(run('a').output).toBe(`${first}${probePath} ${root}/jobs/hourly/a.mjs \n`);
  expect(first).toMatch(/^\/\S+ --require $/);
  expect(run('b').output).toBe(`/bin/sh ${root}/jobs/hourly/b.sh `);
});

test('what the probe is told is not left in a script’s environment, and holds no values', () => {
  const { run } = runPass(
    {
      'a.mjs': `import { readFileSync } from 'node:fs';
// @env API_KEY
const lines = readFileSync('/proc/self/environ', 'utf8').split('\\0');
console.log(process.env.RUNNER_PROBE, lines.filter((line) => /^RUNNER_PROBE=.*(short|visitor)/.test(line)).length);\n`,
    },
    { env: { API_KEY: 'short' } },
  );
  expect(run('a').output).toBe('undefined 0\n');
});

test('the settings give variables to every script, but not the runner’s own', () => {
  const settings = { env: { SITE: 'https://example.org', HOME: '/elsewhere', RUNNER_SCRIPT: 'x' } };
  const { run } = runPass(
    { 'a.mjs': `console.log(process.env.SITE, process.env.HOME, process.env.RUNNER_SCRIPT);\n` },
    { files: { 'runner.config.json': JSON.stringify(settings) } },
  );
  expect(run('a').output).toBe('https://example.org /elsewhere hourly/a\n');
});

test('the runner’s own Node is on the PATH', () => {
  const { run } = runPass({ 'a.sh': `node -p process.execPath\n` });
  expect(run('a').output).toBe(`${process.execPath}\n`);
});

describe('what a script starts with', () => {
  test('is the root as its folder, nothing to read, and a session and group of its own', () => {
    const { root, run } = runPass({
      'folder.sh': 'pwd\n',
      'input.sh': 'readlink /proc/self/fd/0; cat; echo end\n',
      // pid, group and session; and of the process that started it.
      'session.pl': `open my $own, '<', "/proc/$$/stat"; my @own = split ' ', <$own>;
my $pp = getppid(); open my $parent, '<', "/proc/$pp/stat"; my @parent = split ' ', <$parent>;
print "$own[0] $own[4] $own[5] ", ($own[5] == $parent[5] ? 'same' : 'another'), "\\n";\n`,
      'descriptors.sh': 'readlink /proc/$$/fd/* | grep -F "$RUNNER_ROOT/.runner" | sort -u\n',
    });
    expect(run('folder').output).toBe(`${root}\n`);
    expect(run('input').output).toBe('/dev/null\nend\n');
    expect(run('session').output).toMatch(/^(\d+) \1 \1 another\n$/);
    // Its output: neither the activity log nor a lock.
    expect(run('descriptors').output).toBe(`${root}/.runner/output/${run('descriptors').key}.log\n`);
  });

  test('is a folder of its own, gone afterwards with all that is in it', () => {
    const deep = 'mkdir "$RUNNER_TMPDIR/deep" && touch "$RUNNER_TMPDIR/deep/file" && chmod 0 "$RUNNER_TMPDIR/deep"';
    const { root, run } = runPass({
      'a.sh': `${deep} && stat -c %a "$RUNNER_TMPDIR"\n`,
      'b.mjs': `import { readdirSync } from 'node:fs';\nconsole.log(readdirSync(process.env.RUNNER_TMPDIR).length);\n`,
    });
    expect(run('a').output).toBe('700\n');
    expect(run('b').output).toBe('0\n');
    // Each goes once its run's end is on the disk, which the next script does not wait for.
    expect(readdirSync(join(root, '.runner/tmp'))).toEqual([]);
  });
});

describe('the temporary folder of programs is the host’s, as under cron', () => {
  test('what they leave there is found by the next run and by the site', () => {
    const id = `folder-runner-last-id-${process.pid}`;
    onTestFinished(() => rmSync(`/tmp/${id}`, { force: true }));
    const { run } = runPass({
      '1.sh': `echo 41 > "$(dirname "$(mktemp -u)")/${id}"\n`,
      '2.py': `import tempfile\nprint(open(tempfile.gettempdir() + '/${id}').read().strip())\n`,
      '3.mjs': `import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
console.log(readFileSync(\`\${tmpdir()}/${id}\`, 'utf8').trim());\n`,
      '4.pl': `use File::Spec;\nopen my $in, '<', File::Spec->tmpdir . '/${id}';\nprint <$in>;\n`,
    });
    expect(['2', '3', '4'].map((label) => run(label).output)).toEqual(['41\n', '41\n', '41\n']);
  });

  test('a socket fits in, however long the path of the root is', () => {
    const folder = `${'long-'.repeat(24)}name`;
    const root = makeTemporaryRoot({
      [`${folder}/jobs/hourly/a.py`]: `import multiprocessing
if __name__ == '__main__':
    with multiprocessing.Manager() as manager:
        print(manager.list([1, 2]))\n`,
    });
    const { run } = runPassAgain(join(root, folder));
    expect(run('a')).toMatchObject({ outcome: 'succeeded', output: '[1, 2]\n' });
  });

  test('a daemon that a script has started keeps what it has there', () => {
    // It ends once its file is gone.
    const daemon = 'f=$(mktemp) && echo "$f" > started && while [ -e "$f" ]; do sleep 0.1; done';
    const { root } = runPass({ 'a.sh': `setsid sh -c '${daemon}' &\nuntil [ -s started ]; do sleep 0.05; done\n` });
    const file = readFileSync(join(root, 'started'), 'utf8').trim();
    onTestFinished(() => rmSync(file, { force: true }));
    expect(readdirSync(join(root, '.runner/tmp'))).toEqual([]);
    expect(existsSync(file)).toBe(true);
  });
});

test('@nice is added to the niceness that the runner has', () => {
  const { run } = runPass({ 'a.sh': '# @nice 3\nsleep 0.05\nnice\n', 'b.sh': 'nice\n' });
  const own = Number(run('b').output);
  expect(Number(run('a').output)).toBe(Math.min(own + 3, 19));
});

const python = '$(/usr/bin/python3 -c \'import sys; print("python%d.%d" % sys.version_info[:2])\')';
const library = `cat > evil.c <<'END'
#include <stdio.h>
unsigned int la_version(unsigned int version) { return version; }
int evil(void) { return 0; }
__attribute__((constructor)) static void load(void) { puts("LOADED"); fflush(stdout); }
END
gcc -shared -fPIC -o libevil.so evil.c && cp libevil.so evil.so`;
const caller = `${library}
echo 'int evil(void); int main(void) { return evil(); }' > main.c; gcc -o main main.c -L. -levil`;
const repository = 'git init --quiet .';
const commit = 'git config user.name a; git config user.email a@b; git commit --allow-empty -m a';
const alias = "printf '[alias]\\n\\tevil = !echo LOADED\\n' >";
const program = "printf '#!/bin/sh\\necho LOADED >&2\\n' > evil; chmod +x evil";
const javaClass = 'class A { public static void main(String[] none) { System.out.print("LOADED"); } }';
const gemspec = `puts "LOADED"; Gem::Specification.new { |spec| spec.name = "evil"; spec.version = "1" }`;
const gem = `mkdir -p specifications gems/evil-1/lib; touch gems/evil-1/lib/evil.rb
echo '${gemspec}' > specifications/evil-1.gemspec`;

/**
 * How each variable brings code into the real program: its name, its value, what is made before in the
 * folder `$D`, and what is then run there, in which nobody has named that code. It says `LOADED`.
 */
const ways: readonly (readonly [name: string, value: string, make: string, run: string])[] = [
  ['LD_PRELOAD', '$D/evil.so', library, '/bin/true'],
  ['LD_AUDIT', '$D/evil.so', library, '/bin/true'],
  ['LD_LIBRARY_PATH', '$D', caller, './main'],
  [
    'GCONV_PATH',
    '$D',
    `${library}; printf 'module EVIL// INTERNAL evil 1\\nmodule INTERNAL EVIL// evil 1\\n' > gconv-modules`,
    'echo x | iconv -f EVIL -t UTF-8',
  ],
  [
    'OPENSSL_CONF',
    '$D/conf',
    `${library}
printf 'openssl_conf = a\\n[a]\\nproviders = b\\n[b]\\nevil = c\\n[c]\\nmodule = %s/evil.so\\nactivate = 1\\n' $D > conf`,
    'openssl list -providers',
  ],
  ['OPENSSL_MODULES', '$D', `${library}; cp evil.so legacy.so`, 'openssl list -providers -provider legacy'],
  ['OPENSSL_ENGINES', '$D', `${library}; cp evil.so padlock.so`, 'openssl engine padlock'],
  ['ENV', '$D/evil', 'echo "echo LOADED" > evil', 'sh -i < /dev/null'],
  ['BASH_ENV', '$D/evil', 'echo "echo LOADED" > evil', 'bash -c true'],
  ['BASH_LOADABLES_PATH', '$D', library, 'cd / && bash -c "enable -f evil.so evil"'],
  ['SHELLOPTS', 'xtrace', 'echo "PS4=\'\\$(echo LOADED) \'; true" > a', 'bash a'],
  ['BASHOPTS', 'expand_aliases', 'printf "alias true=\'echo LOADED\'\\ntrue\\n" > a', 'bash a'],
  // Root's own bash takes none from the environment.
  ['PS4', '$(echo LOADED)', '', "setpriv --reuid=65534 bash -c 'set -x; true' || bash -c 'set -x; true'"],
  ['CDPATH', '$D/other', 'mkdir -p other/lib; echo "echo LOADED" > other/lib/a', "sh -c 'cd lib && . ./a'"],
  ['MAKEFILES', '$D/evil', "echo '$(info LOADED)' > evil; echo all: > Makefile", 'make'],
  ['MAKEFLAGS', '--eval=$(info LOADED)', 'echo all: > Makefile', 'make'],
  ['NODE_OPTIONS', '--require $D/evil.cjs', 'echo "console.log(\'LOADED\')" > evil.cjs', 'node -e 0'],
  ['NODE_PATH', '$D', 'echo "console.log(\'LOADED\')" > evil.js', 'cd / && node -e "require(\'evil\')"'],
  ['NODE_REPL_EXTERNAL_MODULE', '$D/evil.cjs', 'echo "console.log(\'LOADED\')" > evil.cjs', 'node -i < /dev/null'],
  ['PERL5OPT', '-I$D -Mevil', 'echo "print q(LOADED); 1;" > evil.pm', 'perl -e 1'],
  ['PERL5LIB', '$D', 'echo "print q(LOADED); 1;" > strict.pm', "perl -e 'use strict'"],
  ['PERLLIB', '$D', 'echo "print q(LOADED); 1;" > strict.pm', "perl -e 'use strict'"],
  ['PERL5DB', 'BEGIN { print "LOADED\\n"; exit }', '', 'perl -d -e 1 < /dev/null'],
  ['PHPRC', '$D', 'echo LOADED > evil; echo "auto_prepend_file=$D/evil" > php.ini', "php -r '' && echo > a && php a"],
  ['PHP_INI_SCAN_DIR', '$D', 'echo LOADED > evil; echo "auto_prepend_file=$D/evil" > a.ini', 'echo > a && php a'],
  ['PYTHONPATH', '$D', 'echo \'print("LOADED")\' > sitecustomize.py', '/usr/bin/python3 -c 0'],
  ['PYTHONSTARTUP', '$D/evil', 'echo \'print("LOADED")\' > evil', '/usr/bin/python3 -i < /dev/null'],
  [
    'PYTHONHOME',
    '$D',
    `V=lib/${python}/encodings; mkdir -p $V; echo 'import posix; posix.write(1, b"LOADED")' > $V/__init__.py`,
    '/usr/bin/python3 -c 0',
  ],
  [
    'PYTHONPLATLIBDIR',
    '..$D',
    `mkdir -p ${python}/encodings; echo 'import posix; posix.write(1, b"LOADED")' > ${python}/encodings/__init__.py`,
    '/usr/bin/python3 -c 0',
  ],
  [
    'PYTHONUSERBASE',
    '$D',
    `V=lib/${python}/site-packages; mkdir -p $V; echo 'print("LOADED")' > $V/usercustomize.py`,
    '/usr/bin/python3 -c 0',
  ],
  [
    'PYTHONPYCACHEPREFIX',
    '$D/cache',
    `mkdir lib; touch lib/mine.py; echo 'print("LOADED")' > evil.py
PYTHONPYCACHEPREFIX=$D/cache /usr/bin/python3 -c '
import importlib.util, py_compile
cached = importlib.util.cache_from_source("'$D'/lib/mine.py")
py_compile.compile("evil.py", cached, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)'`,
    'cd lib && /usr/bin/python3 -c "import mine"',
  ],
  ['PYTHONBREAKPOINT', 'runpy.run_path', 'echo \'print("LOADED")\' > evil', `/usr/bin/python3 -c 'breakpoint("evil")'`],
  ['PYTHONWARNINGS', 'error::this.Zen', '', '/usr/bin/python3 -c 0 | sed s/^Beautiful.*/LOADED/'],
  ['RUBYOPT', '-r$D/evil.rb', 'echo "puts :LOADED" > evil.rb', 'ruby -e 0'],
  ['RUBYLIB', '$D', 'echo "puts :LOADED" > set.rb', 'ruby -e "require %q(set)"'],
  ['RUBYPATH', '$D', 'echo "puts :LOADED" > evil.rb', 'cd / && ruby -S evil.rb'],
  ['RUBYGEMS_GEMDEPS', '$D/Gemfile', 'echo "puts :LOADED" > Gemfile', 'ruby -e "Gem.use_gemdeps"'],
  ['GEM_PATH', '$D', gem, 'ruby -e "require %q(evil)"'],
  ['GEM_HOME', '$D', gem, 'ruby -e "require %q(evil)"'],
  ['BUNDLE_GEMFILE', '$D/Gemfile', 'echo "puts :LOADED" > Gemfile', 'cd / && ruby -e "require %q(bundler/setup)"'],
  ['TCL_LIBRARY', '$D', 'echo "puts LOADED" > init.tcl', 'tclsh < /dev/null'],
  ['TCLLIBPATH', '$D', 'echo "puts LOADED" > pkgIndex.tcl', 'echo "package require evil" | tclsh'],
  ['CLASSPATH', '$D', `echo '${javaClass}' > A.java && javac A.java`, 'cd / && java A'],
  ['JAVA_TOOL_OPTIONS', '-agentpath:$D/evil.so', library, 'java -version'],
  ['JDK_JAVA_OPTIONS', '-agentpath:$D/evil.so', library, 'java -version'],
  ['_JAVA_OPTIONS', '-agentpath:$D/evil.so', library, 'java -version'],
  ['AWKPATH', '$D', 'echo \'BEGIN { print "LOADED" }\' > evil.awk', 'cd / && gawk -f evil.awk'],
  ['GIT_SSH', '$D/evil', program, 'git ls-remote ssh://none/x'],
  ['GIT_SSH_COMMAND', '$D/evil', program, 'git ls-remote ssh://none/x'],
  ['GIT_PROXY_COMMAND', '$D/evil', program, 'git ls-remote git://none/x'],
  ['GIT_ASKPASS', '$D/evil', program, 'printf "protocol=https\\nhost=none\\n\\n" | git credential fill'],
  ['GIT_EDITOR', '$D/evil', program, `${repository}; git config --edit`],
  ['GIT_SEQUENCE_EDITOR', '$D/evil', `${program}; ${repository}; ${commit}`, 'git rebase --interactive --root'],
  ['GIT_EXTERNAL_DIFF', '$D/evil', `${program}; ${repository}; touch a; git add a; echo > a`, 'git diff'],
  ['GIT_EXEC_PATH', '$D', `${program}; mv evil git-evil`, 'git evil'],
  ['GIT_DIR', '$D/.git', `${repository}; ${alias}> .git/config`, 'cd /; git evil'],
  ['GIT_COMMON_DIR', '$D/.git', `${repository}; ${alias}> .git/config; mkdir b; git init -q b`, 'cd b; git evil'],
  ['GIT_CONFIG_GLOBAL', '$D/config', `${alias} config`, 'git evil'],
  ['GIT_CONFIG_SYSTEM', '$D/config', `${alias} config`, 'git evil'],
  ['GIT_CONFIG_PARAMETERS', "'alias.evil'='!echo LOADED'", '', 'git evil'],
  ['GIT_CONFIG_COUNT', '1', '', "GIT_CONFIG_KEY_0=alias.evil GIT_CONFIG_VALUE_0='!echo LOADED' git evil"],
  [
    'GIT_TEMPLATE_DIR',
    '$D/t',
    'mkdir -p t/hooks; printf "#!/bin/sh\\necho LOADED\\n" > t/hooks/pre-commit; chmod +x t/hooks/*',
    `git init -q b; cd b; ${commit}`,
  ],
];

const readNames = scriptSettings.find(({ key }) => key === 'env')?.read;
const refusalOf = (name: string) =>
  `variables that load no code into programs, as ${name} does (env in runner.config.* may set it)`;

test.for(ways)('%s loads code, and @env does not pass it', ([name, value, make, run], { skip }) => {
  const folder = makeTemporaryRoot();
  const own = { PATH: `${dirname(process.execPath)}:/usr/bin:/bin`, HOME: folder, D: folder };
  const shell = (command: string, env: NodeJS.ProcessEnv = {}) => {
    // With a socket as its input, bash takes itself for a shell on another machine.
    const args = ['-c', `exec < /dev/null\n${command}`];
    const { stdout, stderr } = spawnSync('sh', args, { cwd: folder, env: { ...own, ...env }, encoding: 'utf8' });
    return stdout + stderr;
  };
  expect(readNames?.(`API_KEY ${name}`)).toEqual({ expected: refusalOf(name) });

  const without = shell(make) + shell(run);
  if (/: not found$|file -- bundler/m.test(without)) skip('the program is not installed here');
  expect(without).not.toContain('LOADED');
  expect(shell(run, { [name]: value.replaceAll('$D', folder) })).toContain('LOADED');
});

test('the docs name all of them, and no other', () => {
  const page = readFileSync(new URL('../../../docs/security.md', import.meta.url), 'utf8');
  const table = /by which programs load code(.*?)If your scripts need one/s.exec(page)?.[1] ?? '';
  const documented = [...table.matchAll(/`([A-Z][A-Z\d_]+|_[A-Z_]+[A-Z])`/g)].map(([, name]) => name as string);
  expect(documented).toEqual(expect.arrayContaining(ways.map(([name]) => name)));
  for (const name of documented) expect(readNames?.([name])).toEqual({ expected: refusalOf(name) });
  expect(readNames?.('LUA_CPATH_5_4')).toEqual({ expected: refusalOf('LUA_CPATH_5_4') });
});

test.for([
  ...['LD_SDK_KEY', 'ENVIRONMENT', 'NODE_ENV', 'NODE_EXTRA_CA_CERTS', 'PYTHONUNBUFFERED', 'PATH', 'EDITOR'],
  ...['GIT_AUTHOR_NAME', 'GIT_CONFIG_NOSYSTEM', 'RUBY_YJIT_ENABLE', 'PHP_FCGI_CHILDREN', 'perl5lib', 'MY_PERL5LIB'],
])('%s passes', (name) => {
  expect(readNames?.([name])).toEqual({ value: [name] });
});

test('a script that asks for such a variable is refused, by name, and the others run', () => {
  const folder = makeTemporaryRoot({ 'Evil.pm': 'print "LOADED\\n"; 1;\n' });
  const print = 'print "ran\\n";\n';
  const env = { PERL5OPT: '-MEvil', PERL5LIB: folder };
  const { run, stderr } = runPass(
    { 'a.pl': print, 'b.pl': `# @env API_KEY PERL5OPT PERL5LIB\n${print}`, 'c.pl': print },
    { env },
  );
  expect([run('a').output, run('c').output]).toEqual(['ran\n', 'ran\n']);
  const reason = `jobs/hourly/b.pl:1: @env must be ${refusalOf('PERL5OPT')}, found "API_KEY PERL5OPT PERL5LIB"`;
  expect(run('b')).toMatchObject({ outcome: 'not-started', reason });
  expect(stderr).toContain(reason);
});

test('the settings may set such a variable', () => {
  const files = {
    'lib/Evil.pm': 'print "LOADED\\n"; 1;\n',
    'runner.config.json': '{ "env": { "PERL5OPT": "-Ilib -MEvil" } }',
  };
  const { run } = runPass({ 'a.pl': 'print "ran\\n";\n' }, { files });
  expect(run('a').output).toBe('LOADED\nran\n');
});
