import { distance } from 'fastest-levenshtein';

const shortestPrefix = 4;

/**
 * The candidate that was probably meant by `word`: at most two letters differ (one in words of up to three letters), or
 * `word` is its beginning (`@retry` for `@retry-delay`); otherwise null.
 */
export function nearestName(word: string, candidates: Iterable<string>): string | null {
  let nearest: string | null = null;
  let smallest = Number.POSITIVE_INFINITY;
  for (const candidate of candidates) {
    const letters = distanceBetween(word.toLowerCase(), candidate.toLowerCase());
    if (letters < smallest) [nearest, smallest] = [candidate, letters];
  }
  return nearest;
}

/** Like `nearestName`, for names whose first parts may be left out: `mail/welcome` for `welcome`. */
export function nearestPath(word: string, paths: readonly string[]): string | null {
  const withoutFirst = (path: string): string => path.slice(path.indexOf('/') + 1);
  const short = nearestName(word, paths.map(withoutFirst));
  const isMeant = (path: string): boolean => withoutFirst(path) === short || path.endsWith(`/${word}`);
  return nearestName(word, paths) ?? paths.find(isMeant) ?? null;
}

function distanceBetween(word: string, candidate: string): number {
  if (lettersOf(word) !== '' && lettersOf(word) === lettersOf(candidate)) return 0;
  const allowed = Math.min(word.length, candidate.length) <= 3 ? 1 : 2;
  const letters = distance(word, candidate);
  if (letters <= allowed) return letters;
  const isPrefix = word.length >= shortestPrefix && candidate.startsWith(word);
  return isPrefix ? letters : Number.POSITIVE_INFINITY;
}

/** Compares letters and digits only: `1 min` and `1-min` mean `1min` rather than `15min`. */
function lettersOf(word: string): string {
  return word.replace(/[^\p{L}\p{N}]/gu, '');
}
