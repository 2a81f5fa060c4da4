import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { readLocalTime } from '../../../system/base/local-time.ts';
import { isStatic, type List } from '../data.ts';
import { place, setQuery } from '../router.ts';
import { Loading, Notice } from './page.tsx';
import { Icon } from './state.tsx';
import { serverNow } from './time.tsx';

interface SearchProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** Time without typing after which a field takes effect. */
const TYPING_MS = 250;

/** Filters while one types, a moment after the last key; at once on Enter. */
export function SearchField({ label, value, onChange }: SearchProps) {
  const [typed, setTyped] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  // An answer to the letters before may not take away the ones that were typed since.
  useEffect(() => {
    if (timer.current === undefined) setTyped(value);
  }, [value]);
  const pass = (text: string): void => {
    clearTimeout(timer.current);
    timer.current = undefined;
    onChange(text);
  };
  const type = (text: string): void => {
    setTyped(text);
    clearTimeout(timer.current);
    timer.current = setTimeout(pass, TYPING_MS, text);
  };
  return (
    <label class="search">
      <Icon name="search" />
      <span class="hidden">{label}</span>
      <input
        type="search"
        placeholder={label}
        value={typed}
        autocomplete="off"
        spellcheck={false}
        onInput={({ currentTarget }) => type(currentTarget.value)}
        onChange={({ currentTarget }) => pass(currentTarget.value)}
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

const spanWords = Object.fromEntries(Object.entries(timeSpans).map(([span, { words }]) => [span, words])) as Record<
  TimeSpan,
  string
>;

interface SpanButtonsProps {
  readonly chosen: TimeSpan;
  readonly onChoose: (span: TimeSpan) => void;
}

export function SpanButtons(props: SpanButtonsProps) {
  return <ChoiceButtons label="How far back" options={spanWords} {...props} />;
}

interface ChoiceButtonsProps<Value extends string> {
  /** For screen readers. */
  readonly label: string;
  /** The words that stand for each value. */
  readonly options: Readonly<Record<Value, string>>;
  readonly chosen: Value;
  readonly onChoose: (value: Value) => void;
}

/** One of a few, each a button. */
export function ChoiceButtons<Value extends string>({ label, options, chosen, onChoose }: ChoiceButtonsProps<Value>) {
  return (
    <fieldset class="ranges">
      <legend class="hidden">{label}</legend>
      {(Object.keys(options) as Value[]).map((value) => (
        <button key={value} type="button" aria-pressed={value === chosen} onClick={() => onChoose(value)}>
          {options[value]}
        </button>
      ))}
    </fieldset>
  );
}

const spans: readonly (readonly [since: string, words: string])[] = [
  ['', 'at any time'],
  ['1h', 'in the last hour'],
  ['24h', 'in the last 24 hours'],
  ['7d', 'in the last 7 days'],
  ['30d', 'in the last 30 days'],
  ['365d', 'in the last year'],
];

/** Days and nights by the viewer's clock, which a report was not asked for. */
const days: readonly (readonly [since: string, words: string])[] = isStatic
  ? []
  : [
      ['today', 'today'],
      ['yesterday', 'yesterday'],
      ['last night', 'last night (18:00 to 08:00)'],
    ];

/** The choice that opens fields for two times. */
const BETWEEN = 'between';

/** From when until when; kept in the address, where it may be any time that the API takes. */
export function SinceChoice({ label }: { readonly label: string }) {
  const { since = '', until = '' } = place.value.query;
  const known = [...spans, ...days];
  const isKnown = known.some(([value]) => value === since) && (until === '' || until === since);
  const [isOpen, setIsOpen] = useState(!isKnown);
  const value = isOpen || !isKnown ? BETWEEN : since;
  const choose = (chosen: string): void => {
    setIsOpen(chosen === BETWEEN);
    // A day or a night ends; other times reach until now.
    if (chosen !== BETWEEN) setQuery({ since: chosen, until: days.some(([day]) => day === chosen) ? chosen : null });
  };
  return (
    <>
      <Choice<string>
        label={label}
        value={value}
        options={isStatic ? known : [...known, [BETWEEN, 'between …']]}
        onChange={choose}
      />
      {value === BETWEEN && (
        <>
          <TimeField label="from" name="since" value={since} />
          <TimeField label="to" name="until" value={until} />
        </>
      )}
    </>
  );
}

interface TimeFieldProps {
  readonly label: string;
  readonly name: 'since' | 'until';
  readonly value: string;
}

function TimeField({ label, name, value }: TimeFieldProps) {
  const id = useId();
  const atMs = readLocalTime(value, serverNow.peek(), 'past')?.startMs ?? null;
  return (
    <span class="choice">
      <label for={id}>{label}</label>
      <input
        type="datetime-local"
        id={id}
        value={atMs === null ? '' : inputTime(atMs)}
        onChange={({ currentTarget }) => setQuery({ [name]: currentTarget.value })}
      />
    </span>
  );
}

/** As the browser's field takes a time: `2026-11-03T14:05`, by the viewer's clock. */
function inputTime(atMs: number): string {
  return new Date(atMs - new Date(atMs).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

interface Range {
  readonly since?: string | undefined;
  readonly until?: string | undefined;
}

/** The range of the address for the API: times and days are the viewer's, whatever zone the server has. */
export function readRange({ since, until }: Range): { since?: string; until?: string } {
  const start = since && readLocalTime(since, serverNow.peek(), 'past');
  const end = until && readLocalTime(until, serverNow.peek(), 'past');
  // Other words are lengths of time, which are the same in every zone.
  return {
    ...(since && { since: start ? new Date(start.startMs).toISOString() : since }),
    ...(until && { until: end ? new Date(end.endMs).toISOString() : until }),
  };
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
