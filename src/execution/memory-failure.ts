import type { EndFacts } from './describe-end.ts';
import type { Exit } from './start-process.ts';

/** What V8 ended its own process for, by its last words. */
export function findMemoryFailure({ signal }: Exit, text: string): EndFacts['memoryFailure'] {
  if (signal !== 'SIGABRT' && signal !== 'SIGTRAP') return null;
  // Either it asked the system and got nothing, or it kept to a limit of its own.
  if (/semi space failed|process out of memory|bad_alloc/.test(text)) return 'refused';
  return /heap out of memory/i.test(text) ? 'heap-limit' : null;
}
