import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { LoggedRun } from '../log/log-tables.ts';
import { executable, type FileContent } from '../places/temporary-root.ts';
import type { LogContent } from './invariants-log.ts';

/*
 * A zombie has no command line, and who has lost its parent gets another one: that is how a script
 * here knows that its runner is dead. It looks for half a second: a process that is being killed is
 * still there for a while where the processors have much to do.
 */

const LOOKS = 25;

/** What a script does besides leaving evidence. */
export interface Behaviour {
  /** Its first comment: `@retries 1`. */
  readonly tags?: readonly string[];
  /** How long it works at least. */
  readonly lastsMs?: number;
  /** Its exit code as a shell or JavaScript expression; `attempt` is known to both. */
  readonly exit?: string;
}

const EVIDENCE = 'evidence';
/** While this file is there, a script whose runner has died goes on. */
export const HOLD = 'hold';

/**
 * A script that writes down, where no runner has a say, that it started and that it ended. Whoever
 * killed its runner decides by the file `hold` how long it outlives it.
 */
export function shellScript({ tags = [], lastsMs = 0, exit = '0' }: Behaviour = {}): FileContent {
  return executable(`#!/bin/sh
${tags.map((tag) => `# ${tag}\n`).join('')}
cd "$RUNNER_ROOT"
attempt=$RUNNER_ATTEMPT
say() { echo "$1 $RUNNER_SCRIPT $RUNNER_RUN $2" >> ${EVIDENCE}; }
say started "$attempt"
sleep ${lastsMs / 1000}
look=0
lives() { grep -q bin.cjs "/proc/$PPID/cmdline" 2>/dev/null; }
while [ -e ${HOLD} ] && [ $look -lt ${LOOKS} ] && lives; do look=$((look + 1)); sleep 0.02; done
while [ -e ${HOLD} ] && ! lives; do sleep 0.02; done
code=$((${exit}))
say ended "$code"
exit "$code"
`);
}

/** The same in JavaScript: of its end its probe tells, too. */
export function nodeScript({ tags = [], lastsMs = 0, exit = '0' }: Behaviour = {}): FileContent {
  return `/**
${tags.map((tag) => ` * ${tag}\n`).join('')} */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
const { RUNNER_SCRIPT, RUNNER_RUN, RUNNER_ATTEMPT } = process.env;
const attempt = Number(RUNNER_ATTEMPT);
const runner = process.ppid;
const isRunnerAlive = () => {
  try { return readFileSync(\`/proc/\${runner}/cmdline\`, 'utf8').includes('bin.cjs'); } catch { return false; }
};
const say = (what, more) => appendFileSync('${EVIDENCE}', \`\${what} \${RUNNER_SCRIPT} \${RUNNER_RUN} \${more}\\n\`);
say('started', attempt);
await sleep(${lastsMs});
for (let look = 0; look < ${LOOKS} && existsSync('${HOLD}') && isRunnerAlive(); look += 1) await sleep(20);
while (existsSync('${HOLD}') && !isRunnerAlive()) await sleep(20);
const code = Number(${exit});
say('ended', code);
process.exitCode = code;
`;
}

/** A run as its script saw it. */
export interface SeenRun {
  readonly script: string;
  /** As the script was told: its claim's token, else the id that it has in the spool. */
  readonly key: string;
  readonly attempt: number;
  /** Null: it did not come to its end. */
  readonly exitCode: number | null;
  /** Where its first and its last line stand among all lines. */
  readonly from: number;
  readonly to: number | null;
}

/** For tests that take the log away: what it cannot know any more has not been. */
export function forget(root: string): void {
  rmSync(join(root, EVIDENCE), { force: true });
}

/** What the scripts of a root say that has been done, in the order of their starts. */
export function readEvidence(root: string): readonly SeenRun[] {
  const path = join(root, EVIDENCE);
  const lines = existsSync(path) ? readFileSync(path, 'utf8').trimEnd().split('\n') : [];
  const words = lines.map((line) => line.split(' '));
  return words.flatMap(([what, script = '', key = '', more = ''], from) => {
    if (what !== 'started') return [];
    const to = words.findIndex((end) => end[0] === 'ended' && end[2] === key && end[1] === script);
    return {
      script,
      key,
      attempt: Number(more),
      exitCode: to < 0 ? null : Number(words[to]?.[3]),
      from,
      to: to < 0 ? null : to,
    };
  });
}

/**
 * Compares what scripts did with what the log says: nothing is missing, nothing counted twice, nothing
 * told as what it was not.
 */
export function checkEvidence(seen: readonly SeenRun[], log: LogContent): string[] {
  return [...seen.flatMap((run) => checkSeen(run, log)), ...findOverlaps(seen), ...findInventions(seen, log)];
}

function checkSeen(run: SeenRun, { runs }: LogContent): string[] {
  const name = `${run.script}, run ${run.key}`;
  const rows = runs.filter((row) => isSame(row, run));
  const [row] = rows;
  if (row === undefined) return [`${name}: it started, and the log knows nothing of it`];
  if (rows.length > 1) return [`${name}: it is ${rows.length} times in the log`];
  if (row.attempt !== run.attempt) return [`${name}: attempt ${run.attempt} is told as ${row.attempt}`];
  const toldCode = row.exit_code;
  const isFalse = run.exitCode !== null && toldCode !== null && toldCode !== run.exitCode;
  return isFalse ? [`${name}: exit code ${run.exitCode} is told as ${toldCode}`] : [];
}

/** A run that was replayed from the spool keeps the name that its script knew it by. */
function isSame(row: LoggedRun, run: SeenRun): boolean {
  return row.script === run.script && [row.key, row.spool_id].includes(run.key);
}

/** By the order of the lines, which no clock changes: a run that ended after the next one started. */
function findOverlaps(seen: readonly SeenRun[]): string[] {
  return seen.flatMap((run) => {
    const next = seen.find((other) => other.script === run.script && other.from > run.from);
    const overlaps = next !== undefined && run.to !== null && run.to > next.from;
    return overlaps ? [`${run.script}: run ${next.key} started while run ${run.key} ran`] : [];
  });
}

/** Only of scripts that leave evidence at all. */
function findInventions(seen: readonly SeenRun[], { runs }: LogContent): string[] {
  const scripts = new Set(seen.map(({ script }) => script));
  const ended = runs.filter(({ script, exit_code }) => scripts.has(script) && exit_code !== null);
  return ended.flatMap((row) => {
    const isSeen = seen.some((run) => isSame(row, run) && run.exitCode !== null);
    return isSeen ? [] : [`run ${row.id} (${row.script}, ${row.outcome}): it never came to its end`];
  });
}
