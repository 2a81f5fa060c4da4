import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { inRoot, jsonOf } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

async function makeFailing() {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'test -e fixed || { echo no orders; exit 3; }\n' });
  await inRoot(root, 'hourly');
  return root;
}

test('incidents are listed, also at the top of status, and among all once they are over', async () => {
  const root = await makeFailing();
  const listed = await inRoot(root, 'incidents');
  expect(listed.stdout).toMatch(/^ {2}#1 hourly\/a · 1 failure since \d+ \S+ \S+ · run 1\n {4}exit code 3/);
  expect((await inRoot(root, 'status')).stdout).toMatch(
    /^1 script is failing · since .+\n\nincidents\n {2}#1 hourly\/a · 1 failure since /,
  );
  expect(jsonOf(await inRoot(root, 'status', '--json'))).toMatchObject({ incidents: [{ id: 1, subject: 'hourly/a' }] });
  writeFileSync(join(root, 'fixed'), '');
  await inRoot(root, 'hourly');
  expect((await inRoot(root, 'incidents')).stdout).toBe('Nothing is wrong, as far as runs and checks tell.\n');
  expect((await inRoot(root, 'incidents', '--all')).stdout).toContain('over since');
  expect(jsonOf(await inRoot(root, 'incidents', '--all', '--json'))).toMatchObject({
    incidents: [{ id: 1, code: 'script-failing', occurrences: 1, recoveredAt: expect.any(String), lastRun: 1 }],
    mutes: [],
  });
});

test('an incident that was acknowledged, by its number or its name, sends no reminder', async () => {
  const root = await makeFailing();
  const { stdout } = await inRoot(root, 'acknowledge', '1');
  expect(stdout).toBe('Acknowledged: #1 hourly/a. You will still be told when it is over.\n');
  expect(jsonOf(await inRoot(root, 'acknowledge', 'hourly/a', '--json'))).toMatchObject({ acknowledged: [{ id: 1 }] });
  expect((await inRoot(root, 'incidents')).stdout).toContain(' · acknowledged · ');
  expect(await inRoot(root, 'acknowledge', '2')).toMatchObject({
    status: 2,
    stderr: 'runner: No open incident has the number 2; `npx folder-runner incidents` lists them.\n',
  });
});

test('a muted incident is reported once the mute ends', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'exit 3\n' });
  expect((await inRoot(root, 'mute', 'hourly')).stdout).toBe(
    'Incidents of hourly are muted until `npx folder-runner unmute hourly`.\n',
  );
  expect(await inRoot(root, 'hourly')).toMatchObject({ status: 1, stderr: '' });
  expect((await inRoot(root, 'incidents')).stdout).toContain(
    "Muted: hourly · `npx folder-runner unmute 'hourly'` ends it",
  );
  expect((await inRoot(root, 'unmute')).stdout).toBe('Unmuted: hourly.\n');
  expect((await inRoot(root, 'hourly')).stderr).toContain('hourly/a failed after');
  expect((await inRoot(root, 'unmute', 'hourly')).stdout).toBe('hourly was not muted.\n');
  expect(queryLog(root, 'select * from mutes')).toEqual([]);
});

test.each([
  [['mute', 'a', '--for', '2'], '--for must be a duration such as 30m, 2h or 7d, found "2".'],
  [['acknowledge', 'x'], 'No open incident has the subject "x"; `npx folder-runner incidents` lists them.'],
])('%j is refused', async (args, sentence) => {
  expect(await inRoot(makeTemporaryRoot({ 'jobs/hourly/notes.txt': '' }), ...args)).toEqual({
    status: 2,
    stdout: '',
    stderr: `runner: ${sentence}\n`,
  });
});
