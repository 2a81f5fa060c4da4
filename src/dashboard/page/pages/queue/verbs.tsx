import { useState } from 'preact/hooks';
import { countOf } from '../../../../system/base/format.ts';
import { ConfirmDialog } from '../../components/dialog.tsx';
import { tell } from '../../components/toast.tsx';
import { client } from '../../data.ts';
import { attempt, written } from '../../manage/act.ts';
import { isLater, type ShownJob } from './job-words.tsx';

const verbs = {
  kick: { words: 'Kick', effect: 'Due at once, with all its tries', done: 'kicked', question: '', warning: null },
  retry: {
    words: 'Retry',
    effect: 'Back into the queue, though it is running',
    done: 'put back into the queue',
    question: 'Retry …?',
    warning: 'What it has done so far may already have had an effect, and it runs again from its beginning.',
  },
  bury: {
    words: 'Bury',
    effect: 'Set aside as failed until it is kicked',
    done: 'buried',
    question: '',
    warning: null,
  },
  cancel: {
    words: 'Cancel',
    effect: 'It will not run any more',
    done: 'cancelled',
    question: 'Cancel …?',
    warning: 'It will not run any more, nor will those of its children that wait.',
  },
  requeue: {
    words: 'Run again',
    effect: 'Queued once more, first in line',
    done: 'queued again',
    question: 'Run … again?',
    warning: 'It has already run, and runs once more from its beginning.',
  },
  delete: {
    words: 'Delete',
    effect: 'Removed with its runs and their output',
    done: 'deleted',
    question: 'Delete …?',
    warning: 'Data, runs and output are removed. Nothing brings them back.',
  },
} as const;

type Verb = keyof typeof verbs;

const verbNames = Object.keys(verbs) as Verb[];

/** What the queue would do to a job in its present state. */
function verbsFor({ state, runAt }: Pick<ShownJob, 'state' | 'runAt'>, nowMs: number): readonly Verb[] {
  switch (state) {
    case 'claimed':
    case 'running':
      return ['retry', 'bury'];
    case 'queued':
    case 'retrying':
      return isLater(runAt, nowMs) ? ['kick', 'bury', 'cancel', 'delete'] : ['bury', 'cancel', 'delete'];
    case 'failed':
      return ['kick', 'cancel', 'delete'];
    case 'paused':
      return ['delete'];
    default:
      return ['requeue', 'delete'];
  }
}

interface JobVerbsProps {
  readonly jobs: readonly ShownJob[];
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
          title={verbs[asked].question.replace('…', wordsOf(fitting(asked)))}
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

/** The server takes no more in one request. */
const MOST_AT_ONCE = 1000;

/** Each by itself: one that is refused keeps none of the others back. */
async function change(verb: Verb, jobs: readonly ShownJob[]): Promise<void> {
  const refused: string[] = [];
  for (let start = 0; start < jobs.length; start += MOST_AT_ONCE) {
    const ids = jobs.slice(start, start + MOST_AT_ONCE).map(({ id }) => id);
    const { items } = await written(client.POST('/api/jobs/batch', { body: { verb, ids } }));
    refused.push(...items.filter(({ ok }) => !ok).map(({ reason }) => reason ?? 'no reason was told'));
  }
  const { done } = verbs[verb];
  const [first] = refused;
  if (first !== undefined && jobs.length === 1) throw new Error(first);
  const changed = refused.length === 0 ? wordsOf(jobs) : countOf(jobs.length - refused.length, 'job');
  const sentence = `${changed.charAt(0).toUpperCase()}${changed.slice(1)} ${done}.`;
  if (first === undefined) return tell(sentence);
  tell(`${sentence} ${countOf(refused.length, 'job was', 'jobs were')} refused: ${first}`, { isBad: true });
}

/** "job 7 (mail/welcome)", or "3 jobs". */
function wordsOf(jobs: readonly ShownJob[]): string {
  const [job] = jobs;
  return job !== undefined && jobs.length === 1 ? `job ${job.id} (${job.name})` : countOf(jobs.length, 'job');
}
