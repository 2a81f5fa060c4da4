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
