import type { RetryDelay } from '../config/retry-delay.ts';
import type { ScriptOptions } from '../config/script-options.ts';
import { defaultTimeoutMs } from '../discovery/default-timeout.ts';
import { countOf, formatBytes, formatDuration } from './format.ts';

/** Everything that is in force for a script; what is left to its default is named as such. */
export function describeOptions(options: ScriptOptions, tier: string): string[] {
  const timeout = `timeout ${formatDuration(options.timeoutMs ?? defaultTimeoutMs(tier))}`;
  const source = options.timeoutMs === undefined ? ' (default)' : '';
  const retries = countOf(options.retries ?? 0, 'retry', 'retries');
  const { timeoutMs: _, retries: __, ...others } = options;
  return [timeout + source, retries, ...describeSetOptions(others)];
}

/** What is set of a script's options, a few words each. */
export function describeSetOptions(options: ScriptOptions): string[] {
  const { timeoutMs, retries, retryDelay, onCrash, memoryBytes, nice, env, tags } = options;
  const { warnRssBytes, maxRssBytes, rssSustainMs, maxOutputBytes, isolate } = options;
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
    ...(isolate === true ? ['a process for each job'] : []),
    ...said(tags, (words) => `tags ${words.join(' ')}`),
  ];
}

function describeRetryDelay({ firstMs, factor, longestMs }: RetryDelay): string {
  const first = `retry after ${formatDuration(firstMs)}`;
  return factor === 1 ? first : `${first}, doubling up to ${formatDuration(longestMs)}`;
}
