import { existsSync, statSync } from 'node:fs';
import { basename, isAbsolute, resolve } from 'node:path';
import { findProgram, isExecutable } from '../../../system/process/programs.ts';
import { LIKE_SH } from '../own-line.ts';
import {
  BUILTINS,
  CALLS_BASH,
  findBashWord,
  isLeftOpen,
  isLikeBash,
  knowsRandom,
  type Program,
  programsOf,
  SHELLS,
  type ShellCommand,
  type Step,
  SUBSTITUTION,
  scriptFileOf,
  shellBehind,
  type Waits,
} from './command.ts';
import { CRON_PATH, type CrontabJob } from './read.ts';
import { continues, describeLateness, passedOn, splitInput } from './script.ts';

/** The facts about a line that the notes are judged by. */
interface NotedJob {
  readonly job: CrontabJob;
  readonly command: ShellCommand;
  readonly waits: Waits;
  readonly tier: string;
  /** Whether its waits have moved it there. */
  readonly isThereForWaits: boolean;
  /** Whether a coarser tier could run it on the next day. */
  readonly isThereForDay: boolean;
  /** Its `@timeout`: `6h` */
  readonly timeout: string;
  /** The folder in which cron starts commands. */
  readonly home: string;
  /** Variables that cron of this host adds to those of the crontab. */
  readonly given: ReadonlyMap<string, string>;
  /** The `MAILTO` above the runner's own lines. */
  readonly mailTo: string | undefined;
}

/** The folders in which a command looks for programs and files. */
interface Surroundings extends NotedJob {
  /** As the shell gets it. */
  readonly text: string;
  readonly path: string;
  readonly folder: string | null;
}

/** Notes for the user about a script made from a line, one sentence each; differences from cron come first. */
export function noteJob(noted: NotedJob): string[] {
  const { job, command } = noted;
  const home = job.variables.get('HOME') ?? noted.home;
  const around: Surroundings = {
    ...noted,
    home,
    text: splitInput(job.command).command,
    path: job.variables.get('PATH') ?? CRON_PATH,
    folder: folderOf(command, home),
  };
  return [
    ...RULES.flatMap((rule) => rule(around)),
    ...command.programs.flatMap((program) => noteProgram(program, around)),
  ];
}

type Rule = (around: Surroundings) => readonly string[];

const RULES: readonly Rule[] = [
  noteTime,
  noteZone,
  noteGiven,
  notePercent,
  noteWait,
  noteOutput,
  noteMail,
  notePassword,
  ({ text }) =>
    continues(text)
      ? ['It ends in a backslash, but no line of a crontab goes on in the next one: cron runs it as it stands here.']
      : [],
  noteShell,
  noteBackground,
  noteBash,
  noteRandom,
  ({ command }) => noteExitCode(command),
];

function noteShell({ job }: Surroundings): readonly string[] {
  const shell = job.variables.get('SHELL');
  if (shell === undefined || isExecutable(shell)) return [];
  return [`SHELL is ${shell}, which is not a program here: neither cron nor the script can run it.`];
}

/** Notes `&`, and bash's `&>` if another shell reads it. */
function noteBackground({ job, text, command }: Surroundings): readonly string[] {
  const left = command.leavesSome
    ? ['It leaves a program running in the background, of which the log knows neither output nor end: take out the &.']
    : [];
  return isLikeBash(shellOf(job)) || !/&>/.test(text)
    ? left
    : [...left, '&> is of bash: another shell runs the command in the background. Write > file 2>&1 in its place.'];
}

function noteBash({ job, text }: Surroundings): readonly string[] {
  const shell = shellOf(job);
  if (isLikeBash(shell) || !LIKE_SH.test(shell)) return [];
  const found = findBashWord(text);
  if (found === null) return [];
  return [`${found} is of bash, and ${describeShell(shell)} does not know it, under cron, too: ${USE_BASH}.`];
}

const USE_BASH = 'make the first line #!/bin/bash';

