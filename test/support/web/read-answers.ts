import { expect } from 'vitest';
import type { Started } from '../calls/start-command.ts';

/** What each of the processes has printed as JSON, once all have ended without a complaint. */
export async function readAnswers<T>(children: readonly Started[]): Promise<T[]> {
  const ended = await Promise.all(children.map((child) => child.ended));
  return ended.map(({ status, stdout, stderr }) => {
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    return JSON.parse(stdout) as T;
  });
}
