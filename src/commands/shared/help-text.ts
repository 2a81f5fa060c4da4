import { widthOf } from '../../report/terminal/table.ts';

/** Stands below the commands of `runner --help`. */
export const programExamples = `
Examples:
  runner init                  create jobs/ with an example in each tier
  runner cron --install        let cron call the tiers
  runner hourly                run every script of jobs/hourly now
  runner add mail/welcome '{}' add a job for jobs/queue/mail/welcome.*
  runner report                what ran, how long it took, what failed
  runner help report           more about one command

Exit codes: 0: all runs succeeded; 1: at least one failed; 2: wrong usage.`;

/** Beside a column of fewer characters, a text begins below what it explains. */
const FEWEST_COLUMNS = 24;

/** A text that is continued at one column; what stands before the column is never broken. */
interface Paragraph {
  readonly start: string;
  readonly column: number;
  readonly text: string;
}

/** Text of a help: prose and the explanations of examples are wrapped at words, what is to be copied stays whole. */
export function fitHelp(text: string, columns: number): string {
  return readParagraphs(text)
    .flatMap((paragraph) => fitParagraph(paragraph, columns))
    .join('\n');
}

function readParagraphs(text: string): Paragraph[] {
  const paragraphs: Paragraph[] = [];
  for (const line of text.split('\n')) {
    const paragraph = readParagraph(line);
    const last = paragraphs.at(-1);
    if (last !== undefined && isContinued(last, paragraph)) {
      paragraphs[paragraphs.length - 1] = { ...last, text: `${last.text} ${paragraph.text}` };
    } else paragraphs.push(paragraph);
  }
  return paragraphs;
}

function readParagraph(line: string): Paragraph {
  const [, start = '', text = ''] = /^( +\S.*?\s{2,}|\s*)(.*)$/.exec(line) ?? [];
  return { start, column: widthOf(start), text };
}

/** Between these columns stand examples, each of which is a line of its own. */
function isContinued(last: Paragraph, { start, column, text }: Paragraph): boolean {
  if (last.text === '' || text === '' || column !== last.column || start.trim() !== '') return false;
  return (column === 0 || column >= FEWEST_COLUMNS) && !text.startsWith('Exit codes:');
}

function fitParagraph({ start, column, text }: Paragraph, columns: number): string[] {
  if (column + widthOf(text) <= columns) return [start + text];
  if (start === '' || start.trim() !== '') return hang(start, column, text, columns);
  // An example without an explanation.
  return column < FEWEST_COLUMNS ? [start + text] : hang(start, column, text, columns);
}

function hang(start: string, column: number, text: string, columns: number): string[] {
  if (columns - column < FEWEST_COLUMNS) {
    const below = ' '.repeat(6);
    const lines = wrapWords(text, columns - below.length).map((line) => below + line);
    return start.trim() === '' ? lines : [start.trimEnd(), ...lines];
  }
  return wrapWords(text, columns - column).map((line, index) => (index === 0 ? start : ' '.repeat(column)) + line);
}

/** A complaint on a terminal: a command in it is on one line, where it fits into one. */
export function fitMessage(text: string, columns: number): string {
  return text
    .split('\n')
    .flatMap((line) => {
      const [indent = ''] = /^\s*/.exec(line) ?? [];
      return wrapWords(line.slice(indent.length), columns - indent.length).map((each) => indent + each);
    })
    .join('\n');
}

/** A word that is wider than the screen stands as it is: broken, a path or an address could not be copied. */
function wrapWords(text: string, columns: number): string[] {
  const lines: string[] = [];
  for (const word of wordsOf(text, columns)) {
    const last = lines.at(-1);
    const joined = last === undefined ? word : `${last} ${word}`;
    if (last !== undefined && widthOf(joined) <= columns) lines[lines.length - 1] = joined;
    else lines.push(word);
  }
  return lines;
}

/** Text between backticks counts as one word. */
function wordsOf(text: string, columns: number): string[] {
  const words = text.match(/[^\s`]*`[^`]+`[^\s`]*|\S+/g) ?? [''];
  return words.flatMap((word) => (widthOf(word) <= columns ? [word] : word.split(' ')));
}
