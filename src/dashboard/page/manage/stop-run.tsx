import { useState } from 'preact/hooks';
import { ConfirmDialog } from '../components/dialog.tsx';
import { tell } from '../components/toast.tsx';
import { client } from '../data.ts';
import { written } from './act.ts';
import { may } from './session.ts';

interface StopRunProps {
  readonly run: { readonly id: number; readonly script: string; readonly startedAt: string | null };
}

/** Stops a run that goes on; nothing for who may not. */
export function StopRun({ run: { id, script, startedAt } }: StopRunProps) {
  const [isAsking, setIsAsking] = useState(false);
  if (!may('run')) return null;
  return (
    <>
      <button type="button" onClick={() => setIsAsking(true)}>
        Stop <span class="hidden">{`run ${id} of ${script}`}</span> …
      </button>
      {isAsking && (
        <ConfirmDialog
          title={`Stop run ${id} of ${script}?`}
          action="Stop it"
          isDangerous
          onClose={() => setIsAsking(false)}
          onConfirm={async () => {
            const body = { startedAt };
            await written(client.POST('/api/runs/{id}/stop', { params: { path: { id } }, body }));
            tell(`Run ${id} of ${script} is asked to end.`);
          }}
        >
          <p>
            Its processes are told to end, and killed 10 seconds later. Nobody is alerted, and it is not tried again.
            {script.startsWith('queue/') ? ' Its job is cancelled.' : ' The script runs again with its next pass.'}
          </p>
        </ConfirmDialog>
      )}
    </>
  );
}
