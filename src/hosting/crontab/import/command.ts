import { realpathSync } from 'node:fs';
import { basename } from 'node:path';
import { type ParseEntry, parse } from 'shell-quote';

/** One simple command of a crontab line: words between `;`, `&&`, `||`, `|` and brackets. */
export interface Step {
  /** Without redirections; variables stand as `$NAME`. */
  readonly words: readonly string[];
  readonly redirections: readonly Redirection[];
  /** The operator behind the step: `&&`, `|`, `;` … Empty at the end. */
  readonly operator: string;
}

interface Redirection {
  /** `2` of `2>> errors`; null: none is written. */
  readonly stream: string | null;
  /** `>`, `>>`, `<`, `>&` … */
  readonly operator: string;
  readonly target: string;
}

/** The programs of a crontab line, parsed as far as notes and names need it: good for hints, never for running it. */
export interface ShellCommand {
  readonly steps: readonly Step[];
  /** The step that the line is there for, without `nice`, `flock` and the like: the first that does more than prepare. */
  readonly main: Program | null;
  /** Steps before the main one that only prepare it: `sleep $((RANDOM % 60))`. */
  readonly preparations: readonly string[];
  /** Every program that is started, in order. */
  readonly programs: readonly Program[];
  /** The target of `cd`; null: the line stays in the home. */
  readonly folder: string | null;
  /** Whether it leaves something running that nobody waits for: `&`. */
  readonly leavesSome: boolean;
}

export interface Program {
  readonly name: string;
  readonly args: readonly string[];
}

/** @param text as the shell gets it */
export function readShellCommand(text: string): ShellCommand {
  const hidden: string[] = [];
  const steps = readSteps(hideSubstitutions(text, hidden));
  const programs = steps.flatMap(programsOf);
  const start = programs.findIndex((program) => !isPreparation(program));
  const main = programs[start] ?? programs[0] ?? null;
  const change = programs.find(({ name }) => name === 'cd');
  const leavesSome = steps.some(({ operator }) => operator === '&') && !programs.some(({ name }) => name === 'wait');
  const before = programs.slice(0, Math.max(0, start));
  return {
    steps,
    programs,
    main,
    // A shell with a script has the rest of the line in its words.
    preparations: before.filter((program) => shellScriptOf(program) === null).map((each) => textOf(each, hidden)),
    folder: change?.args[0] ?? null,
    leavesSome,
  };
}

function textOf({ name, args }: Program, hidden: readonly string[]): string {
  return [name, ...args].join(' ').replaceAll(SUBSTITUTION, (_, index) => hidden[index] ?? '');
}

/** The placeholder of a substitution in the words of a step. */
export const SUBSTITUTION = /\$substitution(\d+)/g;

/**
 * `$(date +%F)` and `$((RANDOM % 60))` are a word, or part of one, whatever they hold.
 *
 * @param hidden gets what was hidden
 */
