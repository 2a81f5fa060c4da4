import { useId } from 'preact/hooks';
import { Choice } from '../../components/fields.tsx';
import { isStatic } from '../../data.ts';
import { hrefOf, place, setQuery } from '../../router.ts';
import { countedStates, stateKeys } from './counts.tsx';

/** Which jobs are listed, as the address has it; undefined: whichever. */
export interface JobFilters {
  readonly name: string | undefined;
  /** A key of `countedStates`. */
  readonly state: string | undefined;
  /** Added since then: `12h`, `2026-11-01`. */
  readonly since: string | undefined;
  /** In data, result or reason. */
  readonly search: string | undefined;
}

export function readFilters(): JobFilters {
  const { name, state, since, search } = place.value.query;
  return { name, state, since, search };
}

const spans: readonly (readonly [value: string, words: string])[] = [
  ['', 'at any time'],
  ['1h', 'in the last hour'],
  ['24h', 'in the last 24 hours'],
  ['7d', 'in the last 7 days'],
  ['30d', 'in the last 30 days'],
];

const states: readonly (readonly [value: string, words: string])[] = [
  ['', 'any'],
  ...stateKeys.map((state) => [state, countedStates[state]] as const),
];

interface FiltersProps {
  readonly filters: JobFilters;
  /** To choose from. */
  readonly names: readonly string[];
}

/** Each choice changes the address, so that it can be kept and sent. */
export function Filters({ filters, names }: FiltersProps) {
  const { name = '', state = '', since = '', search = '' } = filters;
  const list = useId();
  const known = spans.some(([value]) => value === since) ? spans : [...spans, [since, `since ${since}`] as const];
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    setQuery({ name: String(form.get('name')).trim(), search: String(form.get('search')).trim() });
  };
  const isFiltered = Object.values(filters).some(Boolean);
  const stateChoice = (
    <Choice label="State" value={state} options={states} onChange={(value) => setQuery({ state: value })} />
  );
  // A report was asked for states and names alone.
  if (isStatic) {
    return (
      <div class="bar">
        {stateChoice}
        {isFiltered && <a href={hrefOf('/queue')}>Show all</a>}
      </div>
    );
  }
  return (
    <search>
      <form class="bar" aria-label="Jobs" onSubmit={submit}>
        <TextFilter label="Name" name="name" value={name} placeholder="mail/*" list={list} />
        <datalist id={list}>
          {names.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
        {stateChoice}
        <Choice label="Added" value={since} options={known} onChange={(value) => setQuery({ since: value })} />
        <TextFilter label="Search in data" name="search" value={search} placeholder="an address, a number …" />
        <button type="submit">Show</button>
        {isFiltered && <a href={hrefOf('/queue')}>Show all</a>}
      </form>
    </search>
  );
}

interface TextFilterProps {
  readonly label: string;
  readonly name: string;
  readonly value: string;
  readonly placeholder: string;
  readonly list?: string;
}

/** Takes effect once it is typed: each of its answers may cost a look at 100,000 jobs. */
function TextFilter({ label, name, value, placeholder, list }: TextFilterProps) {
  const id = useId();
  return (
    <span class="choice">
      <label for={id}>{label}</label>
      <input
        // Another address shows its own value.
        key={value}
        type="text"
        id={id}
        name={name}
        defaultValue={value}
        placeholder={placeholder}
        autocomplete="off"
        spellcheck={false}
        {...(list && { list })}
        onChange={({ currentTarget }) => setQuery({ [name]: currentTarget.value.trim() })}
      />
    </span>
  );
}
