import {
  type Reader,
  type Reading,
  readByteSize,
  readChoice,
  readFlag,
  readText,
  readTimerMs,
  readWholeNumber,
  readWords,
} from './reading.ts';
import { readRetryDelay } from './retry-delay.ts';
import type { ScriptOptions } from './script-options.ts';

/** How one option is written, in a tag and in the settings, and read from there. */
export interface ScriptSetting {
  /** Its key in the settings: `retryDelay`. */
  readonly key: string;
  /** Its tag, without the `@`: `retry-delay`. */
  readonly tag: string;
  readonly read: Reader<ScriptOptions>;
}

export const variableName = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** What the runner was started with must not be loaded into scripts; settings may still set these. */
const passableName =
  /^(?!(?:NODE_OPTIONS|NODE_CHANNEL_FD|NODE_UNIQUE_ID|LD_PRELOAD|LD_AUDIT|BASH_ENV|ENV)$)[A-Za-z_][A-Za-z0-9_]*$/;

function define<Option extends keyof ScriptOptions>(
  key: string,
  tag: string,
  option: Option,
  read: Reader<NonNullable<ScriptOptions[Option]>>,
): ScriptSetting {
  return { key, tag, read: (found) => asOptions(option, read(found)) };
}

function asOptions(option: keyof ScriptOptions, reading: Reading<unknown>): Reading<ScriptOptions> {
  return 'expected' in reading ? reading : { value: { [option]: reading.value } };
}

/** One list for both places, so that a value is right or wrong in both alike. */
export const scriptSettings: readonly ScriptSetting[] = [
  define('description', 'description', 'description', readText),
  define('timeout', 'timeout', 'timeoutMs', readTimerMs),
  define('retries', 'retries', 'retries', readWholeNumber(0, 100)),
  define('retryDelay', 'retry-delay', 'retryDelay', readRetryDelay),
  define('onCrash', 'on-crash', 'onCrash', readChoice('retry', 'skip', 'fail')),
  define('memory', 'memory', 'memoryBytes', readByteSize('16mb')),
  define('warnRss', 'warn-rss', 'warnRssBytes', readByteSize('1mb')),
  define('maxRss', 'max-rss', 'maxRssBytes', readByteSize('1mb')),
  define('rssSustain', 'rss-sustain', 'rssSustainMs', readTimerMs),
  define('maxOutput', 'max-output', 'maxOutputBytes', readByteSize('64kb')),
  define('nice', 'nice', 'nice', readWholeNumber(0, 19)),
  define(
    'env',
    'env',
    'env',
    readWords(
      passableName,
      'names of environment variables such as API_KEY, and none that loads code, such as NODE_OPTIONS',
    ),
  ),
  define('isolate', 'isolate', 'isolate', readFlag),
  define('tags', 'tags', 'tags', readWords(/^[^\s,\p{Cc}]+$/u, 'one or more words')),
];
