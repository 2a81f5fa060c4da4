import type { DoctorPlace } from './place.ts';

/** `ok`: as it should be. `note`: good to know. `warning`: may fail one day. `problem`: something does not work. */
export type FindingStatus = 'ok' | 'note' | 'warning' | 'problem';

/** One thing that a check found out. */
export interface Finding {
  readonly status: FindingStatus;
  readonly found: string;
  /** One sentence on what to do; null where there is nothing to do. */
  readonly cure: string | null;
}

/** One look at one side of the place. It changes nothing, and may throw: that is a finding too. */
export interface Check {
  readonly name: string;
  run(place: DoctorPlace): readonly Finding[] | Promise<readonly Finding[]>;
}

export function ok(found: string): Finding {
  return { status: 'ok', found, cure: null };
}

export function note(found: string, cure: string | null = null): Finding {
  return { status: 'note', found, cure };
}

export function warning(found: string, cure: string): Finding {
  return { status: 'warning', found, cure };
}

export function problem(found: string, cure: string): Finding {
  return { status: 'problem', found, cure };
}

/** Of what only the log tells, where there is one that could not be read. */
export const unknownWithoutLog = note(
  'unknown: the log could not be read',
  'See what log says, then look again.',
);
