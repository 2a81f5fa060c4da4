import { expect, test } from 'vitest';
import { cronPlace, runCommand } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const holding = `const held = Buffer.alloc(300_000_000, 1);
export default async () => {
  await new Promise((resolve) => setTimeout(resolve, 50));
  return held.length;
};
`;

test('--max-memory counts what the children hold, too', () => {
  const root = makeTemporaryRoot({ 'jobs/queue/holds.mjs': holding });
  const place = cronPlace(root);
  const jobs = '{"name":"holds"}\n'.repeat(400);
  runCommand(['--root', root, 'add', '--many'], { ...place, input: jobs });
  expect(runCommand(['--root', root, 'work', '--max-memory', '250mb'], place).status).toBe(0);
  expect(queryLog(root, "select reason from workers where kind = 'queue'")).toEqual([
    { reason: 'the worker and its children use more memory than allowed (--max-memory)' },
  ]);
  expect(queryLog(root, 'select distinct state from jobs order by state')).toEqual([
    { state: 'finished' },
    { state: 'queued' },
  ]);
});
