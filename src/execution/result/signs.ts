/** A line by which a program says that something failed, even if the script ignored it. */
export interface Sign {
  readonly line: string;
  /** The program that a shell did not find; null: the line is about something else. */
  readonly missing: string | null;
}

/**
 * The beginning of a shell's complaint about a script: the script's path, which may contain spaces, or the shell's own
 * name.
 */
const SHELL = String.raw`(?:(?:\.{0,2}/|jobs/)[^\n:]{1,255}|(?=[^\s:]*[/.]|\w*sh:)[^\s:]{1,255}): (?:-c: )?(?:eval: )?`;

/**
 * Dash puts no word before a line number: so the name of a web page, or of another file with an ending, is excluded.
 */
const DASH = String.raw`(?![^\n:]{0,255}\.(?!\w{0,8}sh:|\d+:)\w{1,10}: )${SHELL}`;

const SIGNAL = '(?:Killed|Segmentation fault|Bus error|Aborted|Illegal instruction|Trace/breakpoint trap)';

const IMPOSSIBLE =
  '(?:No such file or directory|Permission denied|Is a directory|Not a directory|Read-only file system|No space left on device|Disk quota exceeded|Argument list too long|Cannot allocate memory|Text file busy)';

/**
 * Error lines of these programs, in English and from the beginning of a line. Parts are bounded, so that no line takes
 * long. Casual messages that a script may well expect (`grep: x: No such file or directory`) are left out.
 */
