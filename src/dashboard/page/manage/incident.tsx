import { useState } from 'preact/hooks';
import { tell } from '../components/toast.tsx';
import { client } from '../data.ts';
import { attempt, written } from './act.ts';
import { DurationDialog } from './duration.tsx';
import { may } from './session.ts';

interface IncidentButtonsProps {
  readonly incident: { readonly id: number; readonly subject: string; readonly isAcknowledged: boolean };
  /** Whether its subject is muted already. */
  readonly isMuted?: boolean;
  /** Whether it may be closed here, too. */
  readonly isClosable?: boolean;
}

/** The buttons of an open incident. */
export function IncidentButtons({ incident, isMuted = false, isClosable = false }: IncidentButtonsProps) {
  return (
    <span class="buttons">
      {may('run') && !incident.isAcknowledged && <ChangeIncident incident={incident} verb="acknowledge" />}
      {may('manage') && isClosable && <ChangeIncident incident={incident} verb="close" />}
      {may('manage') && !isMuted && <MuteButton subject={incident.subject} />}
    </span>
  );
}

interface ChangeIncidentProps {
  readonly incident: Pick<IncidentButtonsProps['incident'], 'id' | 'subject'>;
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

export function UnmuteButton({ pattern }: { readonly pattern: string }) {
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
