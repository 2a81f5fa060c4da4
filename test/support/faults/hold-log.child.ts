import { writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { engine } from '../engines/engines.ts';

/** Keeps everybody else from writing to a log for so long, and commits then what it has written meanwhile. */
const [root = '', holdMs = '0', statement = '', marker = ''] = process.argv.slice(2);
const log = engine.hold(root, 15_000);
if (log === null) throw new Error('Somebody else holds the log.');
if (statement !== '') log.change(statement);
writeFileSync(marker, '');
await sleep(Number(holdMs));
log.close();
