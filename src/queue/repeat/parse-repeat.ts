import { parseMomentRule } from './parse-moment-rule.ts';
import { isPlainRule, parsePlainRule } from './parse-plain-rule.ts';
import type { ParsedRepeat } from './repeat-rule.ts';

/** A rule is read again at each end of its job. */
const LONGEST_RULE = 1000;

/**
 * Reads a rule: in the grammar of Bedrock::Jobs (`SCHEDULED, +1 HOUR`, `DAILY`), or in plain words
 * (`every 90 seconds`, `daily at 10:00 in Europe/Berlin`). docs/repeat.md has them all.
 */
export function parseRepeat(text: string): ParsedRepeat {
  if (text.length > LONGEST_RULE) {
    return {
      problem: `The repeat rule is too long: it has ${text.length} characters, at most ${LONGEST_RULE} are possible.`,
    };
  }
  return isPlainRule(text) ? parsePlainRule(text) : parseMomentRule(text);
}
