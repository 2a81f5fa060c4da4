import { useState } from 'preact/hooks';
import { countOf } from '../../../system/base/format.ts';
import type { components } from '../../client/paths.ts';
import { Listed } from '../components/fields.tsx';
import { Answered, Empty, Notice, Page, Section } from '../components/page.tsx';
import { State, toneOfState } from '../components/state.tsx';
import { Name, RunLink, Words } from '../components/text.tsx';
import { Time, Until } from '../components/time.tsx';
import { tell } from '../components/toast.tsx';
import { client, useList, useQuery } from '../data.ts';
import { attempt, written } from '../manage/act.ts';
import { DurationDialog } from '../manage/duration.tsx';
import { may } from '../manage/session.ts';
import { Subject } from './overview/troubles.tsx';

type Incident = components['schemas']['Incident'];
type Mute = components['schemas']['Mute'];

/** Open incidents with their causes and cures; mutes; and past incidents. */
export function Incidents() {
  const open = useList('/api/incidents', { state: 'open', limit: 100 });
  const over = useList('/api/incidents', { state: 'over', limit: 20 });
  const mutes = useQuery('/api/mutes', {});
  const well = (
    <Notice tone="good" title="Nothing is wrong.">
      <p>Incidents stand here from the first failure until all is well again.</p>
    </Notice>
  );
  return (
    <Page title="Incidents">
      <Listed list={open} none={well} shown={(count) => countOf(count, 'incident')}>
        {(items) => (
          <ul class="incidents">
            {items.toSorted(byGrade).map((incident) => (
              <OpenIncident key={incident.id} incident={incident} mutes={mutes.data?.items ?? []} />
            ))}
          </ul>
        )}
      </Listed>
      <Answered asked={mutes}>{({ items }) => items.length > 0 && <Muted mutes={items} />}</Answered>
      <Section title="Over">
        <Listed
          list={over}
          none={<Empty title="Nothing was wrong so far." />}
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
  const { id, subject, grade, occurrences, error, hint, openedAt, lastAt, acknowledgedAt, lastRun } = incident;
  const isMuted = mutes.some(({ name }) => name === subject || name === '*');
  return (
    <li class={`card incident ${toneOfState(grade)}`} aria-label={`Incident ${id} of ${subject}`}>
      <header>
        <State state={grade} />
        <h2>
          <Subject subject={subject} />
        </h2>
        <span class="quiet small">#{id}</span>
        <span class="buttons">
          {may('run') && acknowledgedAt === null && <ChangeIncident incident={incident} verb="acknowledge" />}
          {may('manage') && <ChangeIncident incident={incident} verb="close" />}
          {may('manage') && !isMuted && <MuteButton subject={subject} />}
        </span>
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

interface ChangeIncidentProps {
  readonly incident: Incident;
  readonly verb: 'acknowledge' | 'close';
}

const incidentVerbs = {
  acknowledge: {
    words: 'Acknowledge',
    effect: 'No more daily reminders; its end is still told',
    done: 'is acknowledged: no further reminders, only a message when it is over.',
  },
  close: {
    words: 'Close',
    effect: 'It is over; if it fails again, a new incident opens',
    done: 'is closed. If it fails again, a new incident opens.',
  },
} as const;

/** Ends the daily reminders of an incident, or the incident itself. */
function ChangeIncident({ incident: { id, subject }, verb }: ChangeIncidentProps) {
  const { words, effect, done } = incidentVerbs[verb];
  const change = () =>
    attempt(async () => {
      await written(client.POST(`/api/incidents/{id}/${verb}`, { params: { path: { id } } }));
      tell(`Incident ${id} of ${subject} ${done}`);
    });
  return (
    <button type="button" title={effect} onClick={change}>
      {words} <span class="hidden">incident {id}</span>
    </button>
  );
}

/** Tells nobody about a subject for a while. */
function MuteButton({ subject }: { readonly subject: string }) {
  const [isAsking, setIsAsking] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setIsAsking(true)}>
        Mute <span class="hidden">{subject}</span> …
      </button>
      {isAsking && (
        <DurationDialog
          title={`Mute ${subject}?`}
          action="Mute"
          note="It still runs, and incidents still open and end. What is still to be told is told when the mute ends."
          forever="until it is unmuted"
          onClose={() => setIsAsking(false)}
          onChosen={async (chosen) => {
            const params = { path: { pattern: subject } };
            await written(client.PUT('/api/mutes/{pattern}', { params, body: { for: chosen.for } }));
            const undo = { words: 'Unmute', act: () => void attempt(() => unmute(subject)) };
            tell(`Incidents of ${subject} are muted ${chosen.words}.`, { undo });
          }}
        />
      )}
    </>
  );
}

function UnmuteButton({ pattern }: { readonly pattern: string }) {
  return (
    <button type="button" onClick={() => attempt(() => unmute(pattern))}>
      Unmute <span class="hidden">{pattern}</span>
    </button>
  );
}

async function unmute(pattern: string): Promise<void> {
  await written(client.DELETE('/api/mutes/{pattern}', { params: { path: { pattern } } }));
  tell(`${pattern} is unmuted. The next pass reports what was held back in the meantime.`);
}
