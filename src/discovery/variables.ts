import type { Fault } from '../system/base/errors.ts';
import type { Launch, Script } from './script.ts';
import { isShell, readScriptFile } from './script-file.ts';

/** A variable that a script reads, and does not get. */
export interface UnsetVariable {
  readonly name: string;
  /** Whether the caller has it. */
  readonly isWithheld: boolean;
}

interface Sources {
  /** Names of the variables that the script gets. */
  readonly given: ReadonlySet<string>;
  /** Names of the variables that the runner's caller has. */
  readonly held: ReadonlySet<string>;
}

/**
 * The variables that a script reads although nothing sets them. Those of the caller count wherever the script names
 * them; others only if the script can neither have set them itself nor does without them.
 */
export function findUnset(
  { path, launch }: Pick<Script, 'path' | 'launch'>,
  { given, held }: Sources,
): UnsetVariable[] {
  const source = readHead(path);
  const withheld = [...held].filter((name) => isOfSite(name) && !given.has(name) && reads(source, name));
  const others = demandsOf(source, launch).filter((name) => !given.has(name) && !held.has(name));
  return [
    ...withheld.map((name) => ({ name, isWithheld: true })),
    ...others.map((name) => ({ name, isWithheld: false })),
  ];
}

/** One fault for each kind, with its cure; its words follow a script's name, or "it". */
export function describeUnset(unset: readonly UnsetVariable[], caller: string): readonly Fault[] {
  const namesOf = (isWithheld: boolean): string =>
    unset.flatMap((each) => (each.isWithheld === isWithheld ? each.name : [])).join(' ');
  const [withheld, missing] = [namesOf(true), namesOf(false)];
  const shown = (names: string): string => names.replaceAll(' ', ', ');
  const valuesOf = (names: string): string => (names.includes(' ') ? 'values' : 'value');
  return [
    ...(withheld === ''
      ? []
      : [
          {
            found: `reads ${shown(withheld)}, which ${caller} sets and scripts do not get`,
            cure: `add the comment \`# @env ${withheld}\` to the script, or write the ${valuesOf(withheld)} into .env`,
          },
        ]),
    ...(missing === ''
      ? []
      : [{ found: `reads ${shown(missing)}, which nothing sets`, cure: `write the ${valuesOf(missing)} into .env` }]),
  ];
}

function readHead(path: string): string {
  try {
    const file = readScriptFile(path);
    const head = typeof file === 'string' ? '' : file.head.toString('utf8');
    // A compiled program.
    return head.includes('\0') ? '' : head;
  } catch {
    return '';
  }
}

/** `$SHOP`, `env.SHOP`, `getenv('SHOP')` …; not where the script sets it itself. */
function reads(source: string, variable: string): boolean {
  const read = new RegExp(String.raw`(?:\$\{?|env\.|(?:env|environ|ENV|getenv|get)[[(]["'])${variable}\b`);
  return read.test(source) && !new RegExp(String.raw`^\s*(?:export\s+)?${variable}=`, 'm').test(source);
}

/** Variables of the system, of shells, and such as programs look at without needing them. */
const usual =
  /^(?:HOME|LOGNAME|USER|USERNAME|SHELL|PATH|(?:OLD)?PWD|SHLVL|_|LANG|LANGUAGE|LC_\w+|TZ|CRON_TZ|MAIL\w*|RUNNER_\w+|NODE_\w+|CI|DEBUG|VERBOSE|TERM|COLORTERM|COLUMNS|LINES|(?:NO|FORCE)_COLOR|EDITOR|PAGER|DISPLAY|TMPDIR|TE?MP|HOSTNAME|HOSTTYPE|OSTYPE|MACHTYPE|XDG_\w+|\w+_PROXY|SSH_\w+|INVOCATION_ID|BASH\w*|ZSH\w*|E?UID|P?PID|GID|RANDOM|SRANDOM|SECONDS|EPOCH\w+|LINENO|FUNCNAME|PIPESTATUS|DIRSTACK|GROUPS|REPLY|OPTARG|OPTIND|OPTERR|IFS|PS\d|PROMPT\w*|HIST\w*|COMP\w*|ENVIRON|FNR|OFS|ORS)$/;

function isOfSite(name: string): boolean {
  return !usual.test(name);
}

/** The names that a script cannot do without. */
function demandsOf(source: string, launch: Launch): readonly string[] {
  const demanded = isShell(launch) ? demandsOfShell(source) : demandsOfCode(source);
  return [...new Set(demanded)].filter(isOfSite);
}

