import { Argument, Command, Option } from 'commander';
import { expectedDuration, parseDelayMs, parseDurationMs, type Reader } from '../../settings/readers.ts';
import { UsageError } from '../../system/base/errors.ts';
import { printableLine } from '../../system/base/text.ts';
import type { CommandContext } from './context.ts';

/**
 * The definition of a command: all that `--help`, completion and the parser know of it, and the function that runs it.
 */
export interface Definition {
  readonly about: string;
  readonly usage?: string;
  /** By the form in the usage, in order: `<script>`, `[name]`, `[name...]`. */
  readonly args?: Readonly<Record<string, string | Taken>>;
  /** By the flags: `--json`, `-f, --follow`, `--since <time>`, `--work [every]`, `--no-due`. */
  readonly options?: Readonly<Record<string, string | Taken>>;
  /** Stands below the options in `--help`. */
  readonly help?: string;
  readonly commands?: Readonly<Record<string, Definition>>;
  /** Whether it shows something and changes nothing: then root may call it in another user's site. */
  readonly reads?: boolean | ((options: Readonly<Record<string, unknown>>, words: readonly string[]) => boolean);
  /** Loads the function that runs it; its type is checked by `Loads`. Left out: it only has commands of its own. */
  readonly load?: () => Promise<unknown>;
}

/** Kinds of names in a root that a shell can complete. */
export type Completed =
  | 'tiers'
  | 'scripts'
  | 'tier-scripts'
  | 'disabled'
  | 'handlers'
  | 'pausables'
  | 'places'
  | 'commands'
  | 'jobs'
  | 'runs';

/** An argument or an option that takes more than a description to define. */
interface Taken {
  readonly about: string;
  readonly choices?: readonly string[];
  /** The completions that a shell offers. Default: the choices, otherwise names of files. */
  readonly completes?: Completed;
  readonly default?: string;
  /** Names of options that cannot stand beside it. */
  readonly conflicts?: readonly string[];
  /** Whether the option may be repeated: its value is a list. */
  readonly repeated?: true;
  readonly isHidden?: true;
  /**
   * Reads the word that was typed.
   *
   * @throws {UsageError} that names the option
   */
  readonly read?: (word: string, option: string) => unknown;
}

/** Keeps the literal types of a definition, from which `Given` follows. */
export function define<const D extends Readonly<Record<string, Definition>>>(commands: D): D {
  return commands;
}

