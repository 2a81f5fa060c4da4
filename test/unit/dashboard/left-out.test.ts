import { expect, test } from 'vitest';
import { leaveOut } from '../../../src/dashboard/static/left-out.ts';

test('a field that nobody has said may be shown is left out of a report, wherever it is', () => {
  const known = { script: 'hourly/a', exitCode: 3, reason: 'exit code 3: CANARY' };
  const added = { addedText: 'CANARY', addedList: ['CANARY'], addedObject: { script: 'CANARY' }, addedNumber: 7 };
  const shown = { script: 'hourly/a', exitCode: 3, reason: 'exit code 3' };
  const emptied = { addedText: '', addedList: [], addedObject: {}, addedNumber: null };
  const pass = { reason: 'another pass of hourly is running' };
  expect(leaveOut({ ...known, ...added, runs: [{ ...known, ...added }], lastPass: { ...pass, ...added } })).toEqual({
    ...shown,
    ...emptied,
    runs: [{ ...shown, ...emptied }],
    lastPass: { ...pass, ...emptied },
  });
});
