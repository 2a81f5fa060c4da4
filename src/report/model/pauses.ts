import { EVERYTHING, pausedPattern } from '../../queue/pauses.ts';
import { expectedDuration, parseDurationMs } from '../../settings/readers.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import { pauseKinds } from '../../store/words.ts';
import { UsageError } from '../../system/base/errors.ts';
import { field, record } from '../../system/base/record.ts';

/** What keeps scripts, tiers or jobs from being run. */
export const pauseRecord = record('Pause', {
  name: field.text.about('`*`, a tier, a script, `queue`, or `queue/` and a pattern of job names'),
  kind: field.words(pauseKinds),
  until: field.instant.orNull.from('until').about('Null: until it is resumed'),
  since: field.instant.from('createdAt'),
});

/** What nobody is told of. */
export const muteRecord = record('Mute', {
  name: field.text,
  until: field.instant.orNull.from('until'),
  since: field.instant.from('createdAt'),
});

interface PauseWish {
  /** `2h`; undefined: until it is resumed. */
  readonly for?: string | undefined;
  /** What is due fails instead of waiting; only of jobs of the queue. */
  readonly fail?: boolean | undefined;
}

/**
 * What is to be paused from now on, by its names in the log.
 *
 * @throws {UsageError} if it has no such duration, or cannot fail
 */
export function toPauses(names: readonly string[], wish: PauseWish, at: number): Pause[] {
  const until = readEnd(wish.for, at);
  return names.map((name) => {
    if (wish.fail === true) assertQueued(name);
    return { name, kind: wish.fail === true ? 'fail-fast' : 'pause', until, createdAt: at };
  });
}

/** Scripts have no queue that fills up while they wait. */
function assertQueued(name: string): void {
  if (name !== EVERYTHING && pausedPattern(name) !== null) return;
  throw new UsageError(
    "--fail needs names of jobs of the queue, such as `npx folder-runner pause 'mail/*' --fail`, or " +
      '`npx folder-runner pause queue --fail` for all of them.',
  );
}

function readEnd(text: string | undefined, at: number): number | null {
  if (text === undefined) return null;
  const durationMs = parseDurationMs(text.trim());
  if (durationMs !== null) return at + durationMs;
  throw new UsageError(
    `--for must be ${expectedDuration(text, '30m, 2h or 7d')}, found ${JSON.stringify(text)}; ` +
      'without it the pause lasts until `npx folder-runner resume`.',
  );
}
