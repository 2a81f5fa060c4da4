import { describe, expect, test } from 'vitest';
import { runPass, runPassAgain } from '../../support/command.ts';

// Passes are started without it, as by cron: their zone is the host's.
delete process.env.TZ;

const PRINT = `export default (context) => {
  const { signal, log, ...facts } = context;
  log(JSON.stringify({ ...facts, aborted: signal.aborted, kind: signal.constructor.name }));
};\n`;

test('a default function is told about its run', () => {
  const first = runPass({ 'a.mjs': PRINT });
  const run = first.run('a');
  const hour = new Date(run.started_at);
  hour.setMinutes(0, 0, 0);
  const facts = {
    script: 'hourly/a',
    args: [],
    scheduledFor: hour.toISOString(),
    latenessMs: run.started_at - hour.getTime(),
    attempt: 1,
    lastSuccess: null,
    previouslyCrashed: false,
    aborted: false,
    kind: 'AbortSignal',
  };
  expect(JSON.parse(run.output ?? '')).toEqual(facts);
  const second = runPassAgain(first.root).run('a');
  expect(JSON.parse(second.output ?? '')).toEqual({
    ...facts,
    scheduledFor: expect.any(String),
    latenessMs: expect.any(Number),
    lastSuccess: new Date(run.started_at).toISOString(),
  });
});

test('instants are dates, and the environment says the same for other languages', () => {
  const { run } = runPass({
    'a.mjs': `export default ({ scheduledFor, lastSuccess }) => {
  console.log(scheduledFor instanceof Date, lastSuccess);
  console.log(process.env.RUNNER_SCHEDULED_FOR === scheduledFor.toISOString());
};\n`,
    'b.sh': `echo "$RUNNER_SCRIPT $RUNNER_ATTEMPT [$RUNNER_LAST_SUCCESS] [$RUNNER_PREVIOUSLY_CRASHED]"\n`,
  });
  expect(run('a').output).toBe('true null\ntrue\n');
  expect(run('b').output).toBe('hourly/b 1 [] []\n');
});

describe('at the time limit', () => {
  test('a function that heeds its signal tidies up, one that does not ends at once', () => {
    const { status, run } = runPass({
      'heeds.mjs': `// @timeout 2s
import { setTimeout as sleep } from 'node:timers/promises';
export default async ({ signal }) => {
  await sleep(60_000, null, { signal }).catch(() => {});
  console.log('tidied up', signal.aborted);
};\n`,
      'heedless.mjs': `// @timeout 2s
import { setTimeout as sleep } from 'node:timers/promises';
export default async () => { await sleep(60_000); };\n`,
    });
    expect(status).toBe(1);
    expect(run('heeds')).toMatchObject({
      outcome: 'timed-out',
      exit_code: 0,
      signal: null,
      output: 'tidied up true\n',
      reason: expect.stringMatching(/^timed out after 2(\.\d)?s \(limit 2s\), exited with code 0 after SIGTERM$/),
      measured_by: 'self',
    });
    expect(run('heedless')).toMatchObject({
      outcome: 'timed-out',
      exit_code: null,
      signal: 'SIGTERM',
      reason: expect.stringMatching(/ \(limit 2s\), ended with SIGTERM$/),
      measured_by: 'sampled',
    });
  });
});
