import type { Script } from '../discovery/script.ts';

/**
 * Asked before a script is started: null, or why it is to be left to the next pass. It may take its
 * time, and wait for room.
 */
export type Admission = (script: Script) => Promise<string | null>;

export const admitAll: Admission = async () => null;

/** The first that speaks against it has the say. */
export function admitByAll(admissions: readonly Admission[]): Admission {
  return async (script) => {
    for (const admission of admissions) {
      const reason = await admission(script);
      if (reason !== null) return reason;
    }
    return null;
  };
}
