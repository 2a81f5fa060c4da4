import { openQueue } from '../../../src/index.ts';

/** Adds so many jobs to the queue of a root, one by one. */
const [, , root = '', count = '1'] = process.argv;
const queue = await openQueue({ root });
for (let n = 0; n < Number(count); n += 1) await queue.add('mail/a', { n });
await queue.close();
