import { resolve } from 'node:path';
import {
  describeMissing,
  missingVariables,
  NEEDS_TLS,
  NO_SENDMAIL,
  presetOf,
  readChannelValues,
  tellsSecret,
} from '../../monitor/alert/forms.ts';
import { critical, type Found, note, ok } from '../../monitor/finding.ts';
import { type ChannelSettings, parseAlertsVariable } from '../../settings/channels.ts';
import { variableReference } from '../../settings/readers.ts';
import { ALERTS_VARIABLE, nothingGiven } from '../../settings/settings.ts';
import { capitalized } from '../../system/base/text.ts';
import { findSendmail, isExecutable } from '../../system/process/programs.ts';
import type { DoctorPlace, HostCheck } from './site.ts';

/** Whether the channels have what they need; sends nothing. */
export const checkAlerts: HostCheck = {
  code: 'alerts',
  run: async (place) => {
    const environments = await readEnvironments(place);
    const { channels } = (await place.settings()).alerts;
    const found = channels.length > 0 ? channels : readVariable(environments);
    const unset = await findUnsetPings(place, environments);
    if (found.length === 0 && unset.length === 0)
      return [ok('no channels: passes only print failures, and cron mails that')];
    const findings = [
      ...unset,
      ...(channels === found ? findUnsetVariable(place, environments) : []),
      ...found.flatMap((channel) => judgeChannel(place, channel, environments)),
    ];
    const names = found.map(({ name }) => name).join(', ');
    return findings.length > 0 ? findings : [ok(`${names}: \`npx folder-runner alert test\` sends a message`)];
  },
};

/** Environments in which passes start: those of the crontab's lines, or this one if no line calls a tier. */
interface Environments {
  readonly isCron: boolean;
  readonly all: readonly NodeJS.ProcessEnv[];
}

async function readEnvironments({ crontab, env, given }: DoctorPlace): Promise<Environments> {
  const { calls } = await crontab();
  const { site } = await given().catch(() => nothingGiven);
  const withFiles = (environment: NodeJS.ProcessEnv) => ({ ...site, ...environment });
  const ofCalls = calls.map(({ command }) => command?.env).filter((each) => each !== undefined);
  return ofCalls.length > 0 ? { isCron: true, all: ofCalls.map(withFiles) } : { isCron: false, all: [withFiles(env)] };
}

/** It may be set in the crontab alone. */
function readVariable({ all }: Environments): readonly ChannelSettings[] {
  const env = all.find((each) => each[ALERTS_VARIABLE]);
  return env === undefined ? [] : parseAlertsVariable(env[ALERTS_VARIABLE] ?? '', env).channels;
}

/** Without its variable a ping is not sent, and its service takes that for silence. */
async function findUnsetPings(
  { settings, discovery }: DoctorPlace,
  { isCron, all }: Environments,
): Promise<readonly Found[]> {
  const scripts = (await discovery()).tiers.flatMap((tier) => tier.scripts.map(({ options }) => options.ping ?? ''));
  const tiers = Object.values((await settings()).tiers).map(({ ping = '' }) => ping);
  const names = [...scripts, ...tiers].filter((url) => variableReference.test(url)).map((url) => url.slice(1));
  const unset = [...new Set(names)].filter((name) => all.some((env) => !env[name]));
  if (unset.length === 0) return [];
  const where = isCron ? ' in .env or the crontab' : '';
  return [critical(`pings are not sent: ${describeMissing(unset)}${where}`, cureOf(unset[0] ?? ''))];
}

function cureOf(name: string): string {
  const inFile = name === ALERTS_VARIABLE ? '' : '.env, or into ';
  return `Write the line ${name}=… into ${inFile}the crontab (\`crontab -e\`), above the lines of the runner.`;
}

/** Channels that this shell has, and cron has not. */
function findUnsetVariable({ env }: DoctorPlace, { isCron, all }: Environments): readonly Found[] {
  if (!env[ALERTS_VARIABLE] || !isCron || all.every((each) => each[ALERTS_VARIABLE])) return [];
  return [
    critical(
      `${ALERTS_VARIABLE} is set here, but not in the crontab: passes that cron starts alert nobody`,
      cureOf(ALERTS_VARIABLE),
    ),
  ];
}

function judgeChannel(place: DoctorPlace, channel: ChannelSettings, { isCron, all }: Environments): readonly Found[] {
  const missing = [...new Set(all.flatMap((env) => missingVariables(channel, env)))];
  if (missing.length > 0) {
    const where = isCron ? ' in .env or the crontab' : '';
    return [critical(`${channel.name}: ${describeMissing(missing)}${where}`, cureOf(missing[0] ?? ''))];
  }
  if (channel.kind === 'mail') return judgeMail(place, channel);
  return channel.kind === 'command' ? judgeCommand(place, channel) : judgeWebhook(channel, all);
}

function judgeMail({ env }: DoctorPlace, { name, options }: ChannelSettings): readonly Found[] {
  const { smtp, sendmail } = options;
  if (smtp !== undefined) return [];
  if (sendmail !== undefined && !isExecutable(sendmail)) {
    return [critical(`${name}: ${sendmail} is not a program that can be run`, 'Set `sendmail` of the channel to one.')];
  }
  if (sendmail !== undefined || findSendmail(env) !== null) return [];
  const [found = '', cure = ''] = NO_SENDMAIL.split(/: (.*)/);
  return [critical(`${name}: ${found}`, `${capitalized(cure)}.`)];
}

/** Only a path says where the program is: all else is the shell's. */
function judgeCommand({ root }: DoctorPlace, { name, target }: ChannelSettings): readonly Found[] {
  const [program = ''] = target.split(/\s/);
  if (!/^[\w./-]+$/.test(program) || !program.includes('/') || isExecutable(resolve(root, program))) return [];
  return [
    critical(`${name}: ${program} is not a program that can be run`, `Make it executable: \`chmod +x ${program}\`.`),
  ];
}

/** Anybody who knows the address of such a service can post there. */
function judgeWebhook(channel: ChannelSettings, all: readonly NodeJS.ProcessEnv[]): readonly Found[] {
  if (all.some((env) => tellsSecret(readChannelValues(channel, env)))) {
    return [critical(`${channel.name}: ${NEEDS_TLS}`, 'Use the https:// address of the service, or one on this host.')];
  }
  const isSecret = ['slack', 'discord', 'teams'].includes(presetOf(channel));
  if (!isSecret || variableReference.test(channel.target)) return [];
  return [
    note(
      `${channel.name}: its URL is in the settings file: anybody who can read that file can post there`,
      "Write the URL into a variable of .env or the crontab, and `url: '$NAME'` into the settings.",
    ),
  ];
}
