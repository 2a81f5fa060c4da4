/** What a command gets of the world, so that a test can give it another one. */
export interface CommandContext {
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
  /** UTC epoch milliseconds. */
  readonly now: () => number;
  /** The folder of the built command and its probe. */
  readonly distFolder: string;
  /** This package's version. */
  readonly version: string;
  setExitCode(code: number): void;
  /** What a call with these arguments would refuse in this root; null: nothing. Nothing is run. */
  findWrongUse(root: string, args: readonly string[]): Promise<string | null>;
}
