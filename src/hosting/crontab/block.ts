import { UsageError } from '../../system/base/errors.ts';

/**
 * A crontab holds one marked block for each root. Everything outside it belongs to somebody else and
 * is kept byte for byte, whatever its encoding: therefore buffers, and Latin-1 inside, where each byte
 * is one character.
 */
export function installBlock(crontab: Buffer, root: string, content: BlockContent): Buffer {
  return putBlock(crontab, root, toLatin1(crontabBlock(root, content)));
}

/** The crontab without this root's block; the same bytes where there is none. */
export function removeBlock(crontab: Buffer, root: string): Buffer {
  return putBlock(crontab, root, '');
}

/** The crontab with these lines in place of this root's block: with its markers, in Latin-1; empty removes it. */
export function putBlock(crontab: Buffer, root: string, block: string): Buffer {
  // Without a newline before it, the first marker would become the end of somebody's command.
  const text = (block === '' ? crontab : endWithNewline(crontab)).toString('latin1');
  const [first, ...others] = findBlocks(text, root);
  if (first === undefined) return bytesOf(`${text}${block}`);
  return bytesOf(replaceRange(removeRanges(text, others), first, block));
}

/** This root's block with its markers, in Latin-1, as `putBlock` takes it; empty if there is none. */
export function blockText(crontab: Buffer, root: string): string {
  const text = crontab.toString('latin1');
  const [block] = findBlocks(text, root);
  return block === undefined ? '' : text.slice(block.start, block.end);
}

/** The lines between the markers of this root, without the header of `crontabBlock`; none if there is no block. */
export function readBlock(crontab: Buffer, root: string): string[] {
  const lines = bytesOf(blockText(crontab, root)).toString().split('\n');
  const own = [beginLine(root), endLine(root)];
  return lines.filter((line) => line !== '' && !own.includes(line.replace(/\r$/, '')) && !header.test(line));
}

/** The tiers that the block was asked for by `--tiers`; undefined: all with a period. */
export function readChosenTiers(crontab: Buffer, root: string): string | undefined {
  const text = crontab.toString();
  const at = text.indexOf(`${beginLine(root)}\n`);
  return at === -1 ? undefined : /^.*\n.* --install --tiers ([^\s`]+)`/.exec(text.slice(at))?.[1];
}

/** The value that a variable has in the crontab where the lines of this root stand, or will; undefined: none. */
export function variableAtBlock(crontab: Buffer, root: string, name: string): string | undefined {
  const [above = ''] = crontab.toString().split(`${beginLine(root)}\n`, 1);
  const settings = above.matchAll(new RegExp(`^[ \\t]*${name}[ \\t]*=[ \\t]*(["']?)(.*?)\\1[ \\t\\r]*$`, 'gm'));
  return [...settings].at(-1)?.[2];
}

/** The roots that have a block. */
export function rootsOfBlocks(crontab: Buffer): string[] {
  const begins = crontab.toString().matchAll(/^# BEGIN folder-runner (.+?)\r?$/gm);
  return [...new Set([...begins].map(([, root]) => root as string))];
}

/** Whether there is a block of this root, however empty. */
export function hasBlock(crontab: Buffer, root: string): boolean {
  return findBlocks(crontab.toString('latin1'), root).length > 0;
}

/** The header holds the options of the call that the lines alone do not show. */
const header = /^# Written by `npx folder-runner cron --install/;

/**
 * The block itself, as it can be pasted into a crontab.
 *
 * @param chosenTiers those of `--tiers`; undefined: all with a period
 */
export function crontabBlock(root: string, { lines, chosenTiers }: BlockContent): string {
  const option = chosenTiers === undefined ? '' : ` --tiers ${chosenTiers}`;
  return [
    beginLine(root),
    `# Written by \`npx folder-runner cron --install${option}\`.`,
    ...lines,
    endLine(root),
    '',
  ].join('\n');
}

export interface BlockContent {
  readonly lines: readonly string[];
  readonly chosenTiers: string | undefined;
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

/** The text's bytes, as the lines of a crontab are read and written here: a character for each byte. */
export function toLatin1(text: string): string {
  return Buffer.from(text).toString('latin1');
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text, 'latin1');
}

/** Debian's `crontab` refuses another end, and many crons ignore a last line without one. */
export function endWithNewline(crontab: Buffer): Buffer {
  return crontab.length === 0 || crontab.at(-1) === NEWLINE ? crontab : Buffer.concat([crontab, Buffer.of(NEWLINE)]);
}

const NEWLINE = 0x0a;

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
  return new CrontabTrouble(
    `The crontab holds only one of the two lines "${beginLine(root)}" and "${endLine(root)}"`,
    ', so nothing was changed: delete what is left of that block with `crontab -e`, then try again.',
  );
}

/** A crontab that cannot be used. Its message says what follows for a caller who wanted to change it. */
export class CrontabTrouble extends UsageError {
  readonly #found: string;

  constructor(found: string, consequence: string) {
    super(found + consequence);
    this.#found = found;
  }

  get found(): string {
    return this.#found;
  }
}

/** From the last to the first, so that the earlier positions stay valid. */
function removeRanges(text: string, ranges: readonly Range[]): string {
  return ranges.reduceRight((rest, range) => replaceRange(rest, range, ''), text);
}

function replaceRange(text: string, { start, end }: Range, replacement: string): string {
  return text.slice(0, start) + replacement + text.slice(end);
}
