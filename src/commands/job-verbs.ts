import { nearestName } from '../config/near-miss.ts';
import { UsageError } from '../config/usage-error.ts';
import { printableLine } from '../report/printable.ts';

/** What each verb takes besides `--json`. */
const verbs = {
  finish: ['result', 'data', 'token'],
  retry: ['delay', 'at', 'priority', 'name', 'data', 'reason', 'ignoreRepeat', 'token'],
  fail: ['reason', 'data', 'mayRetry', 'token'],
  bury: ['reason', 'priority', 'token'],
  kick: [],
  cancel: [],
  touch: ['lease', 'token'],
  delete: ['token'],
  update: ['data', 'priority', 'at', 'repeat', 'token'],
  requeue: ['name', 'forgetTry'],
} as const satisfies Readonly<Record<string, readonly (keyof JobWords)[]>>;

export type JobVerb = keyof typeof verbs;

export const jobVerbs = Object.keys(verbs) as readonly JobVerb[];

/** The options of `runner job`, as they were typed. */
export interface JobWords {
  readonly token?: string;
  readonly result?: string;
  readonly data?: string;
  readonly delay?: string;
  readonly at?: string;
  readonly priority?: string;
  readonly name?: string;
  readonly reason?: string;
  /** False: `--no-repeat`. */
  readonly repeat?: string | false;
  readonly ignoreRepeat?: true;
  readonly lease?: string;
  readonly forgetTry?: true;
  readonly mayRetry?: true;
}

const flags: Readonly<Record<keyof JobWords, string>> = {
  token: '--token',
  result: '--result',
  data: '--data',
  delay: '--delay',
  at: '--at',
  priority: '--priority',
  name: '--name',
  reason: '--reason',
  repeat: '--repeat',
  ignoreRepeat: '--ignore-repeat',
  lease: '--lease',
  forgetTry: '--forget-try',
  mayRetry: '--may-retry',
};

/** @throws {UsageError} that names the nearest verb */
export function readVerb(word: string): JobVerb {
  if (Object.hasOwn(verbs, word)) return word as JobVerb;
  const nearest = nearestName(word, jobVerbs);
  throw new UsageError(
    `runner job <id> expects one of ${jobVerbs.join(', ')}, ` +
      `found ${JSON.stringify(printableLine(word))}${nearest === null ? '.' : `; did you mean ${nearest}?`}`,
  );
}

/**
 * Null: no verb, the job is shown.
 *
 * @throws {UsageError} if an option is given that the verb does not take
 */
export function assertOptions(verb: JobVerb | null, given: object): void {
  const taken: readonly string[] = verb === null ? [] : verbs[verb];
  const options = Object.keys(flags) as (keyof JobWords)[];
  const wrong = options.find((option) => Object.hasOwn(given, option) && !taken.includes(option));
  if (wrong === undefined) return;
  const flag = flags[wrong];
  throw new UsageError(verb === null ? withoutVerb(flag, wrong) : withVerb(flag, verb));
}

function withVerb(flag: string, verb: JobVerb): string {
  const taken = [...verbs[verb].map((option) => flags[option]), '--json'];
  return `\`runner job <id> ${verb}\` takes no ${flag}; it takes ${taken.join(', ')}.`;
}

function withoutVerb(flag: string, option: keyof JobWords): string {
  const having = jobVerbs.filter((name) => (verbs[name] as readonly string[]).includes(option));
  return `${flag} goes with a verb: \`runner job <id> ${having.join('|')} ${flag} …\`.`;
}
