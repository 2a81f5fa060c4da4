import { useEffect, useRef, useState } from 'preact/hooks';
import { countOf } from '../../../system/base/format.ts';
import type { components } from '../../client/paths.ts';
import { SearchField } from '../components/fields.tsx';
import { wordsOfState } from '../components/state.tsx';
import { Name, RunLink, ScriptLink } from '../components/text.tsx';
import { client } from '../data.ts';
import { place as address, hrefOf } from '../router.ts';

type Found = components['schemas']['Found'];

/** One search over scripts, runs and jobs. */
export function SiteSearch() {
  const [typed, setTyped] = useState('');
  const [answer, setAnswer] = useState<{ readonly to: string; readonly found: Found } | null>(null);
  const [opensFirst, setOpensFirst] = useState(false);
  const place = useRef<HTMLElement>(null);
  const text = typed.trim();
  const found = text !== '' && answer?.to === text ? answer.found : null;
  useEffect(() => {
    let isOver = false;
    if (text !== '') void find(text).then((each) => isOver || each === null || setAnswer({ to: text, found: each }));
    return () => {
      isOver = true;
    };
  }, [text]);
  const leave = () => setTyped('');
  // The results have done their work.
  useEffect(leave, [address.value]);
  // A quick typist presses Enter before the answer is there.
  useEffect(() => {
    if (!opensFirst || found === null) return;
    setOpensFirst(false);
    place.current?.querySelector<HTMLElement>('.found a')?.click();
  }, [opensFirst, found]);
  const change = (value: string) => {
    setTyped(value);
    setOpensFirst(false);
  };
  const submit = (event: Event) => {
    event.preventDefault();
    setOpensFirst(true);
  };
  // It may lead to the page that is shown already.
  const leaveByLink = ({ target }: Event) => target instanceof Element && target.closest('a') !== null && leave();
  return (
    <search ref={place} class="site-search" onClick={leaveByLink} onKeyDown={({ key }) => key === 'Escape' && leave()}>
      <form onSubmit={submit}>
        <SearchField label="Search scripts, runs, jobs" value={typed} onChange={change} />
      </form>
      <div class={found === null ? 'hidden' : 'found card'}>
        <p class="small quiet" role="status">
          {found !== null && describe(found)}
        </p>
        {found !== null && <Results found={found} text={text} />}
      </div>
    </search>
  );
}

/** Null: there is no answer, which other parts of the page tell. */
async function find(q: string): Promise<Found | null> {
  const { data } = await client.GET('/api/search', { params: { query: { q } } }).catch(() => ({ data: undefined }));
  return data ?? null;
}

function describe({ scripts, runs, jobs, more }: Found): string {
  const isNone = scripts.length + runs.length + jobs.length === 0;
  // Jobs are searched for a moment only.
  if (isNone) return more.jobs ? 'Nothing was found yet.' : 'Nothing was found.';
  const most = (isMore: boolean, words: string) => (isMore ? `more than ${words}` : words);
  return [
    most(more.scripts, countOf(scripts.length, 'script')),
    most(more.runs, countOf(runs.length, 'run')),
    most(more.jobs && jobs.length > 0, countOf(jobs.length, 'job')),
  ].join(', ');
}

interface ResultsProps {
  readonly found: Found;
  readonly text: string;
}

function Results({ found, text }: ResultsProps) {
  const { scripts, runs, jobs, more } = found;
  return (
    <ul>
      {scripts.map((name) => (
        <li key={name}>
          <ScriptLink name={name} />
        </li>
      ))}
      {jobs.map(({ id, name, state }) => (
        <li key={`job ${id}`}>
          <a href={hrefOf('/jobs', id)}>job {id}</a> <Name text={name} />{' '}
          <span class="quiet small">{wordsOfState(state)}</span>
        </li>
      ))}
      {runs.map(({ id, script, outcome }) => (
        <li key={`run ${id}`}>
          <RunLink id={id}>run {id}</RunLink> <Name text={script} />{' '}
          <span class="quiet small">{wordsOfState(outcome)}</span>
        </li>
      ))}
      {more.runs && (
        <li>
          <a href={hrefOf('/runs', null, { search: text })}>all runs</a>
        </li>
      )}
      {more.jobs && (
        <li>
          <a href={hrefOf('/queue', null, { search: text })}>all jobs with it in their data</a>
        </li>
      )}
    </ul>
  );
}
