import { useId } from 'preact/hooks';
import { Icon } from './icon.tsx';

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
