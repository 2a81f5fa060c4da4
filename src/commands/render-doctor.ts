import stringWidth from 'string-width';
import type { FindingStatus } from '../hosting/doctor/check.ts';
import type { Checked } from '../hosting/doctor/examine.ts';
import { countOf } from '../report/format.ts';
import { printableLine } from '../report/printable.ts';
import type { Palette } from '../report/terminal/palette.ts';
import type { Screen } from '../report/terminal/screen.ts';

/** As wide as the longest status and the longest name of a check, and a gap after each. */
const STATUS_COLUMNS = 9;
const NAME_COLUMNS = 13;

export function renderPlace(root: string, screen: Screen): string {
  return `${screen.palette.bold(printableLine(root))}\n\n`;
}

/** One finding, with its cure below. The name of a check stands only at its first finding. */
export function renderFinding(checked: Checked, before: string | null, screen: Screen): string {
  const { palette, columns } = screen;
  const width = columns - STATUS_COLUMNS - NAME_COLUMNS;
  const name = checked.name === before ? '' : checked.name;
  const isQuiet = checked.status === 'ok';
  const found = wrap(printableLine(checked.found), width).map((line) =>
    isQuiet ? palette.dim(line) : line,
  );
  const cure = checked.cure === null ? [] : wrap(printableLine(checked.cure), width - 2);
  const head = paintStatus(palette, checked.status) + name.padEnd(NAME_COLUMNS);
  const indent = ' '.repeat(STATUS_COLUMNS + NAME_COLUMNS);
  const lines = [...found, ...cure.map((line, index) => `${index === 0 ? '→' : ' '} ${line}`)];
  return lines.map((line, index) => `${(index === 0 ? head : indent) + line}\n`).join('');
}

export function renderSummary(all: readonly Checked[], { palette }: Screen): string {
  const count = (wanted: FindingStatus): number =>
    all.filter(({ status }) => status === wanted).length;
  const problems = count('problem');
  const parts = [
    problems === 0 ? palette.good('no problem') : palette.bad(countOf(problems, 'problem')),
    countOf(count('warning'), 'warning'),
    countOf(count('note'), 'note'),
  ];
  return `\n${parts.join(' · ')}\n`;
}

function paintStatus(palette: Palette, status: FindingStatus): string {
  const paint = {
    ok: palette.good,
    note: palette.live,
    warning: palette.warning,
    problem: palette.bad,
  };
  return paint[status](status) + ' '.repeat(STATUS_COLUMNS - status.length);
}

/** Breaks between words; a word that is wider than a line gets one of its own, to be copied whole. */
function wrap(text: string, columns: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const joined = [lines.at(-1), word].filter((each) => each !== undefined).join(' ');
    if (lines.length > 0 && stringWidth(joined) <= columns) lines[lines.length - 1] = joined;
    else lines.push(word);
  }
  return lines;
}
