import { describe, expect, test } from 'vitest';
import { machineName } from '../../../src/system/process/identity.ts';
import { openPlace } from '../../support/run.ts';

const MB = 1024 * 1024;

describe('a program as a handler', () => {
  test('reads its job as one line of JSON', async () => {
    const place = openPlace({ 'mail/a.sh': 'cat; test "$(wc -l </dev/stdin)" = 0\n' });
    const { output } = await place.run('mail/a', {
      job: {
        data: '{\n  "to": "a\\nb",\r\n  "big": 12345678901234567890\n}',
        attempt: 2,
        scheduledFor: 0,
        latenessMs: 5,
        parentData: '[1]',
      },
    });
    expect(output.text.split('\n')).toHaveLength(2);
    expect(output.text).toContain('12345678901234567890');
    expect(JSON.parse(output.text)).toEqual({
      id: 7,
      name: 'mail/a',
      data: { to: 'a\nb', big: Number('12345678901234567890') },
      attempt: 2,
      scheduledFor: '1970-01-01T00:00:00.000Z',
      latenessMs: 5,
      lastSuccess: null,
      previouslyCrashed: false,
      parentData: [1],
      children: { finished: [], failed: [], cancelled: [] },
    });
  });

  test('finds the same in the environment', async () => {
    const place = openPlace({
      'mail/a.sh':
        'echo "$RUNNER_JOB $RUNNER_NAME $RUNNER_SCRIPT $RUNNER_ATTEMPT [$RUNNER_SCHEDULED_FOR] $RUNNER_HOST"\n',
    });
    expect((await place.run('mail/a')).output.text).toBe(`7 mail/a queue/mail/a 1 [] ${machineName()}\n`);
  });

  test.each([
    ['an object', `echo '{"sent":true}'`, '{"sent":true}'],
    ['an array', `echo ' [1, 2] '`, '[1, 2]'],
    ['the last line that is not empty', `echo '{"a":1}'; echo '{"b":2}'; echo; echo '  '`, '{"b":2}'],
    ['a line without its end', `printf 'text\\n{"a":1}'`, '{"a":1}'],
    ['a long line', `printf '{"a":"%0300000d"}' 0`, `{"a":"${'0'.repeat(300_000)}"}`],
    ['nothing', 'true', undefined],
    ['a number, as it may stand there by chance', 'echo 3', undefined],
    ['a word', `echo '"done"'`, undefined],
    ['a value that is not JSON', `echo '[INFO] done'`, undefined],
    ['an earlier line', `echo '{"a":1}'; echo done`, undefined],
  ])('gives back %s', async (_, script, result) => {
    const place = openPlace({ 'a.sh': `${script}\n` });
    const end = await place.run('a');
    expect(end).toMatchObject({ outcome: 'succeeded', exitCode: 0, warning: null });
    expect(end.result).toBe(result);
  });

  test('cannot give back too much, which is noted', async () => {
    const place = openPlace({ 'a.sh': `printf '{"a":"%0${MB}d"}' 0\n` });
    const end = await place.run('a');
    expect(end).toMatchObject({
      outcome: 'succeeded',
      warning: `its last line is longer than a result may be (${MB} bytes), and was ignored`,
    });
    expect(end).not.toHaveProperty('result');
  });

  test.each([
    [75, { outcome: 'released', reason: 'exit code 75: asked for another try', ask: { kind: 'retry' } }],
    [1, { reason: 'exit code 1' }],
    [76, { reason: 'exit code 76' }],
  ])('that ends with %i', async (code, expected) => {
    const place = openPlace({ 'a.sh': `echo '{"a":1}'\nexit ${code}\n` });
    const end = await place.run('a');
    expect(end).toMatchObject({ outcome: 'failed', exitCode: code, ...expected });
    expect(end).not.toHaveProperty('result');
    expect('ask' in end).toBe(code === 75);
  });

  test('need not read what it is given, however long that is', async () => {
    const place = openPlace({ 'a.sh': 'exec sleep 0.1\n', 'closes.sh': 'exec <&-\nsleep 0.1\n' });
    const data = 'x'.repeat(MB);
    expect(await place.run('a', { data })).toMatchObject({ outcome: 'succeeded' });
    expect(await place.run('closes', { data })).toMatchObject({ outcome: 'succeeded' });
  });

  test('may read it twice as any file, and reads all of 1 MiB', async () => {
    const place = openPlace({ 'a.sh': `wc -c\n` });
    const { output } = await place.run('a', { data: 'x'.repeat(MB) });
    expect(Number(output.text)).toBeGreaterThan(MB);
  });

  test('may be of any language', async () => {
    const place = openPlace({
      'a.py': 'import json, sys\njob = json.load(sys.stdin)\nprint(json.dumps({"got": job["data"]}))\n',
    });
    expect((await place.run('a', { data: { n: 1 } })).result).toBe('{"got": {"n": 1}}');
  });

  test('has its time limit', async () => {
    const place = openPlace({ 'a.sh': 'sleep 60\n' });
    expect(await place.run('a', { timeoutMs: 200 })).toMatchObject({ outcome: 'timed-out' });
  });
});