type Camel<Word extends string> = Word extends `${infer Head}-${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Word;

type NameOf<Form> = Form extends `-${string}, ${infer Long}`
  ? NameOf<Long>
  : Form extends `--no-${infer Name}`
    ? Camel<Name>
    : Form extends `--${infer Name} ${string}`
      ? Camel<Name>
      : Form extends `--${infer Name}`
        ? Camel<Name>
        : Form extends `${'<' | '['}${infer Name}...${'>' | ']'}`
          ? Name
          : Form extends `${'<' | '['}${infer Name}${'>' | ']'}`
            ? Name
            : never;

type WordOf<T> = T extends { readonly read: (...word: never[]) => infer Value }
  ? Value
  : T extends { readonly choices: readonly (infer Choice)[] }
    ? Choice
    : string;

type ValueOf<Form, T> = Form extends `--no-${string}`
  ? false
  : Form extends `${string}...${string}`
    ? readonly string[]
    : T extends { readonly repeated: true }
      ? readonly WordOf<T>[]
      : Form extends `--${string} [${string}`
        ? WordOf<T> | true
        : Form extends `${string}<${string}` | `[${string}`
          ? WordOf<T>
          : boolean;

/** Values that every call has: required arguments, lists, and options with a default. */
type SureOf<Form, T> = Form extends `<${string}` | `${string}...]`
  ? Form
  : T extends { readonly default: string }
    ? Form
    : never;

type Sure<Taken> = { readonly [Form in keyof Taken as NameOf<SureOf<Form, Taken[Form]>>]: ValueOf<Form, Taken[Form]> };
type Unsure<Taken> = {
  readonly [Form in keyof Taken as NameOf<Exclude<Form, SureOf<Form, Taken[Form]>>>]?: ValueOf<Form, Taken[Form]>;
};
type Values<Taken> = Sure<Taken> & Unsure<Taken>;

type PartOf<D, Part extends 'args' | 'options'> =
  D extends Readonly<Record<Part, infer Taken>> ? Values<Taken> : unknown;

/** Options of every command. */
export interface GlobalOptions {
  readonly root?: string;
  readonly asRoot?: boolean;
}

/** The arguments and options of a call, by name, as their definitions say. */
export type GivenTo<D> = PartOf<D, 'args'> & PartOf<D, 'options'> & GlobalOptions;

/** Facts about the call itself, which few commands need. */
export interface Call {
  /** All that stands behind `runner`. */
  readonly words: readonly string[];
  printHelp(): void;
}

type Run<D> = (context: CommandContext, given: GivenTo<D>, call: Call) => Promise<void> | void;

/** Makes the compiler check that each loaded function takes the values of its definition. */
export type Loads<Table> = {
  readonly [Name in keyof Table]: (Table[Name] extends { readonly load: unknown }
    ? { readonly load: () => Promise<Run<Table[Name]>> }
    : unknown) &
    (Table[Name] extends { readonly commands: infer Commands } ? { readonly commands: Loads<Commands> } : unknown);
};

/** Finds the definition of a built command. */
const definitions = new WeakMap<Command, Definition>();

/** Builds what the parser needs of a definition. */
export function buildCommand(name: string, definition: Definition, context: CommandContext): Command {
  return fillCommand(new Command(name), definition, context);
}

/** Adds to a command all that its definition names. */
export function fillCommand(command: Command, definition: Definition, context: CommandContext): Command {
  const { about, usage, args = {}, options = {}, help, commands = {}, load } = definition;
  definitions.set(command.description(about), definition);
  if (usage !== undefined) command.usage(usage);
  for (const [form, taken] of Object.entries(args)) command.addArgument(buildArgument(form, wholeOf(taken)));
  for (const [flags, taken] of Object.entries(options)) command.addOption(buildOption(flags, wholeOf(taken)));
  if (help !== undefined) command.addHelpText('after', help);
  for (const [own, each] of Object.entries(commands)) command.addCommand(buildCommand(own, each, context));
  if (load === undefined) return command;
  return command.action(async () => {
    const given = readGiven(command);
    const call: Call = { words: wordsOf(command), printHelp: () => command.outputHelp() };
    // `Loads` has checked that it takes what its definition gives.
    const run = (await load()) as Run<unknown>;
    await run(context, given as GlobalOptions, call);
  });
}

function wholeOf(taken: string | Taken): Taken {
  return typeof taken === 'string' ? { about: taken } : taken;
}

function buildArgument(form: string, { about, choices }: Taken): Argument {
  const argument = new Argument(form, about);
  return choices === undefined ? argument : argument.choices(choices);
}

function buildOption(flags: string, taken: Taken): Option {
  const option = new Option(flags, taken.about).conflicts([...(taken.conflicts ?? [])]);
  if (taken.choices !== undefined) option.choices(taken.choices);
  if (taken.default !== undefined) option.default(taken.default);
  if (taken.repeated) option.argParser((word, words: readonly string[] = []) => [...words, word]);
  return option.hideHelp(taken.isHidden === true);
}

function wordsOf(command: Command): readonly string[] {
  const { rawArgs = [] } = (command.parent ?? command) as { readonly rawArgs?: readonly string[] };
  return rawArgs;
}

/**
 * The arguments and options of a parsed call, each read as its definition says.
 *
 * @throws {UsageError} that names the first wrong one
 */
export function readGiven(command: Command): Readonly<Record<string, unknown>> {
  const { args = {}, options = {} } = definitions.get(command) ?? {};
  const given: Record<string, unknown> = command.optsWithGlobals();
  for (const [index, argument] of command.registeredArguments.entries()) {
    const value = command.processedArgs[index];
    if (value !== undefined) given[argument.name()] = value;
  }
  for (const [form, taken] of [...Object.entries(args), ...Object.entries(options)]) {
    const { read } = wholeOf(taken);
    if (read === undefined) continue;
    const { name, key } = namesOf(form);
    const word = given[key];
    if (typeof word === 'string') given[key] = read(word, name);
  }
  return given;
}

/** The form `--max-jobs <n>` has the name `--max-jobs` and the key `maxJobs`. */
function namesOf(form: string): { readonly name: string; readonly key: string } {
  if (!form.startsWith('-')) {
    const argument = new Argument(form);
    return { name: argument.name(), key: argument.name() };
  }
  const option = new Option(form);
  return { name: option.long ?? form, key: option.attributeName() };
}

/** The completions of an argument, by its index, or of an option's value. */
export function completedAt(command: Command, place: number | Option): Completed | undefined {
  const { args = {}, options = {} } = definitions.get(command) ?? {};
  const taken = typeof place === 'number' ? Object.values(args)[place] : options[place.flags];
  return taken === undefined ? undefined : wholeOf(taken).completes;
}

/** Whether a parsed call shows something and changes nothing. */
export function isReader(command: Command): boolean {
  const reads = definitions.get(command)?.reads ?? false;
  return typeof reads === 'boolean' ? reads : reads(command.optsWithGlobals(), command.args);
}

/** Reads the value of an option as a setting of that kind is read. */
export function by<T>(reader: Reader<T>): (word: string, option: string) => T {
  return (word, option) => {
    const reading = reader(word);
    if ('value' in reading) return reading.value;
    throw new UsageError(`${option} must be ${reading.expected}, found ${JSON.stringify(word)}.`);
  };
}

/** Empty it would be the root's folder, which changes for other reasons. */
export const readPathOption: Reader<string> = (found) =>
  typeof found === 'string' && found !== '' ? { value: found } : { expected: 'a path' };

const MOST = 1_000_000_000;

/** The whole number of an option, from 1 on. */
export function readCount(word: string, option: string, most = MOST): number {
  const count = /^\d{1,10}$/.test(word) ? Number(word) : 0;
  if (count > 0 && count <= most) return count;
  throw new UsageError(
    `${option} must be a whole number from 1 to ${most}, found ${JSON.stringify(printableLine(word))}.`,
  );
}

/** The same where nothing is too many. */
export function readLimit(word: string, option: string): number {
  const limit = /^\d{1,9}$/.test(word) ? Number(word) : 0;
  if (limit > 0) return limit;
  throw new UsageError(`${option} must be a whole number from 1, found ${JSON.stringify(word)}.`);
}

/** Milliseconds of `--budget`. */
export function readBudget(text: string): number {
  const budgetMs = parseDurationMs(text.trim());
  if (budgetMs !== null) return budgetMs;
  const isNone = parseDelayMs(text.trim()) === 0;
  const expected = isNone ? 'longer than 0s, such as 55s or 14m' : expectedDuration(text, '55s or 14m');
  const cure = isNone ? '; without it, the call has no limit of time' : '';
  throw new UsageError(`--budget must be ${expected}, found ${JSON.stringify(text)}${cure}.`);
}

/**
 * Whether a call that runs something is only to show what it would do.
 *
 * @throws {UsageError} where JSON is asked for of a call that prints none
 */
export function asksForPlan({ dryRun, json }: { readonly dryRun?: boolean; readonly json?: boolean }): boolean {
  if (json && !dryRun)
    throw new UsageError('--json needs --dry-run beside it; `npx folder-runner report --json` tells of runs.');
  return dryRun === true;
}

/** The languages of `runner new`, by the extension of the file. */
export const languages = ['ts', 'sh', 'php'] as const;

/** The modes of `runner cron`. */
export const cronModes = ['print', 'install', 'remove', 'import', 'undo'] as const;

/** Stands in the help of `runner watch`, and in a view of it. */
export const watchKeys = `
Keys:
  1 or s      scripts: what runs and waits, each tier, each script
  2 or r      runs of all scripts, newest first
  3 or w      the queue (work): its jobs, newest first
  4 or o      output of the script that runs now, as it is written
  ↑ ↓ or k j  select, or scroll; also page up, page down, home, end
  enter       open what is selected: a script, a run, a job
  esc         back
  ?           these keys
  q, ctrl-c   quit; scripts and jobs keep running`;

/** The whole number that a word is; any other word as it is, for the message that refuses it. */
export function numberIn(word: string | undefined): number | string | undefined {
  return word !== undefined && /^-?\d{1,16}$/.test(word) ? Number(word) : word;
}

export function withoutUndefined(values: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}
