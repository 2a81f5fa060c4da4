import { type Finding, type FindingStatus, whyWords } from '../../monitor/finding.ts';
import { countOf } from '../../system/base/format.ts';
import { printableLine } from '../../system/base/text.ts';
import { chainWords, describeLinks, isSince } from '../../system/base/wait-words.ts';
import type { Chain, ChainScript } from '../model/chain.ts';
import type { WhyWithChain } from '../why/explain.ts';
import type { Palette, Screen } from './screen.ts';
import { entry } from './status.ts';
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
export function renderWhy({ script, findings, conclusion, chain }: WhyWithChain, screen: Screen): string {
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
  const links = chain === null ? [] : renderChain(chain, script, screen);
  return `${[...head, ...lines, ...links, '', ...wrap(conclusion, columns).map(palette.bold), palette.dim(`times in ${clock.zone}`)].join('\n')}\n`;
}

/** Its scripts, each indented by its place. The findings say enough of a single link. */
function renderChain({ scripts, more }: Chain, own: string | null, screen: Screen): string[] {
  if (scripts.flatMap(({ links }) => links).length < 2) return [];
  const lines = scripts.flatMap((each) => {
    const indent = '  '.repeat(each.level);
    const room = { ...screen, columns: screen.columns - indent.length };
    return entry(describeChainScript(each, own, screen), room, same).map((line) => indent + line);
  });
  const notShown = more === 0 ? [] : [`  and ${countOf(more, 'more script')}`];
  return ['', screen.palette.bold('chain'), ...lines, ...notShown];
}

function describeChainScript({ script, state, atMs, links }: ChainScript, own: string | null, { clock }: Screen) {
  const word = chainWords[state];
  return [
    printableLine(script === own ? `${script} (this one)` : script),
    atMs === null ? word : `${word} ${isSince(state) ? 'since ' : ''}${clock.short(atMs)}`,
    links.length === 0 ? '' : printableLine(describeLinks(links)),
  ].filter(Boolean);
}
