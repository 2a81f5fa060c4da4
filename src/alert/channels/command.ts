import type { ChannelSettings } from '../../settings/settings.ts';
import { putIntoWords } from '../wording.ts';
import { environmentFor, runProgram } from './program.ts';
import { failed, type Outgoing, type SendPlace, type Sent } from './sent.ts';

/**
 * Runs the channel's line by `/bin/sh` in the root. The message stands on stdin, as JSON; nothing of it is part of
 * the line, and the few variables hold no more than one line of text each.
 *
 * @param channel with its values read from the environment
 */
export async function sendByCommand(channel: ChannelSettings, outgoing: Outgoing, place: SendPlace): Promise<Sent> {
  const { message, id } = outgoing;
  const { subject } = putIntoWords(message);
  const names = channel.options.env?.split(' ') ?? [];
  const end = await runProgram({
    command: '/bin/sh',
    args: ['-c', channel.target],
    cwd: place.root,
    env: {
      ...environmentFor(place.environment, names),
      RUNNER_ROOT: place.root,
      RUNNER_ALERT_ID: id,
      RUNNER_ALERT_EVENT: message.event,
      RUNNER_ALERT_SUBJECT: subject,
    },
    input: `${JSON.stringify(message)}\n`,
    signal: place.signal,
  });
  if (end.reason === null) return { ok: true, answer: `exit code 0${end.said === '' ? '' : `: ${end.said}`}` };
  // 126: it may not be executed. 127: there is no such program.
  return failed(end.reason.replace(/^\/bin\/sh/, 'the command'), end.exitCode === 126 || end.exitCode === 127);
}
