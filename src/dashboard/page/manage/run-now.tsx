import { useState } from 'preact/hooks';
import { tell } from '../components/toast.tsx';
import { client } from '../data.ts';
import { hrefOf } from '../router.ts';
import { attempt, written } from './act.ts';
import { may } from './session.ts';

/** Starts a script at once, as `runner run <script>` does on a terminal: a failure is shown here, and told to nobody. */
export function RunNow({ script }: { readonly script: string }) {
  const [isSent, setIsSent] = useState(false);
  if (!may('run')) return null;
  const run = async () => {
    setIsSent(true);
    await attempt(async () => {
      await written(client.POST('/api/runs', { body: { script, alert: false } }));
      tell(`${script} is started.`, { link: { href: hrefOf('/scripts', script), words: 'Its runs' } });
    });
    setIsSent(false);
  };
  return (
    <button type="button" disabled={isSent} onClick={run}>
      Run now <span class="hidden">{script}</span>
    </button>
  );
}
