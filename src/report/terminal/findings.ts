import { type Finding, type FindingStatus, whyWords } from '../../monitor/finding.ts';
import { printableLine } from '../../system/base/text.ts';
import type { Why } from '../why/explain.ts';
import type { Palette, Screen } from './screen.ts';
import { widthOf, wrap } from './table.ts';

const paints: Readonly<Record<FindingStatus, keyof Pick<Palette, 'good' | 'live' | 'warning' | 'bad'>>> = {
  ...{ ok: 'good', note: 'live', unknown: 'live', warning: 'warning', critical: 'bad' },
};

/** The head of a finding: its status, as its command calls it, and its code. */
export interface FindingHead {
  readonly status: string;
  /** The text after the status, padded; its width is that of the indentation of further lines. */
  readonly label: string;
  /** Default: that of the status. */
  readonly paint?: (text: string) => string;
  readonly paintLabel?: (text: string) => string;
  readonly paintMessage?: (text: string) => string;
}

const same = (text: string): string => text;

/** One finding, with its hint below; what does not fit goes on below its message. */
export function renderFinding({ status, message, hint }: Finding, head: FindingHead, screen: Screen): string[] {
  const { palette, columns } = screen;
  const { paint = palette[paints[status]], paintLabel = same, paintMessage = same } = head;
  const indent = ' '.repeat(widthOf(head.status + head.label));
  const room = Math.max(20, columns - indent.length);
  const [first = '', ...more] = wrap(printableLine(message), room).map(paintMessage);
  const hints = hint === null ? [] : wrap(printableLine(hint), room - 2);
  return [
    paint(head.status) + paintLabel(head.label) + first,
    ...more.map((line) => indent + line),
    ...hints.map((line, index) => `${indent}${index === 0 ? '→' : ' '} ${line}`),
  ];
}

const marks: Readonly<Record<(typeof whyWords)[FindingStatus], string>> = { fine: '✔', notable: '!', wrong: '✖' };

/** A line for each finding, and what they come to. */
export function renderWhy({ script, findings, conclusion }: Why, screen: Screen): string {
  const { palette, columns, clock } = screen;
  const width = Math.max(...findings.map(({ code }) => code.length));
  const head = script === null ? [] : [palette.bold(printableLine(script)), ''];
  const paintOf = { fine: palette.good, notable: palette.warning, wrong: palette.bad };
  const lines = findings.flatMap((finding) => {
    const word = whyWords[finding.status];
    const label = ` ${finding.code.padEnd(width)}  `;
    const paints = {
      paint: paintOf[word],
      paintLabel: palette.dim,
      paintMessage: word === 'wrong' ? palette.bad : same,
    };
    return renderFinding(finding, { status: marks[word], label, ...paints }, screen);
  });
  return `${[...head, ...lines, '', ...wrap(conclusion, columns).map(palette.bold), palette.dim(`times in ${clock.zone}`)].join('\n')}\n`;
}
