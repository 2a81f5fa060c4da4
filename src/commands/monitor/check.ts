import type { Figure } from '../../checks/check.ts';
import { type CheckReport, checkCodes } from '../../checks/list.ts';
import { type CheckCode, type CheckStatus, findingStatuses, type HealthFinding } from '../../monitor/finding.ts';
import { formatJson, healthToJson } from '../../report/json.ts';
import { readHealth } from '../../report/model/verdict.ts';
import { renderFinding } from '../../report/terminal/findings.ts';
import { createScreen, openTextOutput, type Screen } from '../../report/terminal/screen.ts';
import { UsageError } from '../../system/base/errors.ts';
import { countOf } from '../../system/base/format.ts';
import { nearestName } from '../../system/base/suggest.ts';
import { printableLine } from '../../system/base/text.ts';
import type { CommandContext } from '../shared/context.ts';
import { withLogIfAny } from '../shared/open.ts';
import type { Given } from '../table.ts';

/** Exit codes of monitoring plugins. */
const exitCodes: Readonly<Record<CheckStatus, number>> = { ok: 0, warning: 1, critical: 2, unknown: 3 };

/** `runner check`: does anything need attention? In the form of a monitoring plugin. */
export async function check(context: CommandContext, options: Given<'check'>): Promise<void> {
  const output = openTextOutput(context.stdout);
  try {
    const codes = options.code.length === 0 ? checkCodes : options.code.map((word) => readCode(word, checkCodes));
    const report = await withLogIfAny(context, options.root, (site) => readHealth(site, codes));
    context.setExitCode(exitCodes[report.status]);
    await output.write(options.json ? formatJson(healthToJson(report)) : renderChecks(report, createScreen(context)));
  } catch (error) {
    // Any other code would tell that something is wrong with what was to be looked at.
    context.setExitCode(exitCodes.unknown);
    if (!(error instanceof Error)) throw error;
    await output.write(`RUNNER UNKNOWN - ${plainLine(error.message)}\n`);
  }
}

function readCode(word: string, known: readonly CheckCode[]): CheckCode {
  const code = known.find((each) => each === word);
  if (code !== undefined) return code;
  const nearest = nearestName(word, known);
  const hint = nearest === null ? `the checks are ${known.join(', ')}` : `did you mean ${nearest}?`;
  throw new UsageError(`There is no check ${JSON.stringify(word)}; ${hint}`);
}

const STATUS_COLUMNS = 10;

/** The line that monitoring shows, then one for each finding, with its cure below, the worst first. */
export function renderChecks({ findings, figures, status }: CheckReport, screen: Screen): string {
  const worstFirst = findingStatuses
    .toReversed()
    .flatMap((status) => findings.filter((each) => each.status === status));
  const width = Math.max(...findings.map(({ code }) => code.length)) + 2;
  const summary = `RUNNER ${status.toUpperCase()} - ${summaryOf(worstFirst, figures)}`;
  return [summary, ...worstFirst.flatMap((each) => renderCheck(each, width, screen)), ''].join('\n');
}

function summaryOf(worstFirst: readonly HealthFinding[], figures: readonly Figure[]): string {
  const bad = worstFirst.filter((each) => each.status !== 'ok');
  const [first] = bad;
  const more = bad.length > 1 ? ` (and ${bad.length - 1} more)` : '';
  const text = first === undefined ? countOf(worstFirst.length, 'check') : plainLine(first.message) + more;
  const data = figures.length === 0 ? '' : ` | ${figures.map(writeFigure).join(' ')}`;
  return `${text}${data}`;
}

/** A monitoring plugin's text after `|` is read as figures, so it must not contain one. */
function plainLine(text: string): string {
  return printableLine(text).replaceAll('|', '¦');
}

/** `disk_free=5368709120B;104857600:;20971520:` */
function writeFigure({ label, value, unit, warning, critical, isLow }: Figure): string {
  const limit = (at: number | null): string => (at === null ? '' : `${at}${isLow ? ':' : ''}`);
  return `${label}=${value}${unit};${limit(warning)};${limit(critical)}`;
}

function renderCheck(finding: HealthFinding, width: number, screen: Screen): string[] {
  const { status, code, message, hint } = finding;
  const label = ' '.repeat(STATUS_COLUMNS - status.length) + code.padEnd(width);
  const plain = { ...finding, message: plainLine(message), hint: hint === null ? null : plainLine(hint) };
  return renderFinding(plain, { status, label }, screen);
}
