import type { components } from '../../../client/paths.ts';
import { Name } from '../../components/text.tsx';
import { Time } from '../../components/time.tsx';
import { hrefOf } from '../../router.ts';

type Happening = components['schemas']['Activity'];

interface HappeningsProps {
  readonly items: readonly Happening[];
  /** All are of one job, which need not be named. */
  readonly isOfOne?: boolean;
}

/** What happened, one line each: when, what, of what, why, and by whom. */
export function Happenings({ items, isOfOne = false }: HappeningsProps) {
  return (
    <ol class="happenings">
      {items.map((each, index) => (
        // What happened stays as it is, and has no number of its own.
        <li key={`${each.at} ${index}`} class={toneOf(each.event)}>
          <Time at={each.at} as={isOfOne ? 'whole' : 'both'} />
          <span>
            <strong>{each.text}</strong> {!isOfOne && <Subject {...each} />}{' '}
            {each.run !== null && <RunLink run={each.run} />}
            {each.by !== null && (
              <span class="actor">
                {' '}
                by <Name text={each.by} />
              </span>
            )}
            {each.detail !== null && <span class="small quiet detail">{each.detail}</span>}
          </span>
        </li>
      ))}
    </ol>
  );
}

function Subject({ job, name, worker, isOfScript }: Happening) {
  if (isOfScript && name !== null) {
    return (
      <a href={hrefOf('/scripts', name)}>
        <Name text={name} />
      </a>
    );
  }
  return (
    <>
      {job !== null && (
        <>
          <a href={hrefOf('/jobs', job)}>job {job}</a> {name !== null && <Name text={name} />}
        </>
      )}
      {job === null && worker !== null && (
        <a href={hrefOf('/activity', null, { worker: String(worker) })}>worker {worker}</a>
      )}
    </>
  );
}

function RunLink({ run }: { readonly run: number }) {
  return <a href={hrefOf('/runs', run)}>run {run}</a>;
}

/** What one looks for first has a colour; each has its words. */
function toneOf(event: string): string {
  if (/failed|crashed|expired|lost|quarantined|undelivered|orphaned/.test(event)) return 'bad';
  if (/retrying|skipped|buried|cancelled|deleted|released|deferred|paused/.test(event)) return 'warning';
  return /finished|resumed/.test(event) ? 'good' : '';
}
