import type { Clock } from './clock.ts';
import { formatDuration } from './format.ts';
import { printableLine } from './printable.ts';
import type { RunningRun } from './select-running.ts';
import { type Finding, notable } from './why.ts';

/** What is to be said of a script whose run has no end in the log yet: no more than can be seen from here. */
export function explainRunning(running: RunningRun, nowMs: number, clock: Clock): Finding {
  const { id, script, startedAtMs, isOrphan, liveness, pid } = running;
  const where = liveness === 'on-another-host' ? ` on ${printableLine(running.host)}` : '';
  const who = `${pid === null ? '' : ` (pid ${pid})`}${where}`;
  const begun = `run ${id} began ${clock.short(startedAtMs)}${who}`;
  if (liveness === 'dead') {
    return notable('job', `${begun} and was cut off: its process is gone`, RECORDED);
  }
  if (liveness === 'on-another-host' && isOrphan) {
    const text = `${begun}; its runner gives no sign of life, and whether it runs on cannot be seen from here`;
    return notable('job', text, ELSEWHERE);
  }
  const since = `run ${id} goes on since ${clock.short(startedAtMs)}, for ${formatDuration(nowMs - startedAtMs)}${who}`;
  if (isOrphan) return notable('job', `${since}, though its runner is gone`, ENDED);
  return notable('job', since, `\`runner tail -f ${printableLine(script)}\` follows it.`);
}

const ENDED = 'A pass ends it at its time limit; until it has ended, it is not started again.';
const ELSEWHERE =
  'A call on that host sees it, any other one waits for its time limit; until then it is not started again.';
const RECORDED = 'The next pass that can write the log records that.';

/** The same in one sentence. */
export function concludeRunning(running: RunningRun, tier: string, clock: Clock): string {
  const { isOrphan, liveness, startedAtMs } = running;
  const since = clock.short(startedAtMs);
  const again = `${printableLine(tier)} starts it again`;
  if (liveness === 'dead') return `It was cut off some time after ${since}: its process is gone.`;
  if (!isOrphan) return 'It is running now.';
  if (liveness === 'alive') {
    return `It still runs since ${since}, without its runner; ${again} once it has ended.`;
  }
  const host = printableLine(running.host);
  return `It may still run on ${host}, since ${since}; ${again} once it is known to have ended.`;
}
