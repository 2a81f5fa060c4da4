import type { Reader } from '../settings/readers.ts';

/** Longest name of a job, in characters. */
export const LONGEST_NAME = 255;

/** A job's name is a path within `jobs/queue/`, optionally followed by `?` and parameters. */
export const readJobName: Reader<string> = (found) =>
  isJobName(found)
    ? { value: found }
    : { expected: `a handler's path such as mail/welcome, 1 to ${LONGEST_NAME} characters` };

function isJobName(name: unknown): name is string {
  const isText = typeof name === 'string' && name.length <= LONGEST_NAME;
  return isText && isHandlerPath(withoutParameters(name)) && !hasControl(name);
}

/** `mail/welcome` for `mail/welcome?user=7`: parameters distinguish jobs of the same handler. */
export function withoutParameters(name: string): string {
  const end = name.indexOf('?');
  return end === -1 ? name : name.slice(0, end);
}

function isHandlerPath(name: string): boolean {
  return name.split('/').every((part) => part.trim() !== '' && part !== '.' && part !== '..');
}

function hasControl(name: string): boolean {
  return /\p{Cc}|\p{Cs}/u.test(name);
}
