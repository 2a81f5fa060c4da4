import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, test } from 'vitest';
import { scriptSettings } from '../../../src/settings/script-settings.ts';
import { runPass } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

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
