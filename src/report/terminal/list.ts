import { relative, resolve } from 'node:path';
import { printableLine } from '../../base/text.ts';
import type { Discovery, Ignored, Script, Tier, Unread } from '../../discovery/script.ts';
import { EVERYTHING } from '../../queue/pauses.ts';
import type { Pause } from '../../store/contract.ts';
import { countOf, formatPeriod } from '../text/format.ts';
import { describePaused, describeSetOptions } from '../text/words.ts';
import type { Screen } from './screen.ts';
import { joinFitting } from './table.ts';

/** Every tier with its scripts, and the handlers; then every file that is none, and why; then what fits nothing. */
export function renderList(
  discovery: Discovery,
  root: string,
  screen: Screen,
  pauses: readonly Pause[] = [],
): string {
  const list: List = { root, screen, pauses };
  const blocks = [
    renderPause(EVERYTHING, list),
    ...discovery.tiers.map((tier) => renderTier(tier, list)),
    ...(discovery.unread.length > 0 ? [renderUnread(discovery.unread, screen)] : []),
    ...(discovery.handlers.length > 0 ? [renderHandlers(discovery.handlers, list)] : []),
    ...(discovery.ignored.length > 0 ? [renderIgnored(discovery.ignored, root, screen)] : []),
    ...(discovery.warnings.length > 0 ? [renderWarnings(discovery.warnings, screen)] : []),
  ];
  return `${blocks
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n\n')}\n`;
}

/** What every line of it is written with. */
interface List {
  readonly root: string;
  readonly screen: Screen;
  readonly pauses: readonly Pause[];
}

function renderTier(tier: Tier, list: List): string[] {
  const { palette } = list.screen;
  const period = tier.periodMs === null ? 'runs by hand' : formatPeriod(tier.periodMs);
  const head = `${palette.bold(printableLine(tier.name))} · ${period}`;
  const none = `  ${palette.dim('no scripts')}`;
  const scripts = tier.scripts.flatMap((script) => renderScript(script, list));
  const pause = renderPause(tier.name, list);
  return [head, ...pause.map((line) => `  ${line}`), ...(scripts.length > 0 ? scripts : [none])];
}

function renderHandlers(handlers: readonly Script[], list: List): string[] {
  const head = `${list.screen.palette.bold('queue')} · handlers of queued jobs`;
  const pause = renderPause('queue', list);
  const scripts = handlers.flatMap((handler) => renderScript(handler, list));
  return [head, ...pause.map((line) => `  ${line}`), ...scripts];
}

function renderScript(script: Script, list: List): string[] {
  const { root, screen } = list;
  const { palette } = screen;
  const path = printableLine(relative(root, resolve(root, script.path)));
  const name = printableLine(script.name);
  const details = [script.options.description ?? '', ...describeSetOptions(script.options)];
  return [
    ...fitLine([name, palette.dim(path)], screen, 2),
    ...fitLine(details.filter(Boolean).map(printableLine), screen, 4),
    ...script.refusals.map((refusal) => `    ${palette.bad(`refused: ${printableLine(refusal)}`)}`),
    ...script.warnings.map((warning) => `    ${palette.warning(printableLine(warning))}`),
    ...renderPause(script.name, list).map((line) => `    ${line}`),
  ];
}

/** Only its own: a pause of more stands above. */
function renderPause(name: string, { pauses, screen }: List): string[] {
  const pause = pauses.find((each) => each.name === name);
  if (pause === undefined) return [];
  const of = name === EVERYTHING ? '' : name;
  return [screen.palette.warning(describePaused(pause, of, screen.clock))];
}

function fitLine(parts: readonly string[], { columns }: Screen, indent: number): string[] {
  return joinFitting(parts, columns - indent).map((line) => ' '.repeat(indent) + line);
}

function renderIgnored(ignored: readonly Ignored[], root: string, screen: Screen): string[] {
  const { bold, dim } = screen.palette;
  const lines = ignored.flatMap(({ path, reason }) =>
    fitLine(
      [printableLine(relative(root, resolve(root, path))), dim(printableLine(reason))],
      screen,
      2,
    ),
  );
  return [`${bold('not scripts')} · ${countOf(ignored.length, 'file')}`, ...lines];
}

function renderUnread(unread: readonly Unread[], { palette }: Screen): string[] {
  return unread.map(({ reason }) => palette.bad(printableLine(reason)));
}

function renderWarnings(warnings: readonly string[], { palette }: Screen): string[] {
  return warnings.map((warning) => palette.warning(printableLine(warning)));
}
