import { UsageError } from '../../base/errors.ts';

/**
 * A crontab holds one marked block for each root. Everything outside it belongs to somebody else and
 * is kept byte for byte, whatever its encoding: therefore buffers, and Latin-1 inside, where each byte
 * is one character.
 */
export function installBlock(crontab: Buffer, root: string, lines: readonly string[]): Buffer {
  const text = crontab.toString('latin1');
  const block = toLatin1(crontabBlock(root, lines));
  const [first, ...others] = findBlocks(text, root);
  if (first === undefined) return bytesOf(`${endWithNewline(text)}${block}`);
  return bytesOf(replaceRange(removeRanges(text, others), first, block));
}

/** The crontab without this root's block; the same bytes where there is none. */
export function removeBlock(crontab: Buffer, root: string): Buffer {
  const text = crontab.toString('latin1');
  return bytesOf(removeRanges(text, findBlocks(text, root)));
}

/** The lines between the markers of this root, comments apart; none where there is no block. */
export function readBlock(crontab: Buffer, root: string): string[] {
  const text = crontab.toString('latin1');
  const [block] = findBlocks(text, root);
  if (block === undefined) return [];
  const lines = bytesOf(text.slice(block.start, block.end)).toString().split('\n');
  return lines.filter((line) => line !== '' && !line.startsWith('#'));
}

/** The block itself, as it can be pasted into a crontab. */
export function crontabBlock(root: string, lines: readonly string[]): string {
  return [
    beginLine(root),
    '# Written by `runner cron --install`, which replaces it; `runner cron --remove` takes it out.',
    ...lines,
    endLine(root),
    '',
  ].join('\n');
}

interface Range {
  readonly start: number;
  readonly end: number;
}

function beginLine(root: string): string {
  return `# BEGIN folder-runner ${root}`;
}

function endLine(root: string): string {
  return `# END folder-runner ${root}`;
}

function toLatin1(text: string): string {
  return Buffer.from(text).toString('latin1');
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text, 'latin1');
}

/** Without it the first marker would become the end of somebody's command. */
function endWithNewline(text: string): string {
  return text === '' || text.endsWith('\n') ? text : `${text}\n`;
}

function findBlocks(text: string, root: string): Range[] {
  const [begin, end] = [toLatin1(beginLine(root)), toLatin1(endLine(root))];
  const blocks: Range[] = [];
  let start: number | null = null;
  for (const line of text.matchAll(/[^\n]*\n|[^\n]+$/g)) {
    const content = line[0].replace(/\r?\n$/, '');
    if (content === begin || content === end) {
      if ((content === begin) !== (start === null)) throw damagedBlock(root);
      if (start !== null) blocks.push({ start, end: line.index + line[0].length });
      start = start === null ? line.index : null;
    }
  }
  if (start !== null) throw damagedBlock(root);
  return blocks;
}

/** Guessing where the block ends could take out somebody's lines. */
function damagedBlock(root: string): UsageError {
  return new UsageError(
    `The crontab holds only one of the two lines "${beginLine(root)}" and "${endLine(root)}", ` +
      'so nothing was changed: delete what is left of that block with `crontab -e`, then try again.',
  );
}

/** From the last to the first, so that the earlier positions stay valid. */
function removeRanges(text: string, ranges: readonly Range[]): string {
  return ranges.reduceRight((rest, range) => replaceRange(rest, range, ''), text);
}

function replaceRange(text: string, { start, end }: Range, replacement: string): string {
  return text.slice(0, start) + replacement + text.slice(end);
}
