import { join } from 'node:path';
import type { Command, Option } from 'commander';
import { tierNames } from '../../discovery/jobs-folder.ts';
import { commandNames } from '../../system/base/command-names.ts';
import { isExecName } from '../../system/base/exec-name.ts';
import { printableLine } from '../../system/base/text.ts';
import { shellWord } from '../../system/base/values.ts';
import { type Completed, completedAt } from '../shared/command.ts';
import type { CommandContext } from '../shared/context.ts';
import { rootOf, withLog } from '../shared/open.ts';
import type { Given } from '../table.ts';

type Shell = Given<'completion'>['shell'];

/** `runner completion`: what a shell needs to complete calls of this command. */
export function printCompletion({ stdout, distFolder }: CommandContext, { shell }: Given<'completion'>): void {
  stdout.write(shellScripts[shell](shellWord(join(distFolder, 'bin.cjs'))));
}

/**
 * Names can contain any character, so none of these scripts passes one to `eval`, or to `compgen -W`, which evaluates
 * it as well. If the typed word is no program (an alias, for example), the command that wrote the script answers.
 */
const shellScripts: Readonly<Record<Shell, (command: string) => string>> = {
  bash: (command) => `_folder_runner() {
  local line word runner=\${COMP_WORDS[0]/#\\~/$HOME}
  type -P -- "$runner" >/dev/null || runner=${command}
  COMPREPLY=()
  while IFS= read -r line; do
    printf -v word '%q' "\${line%%$'\\t'*}"
    COMPREPLY+=("$word")
  done < <("$runner" complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  [[ \${#COMPREPLY[@]} -eq 1 && \${COMPREPLY[0]} == */ ]] && compopt -o nospace
}
complete -o default -F _folder_runner runner folder-runner
`,
  zsh: (command) => `#compdef runner folder-runner
_folder_runner() {
  local line runner=\${\${(Q)words[1]}/#\\~/$HOME}
  local -a values texts
  whence -p -- "$runner" >/dev/null || runner=${command}
  while IFS= read -r line; do
    values+=("\${line%%$'\\t'*}")
    texts+=("\${line/$'\\t'/  -- }")
  done < <("$runner" complete -- "\${(@Q)words[2,CURRENT]}" 2>/dev/null)
  if (( $#values == 1 )) && [[ $values[1] == */ ]]; then compadd -U -S '' -a values
  elif (( $#values )); then compadd -U -l -d texts -a values
  else _files
  fi
}
if [[ "\${funcstack[1]}" == _runner ]]; then _folder_runner; else compdef _folder_runner runner folder-runner; fi
`,
  fish: (command) => `function __folder_runner
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l runner (string replace -r '^~' $HOME -- $words[1])
  type -fq -- $runner; or set runner ${command}
  set -l found ($runner complete -- $words[2..-1] "$current" 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\\n' $found
  else
    __fish_complete_path "$current"
  end
end
complete -c runner -f -a '(__folder_runner)'
complete -c folder-runner -f -a '(__folder_runner)'
`,
};

interface CompleteRequest {
  readonly context: CommandContext;
  /** The words of the line after `runner`, up to the cursor; the last one may be empty. */
  readonly words: readonly string[];
  /** The program with the command that these words name, or with all of them. */
  readonly program: Command;
}

/** A possible word, and a description that a shell may show beside it. */
interface Candidate {
  readonly word: string;
  readonly about?: string;
}

/**
 * `runner complete`: called by the shell at each Tab. Prints one candidate a line, with a tab before its description;
 * nothing where a file is expected, or nothing is known.
 */
export async function complete({ context, words, program }: CompleteRequest): Promise<void> {
  const current = words.at(-1) ?? '';
  const before = words.slice(0, -1);
  const candidates = await findCandidates(context, program, before, current).catch(() => []);
  const fitting = candidates.filter(({ word }) => word.startsWith(current));
  // `import` is near enough to `hourly/import-orders`.
  const near = fitting.length > 0 ? fitting : candidates.filter(({ word }) => current && word.includes(`/${current}`));
  context.stdout.write(near.map(lineOf).join(''));
}

function lineOf({ word, about }: Candidate): string {
  return about ? `${word}\t${printableLine(about).replace(/\s+/g, ' ')}\n` : `${word}\n`;
}

async function findCandidates(
  context: CommandContext,
  program: Command,
  before: readonly string[],
  current: string,
): Promise<readonly Candidate[]> {
  const { command, args, option, root } = follow(program, before);
  const here: Here = { context, root };
  const named = async (place: number | Option) => {
    const completed = completedAt(command, place);
    return completed === undefined ? [] : await finders[completed](here, args);
  };
  if (option !== null) return option.argChoices?.map(toCandidate) ?? (await named(option));
  if (current.startsWith('-')) return optionsOf(command);
  if (command === program) return [...describeCommands(program), ...(await tiers(here, args))];
  if (command.commands.length > 0) return describeCommands(command);
  if (command.name() === 'help') return commandNames.map(toCandidate);
  const last = command.registeredArguments.length - 1;
  const index = command.registeredArguments[last]?.variadic ? Math.min(args.length, last) : args.length;
  const argument = command.registeredArguments[index];
  if (argument === undefined) return [];
  return argument.argChoices?.map(toCandidate) ?? (await named(index));
}

