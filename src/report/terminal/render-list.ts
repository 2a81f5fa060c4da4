import { relative, resolve } from 'node:path';
import type { RetryDelay } from '../../config/retry-delay.ts';
import type { ScriptOptions } from '../../config/script-options.ts';
import type { Discovery, Ignored, Script, Tier } from '../../discovery/script.ts';
import { countOf, formatBytes, formatDuration, formatPeriod } from '../format.ts';
import { printableLine } from '../printable.ts';
import type { Screen } from './screen.ts';
import { joinFitting } from './truncate.ts';

/** Every tier with its scripts, then every file that is none, and why. */
export function renderList(discovery: Discovery, root: string, screen: Screen): string {
  const blocks = [
    ...discovery.tiers.map((tier) => renderTier(tier, root, screen)),
    ...(discovery.ignored.length > 0 ? [renderIgnored(discovery.ignored, root, screen)] : []),
  ];
  return `${blocks.map((lines) => lines.join('\n')).join('\n\n')}\n`;
}

function renderTier(tier: Tier, root: string, screen: Screen): string[] {
  const { palette } = screen;
  const period = tier.periodMs === null ? 'runs by hand' : formatPeriod(tier.periodMs);
  const head = `${palette.bold(printableLine(tier.name))} · ${period}`;
  const none = `  ${palette.dim('no scripts')}`;
  const scripts = tier.scripts.flatMap((script) => renderScript(script, root, screen));
  return [head, ...(scripts.length > 0 ? scripts : [none])];
}

function renderScript(script: Script, root: string, screen: Screen): string[] {
  const { palette } = screen;
  const path = printableLine(relative(root, resolve(root, script.path)));
  const name = printableLine(script.name);
  const details = [script.options.description ?? '', ...describeOptions(script.options)];
  return [
    ...fitLine([name, palette.dim(path)], screen, 2),
    ...fitLine(details.filter(Boolean).map(printableLine), screen, 4),
    ...script.refusals.map((refusal) => `    ${palette.bad(`refused: ${printableLine(refusal)}`)}`),
    ...script.warnings.map((warning) => `    ${palette.warning(printableLine(warning))}`),
  ];
}

function fitLine(parts: readonly string[], { columns }: Screen, indent: number): string[] {
  return joinFitting(parts, columns - indent).map((line) => ' '.repeat(indent) + line);
}

function describeOptions(options: ScriptOptions): string[] {
  const { timeoutMs, retries, retryDelay, onCrash, memoryBytes, nice, env, tags } = options;
  const { warnRssBytes, maxRssBytes, rssSustainMs, maxOutputBytes } = options;
  const said = <T>(value: T | undefined, tell: (value: T) => string): string[] =>
    value === undefined ? [] : [tell(value)];
  return [
    ...said(timeoutMs, (ms) => `timeout ${formatDuration(ms)}`),
    ...said(retries, (count) => countOf(count, 'retry', 'retries')),
    ...said(retryDelay, describeRetryDelay),
    ...said(onCrash, (policy) => `on crash ${policy}`),
    ...said(memoryBytes, (bytes) => `heap ${formatBytes(bytes)}`),
    ...said(warnRssBytes, (bytes) => `warn at ${formatBytes(bytes)}`),
    ...said(maxRssBytes, (bytes) => `end at ${formatBytes(bytes)}`),
    ...said(rssSustainMs, (ms) => `sustained ${formatDuration(ms)}`),
    ...said(maxOutputBytes, (bytes) => `keep ${formatBytes(bytes)} of output`),
    ...said(nice, (value) => `nice ${value}`),
    ...said(env, (names) => `env ${names.join(' ')}`),
    ...said(tags, (words) => `tags ${words.join(' ')}`),
  ];
}

function describeRetryDelay({ firstMs, factor, longestMs }: RetryDelay): string {
  const first = `retry after ${formatDuration(firstMs)}`;
  return factor === 1 ? first : `${first}, doubling up to ${formatDuration(longestMs)}`;
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
