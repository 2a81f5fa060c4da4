import { countOf } from '../../../../system/base/format.ts';
import { chainWords, describeLinks, isSince } from '../../../../system/base/wait-words.ts';
import type { components } from '../../../client/paths.ts';
import { Section } from '../../components/page.tsx';
import { State } from '../../components/state.tsx';
import { Name, ScriptLink } from '../../components/text.tsx';
import { Time } from '../../components/time.tsx';

type Chain = components['schemas']['Chain'];
type ChainScript = components['schemas']['ChainScript'];
type LinkKind = components['schemas']['LinkKind'];

/**
 * A chain as boxes below each other, each behind those that it waits for. The arrows left of them are for the eye: the
 * list says the same.
 */
export function ChainSection({ chain: { scripts, more }, own }: { readonly chain: Chain; readonly own: string }) {
  const trunks = findTrunks(scripts);
  return (
    <Section title="Chain">
      <ol class="chain" style={{ '--lanes': Math.max(...trunks.map(({ lane }) => lane + 1)) }}>
        {scripts.map((each, row) => (
          <li key={each.script}>
            {trunks.map((trunk) => (
              <Rails key={`${trunk.kind} ${trunk.first} ${trunk.lane}`} trunk={trunk} row={row} />
            ))}
            <Box script={each} isOwn={each.script === own} />
          </li>
        ))}
      </ol>
      {more > 0 && <p class="quiet small">and {countOf(more, 'more script')}</p>}
    </Section>
  );
}

function Box({
  script: { script, state, at, links },
  isOwn,
}: {
  readonly script: ChainScript;
  readonly isOwn: boolean;
}) {
  const named = links.map((link) => (link.isAwaited ? { ...link, script: `${link.script} (not yet)` } : link));
  return (
    <div class="chain-box" aria-current={isOwn}>
      {isOwn ? <Name text={script} /> : <ScriptLink name={script} />}{' '}
      {isOwn && <span class="quiet small">this script </span>}
      <span class="states">
        <State state={state} word={chainWords[state]} />
        {at !== null && (
          <span>
            {isSince(state) && 'since '}
            <Time at={at} as="short" />
          </span>
        )}
      </span>
      {links.length > 0 && (
        <div class="quiet small">
          <Name text={describeLinks(named)} />
        </div>
      )}
    </div>
  );
}

/** Arrows of one kind that share a line, as they begin or end at the same script. */
interface Trunk {
  readonly kind: LinkKind;
  /** The rows where they begin, and those where they end, with whether that end has yet to come. */
  readonly starts: ReadonlySet<number>;
  readonly ends: ReadonlyMap<number, boolean>;
  readonly first: number;
  readonly last: number;
}

interface Lane extends Trunk {
  /** The one next to the boxes is 0. */
  readonly lane: number;
}

/** In as few lines as there can be if all that begin together share one, or all that end together. */
function findTrunks(scripts: readonly ChainScript[]): readonly Lane[] {
  const rowOf = new Map(scripts.map(({ script }, row) => [script, row]));
  const arrows = scripts.flatMap(({ links }, to) =>
    links.map(({ kind, script, isAwaited }) => ({ kind, from: rowOf.get(script) ?? 0, to, isAwaited })),
  );
  const share = (row: (arrow: (typeof arrows)[number]) => number): Trunk[] =>
    [...Map.groupBy(arrows, (arrow) => `${arrow.kind} ${row(arrow)}`).values()].map((same) => {
      const starts = new Set(same.map(({ from }) => from));
      const awaited = new Set(same.filter(({ isAwaited }) => isAwaited).map(({ to }) => to));
      const ends = new Map(same.map(({ to }) => [to, awaited.has(to)]));
      const kind = same[0]?.kind as LinkKind;
      return { kind, starts, ends, first: Math.min(...starts), last: Math.max(...ends.keys()) };
    });
  const [byEnd, byStart] = [share(({ to }) => to), share(({ from }) => from)];
  return intoLanes(byEnd.length < byStart.length ? byEnd : byStart);
}

/** Short ones are next to the boxes. One may begin in the row where another one ends. */
function intoLanes(trunks: readonly Trunk[]): readonly Lane[] {
  const lanes: Lane[] = [];
  for (const trunk of trunks.toSorted((one, other) => one.last - one.first - (other.last - other.first))) {
    const isFree = (lane: number): boolean =>
      lanes.every((other) => other.lane !== lane || other.last <= trunk.first || other.first >= trunk.last);
    let lane = 0;
    while (!isFree(lane)) lane += 1;
    lanes.push({ ...trunk, lane });
  }
  return lanes;
}

/** The parts of a line that are in a row. */
function Rails({ trunk, row }: { readonly trunk: Lane; readonly row: number }) {
  const { kind, starts, ends, first, last, lane } = trunk;
  const parts = [starts.has(row) && 'from', first < row && row < last && 'on', ends.has(row) && 'to'].filter(Boolean);
  return parts.map((part) => (
    <span
      key={part}
      class={`rail ${part} ${kind}`}
      data-awaited={part === 'to' && ends.get(row)}
      style={{ '--lane': lane }}
      aria-hidden="true"
    />
  ));
}
