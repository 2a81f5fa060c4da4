import { useState } from 'preact/hooks';
import { ConfirmDialog } from '../components/dialog.tsx';
import { tell } from '../components/toast.tsx';
import { client } from '../data.ts';
import { hrefOf } from '../router.ts';
import { attempt, written } from './act.ts';
import { FormField } from './add-job.tsx';
import { may } from './session.ts';

interface RunNowProps {
  readonly script: string;
  /** Default: "Run now". */
  readonly words?: string;
}

/**
 * Starts a script at once, as `runner run <script>` does on a terminal, and goes to its run: a failure is shown there, and
 * told to nobody.
 */
export function RunNow({ script, words = 'Run now' }: RunNowProps) {
  const [isSent, setIsSent] = useState(false);
  if (!may('run')) return null;
  const run = async () => {
    setIsSent(true);
    await attempt(() => start(script, []));
    setIsSent(false);
  };
  return (
    <button type="button" disabled={isSent} onClick={run}>
      {words} <span class="hidden">{script}</span>
    </button>
  );
}

/** The same with arguments. */
export function RunWithArguments({ script }: Pick<RunNowProps, 'script'>) {
  const [isAsking, setIsAsking] = useState(false);
  const [text, setText] = useState('');
  if (!may('run')) return null;
  const args = text.split('\n').filter((line) => line !== '');
  return (
    <>
      <button type="button" onClick={() => setIsAsking(true)}>
        Run with arguments <span class="hidden">{script}</span> …
      </button>
      {isAsking && (
        <ConfirmDialog
          title={`Run ${script} with arguments`}
          action="Run it"
          onClose={() => setIsAsking(false)}
          onConfirm={() => start(script, args)}
        >
          <FormField
            label="Arguments"
            hint="one on each line; others on the host can see them"
            value={text}
            problem={undefined}
            isLong
            onInput={setText}
          />
        </ConfirmDialog>
      )}
    </>
  );
}

async function start(script: string, args: string[]): Promise<void> {
  const { run, reason } = await written(client.POST('/api/runs', { body: { script, args, alert: false } }));
  if (run !== null) location.hash = hrefOf('/runs', run);
  else tell(`${script} is started. ${reason}`, { link: { href: hrefOf('/scripts', script), words: 'Its runs' } });
}
