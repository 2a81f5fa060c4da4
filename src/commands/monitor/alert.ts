import { readCrontabCalls } from '../../checks/host/crontab-calls.ts';
import { sendByChannel } from '../../monitor/alert/channels.ts';
import type { AlertMessage } from '../../monitor/alert/message.ts';
import { formatJson } from '../../report/json.ts';
import { createScreen, openTextOutput } from '../../report/terminal/screen.ts';
import type { ChannelSettings } from '../../settings/channels.ts';
import type { Runner } from '../../settings/settings.ts';
import { UsageError } from '../../system/base/errors.ts';
import { printableLine } from '../../system/base/text.ts';
import { pageAt } from '../../system/base/values.ts';
import { findRoot } from '../../system/place/root.ts';
import { machineName } from '../../system/process/identity.ts';
import { type CommandContext, openRunner } from '../shared/context.ts';
import type { Given } from '../table.ts';

/** The result of one test message. */
interface Tested {
  readonly channel: string;
  readonly ok: boolean;
  readonly durationMs: number;
  /** The answer of the other side, or the reason of the failure. */
  readonly answer: string;
}

/** `runner alert test`: do messages arrive? */
export async function testAlerts(context: CommandContext, options: Given<'alert test'>): Promise<void> {
  const { channel: name } = options;
  const env = options.cron ? await readCronEnvironment(context, options.root) : context.env;
  const runner = await openRunner({ ...context, env }, options.root);
  const channels = chooseChannels(runner, name);
  const tested = await Promise.all(channels.map((channel) => testChannel(runner, channel)));
  const text = options.json
    ? formatJson({ ok: tested.every(({ ok }) => ok), channels: tested })
    : renderTested(context, tested);
  await openTextOutput(context.stdout).write(text);
  context.setExitCode(tested.every(({ ok }) => ok) ? 0 : 1);
}

async function readCronEnvironment({ cwd, env }: CommandContext, option: string | undefined) {
  const root = findRoot({ option, variable: env.RUNNER_ROOT, cwd });
  const { calls, failure } = await readCrontabCalls(root, env);
  const found = calls.map(({ command }) => command?.env).find((each) => each !== undefined);
  if (found !== undefined) return found;
  throw new UsageError(
    failure ?? 'No line of the crontab calls this root: `npx folder-runner cron --install` adds them.',
  );
}

function chooseChannels({ settings }: Runner, name: string | undefined): readonly ChannelSettings[] {
  const { channels } = settings.alerts;
  if (channels.length === 0) {
    throw new UsageError(
      'There are no channels here: `npx folder-runner alert add mail me@example.org`, or RUNNER_ALERTS=mail:me@example.org in ' +
        'the crontab (`npx folder-runner alert test --cron` reads it there).',
    );
  }
  const chosen = channels.filter((channel) => name === undefined || channel.name === name);
  if (chosen.length > 0) return chosen;
  const names = channels.map((channel) => channel.name).join(', ');
  throw new UsageError(`There is no channel ${JSON.stringify(name)}; the channels here are ${names}.`);
}

const LONGEST_MS = 10_000;

/** Sends a test message by one channel, and prints the answer. */
export async function testAndShow(context: CommandContext, runner: Runner, channel: ChannelSettings): Promise<boolean> {
  const tested = await testChannel(runner, channel);
  context.stdout.write(renderTested(context, [tested]));
  return tested.ok;
}

async function testChannel(runner: Runner, channel: ChannelSettings): Promise<Tested> {
  const createdAt = runner.now();
  const began = performance.now();
  const outgoing = { id: `runner-test-${createdAt.toString(36)}-${channel.name}`, createdAt, message: testOf(runner) };
  const signal = AbortSignal.timeout(LONGEST_MS);
  const sent = await sendByChannel(channel, outgoing, { ...runner, signal });
  const durationMs = Math.round(performance.now() - began);
  return { channel: channel.name, ok: sent.ok, durationMs, answer: sent.ok ? sent.answer : sent.reason };
}

function testOf({ root, now, settings }: Runner): AlertMessage {
  const incident = {
    id: 0,
    subject: 'runner',
    severity: 'warning' as const,
    code: 'test',
    openedAt: now(),
    recoveredAt: null,
    ending: null,
    hint: null,
    occurrences: 1,
    lastRun: null,
    error: 'This is a test: alerts arrive here.',
    output: null,
    usual: null,
    changed: null,
    command: 'runner alert test',
    page: pageAt(settings.web.url, 'incidents'),
  };
  return { version: 1, event: 'opened', incidents: [incident], host: machineName(), root };
}

function renderTested(context: CommandContext, tested: readonly Tested[]): string {
  const { palette } = createScreen(context);
  const width = Math.max(...tested.map(({ channel }) => channel.length));
  return tested
    .map(({ channel, ok, durationMs, answer }) => {
      const outcome = ok ? palette.good('sent  ') : palette.bad('failed');
      return `${channel.padEnd(width)}  ${outcome}  ${`${durationMs}ms`.padStart(7)}  ${printableLine(answer)}\n`;
    })
    .join('');
}