interface Followed {
  readonly command: Command;
  /** The arguments of that command. */
  readonly args: readonly string[];
  /** The one whose value comes next; null: none. */
  readonly option: Option | null;
  readonly root: string | undefined;
}

/** Finds the command that the words name, past options and their values. */
function follow(program: Command, words: readonly string[]): Followed {
  let command = program;
  let option: Option | null = null;
  let root: string | undefined;
  const args: string[] = [];
  for (const word of words) {
    if (option !== null) {
      if (option.name() === 'root') root = word;
      option = null;
    } else if (word.startsWith('-')) option = findValued(command, program, word);
    else {
      const next = args.length === 0 ? command.commands.find((each) => each.name() === word) : undefined;
      if (next === undefined) args.push(word);
      else command = next;
    }
  }
  return { command, args, option, root };
}

/** The option of that name, if its value is the next word. */
function findValued(command: Command, program: Command, word: string): Option | null {
  const option = [...command.options, ...program.options].find(({ short, long }) => word === long || word === short);
  return option?.required ? option : null;
}

function optionsOf(command: Command): readonly Candidate[] {
  const help = command.createHelp();
  const options = [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)];
  return options.flatMap(({ long, description }) => (long ? [{ word: long, about: description }] : []));
}

function describeCommands(command: Command): readonly Candidate[] {
  const named = command
    .createHelp()
    .visibleCommands(command)
    .map((each) => ({ word: each.name(), about: each.description() }));
  const isWhole = command.parent === null;
  const others = isWhole ? [...commandNames, 'help'].filter((name) => !named.some(({ word }) => word === name)) : [];
  return [...named, ...others.map(toCandidate)];
}

function toCandidate(word: string): Candidate {
  return { word };
}

/** Which root the line is about. */
interface Here {
  readonly context: CommandContext;
  readonly root: string | undefined;
}

type Find = (here: Here, args: readonly string[]) => Promise<readonly Candidate[]> | readonly Candidate[];

const tiers: Find = async ({ context, root }) => {
  return tierNames(rootOf(context, root)).map((word) => ({ word, about: 'tier' }));
};

async function readNames({ context, root }: Here) {
  const { readKnownTiers } = await import('../../discovery/folder.ts');
  return readKnownTiers(rootOf(context, root), () => {});
}

const QUEUE = 'queue';

/** Commands of `runner exec`, which only the log knows. */
const commands: Find = ({ context, root }) =>
  withLog(quiet(context), root, async ({ view }) => {
    const { selectScriptNames } = await import('../../report/model/runs/runs.ts');
    return (await selectScriptNames((await view()).db)).filter(isExecName).map(toCandidate);
  }).catch(() => []);

const scripts: Find = async (here, args) => [
  ...(await readNames(here)).flatMap((tier) => tier.scripts.map(toCandidate)),
  ...(await commands(here, args)),
];

const scriptsOfTiers: Find = async (here) =>
  (await readNames(here)).flatMap(({ tier, scripts }) => (tier === QUEUE ? [] : scripts.map(toCandidate)));

const disabled: Find = async (here) =>
  (await readNames(here)).flatMap((tier) => (tier.disabled ?? []).map(toCandidate));

const handlers: Find = async (here) =>
  (await readNames(here)).flatMap(({ tier, scripts }) =>
    tier === QUEUE ? scripts.map((name) => toCandidate(name.slice(QUEUE.length + 1))) : [],
  );

const pausables: Find = async (here, args) => [
  ...(await tiers(here, args)),
  toCandidate(QUEUE),
  ...(await scriptsOfTiers(here, args)),
  ...(await commands(here, args)),
  ...(await handlers(here, args)),
];

const places: Find = async (here, args) =>
  [...(await tiers(here, args)), toCandidate(QUEUE)].map(({ word }) => ({ word: `${word}/` }));

/** The newest, of which one is meant most of the time. */
const MOST_NUMBERS = 30;

const jobNumbers: Find = ({ context, root }) =>
  withLog(quiet(context), root, async ({ store }) => {
    const { readJobs } = await import('../../report/model/jobs.ts');
    const { jobs } = store === null ? { jobs: [] } : await readJobs(store, { limit: MOST_NUMBERS }, context.now());
    return jobs.map(({ id, name, state }) => ({ word: String(id), about: `${name} ${state}` }));
  });

const jobWords: Find = async (here, args) => {
  if (args.length === 0) return await jobNumbers(here, args);
  const { verbNames } = await import('../../queue/settle/verbs.ts');
  return verbNames.map(toCandidate);
};

const runNumbers: Find = ({ context, root }) =>
  withLog(quiet(context), root, async ({ view }) => {
    const { selectRunPage } = await import('../../report/model/runs/run-pages.ts');
    const runs = await selectRunPage(await view(), { limit: MOST_NUMBERS });
    return runs.map(({ id, script, outcome }) => ({ word: String(id), about: `${script} ${outcome}` }));
  });

/** Nothing may appear on the line that is being typed. */
function quiet(context: CommandContext): CommandContext {
  return { ...context, stderr: { write: () => true } as unknown as NodeJS.WriteStream };
}

const finders: Readonly<Record<Completed, Find>> = {
  tiers,
  scripts,
  'tier-scripts': scriptsOfTiers,
  disabled,
  handlers,
  pausables,
  places,
  commands,
  jobs: jobWords,
  runs: runNumbers,
};
