/** Why a script did or didn't run. */
export interface Why {
  /** The name of the script; null when there is none. */
  readonly script: string | null;
  readonly findings: readonly Finding[];
  /** One sentence that they come to. */
  readonly conclusion: string;
}

/** One thing that was looked at. */
export interface Finding {
  /** What was looked at: `found`, `tier`, `lock` … */
  readonly topic: string;
  /** `wrong`: this keeps it from running. `notable`: this explains what somebody may wonder about. */
  readonly verdict: 'fine' | 'notable' | 'wrong';
  readonly text: string;
  /** What to do about it; null where there is nothing to be done. */
  readonly cure: string | null;
}

export function fine(topic: string, text: string): Finding {
  return { topic, verdict: 'fine', text, cure: null };
}

export function notable(topic: string, text: string, cure: string | null): Finding {
  return { topic, verdict: 'notable', text, cure };
}

export function wrong(topic: string, text: string, cure: string | null): Finding {
  return { topic, verdict: 'wrong', text, cure };
}
