import { useState } from 'preact/hooks';
import { tell } from '../components/toast.tsx';
import { client } from '../data.ts';
import { attempt, written } from './act.ts';
import { DurationDialog } from './duration.tsx';

interface AcknowledgeProps {
  readonly id: number;
  readonly subject: string;
}

/** Ends the daily reminders of an incident. */
export function Acknowledge({ id, subject }: AcknowledgeProps) {
  const acknowledge = () =>
    attempt(async () => {
      await written(client.POST('/api/incidents/{id}/acknowledge', { params: { path: { id } } }));
      tell(`Incident ${id} of ${subject} is acknowledged: no more reminders. You will still be told when it is over.`);
    });
  return (
    <button type="button" title="No more daily reminders; its end is still told" onClick={acknowledge}>
      Acknowledge <span class="hidden">incident {id}</span>
    </button>
  );
}

/** Tells nobody about a subject for a while. */
export function MuteButton({ subject }: { readonly subject: string }) {
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
            tell(`Nobody is told about ${subject} ${chosen.words}.`, { undo });
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
  tell(`${pattern} is unmuted. The next pass tells what was not told meanwhile.`);
}
