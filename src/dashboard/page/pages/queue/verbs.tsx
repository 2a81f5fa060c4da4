import { useState } from 'preact/hooks';
import { countOf } from '../../../../report/text/format.ts';
import { ConfirmDialog } from '../../components/dialog.tsx';
import { tell } from '../../components/toast.tsx';
import { client } from '../../data.ts';
import { attempt, Refused, written } from '../../manage/act.ts';
import type { Job } from './job-words.tsx';

const verbs = {
  kick: { words: 'Kick', effect: 'Due at once, with all its tries', done: 'kicked', warning: null },
  retry: {
    words: 'Retry',
    effect: 'Back into the queue, though it is running',
    done: 'put back into the queue',
    warning: 'What it has done so far may already have had an effect, and it runs again from its beginning.',
  },
  bury: { words: 'Bury', effect: 'Set aside as failed until it is kicked', done: 'buried', warning: null },
  cancel: {
    words: 'Cancel',
    effect: 'It will not run any more',
    done: 'cancelled',
    warning: 'It will not run any more, nor will those of its children that wait.',
  },
  requeue: {
    words: 'Run again',
    effect: 'Queued once more, first in line',
    done: 'queued again',
    warning: 'It has already run, and runs once more from its beginning.',
  },
  delete: {
    words: 'Delete',
    effect: 'Removed with its runs and their output',
    done: 'deleted',
    warning: 'Data, runs and output are removed. Nothing brings them back.',
  },
} as const;

type Verb = keyof typeof verbs;

const verbNames = Object.keys(verbs) as Verb[];

/** What the queue would do to a job in its present state. */
function verbsFor({ state, runAt }: Pick<Job, 'state' | 'runAt'>, nowMs: number): readonly Verb[] {
  switch (state) {
    case 'claimed':
    case 'running':
      return ['retry', 'bury'];
    case 'queued':
    case 'retrying':
      return runAt !== null && Date.parse(runAt) > nowMs
        ? ['kick', 'bury', 'cancel', 'delete']
        : ['bury', 'cancel', 'delete'];
    case 'failed':
      return ['kick', 'cancel', 'delete'];
    case 'paused':
      return ['delete'];
    default:
      return ['requeue', 'delete'];
  }
}

interface JobVerbsProps {
  readonly jobs: readonly Job[];
  readonly nowMs: number;
  readonly onDone?: (verb: string) => void;
}

/** What can be done to these jobs; a verb that some of them are in no state for says for how many it is. */
export function JobVerbs({ jobs, nowMs, onDone }: JobVerbsProps) {
  const [asked, setAsked] = useState<Verb | null>(null);
  const fitting = (verb: Verb) => jobs.filter((job) => verbsFor(job, nowMs).includes(verb));
  const act = async (verb: Verb) => {
    await change(verb, fitting(verb));
    onDone?.(verb);
  };
  const press = (verb: Verb) => (verbs[verb].warning === null ? void attempt(() => act(verb)) : setAsked(verb));
  return (
    <>
      {verbNames
        .filter((verb) => fitting(verb).length > 0)
        .map((verb) => (
          <button key={verb} type="button" title={verbs[verb].effect} onClick={() => press(verb)}>
            {verbs[verb].words}
            {fitting(verb).length < jobs.length && ` ${fitting(verb).length}`}
          </button>
        ))}
      {asked !== null && (
        <ConfirmDialog
          title={`${verbs[asked].words}: ${wordsOf(fitting(asked))}?`}
          action={`${verbs[asked].words} ${countOf(fitting(asked).length, 'job')}`}
          isDangerous={asked === 'delete' || asked === 'cancel'}
          onConfirm={() => act(asked)}
          onClose={() => setAsked(null)}
        >
          <p>{verbs[asked].warning}</p>
        </ConfirmDialog>
      )}
    </>
  );
}

/** Each by itself, so that one that is refused keeps none of the others back. */
async function change(verb: Verb, jobs: readonly Job[]): Promise<void> {
  const refused: Refused[] = [];
  for (const { id } of jobs) {
    try {
      await written(send(verb, { params: { path: { id } } }));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      refused.push(error);
    }
  }
  const { done } = verbs[verb];
  const [first] = refused;
  if (first !== undefined && jobs.length === 1) throw first;
  const changed = refused.length === 0 ? wordsOf(jobs) : countOf(jobs.length - refused.length, 'job');
  const sentence = `${changed.charAt(0).toUpperCase()}${changed.slice(1)} ${done}.`;
  if (first === undefined) return tell(sentence);
  tell(`${sentence} ${countOf(refused.length, 'job was', 'jobs were')} refused: ${first.message}`, { isBad: true });
}

function send(verb: Verb, init: { readonly params: { readonly path: { readonly id: number } } }) {
  return verb === 'delete' ? client.DELETE('/api/jobs/{id}', init) : client.POST(`/api/jobs/{id}/${verb}`, init);
}

/** Of one its number and name, of several how many. */
function wordsOf(jobs: readonly Job[]): string {
  const [job] = jobs;
  return job !== undefined && jobs.length === 1 ? `job ${job.id} (${job.name})` : countOf(jobs.length, 'job');
}