const forms: readonly string[] = [
  // bash, and BusyBox with "line"
  String.raw`${SHELL}line \d+: .{1,300}?: (?:command )?not found\b`,
  String.raw`${SHELL}line \d+: .{1,300}: (?:${IMPOSSIBLE}|unbound variable|bad substitution|ambiguous redirect)$`,
  String.raw`${SHELL}line \d+: (?:syntax error|unexpected EOF|\[: |cannot execute|cannot create temp file|fork: )`,
  String.raw`${SHELL}line \d+: .{1,200}: (?:cannot execute|bad interpreter|division by 0)`,
  String.raw`${SHELL}line \d+: +\d+ ${SIGNAL}\b`,
  // dash: the shell `sh` of Debian and Ubuntu
  String.raw`${DASH}\d+: (?:eval: |exec: |echo: |printf: )?[^\s:]{0,200}\r?: (?:not found|Permission denied|Exec format error|parameter not set|I/O error)$`,
  String.raw`${DASH}\d+: (?:Syntax error: |cannot (?:create|open) |cd: can't cd to |Bad substitution|\[: |Cannot fork|(?:\w+: )?Illegal )`,
  // zsh, ksh, shells without a line number
  String.raw`[^\s:]{1,255}:\d+: (?:command not found: |no such file or directory: |permission denied: |parse error )`,
  String.raw`[^\s:[]{1,255}\[\d+\]: .{1,200}: not found\b`,
  String.raw`(?:(?:ba|da|k|z|a)?sh|sudo): [^\s:]{1,200}: (?:command )?not found$`,
  // programs that start other programs
  String.raw`(?:/\S{1,255}/)?(?:env|nohup|timeout|nice|ionice|xargs|setsid|stdbuf|flock|time): (?:failed to (?:run command|execute) |cannot run )?.{1,200}: No such file or directory$`,
  'sudo: (?:a password is required|a terminal is required|no tty present)',
  // a signal that ended a part of the script
  String.raw`${SIGNAL}(?: \(core dumped\))?$`,
  // PHP on a command line, in a log, as a web page
  String.raw`(?:PHP )?(?:Fatal|Parse) error: {1,2}\S`,
  '(?:<br />)?<b>(?:Fatal|Parse) error</b>: ',
  'Could not open input file: ',
  // consoles of Symfony and Laravel, and of WordPress
  String.raw`In \S{1,255}\.php line \d+:$`,
  'Error: (?:Error establishing a database connection|This does not seem to be a WordPress install)',
  // Python, Node, Perl, Ruby, Java
  String.raw`Traceback \(most recent call last\):$`,
  '(?:SyntaxError|IndentationError|TabError|EOFError): ',
  String.raw`(?:/\S{1,255}/)?python[\d.]*: (?:can't open file |No module named )`,
  String.raw`Node\.js v\d+\.\d+\.\d+$`,
  'FATAL ERROR: .{1,200} JavaScript heap out of memory',
  'npm (?:error|ERR!) code ',
  String.raw`Can't locate \S+ in @INC`,
  String.raw`syntax error at \S+ line \d+, near `,
  String.raw`Undefined subroutine \S+ called at `,
  `Can't open perl script `,
  String.raw`\S{1,255}:\d+:in .{1,200} \([A-Z][\w:]*(?:Error|Exception|ENO\w+|EACCES)\)$`,
  String.raw`[^\s:]{1,255}:\d+: syntax errors?\b`,
  String.raw`ruby: .{1,300} \(LoadError\)$`,
  'Exception in thread "main" ',
  // databases
  String.raw`(?:mysqldump|mariadb-dump|mysqladmin|mariadb-admin|mysqlimport|mysqlcheck): (?:Got error|Error|Couldn't|\[ERROR\]|unknown (?:option|variable))`,
  String.raw`ERROR \d{4} \([0-9A-Z]{5}\)`,
  'Error: unable to open database ',
  '(?:psql|pg_dump|pg_dumpall|pg_restore|createdb|dropdb|vacuumdb|reindexdb): (?:error|fatal): ',
  // copies and archives
  String.raw`rsync error: .{1,300} \(code \d+\) at `,
  'tar: (?:Exiting with failure status|Error is not recoverable|Error exit delayed)',
  'gzip: .{1,200}: (?:unexpected end of file|not in gzip format|No space left on device)',
  // after curl's progress meter, which ends without a line feed
  String.raw`[ \d:kMGTP.-]{0,120}curl: \(\d+\) `,
  'wget: unable to resolve host address',
  String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ERROR \d{3}: `,
  'Connecting to .{1,300}failed: ',
  '(?:zip error: |unzip: {1,2}cannot find or open )',
  'ssh: (?:connect to host|Could not resolve hostname) ',
  'Host key verification failed',
  String.raw`[\w.-]{1,64}@[\w.-]{1,255}: Permission denied \(`,
  'fatal: (?:not a git repository|unable to access|[Cc]ould not read|Authentication failed|Not possible to)',
  // the package's own jobs, before anybody has configured them
  String.raw`Nothing is \w{1,20}: set [A-Z_]{1,40} to `,
  // a full disk, reported by any program
  String.raw`[\w./-]{1,100}: .{0,300}(?:No space left on device|Disk quota exceeded)$`,
];

const anySign = new RegExp(`^(?:${forms.join('|')})`, 'gm');

/** Most signs to collect; more add nothing. */
const MOST_SIGNS = 100;

/** The lines of an output by which it says that something failed, in their order. */
export function findSigns(text: string): readonly Sign[] {
  const signs: Sign[] = [];
  for (const { index } of text.matchAll(anySign)) {
    const line = describeAt(text, index);
    const isRepeated = signs.some((sign) => sign.line === line || sign.line === `PHP ${line}`);
    if (!isRepeated) signs.push({ line, missing: findMissing(line) });
    if (signs.length === MOST_SIGNS) break;
  }
  return signs;
}

const LONGEST_LINE = 300;

function lineAt(text: string, start: number): string {
  const end = text.indexOf('\n', start);
  const line = text.slice(start, Math.min(end === -1 ? text.length : end, start + LONGEST_LINE)).trim();
  return line.replace(/^[ \d:kMGTP.-]+(?=curl: )/, '');
}

/** The first line that Python prints, and the last one that Node prints, say less than the error itself. */
function describeAt(text: string, start: number): string {
  const line = lineAt(text, start);
  if (line.startsWith('Traceback ')) return findAfter(text, start) ?? line;
  return line.startsWith('Node.js v') ? (findBefore(text, start) ?? line) : line;
}

const NEAR = 8_000;

/** The first line after a Python traceback that is not indented: "ValueError: boom". */
function findAfter(text: string, start: number): string | null {
  const rest = text.slice(start, start + NEAR);
  const found = /\n(?=[^\s])/.exec(rest);
  return found === null ? null : lineAt(rest, found.index + 1) || null;
}

/** The line before a JavaScript stack: "TypeError: x is not a function". */
function findBefore(text: string, start: number): string | null {
  const lines = text.slice(Math.max(0, start - NEAR), start).split('\n');
  return lines.findLast((line) => /^(?:Uncaught )?\w*(?:Error|Exception)\b/.test(line))?.slice(0, LONGEST_LINE) ?? null;
}

const missingForms = [
  /: command not found: ([^\s/]+)/,
  /: ([^\s:/]+): (?:command )?not found\b/,
  /^(?:\S*\/)?(?:env|nohup|timeout|nice|ionice|xargs|setsid|stdbuf|flock|time): (?:failed to \w+(?: command)? |cannot run )?['‘"]?([^\s/'’"]+)['’"]?: No such/,
];

function findMissing(line: string): string | null {
  if (!/not found|No such file/.test(line)) return null;
  for (const form of missingForms) {
    const name = form.exec(line)?.[1];
    if (name !== undefined) return name;
  }
  return null;
}
