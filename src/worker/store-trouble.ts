import { describeStoreFailure } from '../store/describe-store-failure.ts';
import { isCorruption, isStoreFailure } from '../store/store-failure.ts';
import { markSuspect } from '../store/suspicion.ts';
import type { Call } from './pass.ts';

/** Tells somebody to see to the log, and has it looked at when it is opened next. What was told. */
export function tellStoreFailure({ runner, events }: Call, error: unknown): string {
  if (isCorruption(error)) markSuspect(runner.state);
  const sentence = describeStoreFailure(error, runner.state);
  events.emit('trouble', sentence);
  return sentence;
}

/** What has run has run: that something about it could not be recorded is told, and undoes nothing. */
export async function ifLogAllows(call: Call, record: () => Promise<unknown>): Promise<void> {
  try {
    await record();
  } catch (error) {
    if (!isStoreFailure(error)) throw error;
    tellStoreFailure(call, error);
  }
}
