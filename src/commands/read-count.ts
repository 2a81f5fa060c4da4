import { UsageError } from '../config/usage-error.ts';
import { printableLine } from '../report/printable.ts';

const MOST = 1_000_000_000;

/** The whole number of an option, from 1 on; undefined where it is not given. */
export function readCount(option: string, word: string, most?: number): number;
export function readCount(
  option: string,
  word: string | undefined,
  most?: number,
): number | undefined;
export function readCount(
  option: string,
  word: string | undefined,
  most = MOST,
): number | undefined {
  if (word === undefined) return undefined;
  const count = /^\d{1,10}$/.test(word) ? Number(word) : 0;
  if (count > 0 && count <= most) return count;
  throw new UsageError(
    `${option} expects a whole number from 1 to ${most}, found ${JSON.stringify(printableLine(word))}.`,
  );
}
