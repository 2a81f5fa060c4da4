import { expect, test } from 'vitest';
import { type Pass, runPass } from '../../support/command.ts';

function endOf({ run }: Pass, label: string) {
  const { outcome, exit_code, error_name, error_message, reason, measured_by } = run(label);
  return { outcome, exit_code, error_name, error_message, reason, measured_by };
}

test('errors that end a script are recorded as they are', () => {
  const pass = runPass({
    'throws.mjs': `throw new TypeError('a text\\nof two lines');\n`,
    'throws-in-a-timer.cjs': `setTimeout(() => { throw new RangeError('late'); }, 5);\n`,
    'rejects.mjs': `Promise.reject(new Error('nobody waits'));\nsetTimeout(() => {}, 60_000);\n`,
    'function-rejects.mjs': `export default async () => { throw new Error('in the function'); };\n`,
    'module-is-missing.mjs': `import 'no-such-package';\n`,
  });
  const failure = { outcome: 'failed', exit_code: 1, measured_by: 'self' };
  expect(endOf(pass, 'throws')).toEqual({
    ...failure,
    error_name: 'TypeError',
    error_message: 'a text\nof two lines',
    reason: 'exit code 1: TypeError: a text',
  });
  expect(endOf(pass, 'throws-in-a-timer')).toMatchObject({ ...failure, error_message: 'late' });
  expect(endOf(pass, 'rejects')).toMatchObject({ ...failure, error_message: 'nobody waits' });
  expect(endOf(pass, 'function-rejects')).toMatchObject({ ...failure, error_message: 'in the function' });
  expect(endOf(pass, 'module-is-missing').error_message).toContain('no-such-package');
  expect(pass.run('throws').error_stack).toContain('/jobs/hourly/throws.mjs:1:7');
  expect(pass.run('function-rejects').error_stack).toContain('function-rejects.mjs:1:');
});

test('a cause and the errors of an AggregateError stand in the stack', () => {
  const { run } = runPass({
    'nested.mjs': `const all = new AggregateError([new Error('first leg'), new Error('second leg')], 'both');
throw new Error('outermost', { cause: new Error('in between', { cause: all }) });\n`,
  });
  expect(run('nested').error_message).toBe('outermost');
  for (const text of ['outermost', 'in between', 'both', 'first leg', 'second leg']) {
    expect(run('nested').error_stack).toContain(text);
  }
});

test('anything can be thrown', () => {
  const pass = runPass({
    'hostile.mjs': `throw new Proxy(new Error('x'), { get() { throw new Error('of a getter'); } });\n`,
    'hostile-message.mjs': `const error = new Error('x');
Object.defineProperty(error, 'message', { get() { throw new Error('of a getter'); } });
throw error;\n`,
    'null.mjs': `throw null;\n`,
    'default-null.mjs': `export default async () => { throw null; };\n`,
    'default-object.mjs': `export default () => { throw { code: 5, message: 'x '.repeat(100), at: { a: { b: { c: 1 } } } }; };\n`,
    'default-rejects.mjs': `export default () => Promise.reject(undefined);\n`,
    'number.mjs': `throw 42;\n`,
    'object.mjs': `throw { code: 7 };\n`,
    'rejected-text.mjs': `Promise.reject('a rejected text');\n`,
    'symbol.mjs': `throw Symbol('sign');\n`,
    'text.mjs': `throw 'only a text';\n`,
    'undefined.mjs': `throw undefined;\n`,
    'very-long.mjs': `throw new Error('long '.repeat(1_000_000));\n`,
  });
  expect(pass.runs).toHaveLength(13);
  for (const { script, outcome, error_message } of pass.runs) {
    expect({ script, outcome }).toEqual({ script, outcome: 'failed' });
    expect(error_message).toBeTypeOf('string');
  }
  expect(endOf(pass, 'text')).toMatchObject({
    error_name: 'thrown string',
    error_message: 'only a text',
    reason: 'exit code 1: thrown string: only a text',
  });
  expect(endOf(pass, 'object').error_message).toBe('{ code: 7 }');
  expect(endOf(pass, 'null').error_message).toBe('null');
  expect(endOf(pass, 'default-null').reason).toBe('exit code 1: thrown object: null');
  const long = 'x '.repeat(100);
  expect(endOf(pass, 'default-object').reason).toBe(
    `exit code 1: thrown object: { code: 5, message: '${long}', at: { a: { b: [Object] } } }`,
  );
  expect(endOf(pass, 'default-rejects').reason).toBe('exit code 1: thrown undefined: undefined');
  expect(endOf(pass, 'rejected-text').error_message).toContain('a rejected text');
  expect(pass.run('very-long').error_message?.length).toBeLessThanOrEqual(8 * 1024);
  expect(pass.run('very-long').error_stack?.length).toBeLessThanOrEqual(32 * 1024);
});

