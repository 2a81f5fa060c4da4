import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import type { List } from '../data.ts';
import { place, setQuery } from '../router.ts';
import { Loading, Notice } from './page.tsx';
import { Icon } from './state.tsx';

interface SearchProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** Filters while one types. */
export function SearchField({ label, value, onChange }: SearchProps) {
  return (
    <label class="search">
      <Icon name="search" />
      <span class="hidden">{label}</span>
      <input
        type="search"
        placeholder={label}
        value={value}
        autocomplete="off"
        spellcheck={false}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </label>
  );
}

interface ChoiceProps<Value extends string> {
  readonly label: string;
  readonly value: Value;
  /** In this order; the words that stand for each value. */
  readonly options: readonly (readonly [value: Value, words: string])[];
  readonly onChange: (value: Value) => void;
  /** The label is for screen readers only. */
  readonly isBare?: boolean;
}

/** One of several. */
export function Choice<Value extends string>({ label, value, options, onChange, isBare = false }: ChoiceProps<Value>) {
  const id = useId();
  return (
    <span class="choice">
      <label for={id} class={isBare ? 'hidden' : ''}>
        {label}
      </label>
      <select id={id} value={value} onChange={({ currentTarget }) => onChange(currentTarget.value as Value)}>
        {options.map(([each, words]) => (
          <option key={each} value={each}>
            {words}
          </option>
        ))}
      </select>
    </span>
  );
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** How far back a chart may go. */
export const timeSpans = {
  '6h': { words: '6 hours', lengthMs: 6 * HOUR_MS },
  '24h': { words: 'Day', lengthMs: DAY_MS },
  '7d': { words: 'Week', lengthMs: 7 * DAY_MS },
  '30d': { words: 'Month', lengthMs: 30 * DAY_MS },
  '90d': { words: '3 months', lengthMs: 90 * DAY_MS },
  '365d': { words: 'Year', lengthMs: 365 * DAY_MS },
} as const;

export type TimeSpan = keyof typeof timeSpans;

interface SpanButtonsProps {
  readonly chosen: TimeSpan;
  readonly onChoose: (span: TimeSpan) => void;
}

export function SpanButtons({ chosen, onChoose }: SpanButtonsProps) {
  return (
    <fieldset class="ranges">
      <legend class="hidden">How far back</legend>
      {(Object.keys(timeSpans) as TimeSpan[]).map((span) => (
        <button key={span} type="button" aria-pressed={span === chosen} onClick={() => onChoose(span)}>
          {timeSpans[span].words}
        </button>
      ))}
    </fieldset>
  );
}

const spans = [
  ['', 'at any time'],
  ['1h', 'in the last hour'],
  ['24h', 'in the last 24 hours'],
  ['7d', 'in the last 7 days'],
  ['30d', 'in the last 30 days'],
  ['365d', 'in the last year'],
] as const;

/** From when on; kept in the address, where it may be any time that the API takes. */
export function SinceChoice({ label }: { readonly label: string }) {
  const { since = '' } = place.value.query;
  const known = spans.some(([value]) => value === since) ? spans : [...spans, [since, `since ${since}`] as const];
  return (
    <Choice<string> label={label} value={since} options={known} onChange={(value) => setQuery({ since: value })} />
  );
}

interface MoreProps {
  /** How many are shown, and of what: `100 of 1,234 runs`, `100 runs`. */
  readonly shown: string;
  /** Null: no more can be had. */
  readonly onMore: (() => void) | null;
  /** A report does not hold the rest. */
  readonly isCut?: boolean;
}

/** Below a list: how much of it is shown, and more of it. */
export function More({ shown, onMore, isCut = false }: MoreProps) {
  return (
    <p class="more">
      <span role="status">
        {shown}
        {isCut && '; this report holds no more of them, the command line shows all'}
      </span>
      {onMore !== null && (
        <button type="button" onClick={onMore}>
          Show more
        </button>
      )}
    </p>
  );
}

interface ListedProps<Item> {
  readonly list: List<Item>;
  /** Shown instead of an empty list. */
  readonly none: ComponentChildren;
  /** How many are shown, and of what. */
  readonly shown: (count: number) => string;
  readonly children: (items: readonly Item[]) => ComponentChildren;
}

/** A list as far as it is known, why it is not, and the way to more of it. */
export function Listed<Item>({ list, none, shown, children }: ListedProps<Item>) {
  const { items, problem, more, isCut } = list;
  const count = items?.length ?? 0;
  return (
    <>
      {problem !== null && <Notice tone="bad" title={problem} />}
      {items === null && problem === null && <Loading />}
      {items !== null && (count === 0 ? none : children(items))}
      {(count > 0 || more !== null) && <More shown={shown(count)} onMore={more} isCut={isCut} />}
    </>
  );
}