/** "/bin/sh, which is dash here," */
function describeShell(shell: string): string {
  const program = shellBehind(shell);
  return program === basename(shell) ? shell : `${shell}, which is ${program} here,`;
}

function noteRandom({ job, text }: Surroundings): readonly string[] {
  const shell = shellOf(job);
  if (!/\$\{?RANDOM\b|\(\(.*\bRANDOM\b/.test(text) || CALLS_BASH.test(text) || knowsRandom(shell)) return [];
  return [`$RANDOM is of bash, and empty in ${describeShell(shell)} under cron, too: ${USE_BASH} for a number.`];
}

function shellOf({ variables }: CrontabJob): string {
  return variables.get('SHELL') ?? '/bin/sh';
}

function noteTime({ job, tier, isThereForDay }: Surroundings): readonly string[] {
  if (job.times === '@reboot') {
    return [
      `It runs in the first pass after a boot, up to ${describeLateness(tier)} later.`,
      'If it keeps running, as a server does, leave it in the crontab: a pass would wait for its end.',
    ];
  }
  const lateness = describeLateness(tier);
  return [
    ...(lateness === null ? [] : [`It may begin up to ${lateness} after its time.`]),
    ...(isThereForDay ? [`It is in ${tier} to begin before midnight: a rarer pass could come on the next day.`] : []),
  ];
}

function noteGiven({ job, given }: Surroundings): readonly string[] {
  const names = passedOn(job, given);
  if (names.length === 0) return [];
  return [`Cron of this host gives it ${listNames(names)}, by PAM: the script takes them from its caller with @env.`];
}

/** "A, B and C" */
function listNames(names: readonly string[]): string {
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
}

/** Most who write one do not know it. */
function notePercent({ job, text }: Surroundings): readonly string[] {
  if (splitInput(job.command).input === null) return [];
  const cut = 'The first % without a backslash ends its command, for cron, too, and what follows is its input';
  return isLeftOpen(text)
    ? [`${cut}. The command is broken there, in a quote or a bracket: write all of it in the script.`]
    : [`${cut}: if that % belongs to the command, write all of it in the script.`];
}

function noteZone({ job }: Surroundings): readonly string[] {
  const zone = job.variables.get('CRON_TZ');
  if (zone === undefined) return [];
  return [`Its times are in ${zone}, as CRON_TZ says; a cron that ignores CRON_TZ ran it in the machine's zone.`];
}

function noteWait(around: Surroundings): readonly string[] {
  const {
    command,
    waits: { fixed, random },
  } = around;
  const seconds = fixed + random;
  const waits = seconds < 2 ? [] : [`It may wait ${describeSeconds(seconds)}, ${adviseOnWait(around)}`];
  return [...waits, ...command.programs.flatMap((program) => noteLock(program, around))];
}

function noteLock({ name, args }: Program, { tier, timeout }: Surroundings): readonly string[] {
  if (basename(name) !== 'flock') return [];
  const notes = ['It needs no flock here: a script never runs twice at the same time.'];
  // With it, times were skipped while it ran: it may well run beyond its next time.
  const isSkipping = args.some((arg) => /^(?:-\w*n\w*|--nb|--nonblock)$/.test(arg));
  return isSkipping
    ? [
        ...notes,
        `While it runs, the other scripts of ${tier} wait, and after ${timeout} it is ended: if it takes long, move it to ` +
          'a separate tier and raise its @timeout.',
      ]
    : notes;
}

function adviseOnWait({ tier, isThereForWaits }: Surroundings): string {
  if (!isThereForWaits) return `and the other scripts of ${tier} with it: remove the wait if it is not needed.`;
  return `therefore it is in ${tier}: other scripts there would wait with it. Without the wait it could be elsewhere.`;
}

export function describeSeconds(seconds: number): string {
  if (seconds < 120) return `${seconds} seconds`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} minutes` : `${Math.round(seconds / 3600)} hours`;
}

/** Files that take the output, so that the log never sees it. */
function noteOutput({ command }: Surroundings): readonly string[] {
  const all = command.steps.flatMap(({ redirections }) => redirections);
  const targets = all.filter(({ operator, target }) => operator.includes('>') && !/^(?:\d|-|&\d)$/.test(target));
  const filesOf = (isOfErrors: boolean): string[] => {
    const own = targets.filter(({ stream }) => (stream === '2') === isOfErrors);
    return [...new Set(own.map(({ target }) => target.replaceAll(SUBSTITUTION, '$(...)')))];
  };
  const [output, errors] = [filesOf(false), filesOf(true)];
  const kept = (files: readonly string[]) => files.filter((file) => file !== '/dev/null').join(' and ');
  return [
    output.includes('/dev/null') ? 'It discards its output; remove `> /dev/null` to keep it in the log.' : '',
    kept(output) === '' ? '' : `It writes its output to ${kept(output)}, so the log has none of it.`,
    errors.includes('/dev/null') ? 'It discards its errors; remove `2> /dev/null` to keep them in the log.' : '',
    kept(errors) === '' ? '' : `It writes its errors to ${kept(errors)}: the log has the rest of its output.`,
  ].filter((note) => note !== '');
}

/** Failures go where the runner's lines stand in the crontab, not where this line stood. */
function noteMail({ job, mailTo }: Surroundings): readonly string[] {
  const before = job.variables.get('MAILTO');
  if (before !== mailTo) return [`${describeMailBefore(before)}; ${describeMailNow(mailTo)}`];
  if (before === undefined) return [];
  if (before === '') return ['MAILTO is empty: nobody gets mail of its failures, unless you set up alerts.'];
  return [`Cron mailed its output to ${before}; of the script only failures are mailed.`];
}

function describeMailBefore(address: string | undefined): string {
  return address === '' ? 'Cron mailed nothing of it' : `Cron mailed its output to ${address ?? 'your account'}`;
}

function describeMailNow(address: string | undefined): string {
  if (address === '') {
    return (
      'of the script not even failures are mailed, as MAILTO is empty above the lines of the runner: ' +
      'set it there, or set up alerts.'
    );
  }
  return address === undefined
    ? 'failures of the script are mailed to your account, as no MAILTO stands above the lines of the runner.'
    : `failures of the script are mailed to ${address}, by the MAILTO above the lines of the runner.`;
}

const PASSWORDS: readonly RegExp[] = [
  /\s--?pass(?:word|wd)?[= ]\S/i,
  /\bPASSW(?:OR)?D=\S|\b(?:MYSQL_PWD|PGPASSWORD)=\S/i,
  /:\/\/[^\s/@:]+:[^\s/@]+@/,
  /[?&](?:\w*key|token|secret|pass\w*)=\w/i,
  /\/cron\/[\w-]{8,}/,
  /\bmysql\w*\b.*\s-p\S/,
  /\bcurl\b.*\s(?:-u|--user)[ =]?\S+:\S/,
];

function notePassword({ text }: Surroundings): readonly string[] {
  if (!PASSWORDS.some((form) => form.test(text))) return [];
  return ['It holds a password or a key: the script is readable for you alone, but `ps` shows it while it runs.'];
}

/** In which folder the program runs: the home, or where `cd` leads; null: only the shell knows. */
function folderOf({ folder }: ShellCommand, home: string): string | null {
  const target = (folder ?? home).replace(/^(?:~|\$HOME)(?=\/|$)/, home);
  return /[$`*]/.test(target) ? null : resolve(home, target);
}

const NEEDS_TERMINAL: readonly (readonly [RegExp, RegExp])[] = [
  [/^top$/, /^(?!.* -\w*b)/],
  [/^(?:htop|vim?|nano|less|more|watch|passwd)$/, /^/],
  [/^(?:screen|tmux)$/, /^(?!.*(?: -d| -S| new-session -d))/],
  [/^(?:docker|podman)$/, / -(?:it|ti|t)\b| --tty\b/],
  [/^(?:mysql|mysqldump|mysqladmin)$/, / (?:-p|--password)(?: |$)/],
];

function noteProgram(program: Program, around: Surroundings): readonly string[] {
  const notes = [...noteMissing(program, around), ...noteFile(program, around)];
  const line = ` ${program.args.join(' ')}`;
  const needs = NEEDS_TERMINAL.find(([name, args]) => name.test(basename(program.name)) && args.test(line));
  if (needs !== undefined) notes.push(`${program.name} needs a terminal here, and scripts have none.`);
  if (basename(program.name) === 'curl' && !/ (?:-\w*f|--fail)/.test(line)) {
    notes.push('curl succeeds even if the page answers 404 or 500: add --fail.');
  }
  return notes;
}

function noteMissing({ name }: Program, around: Surroundings): readonly string[] {
  const { path, folder } = around;
  // A number is of `case 6|7)`.
  if (BUILTINS.test(name) || /[$`*{}()]|^\d+$/.test(name) || name === '') return [];
  if (!name.includes('/')) {
    if (setsPath(around)) return [];
    const isFound = path.split(':').some((part) => isAbsolute(part)) && findProgram(name, path) !== null;
    return isFound
      ? []
      : [`${name} is not found on its PATH (${path}): write its full path, or set PATH in the script.`];
  }
  const file = pathOf(name, folder);
  const missing = file === null || isExecutable(file) ? [] : [describeUnfit(name, file)];
  return [...noteRelative(name, around), ...missing];
}

/** Whether only the shell knows where the line looks for programs: it reads a file, or sets the path itself. */
function setsPath({ text, command }: Surroundings): boolean {
  const isReader = ({ name, args }: Program) =>
    ['.', 'source', 'eval'].includes(name) ||
    (SHELLS.includes(basename(name)) && args.some((arg) => /^(?:-\w*l\w*|--login)$/.test(arg)));
  return /(?<!\w)PATH=/.test(text) || command.programs.some(isReader);
}

function describeUnfit(name: string, file: string): string {
  return existsSync(file) ? `${name} is not executable.` : `${name} does not exist.`;
}

function noteFile(program: Program, around: Surroundings): readonly string[] {
  const script = scriptFileOf(program);
  if (script === null || /[$`*]/.test(script.file)) return [];
  const file = pathOf(script.file, around.folder);
  const missing = file === null || isFile(file) ? [] : [`${script.file} does not exist.`];
  return [...noteRelative(script.file, around), ...missing];
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

function pathOf(name: string, folder: string | null): string | null {
  if (isAbsolute(name)) return name;
  return folder === null || name.startsWith('~') ? null : resolve(folder, name);
}

function noteRelative(name: string, { folder, home }: Surroundings): readonly string[] {
  if (isAbsolute(name) || /^[~$]/.test(name) || folder !== home) return [];
  return [`${name} is relative to your home, where cron starts commands, and the script too.`];
}

/** Notes commands that end with another code than 0 although nothing is wrong: cron ignores the code. */
function noteExitCode({ steps }: ShellCommand): readonly string[] {
  const list = lastList(steps);
  const last = list.at(-1);
  if (last === undefined || last.operator === '&') return [];
  if (list.some((step) => step !== last && step.operator === '&&' && TEST.test(nameOf(step)))) {
    return [
      'It ends with code 1 when its test says no, and that counts as a failure here: ' +
        'write `if …; then …; fi` in the script.',
    ];
  }
  return GREP.test(nameOf(last))
    ? [
        'It ends with code 1 when grep finds nothing, and that counts as a failure here: ' +
          'write `|| [ $? -eq 1 ]` behind it in the script.',
      ]
    : [];
}

const GREP = /^[efz]?grep$/;
const TEST = /^(?:\[|\[\[|test|expr|pgrep|pidof|[efz]?grep)$/;

/** The steps that decide about the code of the whole line. */
function lastList(steps: readonly Step[]): readonly Step[] {
  const before = steps.findLastIndex(
    ({ operator }, index) => index < steps.length - 1 && !/^(?:&&|\|&?)$/.test(operator),
  );
  return steps.slice(before + 1);
}

function nameOf(step: Step): string {
  return basename(programsOf(step)[0]?.name ?? '');
}