test('a script that ends itself is taken at its word', () => {
  const pass = runPass({
    'exits.mjs': `console.log('enough');\nprocess.exit(7);\n`,
    'exits-after-an-error.cjs': `process.on('uncaughtException', () => process.exit(9));\nthrow new Error('the cause');\n`,
    'exits-at-exit.mjs': `process.on('exit', () => { process.exitCode = 4; });\n`,
    'exits-with-zero-after-an-error.cjs': `process.on('uncaughtException', () => process.exit(0));\nthrow new Error('no matter');\n`,
    'sets-exit-code.mjs': `export default () => { process.exitCode = 5; };\n`,
  });
  const withoutError = { error_name: null, error_message: null, measured_by: 'self' };
  expect(endOf(pass, 'exits')).toEqual({ ...withoutError, outcome: 'failed', exit_code: 7, reason: 'exit code 7' });
  expect(endOf(pass, 'exits-after-an-error')).toMatchObject({
    exit_code: 9,
    error_message: 'the cause',
    reason: 'exit code 9: Error: the cause',
  });
  expect(endOf(pass, 'exits-at-exit')).toMatchObject({ ...withoutError, exit_code: 4 });
  expect(endOf(pass, 'exits-with-zero-after-an-error')).toMatchObject({ ...withoutError, outcome: 'succeeded' });
  expect(endOf(pass, 'sets-exit-code')).toMatchObject({ ...withoutError, exit_code: 5 });
});

test('a promise that never settles is a failure, not an early success', () => {
  const pass = runPass({
    'function.mjs': `export default () => new Promise(() => {});\n`,
    'common.cts': `module.exports = (): Promise<void> => new Promise(() => {});\n`,
    'module.mjs': `await new Promise(() => {});\n`,
  });
  const functionNever = "the promise of the script's default function never settled";
  expect(endOf(pass, 'function')).toMatchObject({
    outcome: 'failed',
    exit_code: 13,
    reason: `exit code 13: Error: ${functionNever}`,
  });
  expect(pass.run('function').output).toBe(`Error: ${functionNever}\n`);
  expect(endOf(pass, 'common')).toMatchObject({ exit_code: 13, error_message: functionNever });
  expect(endOf(pass, 'module')).toMatchObject({
    outcome: 'failed',
    exit_code: 13,
    error_message:
      'a top-level await never settled. Did the script wait for input? Scripts have no keyboard (stdin is empty).',
  });
});

test('a Node script’s figures are its own, also when it fails', () => {
  const busy = `const bytes = Buffer.alloc(150 * 1024 * 1024, 1);
const end = Date.now() + 200;
while (Date.now() < end);
console.log(JSON.stringify({ ...process.resourceUsage(), bytes: bytes.length }));\n`;
  const { run } = runPass({
    'exits.mjs': `${busy}process.exit(3);\n`,
    'succeeds.mjs': busy,
    'throws.mjs': `${busy}throw new Error('after all');\n`,
  });
  for (const label of ['exits', 'succeeds', 'throws']) {
    const { output, measured_by, user_cpu_us, max_rss_bytes } = run(label);
    const own = JSON.parse(output?.split('\n')[0] ?? '');
    expect(measured_by).toBe('self');
    expect(max_rss_bytes).toBeGreaterThanOrEqual(own.maxRSS * 1024);
    expect(max_rss_bytes).toBeLessThan(own.maxRSS * 1024 * 1.1);
    expect(user_cpu_us).toBeGreaterThanOrEqual(own.userCPUTime);
    expect(user_cpu_us).toBeLessThan(own.userCPUTime + 100_000);
  }
});
