import { existsSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { serve } from '../../support/alerts.ts';
import { cronEnv, type Ended, jsonOf, startCommand } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const call = async (root: string, args: readonly string[], input = '', env: NodeJS.ProcessEnv = {}): Promise<Ended> =>
  await startCommand(args, { cwd: root, env: { ...cronEnv(root), ...env }, input }).ended;

const read = (root: string, file: string): string => readFileSync(join(root, file), 'utf8');
const modeOf = (root: string, file: string): number => statSync(join(root, file)).mode & 0o777;

describe('runner alert add', () => {
  test('writes the settings and .env, sends a test message, and is taken back to the last byte', async () => {
    const { url, asked } = await serve();
    const root = makeTemporaryRoot();
    const secret = `${url}/hook/secret-4711`;

    const added = await call(root, ['alert', 'add', 'webhook', secret]);

    expect(added).toMatchObject({ status: 0, stderr: '' });
    expect(added.stdout).toMatch(
      /^Added the channel webhook to \.env and runner\.config\.json\. .*alert remove webhook/,
    );
    expect(added.stdout).toMatch(/^webhook {2}sent /m);
    expect(asked.map(({ path }) => path)).toEqual(['/hook/secret-4711']);
    expect(added.stdout + read(root, 'runner.config.json')).not.toContain('secret-4711');
    expect(read(root, '.env')).toContain(`WEBHOOK_URL="${secret}"`);
    expect([modeOf(root, '.env'), modeOf(root, 'runner.config.json')]).toEqual([0o600, 0o644]);
    expect(jsonOf(await call(root, ['alert', 'list', '--json']))).toEqual({
      channels: [
        {
          ...{ name: 'webhook', kind: 'webhook', preset: null, severity: null, tags: [], to: null },
          variables: [{ name: 'WEBHOOK_URL', isSet: true }],
        },
      ],
    });
    expect(await call(root, ['alert', 'remove', 'webhook'])).toEqual({
      ...{ status: 0, stderr: '' },
      stdout: 'Removed the channel webhook from runner.config.json, and WEBHOOK_URL from .env.\n',
    });
    expect(readdirSync(root).filter((name) => !name.startsWith('.runner'))).toEqual(['jobs']);
  });

  test('keeps what others have written, and gives a second channel other names', async () => {
    const config = '{\n\t"umask": "027",\n\t"alerts": { "after": 2 }\n}';
    const env = '# mine\nSLACK_URL=https://hooks.slack.com/a\nLAST="no end"';
    const root = makeTemporaryRoot({ 'runner.config.json': config, 'real.env': { content: env, mode: 0o600 } });
    symlinkSync('real.env', join(root, '.env'));
    const add = (...args: string[]) => call(root, ['alert', 'add', ...args, '--no-test']);

    expect(await add('slack', 'https://hooks.slack.com/a')).toMatchObject({ status: 0 });
    expect(read(root, '.env')).toBe(env);
    expect(await add('slack', 'https://hooks.slack.com/b')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('There is a channel slack already: give this one another name with --name.'),
    });
    expect(await add('slack', 'https://hooks.slack.com/b', '--name', 'shop')).toMatchObject({ status: 0 });
    expect(await add('telegram', '4711', '1:token')).toMatchObject({ status: 0 });
    expect(await add('mail', 'me@example.org', '--smtp', 'smtps://me:pass@mail.example.org')).toMatchObject({
      status: 0,
    });
    expect(JSON.parse(read(root, 'runner.config.json'))).toEqual({
      umask: '027',
      alerts: {
        after: 2,
        channels: [
          { kind: 'webhook', preset: 'slack', url: '$SLACK_URL' },
          { kind: 'webhook', preset: 'slack', url: '$SHOP_URL', name: 'shop' },
          { kind: 'webhook', preset: 'telegram', chat: '4711', token: '$TELEGRAM_TOKEN' },
          { kind: 'mail', to: 'me@example.org', smtp: '$SMTP_URL' },
        ],
      },
    });
    expect((await call(root, ['alert', 'list'])).stdout).toContain('mail      mail · me@example.org · $SMTP_URL\n');
    for (const name of ['shop', 'mail', 'slack', 'telegram'])
      expect(await call(root, ['alert', 'remove', name])).toMatchObject({ status: 0, stderr: '' });
    expect([read(root, 'runner.config.json'), read(root, 'real.env')]).toEqual([config, env]);
    expect(modeOf(root, 'real.env')).toBe(0o600);
  });

  test.each([null, '', '\n', 'A=1\n', 'A=1'])('leaves a file of variables as it was: %j', async (content) => {
    const root = makeTemporaryRoot();
    if (content !== null) writeFileSync(join(root, '.env'), content, { mode: 0o640 });
    const add = (name: string, topic: string) =>
      call(root, ['alert', 'add', 'ntfy', topic, '--name', name, '--no-test']);
    expect(await add('one', 'a')).toMatchObject({ status: 0, stderr: '' });
    expect(await add('two', 'b')).toMatchObject({ status: 0, stderr: '' });
    expect(read(root, '.env')).toMatch(/^ONE_URL="https:\/\/ntfy\.sh\/a" .*\nTWO_URL="https:\/\/ntfy\.sh\/b" /m);
    for (const name of ['one', 'two'])
      expect(await call(root, ['alert', 'remove', name])).toMatchObject({ status: 0, stderr: '' });
    expect(existsSync(join(root, '.env')) ? read(root, '.env') : null).toBe(content);
    if (content !== null) expect(modeOf(root, '.env')).toBe(0o640);
  });

  test('reads the target from stdin, and keeps a channel whose test fails', async () => {
    const { url } = await serve((_, response) => void response.writeHead(404).end('no such hook'));
    const root = makeTemporaryRoot();
    const { status, stdout } = await call(root, ['alert', 'add', 'webhook', '-'], `${url}/x\n`);
    expect([status, stdout]).toEqual([1, expect.stringMatching(/^webhook {2}failed .*404/m)]);
    expect(read(root, '.env')).toContain(`"${url}/x"`);
  });

  test.each([
    ['runner.config.mjs', 'export default { umask: "022" };\n', 'runner.config.mjs cannot be edited safely'],
    ['runner.config.json', '{ "alerts": {}, "alerts": {} }', 'runner.config.json cannot be edited safely'],
    ['runner.config.json', '{ "envFile": [] }', 'envFile in the settings names no file for secrets'],
  ])('prints the lines for %s %j, and changes nothing', async (file, content, why) => {
    const root = makeTemporaryRoot({ [file]: content });
    const { status, stdout, stderr } = await call(root, ['alert', 'add', 'ntfy', 'my-topic']);
    expect([status, stderr]).toEqual([1, `runner: Nothing was changed, as ${why}. Paste these lines.\n`]);
    expect(stdout).toContain(`  { "kind": "webhook", "preset": "ntfy", "url": "$NTFY_URL" }\n`);
    expect(stdout).toContain('  NTFY_URL="https://ntfy.sh/my-topic"\n');
    expect([read(root, file), existsSync(join(root, '.env'))]).toEqual([content, false]);
  });

  test.each([
    [['slack', 'hooks.slack.com/x'], 'The target must be a URL that begins with https://.'],
    [['slack', 'http://hooks.slack.com/x'], 'The target must be a URL that begins with https://.'],
    [['mail', 'nobody'], 'The target must be one or more addresses such as me@example.org'],
    [['mail', 'a@b.org', '--smtp', 'mail.b.org'], '--smtp must be a URL that begins with smtps://.'],
    [['telegram', '4711'], 'telegram needs a token behind its target'],
    [['slack', 'https://x.org', 'token'], 'slack takes no token.'],
    [['ntfy', 'x', '--name', 'two words'], 'The name must be a name of letters, digits, - and _.'],
    [['slack', '-'], 'The target is empty'],
    [['pager', 'x'], '<kind> must be one of mail, slack'],
  ])('refuses %j', async (args, message) => {
    const root = makeTemporaryRoot();
    const { status, stderr } = await call(root, ['alert', 'add', ...args]);
    expect([status, stderr]).toEqual([2, expect.stringContaining(message)]);
    expect(existsSync(join(root, 'runner.config.json'))).toBe(false);
  });

  test('says that RUNNER_ALERTS no longer counts, and removes no channel of it', async () => {
    const root = makeTemporaryRoot();
    const env = { RUNNER_ALERTS: 'mail:me@example.org' };
    expect(await call(root, ['alert', 'remove', 'mail'], '', env)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('mail is in RUNNER_ALERTS, in the crontab'),
    });
    writeFileSync(join(root, 'runner.config.json'), '{}');
    const added = await call(root, ['alert', 'add', 'command', 'true', '--no-test'], '', env);
    expect(added).toMatchObject({ status: 0, stderr: expect.stringContaining('RUNNER_ALERTS no longer counts') });
    expect((await call(root, ['alert', 'list'], '', env)).stdout).toBe('command  command\n');
  });
});
