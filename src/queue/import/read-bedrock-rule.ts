import { parseRepeat } from '../repeat/parse-repeat.ts';
import { wrong } from './read-values.ts';

interface BedrockRule {
  readonly rule: string | null;
  readonly notes: readonly string[];
}

/** Kept word for word. @throws {QueueError} when it is none */
export function readBedrockRule(repeat: string): BedrockRule {
  if (repeat === '') return { rule: null, notes: [] };
  const parsed = parseRepeat(repeat);
  if ('problem' in parsed) throw wrong(`its repeat ${JSON.stringify(repeat)}: ${parsed.problem}`);
  const canned = meanings[repeat.toUpperCase()];
  if (canned === undefined) return { rule: repeat, notes: [] };
  return { rule: repeat, notes: [`${repeat.toUpperCase()} means ${canned}`] };
}

/** The document has one meaning, Bedrock's code another. */
const meanings: Readonly<Record<string, string>> = {
  HOURLY: 'FINISHED, +1 HOUR here; Bedrock itself runs it at the full hour',
  DAILY: 'FINISHED, +1 DAY here; Bedrock itself runs it at midnight UTC',
  WEEKLY: 'FINISHED, +7 DAYS here; Bedrock itself runs it on Sunday at midnight UTC',
};
