/** Whether a name such as `hourly/clean-tmp` fits a pattern such as `hourly/clean-*`. */
export type PatternMatcher = (pattern: string, name: string) => boolean;

const magic = /[*?[\]{}()!+@\\]/;

/** Loads the glob library only if one of the patterns needs it: most passes have plain names, or none. */
export async function createPatternMatcher(patterns: readonly string[]): Promise<PatternMatcher> {
  if (!patterns.some((pattern) => magic.test(pattern))) return (pattern, name) => pattern === name;
  const { Glob, Ignore } = await import('glob');
  // Names are matched as if they were files below this folder, which need not exist; `/` itself is
  // left out, for glob 14 makes relative paths below it without their slashes.
  const { cwd } = new Glob('.', { cwd: '/jobs' }).scurry;
  const globs = new Map(patterns.map((pattern) => [pattern, new Ignore([pattern], {})]));
  return (pattern, name) => globs.get(pattern)?.ignored(cwd.resolve(name)) ?? false;
}