/** Text between single quotes, a character after a backslash, a comment, or a here-document without expansions. */
const quoted = /("(?:\\[\s\S]|[^"\\])*")|(?<=<<-? *['"\\](\w+)\b.*)\n[\s\S]*?^\t*\2$|'[^']*'|\\.|(?<!\S)#.*/gm;

/** Another file, or a text, may set any variable. */
const setsOthers = /(?:^|[\s;&|(])(?:\.|source|eval|set -\w*a\w*|set -o allexport)[ \t]/m;

/** `for NAME`, `read NAME`, `local NAME` …, and a test whether it is set. */
const treatsNames =
  /\b(?:for|select|read|getopts|mapfile|readarray|local|declare|typeset|readonly|export|unset|let|printf[ \t]+-v)\b[^\n;|&]*|\(\([^\n]*?\)\)|(?<![\w-])-[nzv][ \t]+["']?\$?\{?\w+/g;

/** `$NAME`, `${NAME}`, `${NAME%/}`, `${NAME:?}`; not `${NAME:-other}`. */
const shellRead = /\$(?:([A-Z][A-Z\d_]{2,})(?![\w[])|\{([A-Z][A-Z\d_]{2,})(?!\w|:?[-+=]))/g;

function demandsOfShell(source: string): readonly string[] {
  const code = source.replace(quoted, (_, text: string | undefined) => text ?? '');
  if (setsOthers.test(code)) return [];
  const treated = new Set(
    (code.match(treatsNames) ?? []).flatMap(
      (words) => words.match(/(?<!\$\{?)\b[A-Z]\w+|(?<=-[nzv][ \t]+["']?\$?\{?)\w+/g) ?? [],
    ),
  );
  const assigned = new Set(
    Array.from(code.matchAll(/(?<![$\w{])([A-Z]\w+)(?:\[[^\]\n]*\])?\+?=/g), ([, name]) => name),
  );
  const defaulted = new Set(Array.from(code.matchAll(/\$\{([A-Z]\w+):?[-+=]/g), ([, name]) => name));
  return Array.from(code.matchAll(shellRead), ([, plain, braced]) => plain ?? braced ?? '').filter(
    (name) => !treated.has(name) && !assigned.has(name) && !defaulted.has(name),
  );
}

/** A script that reads such a file itself has more variables than the runner knows. */
const readsFiles = /dotenv|loadEnvFile|parseEnv|['"`/]\.env\b/i;

const name = String.raw`([A-Z][A-Z\d_]{2,})`;
const quotedName = `["']${name}["']`;

/** Expressions that read a variable in JavaScript, PHP and Python, Ruby, and Perl. */
const codeRead = new RegExp(
  [
    String.raw`process\.env\.${name}\b`,
    String.raw`(?:process\.env|os\.environ|\$_ENV|\bENV)\[${quotedName}\]`,
    String.raw`\b(?:getenv|ENV\.fetch)\(\s*${quotedName}\s*\)`,
    String.raw`\$ENV\{["']?${name}["']?\}`,
  ].join('|'),
  'g',
);

/** The text behind a variable that has a default, is tested for, or is set. */
const isOptional = /^!?\s*(?:\?\?|\|\||&&|\?[:.]?|\/\/|or\b|and\b|if\b|=)/;
/** `if (!process.env.SHOP) throw` */
const isDemanded = /^\s*\)*:?\s*\{?\s*(?:throw|raise|die|exit|abort|process\.exit|sys\.exit|console\.error)\b/;
const isAsked = /(?:[!]|\bnot|\bif\s*\(?|\bunless|\bdefined|\bisset\(|\bempty\(|\btypeof|\bdelete|&&|\|\|)\s*$/;

function demandsOfCode(source: string): readonly string[] {
  if (readsFiles.test(source)) return [];
  const code = source.replace(/^\s*(?:\/\/|#|\*|\/\*).*$/gm, '');
  const found = Array.from(code.matchAll(codeRead), (match) => ({
    name: match.slice(1).find((each) => each !== undefined) ?? '',
    isFree: isFree(code.slice(0, match.index).slice(-20), code.slice(match.index + match[0].length)),
  }));
  const optional = new Set(found.filter(({ isFree }) => isFree).map((each) => each.name));
  return found.map((each) => each.name).filter((each) => !optional.has(each));
}

function isFree(before: string, after: string): boolean {
  return isOptional.test(after) || (isAsked.test(before) && !isDemanded.test(after));
}
