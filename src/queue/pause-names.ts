import { shellWord } from '../config/shell-word.ts';

/** The name that stands for every tier and the queue. */
export const EVERYTHING = '*';

/** The name that stands for all jobs of the queue. */
export const WHOLE_QUEUE = 'queue';

/** Under which name a pause of jobs of the queue is kept: `queue/mail/*`. */
export function pauseNameOf(pattern: string): string {
  return pattern === '*' ? WHOLE_QUEUE : `${WHOLE_QUEUE}/${pattern}`;
}

/** The glob over names of jobs that a pause holds back; null: it is one of a tier or a script. */
export function pausedPattern(name: string): string | null {
  if (name === EVERYTHING || name === WHOLE_QUEUE) return '*';
  return name.startsWith(`${WHOLE_QUEUE}/`) ? name.slice(WHOLE_QUEUE.length + 1) : null;
}

/** As people say it: `everything`, `hourly`, `the queue`, `mail/*`. */
export function wordsOfPaused(name: string): string {
  if (name === EVERYTHING) return 'everything';
  return name === WHOLE_QUEUE ? 'the queue' : (pausedPattern(name) ?? name);
}

/** The command that ends it, to be pasted into a shell. */
export function resumeCommandOf(name: string): string {
  if (name === EVERYTHING) return 'runner resume';
  const word = name === WHOLE_QUEUE ? name : (pausedPattern(name) ?? name);
  return `runner resume ${shellWord(word)}`;
}
