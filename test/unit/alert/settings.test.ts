import { describe, expect, test } from 'vitest';
import { readChannelValues } from '../../../src/monitor/alert/forms.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { channelOf } from '../../support/alerts.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

async function load(input: object, environment: NodeJS.ProcessEnv = {}) {
  const root = makeTemporaryRoot({ 'runner.config.json': JSON.stringify(input, null, 2) });
  return await loadSettings(root, environment);
}

const problemsOf = async (input: object): Promise<string[]> =>
  await load(input).then(
    () => [],
    (error: Error) => error.message.split('\n').map((line) => line.replace(/^runner\.config\.json:\d+: /, '')),
  );

test('channels are read with all that they may have', async () => {
  const channels = [
    { kind: 'webhook', url: 'https://example.org/hook' },
    { kind: 'webhook', preset: 'slack', url: '$SLACK_URL', severity: 'critical' },
    { kind: 'webhook', preset: 'slack', url: '$OTHER_URL' },
    { kind: 'mail', to: ['a@example.org', 'b@example.org'], smtp: '$SMTP_URL', tags: 'money' },
    { kind: 'command', name: 'pager', run: './notify.sh --now', env: 'PAGER_KEY' },
  ];
  const { alerts, secrets } = await load({
    alerts: { channels, after: 2, remind: '12h', quiet: '22:00-07:00', perHour: 5 },
  });
  expect(alerts.channels.map(({ name, target }) => [name, target])).toEqual([
    ['webhook', 'https://example.org/hook'],
    ['slack', '$SLACK_URL'],
    ['slack-2', '$OTHER_URL'],
    ['mail', 'a@example.org, b@example.org'],
    ['pager', './notify.sh --now'],
  ]);
  expect(alerts.channels[1]).toMatchObject({ severity: 'critical', tags: [], options: { preset: 'slack' } });
  expect(alerts.channels[3]).toMatchObject({ severity: null, tags: ['money'], options: { smtp: '$SMTP_URL' } });
  expect(alerts).toMatchObject({ after: 2, remindMs: 43_200_000, quiet: { from: 1320, until: 420 }, perHour: 5 });
  expect(secrets).toEqual(['SLACK_URL', 'OTHER_URL', 'SMTP_URL']);
});

describe('a wrong channel gets one sentence for each mistake', () => {
  test.each([
    [{ kind: 'fax' }, 'kind must be mail, webhook or command, found "fax"'],
    [{ kind: 'mail' }, 'to must be one or more addresses such as me@example.org, or $NAME, found nothing'],
    [
      { kind: 'mail', to: '-oQ/tmp@x' },
      'to must be one or more addresses such as me@example.org, or $NAME, found "-oQ/tmp@x"',
    ],
    [
      { kind: 'mail', to: 'a@b.c', url: 'https://x.org' },
      'url must be left out: mail has to, from, smtp, sendmail, name, severity, tags, found a string',
    ],
    [
      { kind: 'mail', to: 'a@b.c', smtp: 'smtp://me:geheim@x.org' },
      'smtp must be a URL without password, or the name of a variable that holds it, such as $NAME, found a string',
    ],
    [
      { kind: 'webhook', url: 'https://me:geheim@x.org' },
      'url must be a URL without password, or the name of a variable that holds it, such as $NAME, found a string',
    ],
    ...[{ token: '$T' }, { preset: 'slack' }].map((secret): [object, string] => [
      { kind: 'webhook', url: 'http://x.org/geheim', ...secret },
      'url must be a URL that begins with https://, as it holds or carries a secret, found a string',
    ]),
    [{ kind: 'webhook', url: 'ftp://x.org' }, 'url must be a URL (https://…), or $NAME, found a string'],
    [
      { kind: 'webhook', preset: 'telegram', chat: 1, token: '123:geheim' },
      'token must be the name of a variable that holds it, such as $NAME, found a string',
    ],
    [{ kind: 'webhook', preset: 'pushover', token: '$T' }, 'user must be a text, found nothing'],
    [{ kind: 'command' }, 'run must be a text, found nothing'],
  ])('%j', async (channel, expected) => {
    expect(await problemsOf({ alerts: { channels: [channel] } })).toEqual([`alerts.channels.0.${expected}`]);
  });

  test('what is wrong around them', async () => {
    const alerts = { channels: 'mail', quiet: '22-7', remind: 'daily', perhour: 3 };
    expect(await problemsOf({ alerts, defaults: { ping: 'https://x.org' }, ping: '$X' })).toEqual([
      'alerts.channels must be a list, found "mail"',
      'alerts.quiet must be two times of the day such as 22:00-07:00, found "22-7"',
      'alerts.remind must be a duration such as 30s, 10m or 2h, found "daily"',
      'alerts.perhour is not a known setting; did you mean perHour?',
      'defaults.ping is not a known setting; put it under tiers.<tier> or scripts, as each needs a URL of its own',
      'ping is not a known setting; put it under tiers.<tier> or scripts, as each needs a URL of its own',
    ]);
  });
});

describe('RUNNER_ALERTS', () => {
  test('names channels in one line', async () => {
    const RUNNER_ALERTS = 'mail:me@example.org, ntfy:my-topic webhook:$HOOK telegram:-100 command:./notify.sh';
    const { alerts, secrets } = await loadSettings(makeTemporaryRoot(), { RUNNER_ALERTS, SMTP_URL: 'smtps://x' });
    expect(alerts.channels.map(({ name, target, options }) => [name, target, options])).toEqual([
      ['mail', 'me@example.org', { smtp: '$SMTP_URL' }],
      ['ntfy', 'https://ntfy.sh/my-topic', { preset: 'ntfy' }],
      ['webhook', '$HOOK', {}],
      ['telegram', '', { preset: 'telegram', chat: '-100', token: '$TELEGRAM_TOKEN' }],
      ['command', './notify.sh', {}],
    ]);
    expect(secrets).toContain('TELEGRAM_TOKEN');
  });

  test('counts only where the settings name no channels', async () => {
    const environment = { RUNNER_ALERTS: 'mail:me@example.org' };
    const channels = [{ kind: 'command', run: 'true' }];
    expect((await load({ alerts: { channels } }, environment)).alerts.channels).toMatchObject([{ kind: 'command' }]);
    const { alerts } = await load({ alerts: { after: 3 } }, environment);
    expect(alerts).toMatchObject({ after: 3, channels: [{ kind: 'mail' }] });
  });

  test('that is wrong is told without its value', async () => {
    const RUNNER_ALERTS = 'mail:nobody slak:https://hooks.slack.com/geheim';
    await expect(loadSettings(makeTemporaryRoot(), { RUNNER_ALERTS })).rejects.toThrow(
      'RUNNER_ALERTS: word 1 (mail) must be one or more addresses such as me@example.org, or $NAME\n' +
        'RUNNER_ALERTS: word 2 must be mail, webhook, command, slack, discord, teams, ntfy, telegram, pushover and a ' +
        'target: mail:me@example.org',
    );
  });
});

test('values are read from the environment as a message is sent; a command line is the shell’s', () => {
  const environment = { TO: 'a@example.org', URL: ' https://x.org/1 ' };
  const mail = channelOf({ kind: 'mail', to: ['$TO', 'b@example.org'], smtp: '$URL' });
  expect(readChannelValues(mail, environment)).toMatchObject({
    target: 'a@example.org, b@example.org',
    options: { smtp: 'https://x.org/1' },
  });
  const command = channelOf({ kind: 'command', run: '$TO' });
  expect(readChannelValues(command, environment).target).toBe('$TO');
});
