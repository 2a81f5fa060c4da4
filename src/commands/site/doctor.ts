import { type Check, type Checked, examinePlace, type FindingStatus } from '../../hosting/doctor/check.ts';
import { checkAlerts } from '../../hosting/doctor/checks-alerts.ts';
import { checkCalls, checkCron, checkCrontab } from '../../hosting/doctor/checks-cron.ts';
import { checkDisk, checkFileSystem, checkPermissions } from '../../hosting/doctor/checks-files.ts';
import { checkMachines } from '../../hosting/doctor/checks-fleet.ts';
import {
  checkClock,
  checkLimits,
  checkMemory,
  checkNode,
  checkProc,
  checkSendmail,
  checkSqlite,
} from '../../hosting/doctor/checks-host.ts';
import {
  checkConfig,
  checkJobs,
  checkLeftovers,
  checkLocks,
  checkLog,
  checkPauses,
} from '../../hosting/doctor/checks-root.ts';
import { formatJson } from '../../report/json.ts';
import { createScreen, openTextOutput, type Palette, type Screen } from '../../report/terminal/screen.ts';
import { wrap } from '../../report/terminal/table.ts';
import { countOf } from '../../system/base/format.ts';
import { printableLine } from '../../system/base/text.ts';
import type { CommandContext } from '../shared/context.ts';
import { rootOf } from '../shared/open.ts';
import type { Given } from '../table.ts';

/** `runner doctor`: is the place right that the runner runs in? */
export async function examine(context: CommandContext, options: Given<'doctor'>): Promise<void> {
  const root = rootOf(context, options.root);
  const { env, distFolder, version, findWrongUse } = context;
  const nowMs = context.now();
  const place = { root, env, distFolder, version, nowMs, findWrongUse };
  const findings = examinePlace(place, doctorChecks);
  const all = options.json ? await writeJson(context, findings) : await writeText(context, root, findings);
  context.setExitCode(isWell(all) ? 0 : 1);
}

/** In the order in which they are shown. */
export const doctorChecks: readonly Check[] = [
  checkNode,
  checkSqlite,
  checkConfig,
  checkJobs,
  checkCrontab,
  checkCron,
  checkCalls,
  checkClock,
  checkDisk,
  checkFileSystem,
  checkLocks,
  checkLimits,
  checkMemory,
  checkProc,
  checkSendmail,
  checkAlerts,
  checkPermissions,
  checkLog,
  checkMachines,
  checkLeftovers,
  checkPauses,
];

function isWell(all: readonly Checked[]): boolean {
  return all.every(({ status }) => status !== 'problem');
}

async function writeJson(context: CommandContext, findings: AsyncIterable<Checked>): Promise<readonly Checked[]> {
  const all: Checked[] = [];
  for await (const finding of findings) all.push(finding);
  await openTextOutput(context.stdout).write(formatJson({ ok: isWell(all), checks: all }));
  return all;
}

/** Line by line as they are found: some checks take a second. */
async function writeText(
  context: CommandContext,
  root: string,
  findings: AsyncIterable<Checked>,
): Promise<readonly Checked[]> {
  const output = openTextOutput(context.stdout);
  const screen = createScreen(context);
  const all: Checked[] = [];
  await output.write(renderPlace(root, screen));
  for await (const finding of findings) {
    await output.write(renderFinding(finding, all.at(-1)?.name ?? null, screen));
    all.push(finding);
  }
  await output.write(renderSummary(all, screen));
  return all;
}

/** All of it at once. */
export function renderFindings(root: string, all: readonly Checked[], screen: Screen): string {
  const lines = all.map((finding, index) => renderFinding(finding, all[index - 1]?.name ?? null, screen));
  return [renderPlace(root, screen), ...lines, renderSummary(all, screen)].join('');
}

/** As wide as the longest status and the longest name of a check, and a gap after each. */
const STATUS_COLUMNS = 9;
const NAME_COLUMNS = 13;

function renderPlace(root: string, screen: Screen): string {
  return `${screen.palette.bold(printableLine(root))}\n\n`;
}

/** One finding, with its cure below. The name of a check stands only at its first finding. */
function renderFinding(checked: Checked, before: string | null, screen: Screen): string {
  const { palette, columns } = screen;
  const width = columns - STATUS_COLUMNS - NAME_COLUMNS;
  const name = checked.name === before ? '' : checked.name;
  const isQuiet = checked.status === 'ok';
  const found = wrap(printableLine(checked.found), width).map((line) => (isQuiet ? palette.dim(line) : line));
  const cure = checked.cure === null ? [] : wrap(printableLine(checked.cure), width - 2);
  const head = paintStatus(palette, checked.status) + name.padEnd(NAME_COLUMNS);
  const indent = ' '.repeat(STATUS_COLUMNS + NAME_COLUMNS);
  const lines = [...found, ...cure.map((line, index) => `${index === 0 ? '→' : ' '} ${line}`)];
  return lines.map((line, index) => `${(index === 0 ? head : indent) + line}\n`).join('');
}

function renderSummary(all: readonly Checked[], { palette }: Screen): string {
  const count = (wanted: FindingStatus): number => all.filter(({ status }) => status === wanted).length;
  const problems = count('problem');
  const parts = [
    problems === 0 ? palette.good('no problem') : palette.bad(countOf(problems, 'problem')),
    countOf(count('warning'), 'warning'),
    countOf(count('note'), 'note'),
  ];
  return `\n${parts.join(' · ')}\n`;
}

function paintStatus(palette: Palette, status: FindingStatus): string {
  const paint = {
    ok: palette.good,
    note: palette.live,
    warning: palette.warning,
    problem: palette.bad,
  };
  return paint[status](status) + ' '.repeat(STATUS_COLUMNS - status.length);
}
