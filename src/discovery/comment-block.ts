/** `slashes`: JavaScript and its kin. `hashes`: shells, Python, Perl, Ruby. `php`: both, within `<?php`. */
export type CommentStyle = 'slashes' | 'hashes' | 'php';

export interface CommentLine {
  /** Counted from 1. */
  readonly line: number;
  /** Without comment signs. */
  readonly text: string;
}

export type CommentBlock = readonly CommentLine[];

interface Markers {
  readonly line: RegExp;
  readonly opensBlock: boolean;
}

const markers: Readonly<Record<CommentStyle, Markers>> = {
  slashes: { line: /^\/\/+/, opensBlock: true },
  hashes: { line: /^#+/, opensBlock: false },
  // `#[` begins an attribute.
  php: { line: /^(?:\/\/+|#+(?!\[))/, opensBlock: true },
};

/** The first comment block of a script, and those that follow it with no code between. */
export function readCommentBlocks(source: string, style: CommentStyle): readonly CommentBlock[] {
  const lines = codeLines(source, style);
  const blocks: CommentBlock[] = [];
  for (let index = 0; index < lines.length; ) {
    const block = readBlockAt(lines, index, markers[style]);
    if (block) blocks.push(block);
    else if (blocks.length > 0 && lines[index]?.text !== '') break;
    index += block?.length ?? 1;
  }
  return blocks;
}

/** Without what may stand before the first comment: the `#!` line and the tag that opens PHP. */
function codeLines(source: string, style: CommentStyle): readonly CommentLine[] {
  const lines = source.replace(/^\ufeff/, '').split('\n');
  return lines.map((line, index) => {
    if (index === 0 && line.startsWith('#!')) return { line: 1, text: '' };
    const code = style === 'php' ? line.replace(/^\s*<\?(?:php\b)?/, '') : line;
    return { line: index + 1, text: code.trim() };
  });
}

function readBlockAt(
  lines: readonly CommentLine[],
  index: number,
  { line, opensBlock }: Markers,
): CommentBlock | null {
  const text = lines[index]?.text ?? '';
  if (opensBlock && text.startsWith('/*')) return readEnclosed(lines, index);
  return line.test(text) ? readRun(lines, index, line) : null;
}

function readRun(lines: readonly CommentLine[], start: number, marker: RegExp): CommentBlock {
  const end = findFrom(lines, start, (text) => !marker.test(text));
  return lines
    .slice(start, end)
    .map(({ line, text }) => ({ line, text: text.replace(marker, '').trim() }));
}

function readEnclosed(lines: readonly CommentLine[], start: number): CommentBlock {
  const isClosedAtOnce = lines[start]?.text.includes('*/', 2);
  const end = isClosedAtOnce ? start : findFrom(lines, start + 1, (text) => text.includes('*/'));
  return lines
    .slice(start, end + 1)
    .map(({ line, text }, index) => ({ line, text: stripEnclosing(text, index === 0) }));
}

function stripEnclosing(text: string, isFirst: boolean): string {
  const opened = isFirst ? text.slice(2) : text;
  const [inside = ''] = opened.split('*/', 1);
  return inside.replace(/^\s*\*+/, '').trim();
}

function findFrom(
  lines: readonly CommentLine[],
  start: number,
  isWanted: (text: string) => boolean,
): number {
  let index = start;
  while (index < lines.length && !isWanted(lines[index]?.text ?? '')) index++;
  return index;
}
