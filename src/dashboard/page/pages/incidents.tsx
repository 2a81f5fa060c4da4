import { countOf } from '../../../system/base/format.ts';
import type { components } from '../../client/paths.ts';
import { Listed } from '../components/fields.tsx';
import { Empty, Notice, Page, Section } from '../components/page.tsx';
import { State, toneOfState } from '../components/state.tsx';
import { Name, RunLink, Words } from '../components/text.tsx';
import { Time, Until } from '../components/time.tsx';
import { useList } from '../data.ts';
import { IncidentButtons, UnmuteButton } from '../manage/incident.tsx';
import { may } from '../manage/session.ts';
import { hrefOf } from '../router.ts';
import { siteStatus } from '../site-status.ts';
import { Subject } from './overview/troubles.tsx';

type Incident = components['schemas']['Incident'];
type Mute = components['schemas']['Mute'];

/** Open incidents with their causes and cures; mutes; and past incidents. */
export function Incidents() {
  const open = useList('/api/incidents', { state: 'open', limit: 100 });
  const over = useList('/api/incidents', { state: 'over', limit: 20 });
  const mutes = open.pages[0]?.mutes ?? [];
  const status = siteStatus.value;
  return (
    <Page title="Incidents">
      <Listed
        list={open}
        none={status.data && <NoIncident {...status.data} />}
        shown={(count) => countOf(count, 'incident')}
      >
        {(items) => (
          <ul class="incidents">
            {items.toSorted(byGrade).map((incident) => (
              <OpenIncident key={incident.id} incident={incident} mutes={mutes} />
            ))}
          </ul>
        )}
      </Listed>
      {mutes.length > 0 && <Muted mutes={mutes} />}
      <Section title="Over">
        <Listed
          list={over}
          none={<Empty title="No incident is over yet." />}
          shown={(count) => countOf(count, 'incident')}
        >
          {(items) => (
            <ul class="incidents">
              {items.map((incident) => (
                <PastIncident key={incident.id} incident={incident} />
              ))}
            </ul>
          )}
        </Listed>
      </Section>
    </Page>
  );
}

/** No pass has noted any: because nothing is wrong, nothing has run, or checks have found it just now. */
function NoIncident({ verdict: { isUntouched }, troubles }: components['schemas']['Status']) {
  const overview = <a href={hrefOf('/')}>overview</a>;
  if (troubles.length > 0) {
    return (
      <Notice tone="warning" title="No incident is noted yet.">
        <p>
          The checks have just found {countOf(troubles.length, 'thing')}, which the {overview} shows; the next pass
          notes what is still wrong.
        </p>
      </Notice>
    );
  }
  if (isUntouched) {
    return (
      <Empty title="Nothing has run yet, so nothing can be wrong.">
        <p>A failure stands here until all is well again. The {overview} says what to do first.</p>
      </Empty>
    );
  }
  return (
    <Notice tone="good" title="Nothing is wrong.">
      <p>Incidents stand here from the first failure until all is well again.</p>
    </Notice>
  );
}

interface OpenIncidentProps {
  readonly incident: Incident;
  readonly mutes: readonly Mute[];
}

const grades: readonly Incident['grade'][] = ['critical', 'failing', 'warning', 'acknowledged'];

/** The worst first, as on the overview; those of the same grade by when they began. */
function byGrade(one: Incident, other: Incident): number {
  return grades.indexOf(one.grade) - grades.indexOf(other.grade);
}

function OpenIncident({ incident, mutes }: OpenIncidentProps) {
  const { id, subject, grade, error, occurrences, hint, openedAt, lastAt, acknowledgedAt, lastRun } = incident;
  const isMuted = mutes.some(({ name }) => name === subject || name === '*');
  return (
    <li class={`card incident ${toneOfState(grade)}`} aria-label={`Incident ${id} of ${subject}`}>
      <header>
        <State state={grade} />
        <h2>
          <Subject subject={subject} />
        </h2>
        <span class="quiet small">#{id}</span>
        <IncidentButtons
          incident={{ id, subject, isAcknowledged: acknowledgedAt !== null }}
          isMuted={isMuted}
          isClosable
        />
      </header>
      {error !== null && (
        <p class="incident-error">
          <Words text={error} />
        </p>
      )}
      {hint !== null && (
        <p>
          → <Words text={hint} />
        </p>
      )}
      <p class="small quiet">
        since <Time at={openedAt} /> · {countOf(occurrences, 'time')}
        {occurrences > 1 && (
          <>
            , last <Time at={lastAt} as="relative" />
          </>
        )}
        {lastRun !== null && (
          <>
            {' '}
            · <RunLink id={lastRun}>run {lastRun}</RunLink>
          </>
        )}
      </p>
      <p class="small quiet">
        <Told incident={incident} />
        {isMuted && <State state="muted" />}
      </p>
    </li>
  );
}

/** Whether people know of it. */
function Told({ incident: { toldAt, remindedAt, acknowledgedAt } }: { readonly incident: Incident }) {
  if (acknowledgedAt !== null) {
    return (
      <>
        known since <Time at={acknowledgedAt} />{' '}
      </>
    );
  }
  if (toldAt === null) return <>no notification sent yet </>;
  return (
    <>
      told <Time at={toldAt} />
      {remindedAt !== null && (
        <>
          , reminded <Time at={remindedAt} as="relative" />
        </>
      )}{' '}
    </>
  );
}

function Muted({ mutes }: { readonly mutes: readonly Mute[] }) {
  return (
    <Section title="Muted">
      <ul class="mutes">
        {mutes.map(({ name, until }) => (
          <li key={name}>
            <State state="muted" /> <Name text={name} />{' '}
            <span class="quiet small">
              <Until at={until} forever="it is unmuted" />
            </span>
            {may('manage') && <UnmuteButton pattern={name} />}
          </li>
        ))}
      </ul>
    </Section>
  );
}

function PastIncident({ incident }: { readonly incident: Incident }) {
  const { subject, occurrences, error, openedAt, recoveredAt, ending, hint, lastRun } = incident;
  return (
    <li class="card incident past">
      <header>
        <State state="recovered" word="over" />
        <h3>
          <Subject subject={subject} />
        </h3>
        <span class="quiet small">
          <Time at={openedAt} as="short" /> – <Time at={recoveredAt} /> · {countOf(occurrences, 'time')}
          {ending !== null && <> · {ending === 'gone' ? `gone: ${hint}` : 'closed by hand'}</>}
          {lastRun !== null && (
            <>
              {' '}
              · <RunLink id={lastRun}>run {lastRun}</RunLink>
            </>
          )}
        </span>
      </header>
      {error !== null && (
        <p class="small">
          <Words text={error} />
        </p>
      )}
    </li>
  );
}
