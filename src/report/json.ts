import type { CheckReport } from '../checks/list.ts';
import type { DisabledScript } from '../discovery/not-run.ts';
import { type Discovery, linksOf, type Script } from '../discovery/script.ts';
import { doctorWords, type Finding, worstStatus } from '../monitor/finding.ts';
import { findPause } from '../queue/pauses.ts';
import type { Pause } from '../store/statements/pauses.ts';
import { writeExactly } from '../system/base/exact-json.ts';
import { isoInstant } from '../system/base/record.ts';
import type { NextTime } from './model/next/next-times.ts';
import { pauseRecord } from './model/pauses.ts';

/**
 * JSON as docs/json.md describes it: two spaces deep, ended by a line feed. Characters that a terminal could take for
 * control characters are escaped, and read back unchanged.
 */
export function formatJson(value: unknown): string {
  return `${writeExactly(value).replace(unsafe, escapeUnits)}\n`;
}

/** The same on one line. */
export function formatJsonLine(value: unknown): string {
  return `${writeExactly(value, true).replace(unsafe, escapeUnits)}\n`;
}

/** The contents of `jobs/`: `runner list --json`. */
export function discoveryToJson(
  { tiers, unread, handlers, ignored, elsewhere, warnings }: Discovery,
  pauses: readonly Pause[] = [],
  disabled: readonly DisabledScript[] = [],
  times: readonly NextTime[] = [],
  commands: readonly string[] = [],
) {
  const isDisabled = (path: string): boolean => disabled.some((script) => script.path === path);
  const timed = (script: Script) => {
    const time = times.find((each) => each.script === script.name);
    return { ...foundScriptToJson(script, pauses), ...whenToJson(time), links: linksOf(script) };
  };
  return {
    tiers: tiers.map(({ name, periodMs, scripts }) => ({
      tier: name,
      periodMs,
      pause: pausedToJson(pauses, name),
      scripts: scripts.map(timed),
    })),
    unread: unread.map(({ tier, reason }) => ({ tier, reason })),
    handlers: handlers.map((script) => foundScriptToJson(script, pauses)),
    commands: commands.map((name) => ({ script: name, pause: pausedToJson(pauses, name) })),
    disabled: disabled.map(({ name, path }) => ({ script: name, path })),
    ignored: ignored.filter(({ path }) => !isDisabled(path)).map(({ path, reason }) => ({ path, reason })),
    elsewhere: elsewhere.map(({ name, path, options }) => ({ script: name, path, hosts: options.host ?? [] })),
    warnings,
  };
}

function foundScriptToJson(script: Script, pauses: readonly Pause[]) {
  const { name, path, options, refusals, warnings } = script;
  const pause = pausedToJson(pauses, name);
  return { script: name, path, options, refusals, warnings, pause };
}

function pausedToJson(pauses: readonly Pause[], name: string) {
  const pause = findPause(pauses, name);
  return pause && pauseRecord.toJson(pause);
}

/** JSON escapes C0 itself; these it leaves as they are. */
const unsafe = /[\x7f-\x9f\p{Bidi_Control}\u2028\u2029]/gu;

function escapeUnits(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** The results of checks: `runner check --json`. */
export function healthToJson({ status: worst, findings }: Pick<CheckReport, 'status' | 'findings'>) {
  const checks = findings.map(({ code, status, subject, message, hint }) => ({ code, status, subject, message, hint }));
  return { status: worst, checks };
}

export function doctorToJson(findings: readonly Finding[]) {
  return {
    ok: worstStatus(findings) !== 'critical',
    checks: findings.map(({ code: name, status, message: found, hint: cure }) => ({
      ...{ name, status: doctorWords[status], found, cure },
    })),
  };
}

/** Null: it has no times of its own, or no further one; or nothing is known of its tier. */
function whenToJson(time: NextTime | undefined) {
  return { next: isoInstant(time?.atMs ?? null), nextPass: isoInstant(time?.passMs ?? null) };
}
