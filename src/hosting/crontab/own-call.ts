import { basename } from 'node:path';

/** How this package's command is written, as a word or within a line of a shell. */
export const programName = /(?:^|[\s/'"])(?:bin\.cjs|runner|folder-runner(?:@[\w.^~-]+)?)(?=['"\s]|$)/;

/** The words that the command gets. */
export function argsOf(words: readonly string[]): readonly string[] {
  return words.slice(words.findIndex((word) => programName.test(word)) + 1);
}

/** What it is called for, such as `hourly`: the first word that is neither an option nor the value of one. */
export function nameIn(args: readonly string[]): string | null {
  const isValue = (index: number): boolean => ['--root', '--budget'].includes(args[index - 1] ?? '');
  return args.find((arg, index) => !arg.startsWith('-') && !isValue(index)) ?? null;
}

/** Where the words of a command call this package's command. */
export interface OwnProgram {
  /** The Node that is named before it; null: none is. */
  readonly node: string | null;
  /** `npx` and its like, which look for the package themselves; null: the file is named. */
  readonly launcher: string | null;
  readonly file: string;
  /** Where the words begin that the runner gets. */
  readonly end: number;
}

const OWN = /^(?:bin\.cjs|runner|folder-runner(?:@[\w.^~-]+)?)$/;
const NODE = /^node(?:js)?$/;
const LAUNCHER = /^(?:npx|npm|pnpm|pnpx|yarn|bunx?)$/;

/** What runs the command behind it, as the source of a pattern. */
export const PREFIXES = 'nice|ionice|chronic|cronic|timeout|flock|exec|env|time|setsid|nohup|command';
const PREFIX = new RegExp(`^(?:${PREFIXES})$`);

/** Null: another program is called, to which the name of ours is just a word. */
export function findOwnProgram(words: readonly string[]): OwnProgram | null {
  const names = words.map((word) => basename(word));
  const at = names.findIndex((name) => OWN.test(name) || NODE.test(name) || LAUNCHER.test(name));
  if (at === -1 || (at > 0 && !PREFIX.test(names[0] as string))) return null;
  const [first, name] = [words[at] as string, names[at] as string];
  if (OWN.test(name)) return { node: null, launcher: null, file: first, end: at + 1 };
  const isLauncher = LAUNCHER.test(name);
  const isSkipped = (word: string): boolean => word.startsWith('-') || (isLauncher && word === 'exec');
  const next = words.findIndex((word, index) => index > at && !isSkipped(word));
  if (next === -1 || !OWN.test(names[next] as string)) return null;
  const file = words[next] as string;
  return { node: isLauncher ? null : first, launcher: isLauncher ? first : null, file, end: next + 1 };
}
