import { hostChecks } from '../../checks/host/list.ts';
import { examinePlace } from '../../checks/host/site.ts';
import { doctorWords, type Finding, worstStatus } from '../../monitor/finding.ts';
import { doctorToJson, formatJson } from '../../report/json.ts';
import { renderFinding } from '../../report/terminal/findings.ts';
import { createScreen, openTextOutput, type Screen, type TextOutput } from '../../report/terminal/screen.ts';
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
  const findings = examinePlace(place, hostChecks);
  const all = options.json
    ? await writeJson(context, findings)
    : await writeFindings(openTextOutput(context.stdout), root, findings, createScreen(context));
  context.setExitCode(worstStatus(all) === 'critical' ? 1 : 0);
}

async function writeJson(context: CommandContext, findings: AsyncIterable<Finding>): Promise<readonly Finding[]> {
  const all: Finding[] = [];
  for await (const finding of findings) all.push(finding);
  await openTextOutput(context.stdout).write(formatJson(doctorToJson(all)));
  return all;
}

/** Writes line by line as findings come: some checks take a second. */
export async function writeFindings(
  output: TextOutput,
  root: string,
  findings: AsyncIterable<Finding> | Iterable<Finding>,
  screen: Screen,
): Promise<readonly Finding[]> {
  const all: Finding[] = [];
  await output.write(renderPlace(root, screen));
  for await (const finding of findings) {
    await output.write(renderChecked(finding, all.at(-1)?.code ?? null, screen));
    all.push(finding);
  }
  await output.write(renderSummary(all, screen));
  return all;
}

/** As wide as the longest status and the longest name of a check, and a gap after each. */
const STATUS_COLUMNS = 9;
const NAME_COLUMNS = 13;

function renderPlace(root: string, screen: Screen): string {
  return `${screen.palette.bold(printableLine(root))}\n\n`;
}

/** One finding; a check's name stands only beside its first finding. A check that did not run may hide a fault. */
function renderChecked(finding: Finding, before: string | null, screen: Screen): string {
  const { status, code } = finding;
  const word = doctorWords[status];
  const label = `${' '.repeat(STATUS_COLUMNS - word.length)}${(code === before ? '' : code).padEnd(NAME_COLUMNS)}`;
  const { dim, warning } = screen.palette;
  const head = {
    status: word,
    label,
    ...(status === 'ok' && { paintMessage: dim }),
    ...(status === 'unknown' && { paint: warning }),
  };
  return renderFinding(finding, head, screen)
    .map((line) => `${line}\n`)
    .join('');
}

function renderSummary(all: readonly Finding[], { palette }: Screen): string {
  const count = (...wanted: readonly Finding['status'][]) => all.filter(({ status }) => wanted.includes(status)).length;
  const problems = count('critical');
  const parts = [
    problems === 0 ? palette.good('no problem') : palette.bad(countOf(problems, 'problem')),
    countOf(count('warning', 'unknown'), 'warning'),
    countOf(count('note'), 'note'),
  ];
  return `\n${parts.join(' · ')}\n`;
}
