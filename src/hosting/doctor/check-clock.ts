import { existsSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { hostZone } from '../../queue/repeat/time-zone.ts';
import { timeOf } from './amounts.ts';
import { type Check, type Finding, note, ok, problem } from './finding.ts';
import type { DoctorPlace } from './place.ts';

/** Clocks of hosts differ by seconds; more is wrong. */
const TOLERATED_MS = 60_000;

export const checkClock: Check = {
  name: 'clock',
  run: async (place) => [
    ok(`${describeTime(place.nowMs)} (${hostZone()})`),
    ...zoneFindings(place.env),
    ...fileFindings(place),
    ...(await logFindings(place)),
  ],
};

/** `2026-11-03 14:05:09 +01:00` */
function describeTime(nowMs: number): string {
  const minutes = -new Date(nowMs).getTimezoneOffset();
  const local = new Date(nowMs + minutes * 60_000).toISOString();
  const pad = (count: number): string => String(Math.floor(Math.abs(count))).padStart(2, '0');
  const offset = `${minutes < 0 ? '-' : '+'}${pad(minutes / 60)}:${pad(minutes % 60)}`;
  return `${local.slice(0, 10)} ${local.slice(11, 19)} ${offset}`;
}

/** Cron reads no profile: it goes by the machine's zone, whatever is set here. */
function zoneFindings({ TZ }: NodeJS.ProcessEnv): Finding[] {
  const machine = zoneOfMachine();
  if (!TZ || machine === null || hostZone() === machine) return [];
  return [
    note(
      `TZ is ${TZ} here, while cron and the passes it starts go by the machine's zone, ${machine}`,
      `Read the times of crontab lines as ${machine}.`,
    ),
  ];
}

function zoneOfMachine(): string | null {
  const zone = zoneOfLink() ?? zoneOfFile();
  return zone === 'Etc/UTC' ? 'UTC' : zone;
}

function zoneOfLink(): string | null {
  try {
    return readlinkSync('/etc/localtime').split('/zoneinfo/')[1] ?? null;
  } catch {
    return existsSync('/etc/localtime') ? null : 'UTC';
  }
}

/** Where the link is a copy: Debian's, and what containers have. */
function zoneOfFile(): string | null {
  try {
    return readFileSync('/etc/timezone', 'utf8').trim();
  } catch {
    return null;
  }
}

function fileFindings({ commandPath, nowMs }: DoctorPlace): Finding[] {
  const ahead = statSync(commandPath).mtimeMs - nowMs;
  return ahead > TOLERATED_MS
    ? [setBack(`the file of this command is ${timeOf(ahead)} newer than now`)]
    : [];
}

async function logFindings({ log, nowMs }: DoctorPlace): Promise<Finding[]> {
  const newest = (await log()).facts?.newestAt ?? null;
  if (newest === null || newest - nowMs <= TOLERATED_MS) return [];
  return [setBack(`the newest entry of the log is ${timeOf(newest - nowMs)} ahead of now`)];
}

function setBack(how: string): Finding {
  return problem(
    `the clock is or was wrong: ${how}`,
    'Ask the host to set the clock by NTP; if it is right now, this goes away by itself.',
  );
}
