import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Bench, type Part } from './bench.ts';
import { choreParts } from './chores.ts';
import { groupsParts } from './groups.ts';
import { logParts } from './log.ts';
import { memoryParts } from './memory.ts';
import { queueParts } from './queue.ts';
import { reportParts } from './report.ts';
import { scaleParts } from './scale.ts';
import { tierParts } from './tiers.ts';
import { usualParts } from './usual.ts';
import { webParts } from './web.ts';

/** `npm run bench -- queue`, `npm run bench -- waking tiers`: those benches or parts; without a name, all of them. */
const benches: Readonly<Record<string, Readonly<Record<string, Part>>>> = {
  queue: queueParts,
  tiers: tierParts,
  report: reportParts,
  chores: choreParts,
  usual: usualParts,
  log: logParts,
  memory: memoryParts,
  groups: groupsParts,
  web: webParts,
  scale: scaleParts,
};

const wanted = process.argv.slice(2);
const known = Object.entries(benches).flatMap(([name, parts]) => [name, ...Object.keys(parts)]);
const unknown = wanted.filter((name) => !known.includes(name));
if (unknown.length > 0) {
  process.stderr.write(`Which bench? There is no ${unknown.join(', ')}: ${known.join(', ')}\n`);
  process.exitCode = 2;
} else await run();

async function run(): Promise<void> {
  const disk = mkdtempSync(join(process.env.BENCH_FOLDER || tmpdir(), 'runner-bench-'));
  const bench = new Bench(disk);
  bench.say(`on ${fileSystemOf(disk)}, Node ${process.version}, medians of alternating rounds`);
  try {
    for (const [name, parts] of Object.entries(benches)) {
      for (const [part, measure] of Object.entries(parts)) {
        if (wanted.length > 0 && !wanted.includes(name) && !wanted.includes(part)) continue;
        bench.say(`\n${name}: ${part}`);
        await measure(bench);
      }
    }
    bench.say('');
    bench.printGoals();
  } finally {
    rmSync(disk, { recursive: true, force: true });
  }
}

function fileSystemOf(folder: string): string {
  const lines = execFileSync('df', ['--output=fstype', folder], { encoding: 'utf8' });
  return lines.trim().split('\n')[1] ?? 'an unknown file system';
}
