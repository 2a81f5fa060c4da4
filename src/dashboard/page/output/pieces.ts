import type { StyledSpan } from './terminal-text.ts';

/** A place where the text was found, by its columns in the line. */
export interface Match {
  readonly line: number;
  readonly start: number;
  readonly end: number;
}

/** A part of a line that looks the same, is found as a whole, and leads to one address. */
export interface Piece {
  readonly span: StyledSpan;
  /** Null: nothing that was searched for. */
  readonly match: Match | null;
  /** Null: it is no address. */
  readonly href: string | null;
}

/** Cuts a line where its colour changes, a match or an address begins or ends. */
export function cutLine(spans: readonly StyledSpan[], matches: readonly Match[]): Piece[] {
  const links = findLinks(spans.map(({ text }) => text).join(''));
  if (matches.length === 0 && links.length === 0) return spans.map((span) => ({ span, match: null, href: null }));
  const edges = [...matches, ...links].flatMap(({ start, end }) => [start, end]).sort((one, other) => one - other);
  let at = 0;
  return spans.flatMap((span) => {
    const begin = at;
    at += span.text.length;
    const cuts = [begin, ...edges.filter((edge) => edge > begin && edge < at), at];
    return cuts.slice(0, -1).map((from, index) => {
      const holds = ({ start, end }: { readonly start: number; readonly end: number }) => from >= start && from < end;
      return {
        span: { ...span, text: span.text.slice(from - begin, (cuts[index + 1] as number) - begin) },
        match: matches.find(holds) ?? null,
        href: links.find(holds)?.href ?? null,
      };
    });
  });
}

interface Link {
  readonly start: number;
  readonly end: number;
  readonly href: string;
}

/** An address of the web; other kinds may start a program. The punctuation that ends a sentence is no part of it. */
const address = /\bhttps?:\/\/[^\s<>"'`|\\^{}]+/gi;
const ending = /[.,;:!?)\]…]+$/;

function findLinks(line: string): Link[] {
  if (!line.includes('://')) return [];
  return [...line.matchAll(address)].flatMap(({ 0: found, index: start }) => {
    const text = found.replace(ending, '');
    return URL.canParse(text) ? [{ start, end: start + text.length, href: new URL(text).href }] : [];
  });
}