function hideSubstitutions(text: string, hidden: string[]): string {
  const hide = (substitution: string) => `$substitution${hidden.push(substitution) - 1}`;
  const start = text.indexOf('$(');
  if (start === -1) return text.replaceAll(/`[^`]*`/g, hide);
  let depth = 0;
  let end = start + 1;
  do {
    depth += text[end] === '(' ? 1 : text[end] === ')' ? -1 : 0;
    end += 1;
  } while (depth > 0 && end < text.length);
  const shown = text.slice(0, start);
  return `${shown}${hide(text.slice(start, end))}${hideSubstitutions(text.slice(end), hidden)}`;
}

function readSteps(text: string): Step[] {
  const steps: Step[] = [];
  let words: string[] = [];
  let redirections: Redirection[] = [];
  let open: Pick<Redirection, 'stream' | 'operator'> | null = null;
  const end = (operator: string) => {
    if (words.length > 0 || redirections.length > 0) steps.push({ words, redirections, operator });
    [words, redirections, open] = [[], [], null];
  };
  // `&>` is one operator, of bash.
  for (const entry of tokensOf(text.replaceAll('&>', '>'))) {
    const word = wordOf(entry);
    if (word === null) {
      const { op } = entry as { readonly op: string };
      if (!/[<>]/.test(op)) end(op);
      else {
        // The number of what is redirected is a word of its own: `2>&1`.
        const stream = /^\d$/.test(words.at(-1) ?? '') ? (words.pop() ?? null) : null;
        open = { stream, operator: op };
      }
    } else if (open === null) words.push(word);
    else {
      redirections.push({ ...open, target: word });
      open = null;
    }
  }
  end('');
  return steps;
}

/** Null: an operator. */
function wordOf(entry: ParseEntry): string | null {
  if (typeof entry === 'string') return entry;
  return 'pattern' in entry ? entry.pattern : null;
}

function tokensOf(text: string): ParseEntry[] {
  try {
    return parse(text, (name: string) => `$${name}`).filter((entry) => typeof entry === 'string' || 'op' in entry);
  } catch {
    // A line that cannot be parsed runs all the same; it only gets fewer notes.
    return text.split(/\s+/).filter(Boolean);
  }
}

/** A program that runs another one. */
interface Wrapper {
  /** Its options that have a value behind them. */
  readonly valued: readonly string[];
  /** How many words stand between its options and the other program. */
  readonly words: number;
}

const WRAPPERS: ReadonlyMap<string, Wrapper> = new Map<string, Wrapper>([
  ['nice', { valued: ['-n'], words: 0 }],
  ['ionice', { valued: ['-c', '-n'], words: 0 }],
  ['timeout', { valued: ['-k', '-s'], words: 1 }],
  ['flock', { valued: ['-w', '-E', '--wait', '--timeout'], words: 1 }],
  ['env', { valued: ['-u', '-C'], words: 0 }],
  ['sudo', { valued: ['-u', '-g', '-h'], words: 0 }],
  ...['nohup', 'time', 'exec', 'command', 'setsid', 'chronic', 'cronic', 'builtin'].map((name): [string, Wrapper] => [
    name,
    { valued: [], words: 0 },
  ]),
]);

/** `nice`, `flock` and the like, which run another program. */
export function isWrapper(name: string): boolean {
  return WRAPPERS.has(basename(name));
}

export const SHELLS = ['sh', 'bash', 'dash', 'ash', 'ksh', 'zsh'];
/** Words of the shell itself. */
export const BUILTINS =
  /^(?:cd|test|\[|\[\[|export|set|unset|umask|ulimit|:|\.|source|true|false|echo|printf|read|wait|exit|return|trap|eval|exec|command|builtin|type|kill|pwd|shift|local|let|case|esac|for|function|in|\(\(|time)$/;

/** Keywords of `if` and loops, which a command follows. */
const KEYWORDS = ['if', 'then', 'else', 'elif', 'while', 'until', 'do', '!', '{', 'fi', 'done', '}'];
const ASSIGNMENT = /^[A-Za-z_]\w*=/;

/** The program of a step, behind what wraps it; the wrappers too, as they may be missing. */
export function programsOf({ words }: Pick<Step, 'words'>): Program[] {
  const start = words.findIndex((word) => !ASSIGNMENT.test(word) && !KEYWORDS.includes(word) && word !== '$');
  const [name, ...args] = start === -1 ? [] : words.slice(start);
  if (name === undefined) return [];
  const program = { name, args };
  const wrapper = WRAPPERS.get(basename(name));
  if (wrapper !== undefined) return [program, ...programsOf({ words: behind(args, wrapper) })];
  const script = shellScriptOf(program);
  return script === null ? [program] : [program, ...readShellCommand(script).programs];
}

function behind(args: readonly string[], { valued, words }: Wrapper): readonly string[] {
  let index = 0;
  while (args[index]?.startsWith('-')) index += valued.includes(args[index] as string) ? 2 : 1;
  const inner = args.slice(index + words);
  // `flock file -c 'command'`
  return inner[0] === '-c' ? ['sh', ...inner] : inner;
}

/** `sh -c 'cd x && y'`, `bash -lc '…'`; null: it is none. */
function shellScriptOf({ name, args }: Program): string | null {
  if (!SHELLS.includes(basename(name))) return null;
  const index = args.findIndex((arg) => /^-[a-z]*c$/.test(arg));
  return index === -1 ? null : (args[index + 1] ?? null);
}

const PREPARATIONS = [
  ...['cd', 'test', '[', '[[', 'sleep', 'export', 'set', 'unset', 'umask', 'ulimit', ':', 'true', '.', 'source'],
  ...['mkdir', 'date', 'shuf', ...WRAPPERS.keys()],
];

function isPreparation(program: Program): boolean {
  const { name, args } = program;
  if (SHELLS.includes(basename(name))) return shellScriptOf(program) !== null;
  return PREPARATIONS.includes(basename(name)) || args.some((arg) => /\bsleep\b.*\brand/.test(arg));
}

const INTERPRETER =
  /^(?:(?:ea-|alt-|ls)?php(?:-cli|-cgi)?[\d.]*|python[\d.]*|perl[\d.]*|ruby[\d.]*|node|sh|bash|dash|ash|ksh|zsh)$/;

export function isInterpreter(name: string): boolean {
  return INTERPRETER.test(basename(name));
}

/** Options of interpreters that have a value, none of which is the script. */
const VALUED = ['-d', '--define', '-c', '-W', '-X', '-I', '-r'];

/** The file that an interpreter is to run: `wp-cron.php` of `php -q wp-cron.php`; null: it is none, or gets no file. */
export function scriptFileOf({
  name,
  args,
}: Program): { readonly file: string; readonly rest: readonly string[] } | null {
  if (!isInterpreter(name)) return null;
  if (!/php/.test(basename(name)) && args.some((arg) => ['-c', '-e', '-m'].includes(arg))) return null;
  if (shellScriptOf({ name, args }) !== null) return null;
  let index = 0;
  while (args[index]?.startsWith('-')) {
    if (args[index] === '-r') return null;
    index += VALUED.includes(args[index] as string) ? 2 : 1;
  }
  const file = args[index];
  return file === undefined ? null : { file, rest: args.slice(index + 1) };
}

/** How long a command waits, in seconds, as far as it says so. */
export interface Waits {
  /** Each time: all of `sleep 20` and the like. */
  readonly fixed: number;
  /** At most, where chance decides. */
  readonly random: number;
  /** The same, before it does anything else. */
  readonly randomStart: number;
}

/**
 * @param text as the shell gets it
 * @param knowsRandom whether `$RANDOM` is a number in the shell of the line
 */
export function readWaits(text: string, { preparations }: ShellCommand, knowsRandom: boolean): Waits {
  const randomWait = (part: string) => longestRandom(part, knowsRandom || CALLS_BASH.test(text));
  const fixed = [...text.matchAll(FIXED)].map(([, count, unit]) => Number(count) * (UNIT_SECONDS[unit || 's'] ?? 1));
  return {
    fixed: fixed.reduce((sum, seconds) => sum + seconds, 0),
    random: randomWait(text),
    randomStart: Math.max(0, ...preparations.map(randomWait)),
  };
}

/** `$RANDOM` in a word of it is a number, whatever shell reads the line. */
export const CALLS_BASH = /\b(?:ba|z|k)sh\s+-\w*c\b/;

function longestRandom(text: string, knowsRandom: boolean): number {
  const forms = RANDOM.filter(([pattern]) => knowsRandom || !pattern.source.includes('RANDOM'));
  return Math.max(0, ...forms.flatMap(([pattern, seconds]) => [...text.matchAll(pattern)].map(seconds)));
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };
const FIXED = /\bsleep\s+(\d+(?:\.\d+)?)([smhd]?)\b/g;

/** `$RANDOM` is at most this. */
const LARGEST_RANDOM = 32_767;

const RANDOM: readonly (readonly [RegExp, (match: RegExpMatchArray) => number])[] = [
  [/\bsleep\b[^;&|]*RANDOM[^;&|%]*%\s*(\d+)/g, ([, most]) => Number(most)],
  [/\bsleep\s+"?\$\{?RANDOM\}?"?(?=\s|;|&|$)/g, () => LARGEST_RANDOM],
  [/\bsleep\b[^;&|]*\bshuf\s+-i\s*\d+-(\d+)/g, ([, most]) => Number(most)],
  [/\bsleep\b[^;&|]*\brand\(\s*(\d+)/g, ([, most]) => Number(most)],
  [/\bsleep\b[^;&|]*\brandom\(\)\s*\*\s*(\d+)/g, ([, most]) => Number(most)],
  [/\bsleep\b[^;&|]*\brand(?:int|range)\([^)]*?(\d+)\s*\)/g, ([, most]) => Number(most)],
];

/** The program behind a shell's path: `dash` of `/bin/sh` on Debian, `bash` on Enterprise Linux. */
export function shellBehind(shell: string): string {
  try {
    return basename(realpathSync(shell));
  } catch {
    return basename(shell);
  }
}

const LIKE_BASH = /^(?:bash|zsh|ksh\w*|mksh|jailshell)$/;

/** Whether it understands what bash adds to the language of `sh`. */
export function isLikeBash(shell: string): boolean {
  return LIKE_BASH.test(basename(shell)) || LIKE_BASH.test(shellBehind(shell));
}

/** Whether `$RANDOM` is a number there; elsewhere it is empty. Busybox has it, too. */
export function knowsRandom(shell: string): boolean {
  return isLikeBash(shell) || /^(?:busybox|ash)$/.test(shellBehind(shell));
}

/** Forms that only bash understands. In quotes of some kind they mean nothing to the shell that reads the line. */
const BASH_WORDS: readonly (readonly [form: RegExp, isAlsoIn: 'double quotes' | 'no quotes'])[] = [
  [/\$\{\w+(?:\[|\^|,|\/|:\d)[^}]*\}/, 'double quotes'],
  [/(?<![\w$])\(\(/, 'no quotes'],
  [/<<<|[<>]\(|\|&/, 'no quotes'],
  [/\{\w+\.\.\w+\}|\{[\w./-]*,[\w./,-]*\}/, 'no quotes'],
  [/(?<!\S)\w+=\(/, 'no quotes'],
  [/\[\[/, 'no quotes'],
  [/(?<!\S)(?:pushd|popd|declare|typeset|let|shopt|mapfile|readarray|source|function)(?=\s)/, 'no quotes'],
  [/\bset\s+-\w*o\s+pipefail\b/, 'no quotes'],
  [/(?<![\w.])trap\s.*\sERR\b/, 'double quotes'],
];

/** The first such word of a command; null: there is none. */
export function findBashWord(text: string): string | null {
  const inDouble = text.replaceAll(/\\.|'[^']*'/gs, '');
  const unquoted = inDouble.replaceAll(/"[^"]*"/gs, '');
  for (const [form, place] of BASH_WORDS) {
    const [word] = form.exec(place === 'no quotes' ? unquoted : inDouble) ?? [];
    if (word !== undefined) return word;
  }
  return null;
}

/** Whether a quote, `$(` or backtick of a command has no end. */
export function isLeftOpen(text: string): boolean {
  let quote: string | null = null;
  let depth = 0;
  let backticks = 0;
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index] as string;
    if (character === '\\' && quote !== "'") index += 1;
    else if (quote === "'") quote = character === "'" ? null : quote;
    else if (character === '`') backticks += 1;
    else if (text.startsWith('$(', index)) {
      depth += 1;
      index += 1;
    } else if (character === ')' && depth > 0) depth -= 1;
    else if (character === '"') quote = quote === null ? '"' : null;
    else if (character === "'" && quote === null) quote = "'";
  }
  return quote !== null || depth > 0 || backticks % 2 === 1;
}
