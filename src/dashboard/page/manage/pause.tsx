import { useState } from 'preact/hooks';
import { capitalized } from '../../../system/base/text.ts';
import { tell } from '../components/toast.tsx';
import { client } from '../data.ts';
import { attempt, written } from './act.ts';
import { DurationDialog } from './duration.tsx';
import { may } from './session.ts';

export interface PauseInForce {
  /** `*`, a tier, a script, `queue`, or `queue/` and a pattern of job names. */
  readonly name: string;
  readonly kind: 'pause' | 'fail-fast';
  readonly until: string | null;
}

interface PauseButtonProps {
  /** The name of the tier, script or jobs to pause, as in `PauseInForce`. */
  readonly name: string;
  /** The pause that keeps it from running now: its own, or that of a whole it belongs to; null: there is none. */
  readonly pause: PauseInForce | null;
}

/** Pauses a tier, a script, or jobs by name, or resumes what is paused; nothing for who may not. */
export function PauseButton({ name, pause }: PauseButtonProps) {
  const [isAsking, setIsAsking] = useState(false);
  if (!may('manage')) return null;
  const what = pausedWords(name);
  if (pause !== null) {
    return (
      <button type="button" onClick={() => attempt(() => resume(pause.name))}>
        Resume {pause.name === name ? <span class="hidden">{what}</span> : pausedWords(pause.name)}
      </button>
    );
  }
  return (
    <>
      <button type="button" onClick={() => setIsAsking(true)}>
        Pause <span class="hidden">{what}</span> …
      </button>
      {isAsking && (
        <DurationDialog
          title={`Pause ${what}?`}
          action="Pause"
          note="What is running finishes. Nothing else of it starts until the pause ends."
          forever="until it is resumed"
          onClose={() => setIsAsking(false)}
          onChosen={async (chosen) => {
            const params = { path: { pattern: name } };
            await written(client.PUT('/api/pauses/{pattern}', { params, body: { for: chosen.for } }));
            const undo = { words: 'Resume', act: () => void attempt(() => resume(name)) };
            tell(`${capitalized(what)} is paused ${chosen.words}.`, { undo });
          }}
        />
      )}
    </>
  );
}

async function resume(name: string): Promise<void> {
  const params = { path: { pattern: name } };
  const { pause } = await written(client.DELETE('/api/pauses/{pattern}', { params }));
  const what = capitalized(pausedWords(name));
  if (pause === null) tell(`${what} is resumed. The next call runs what waited.`);
  else tell(`${what} is resumed, but ${pausedWords(pause.name)} is paused, too.`);
}

/** `everything`, `daily`, `the queue`, `mail/*`. */
export function pausedWords(name: string): string {
  if (name === '*') return 'everything';
  if (name === 'queue') return 'the queue';
  return name.startsWith('queue/') ? name.slice('queue/'.length) : name;
}
