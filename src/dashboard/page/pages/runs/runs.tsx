import { Choice, SearchField } from '../../components/fields.tsx';
import { Page } from '../../components/page.tsx';
import { FAILED, runOutcomes, wordsOfState } from '../../components/state.tsx';
import { place, setQuery } from '../../router.ts';
import { Runs } from './run-table.tsx';

/** All runs of all scripts, the newest first. */
export function RunsPage() {
  const { script = '', outcome = '', since = '' } = place.value.query;
  const query = {
    limit: 100,
    ...(script === '' ? {} : { script }),
    ...(outcome === '' ? {} : { outcome }),
    ...(since === '' ? {} : { since }),
  };
  return (
    <Page title="Runs">
      <div class="bar">
        <SearchField label="Script" value={script} onChange={(value) => setQuery({ script: value })} />
        <OutcomeChoice />
        <Choice label="Started" value={since} options={times} onChange={(value) => setQuery({ since: value })} />
      </div>
      <Runs query={query} />
    </Page>
  );
}

const times = [
  ['', 'at any time'],
  ['1h', 'in the last hour'],
  ['24h', 'in the last 24 hours'],
  ['7d', 'in the last 7 days'],
  ['30d', 'in the last 30 days'],
  ['365d', 'in the last year'],
] as const;

const choices = [
  ['', 'any'],
  [FAILED, 'failed in any way'],
  ...runOutcomes.map((outcome) => [outcome, wordsOfState(outcome)] as const),
] as const;

/** Which outcomes are shown; kept in the address. */
export function OutcomeChoice() {
  return (
    <Choice
      label="Outcome"
      value={place.value.query.outcome ?? ''}
      options={choices}
      onChange={(outcome) => setQuery({ outcome })}
    />
  );
}
