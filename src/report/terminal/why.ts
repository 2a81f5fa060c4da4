import { printableLine } from '../../base/text.ts';
import type { Why, WhyFinding } from '../why/explain.ts';
import type { Palette, Screen } from './screen.ts';
import { widthOf, wrap } from './table.ts';

/** A line for each finding, the cure below where there is one, and what they come to. */
export function renderWhy({ script, findings, conclusion }: Why, screen: Screen): string {
  const { palette, columns, clock } = screen;
  const width = Math.max(...findings.map(({ topic }) => topic.length));
  const head = script === null ? [] : [palette.bold(printableLine(script)), ''];
  return `${[
    ...head,
    ...findings.flatMap((finding) => renderFinding(finding, width, screen)),
    '',
    ...wrap(conclusion, columns).map(palette.bold),
    palette.dim(`times in ${clock.zone}`),
  ].join('\n')}\n`;
}

function renderFinding({ topic, verdict, text, cure }: WhyFinding, width: number, screen: Screen) {
  const { palette, columns } = screen;
  const start = `${marks[verdict]} ${topic.padEnd(width)}  `;
  const room = columns - widthOf(start);
  const [first = '', ...more] = wrap(text, room).map(paintOf(verdict, palette));
  const indent = ' '.repeat(widthOf(start));
  const cures = cure === null ? [] : wrap(cure, room - ARROW.length);
  return [
    paintMark(verdict, palette)(marks[verdict]) + palette.dim(start.slice(1)) + first,
    ...more.map((line) => indent + line),
    ...cures.map((line, index) => indent + (index === 0 ? ARROW : '  ') + line),
  ];
}

const ARROW = '→ ';

const marks: Readonly<Record<WhyFinding['verdict'], string>> = {
  fine: '✔',
  notable: '!',
  wrong: '✖',
};

function paintMark(verdict: WhyFinding['verdict'], palette: Palette) {
  return { fine: palette.good, notable: palette.warning, wrong: palette.bad }[verdict];
}

function paintOf(verdict: WhyFinding['verdict'], palette: Palette) {
  return verdict === 'wrong' ? palette.bad : (text: string): string => text;
}
