import { Argument, Command, Option } from 'commander';
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

/** An argument or an option that takes more than a description to define. */
interface Taken {
  readonly about: string;
  readonly choices?: readonly string[];
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

/** Whether a parsed call shows something and changes nothing. */
export function isReader(command: Command): boolean {
  const reads = definitions.get(command)?.reads ?? false;
  return typeof reads === 'boolean' ? reads : reads(command.optsWithGlobals(), command.args);
}
