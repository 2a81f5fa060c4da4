import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Soon enough for a host that counts memory by the minute, and rare enough for a pause of some 50 ms. */
const AFTER_MS = 20_000;

type Collect = (how: { readonly type: 'major'; readonly flavor: 'last-resort' }) => void;

let collect: Collect | undefined;
let isWaiting = false;

/**
 * Gives the host back what answers took, a while after this call. V8 itself keeps the pages of its heap, a quarter of
 * this process, until it runs short of memory.
 */
export function giveMemoryBackLater(): void {
  if (isWaiting) return;
  isWaiting = true;
  setTimeout(giveMemoryBack, AFTER_MS).unref();
}

function giveMemoryBack(): void {
  isWaiting = false;
  collect ??= findCollect();
  collect({ type: 'major', flavor: 'last-resort' });
}

/** Without a flag of the process, which only the command line could set. */
function findCollect(): Collect {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as Collect;
}
