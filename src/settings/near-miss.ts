import { nearestName } from '../system/base/suggest.ts';

/** Names from other runners and common words, with the setting that is meant. */
const otherNames: Readonly<Record<string, string>> = {
  ...{ retry: 'retries', tries: 'retries', attempts: 'retries', backoff: 'retry-delay' },
  ...{ cron: 'schedule', every: 'schedule', at: 'schedule', interval: 'schedule' },
  ...{ tz: 'timezone', zone: 'timezone', boot: 'reboot', 'on-boot': 'reboot', startup: 'reboot' },
  ...{ 'time-limit': 'timeout', timelimit: 'timeout', 'max-time': 'timeout', 'max-duration': 'timeout' },
  ...{ 'max-memory': 'memory', 'memory-limit': 'memory', heap: 'memory', mem: 'memory', rss: 'max-rss' },
  ...{ interpreter: 'shell', bash: 'shell', sh: 'shell', environment: 'env', desc: 'description' },
  ...{ 'fail-if': 'fail-on', 'error-on': 'fail-on', 'success-if': 'expect', 'expect-output': 'expect' },
  ...{ healthcheck: 'ping', hosts: 'host' },
};

/**
 * The setting that was probably meant, in the form of `known`: `retryDelay` or `retry-delay`; null: none is similar.
 */
export function nearestSetting(word: string, known: Iterable<string>): string | null {
  const names = [...known];
  const meant = otherNames[toTag(word)];
  return names.find((name) => meant !== undefined && toTag(name) === meant) ?? nearestName(word, names);
}

function toTag(word: string): string {
  return word.replace(/(?<=[a-z])[A-Z]/g, (letter) => `-${letter}`).toLowerCase();
}
