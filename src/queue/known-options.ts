import { nearestName } from '../config/near-miss.ts';
import { QueueError } from './queue-error.ts';

/** What each verb takes besides its job. */
const known = {
  add: [
    ...['name', 'data', 'runAt', 'priority', 'retries', 'retryDelay', 'uniqueKey', 'onDuplicate'],
    ...['repeat', 'missed', 'parent', 'onChildFailure', 'group', 'lease'],
  ],
  claim: ['wait', 'lease', 'signal'],
  finish: ['result', 'data'],
  retry: ['delay', 'runAt', 'priority', 'name', 'data', 'ignoreRepeat', 'reason'],
  fail: ['reason', 'data', 'mayRetry'],
  bury: ['priority', 'reason'],
  touch: ['lease'],
  update: ['data', 'priority', 'repeat', 'runAt'],
  requeue: ['name', 'forgetTry'],
  list: ['pattern', 'state', 'due', 'parent', 'order', 'limit', 'before'],
  pause: ['for', 'fail'],
  openQueue: ['root', 'cwd', 'env', 'now'],
} as const satisfies Readonly<Record<string, readonly string[]>>;

/**
 * A slip such as `prority` must not pass for a default, in JavaScript least of all.
 *
 * @throws {QueueError} that names the nearest option there is
 */
export function checkOptions<Options extends object>(
  verb: keyof typeof known,
  options: Options,
): Options {
  if (typeof options !== 'object' || options === null) {
    const such = `an object with ${known[verb].join(', ')}`;
    throw new QueueError('invalid', `The options of \`${verb}\` expect ${such}.`);
  }
  const names: readonly string[] = known[verb];
  const wrong = Object.keys(options).find((name) => !names.includes(name));
  if (wrong === undefined) return options;
  const nearest = nearestName(wrong, names);
  const cure = nearest === null ? `it takes ${names.join(', ')}.` : `did you mean ${nearest}?`;
  throw new QueueError('invalid', `\`${verb}\` has no option ${JSON.stringify(wrong)}; ${cure}`);
}
