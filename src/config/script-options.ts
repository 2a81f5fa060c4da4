/** What a script's tags or the settings say about how it is run. Every option is optional. */
export interface ScriptOptions {
  readonly description?: string;
  /** Default: the tier's period, at most one hour. */
  readonly timeoutMs?: number;
  /** How many times a failed job is tried again. Default 0. */
  readonly retries?: number;
  readonly retryDelayMs?: number;
  /** Heap limit of a Node script. Default: V8's own. */
  readonly memoryBytes?: number;
  /** Added to the process's niceness, 0 to 19. Default 0. */
  readonly nice?: number;
  /** Names of environment variables that the script gets from the runner's environment. */
  readonly env?: readonly string[];
  readonly tags?: readonly string[];
}
