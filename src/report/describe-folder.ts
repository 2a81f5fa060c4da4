import { join } from 'node:path';
import { QUEUE_TIER } from '../discovery/jobs-place.ts';
import { printableLine } from './printable.ts';

interface FolderQuery {
  readonly root: string;
  readonly word: string;
  /** What the word may stand for. */
  readonly paths: readonly string[];
  readonly tiers: readonly string[];
}

/** What to ask instead, where `jobs/` or one of its folders is meant; null: none of them is. */
export function describeFolder({ root, word, paths, tiers }: FolderQuery): string | null {
  const isMeant = (name: string): boolean =>
    name === word || paths.includes(join(root, 'jobs', name));
  const tier = tiers.find(isMeant);
  if (tier !== undefined) return describeTier(tier);
  if (isMeant(QUEUE_TIER)) return QUEUE;
  return isMeant('') ? 'holds the tiers: `runner list` shows what is in it.' : null;
}

function describeTier(tier: string): string {
  return (
    'is a tier: `runner status` shows how it stands. To ask about a script, name it: ' +
    `${printableLine(tier)}/<script>.`
  );
}

const QUEUE =
  'holds the handlers of queued jobs: `runner jobs` lists these jobs, `runner status` tells how the ' +
  'queue stands.';
