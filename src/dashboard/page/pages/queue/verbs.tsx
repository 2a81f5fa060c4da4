import { useState } from 'preact/hooks';
import { countOf } from '../../../../system/base/format.ts';
import { capitalized } from '../../../../system/base/text.ts';
import type { components } from '../../../client/paths.ts';
import { ConfirmDialog } from '../../components/dialog.tsx';
import { tell } from '../../components/toast.tsx';
import { client } from '../../data.ts';
import { attempt, written } from '../../manage/act.ts';
import { session } from '../../manage/session.ts';
import type { ShownJob } from './job-words.tsx';

type NamedJob = Pick<ShownJob, 'id' | 'name' | 'verbs'>;

type VerbButton = components['schemas']['Session']['buttons'][number];

interface JobVerbsProps {
  readonly jobs: readonly NamedJob[];
  /** The jobs in the words of each button: `its job`. Default: nothing. */
  readonly what?: string;
  readonly onDone?: (verb: string) => void;
}

/** The verbs that fit these jobs; a button that fits only some of them shows how many. */
export function JobVerbs({ jobs, what = '', onDone }: JobVerbsProps) {
  const [asked, setAsked] = useState<VerbButton | null>(null);
  const fitting = ({ verb }: VerbButton) => jobs.filter(({ verbs }) => verbs.includes(verb));
  const act = async (button: VerbButton) => {
    await change(button, fitting(button));
    onDone?.(button.verb);
  };
  const press = (button: VerbButton) => (button.warning === null ? void attempt(() => act(button)) : setAsked(button));
  return (
    <>
      {session.value?.buttons
        .filter((button) => fitting(button).length > 0)
        .map((button) => (
          <button key={button.verb} type="button" title={button.effect} onClick={() => press(button)}>
            {labelOfVerb(button, what)}
            {fitting(button).length < jobs.length && ` ${fitting(button).length}`}
          </button>
        ))}
      {asked !== null && (
        <ConfirmDialog
          title={`${labelOfVerb(asked, nameJobs(fitting(asked)))}?`}
          action={labelOfVerb(asked, countOf(fitting(asked).length, 'job'))}
          isDangerous={asked.isDangerous}
          onConfirm={() => act(asked)}
          onClose={() => setAsked(null)}
        >
          <p>{asked.warning}</p>
        </ConfirmDialog>
      )}
    </>
  );
}

/** `Run now`, `Run its job now`, `Cancel 3 jobs`. */
export function labelOfVerb({ words }: Pick<VerbButton, 'words'>, what = ''): string {
  return words
    .replace('…', () => what)
    .replace(/ +/g, ' ')
    .trim();
}

/** The server takes no more in one request. */
const MOST_AT_ONCE = 1000;

/** Each by itself: one that is refused keeps none of the others back. */
async function change({ verb, done }: VerbButton, jobs: readonly NamedJob[]): Promise<void> {
  const refused: string[] = [];
  for (let start = 0; start < jobs.length; start += MOST_AT_ONCE) {
    const ids = jobs.slice(start, start + MOST_AT_ONCE).map(({ id }) => id);
    const { items } = await written(client.POST('/api/jobs/batch', { body: { verb, ids } }));
    refused.push(...items.filter(({ ok }) => !ok).map(({ reason }) => reason ?? 'no reason was told'));
  }
  const [first] = refused;
  if (first !== undefined && jobs.length === 1) throw new Error(first);
  const changed = refused.length === 0 ? nameJobs(jobs) : countOf(jobs.length - refused.length, 'job');
  const sentence = `${capitalized(changed)} ${done}.`;
  if (first === undefined) return tell(sentence);
  tell(`${sentence} ${countOf(refused.length, 'job was', 'jobs were')} refused: ${first}`, { isBad: true });
}

/** "job 7 (mail/welcome)", or "3 jobs". */
function nameJobs(jobs: readonly NamedJob[]): string {
  const [job] = jobs;
  return job !== undefined && jobs.length === 1 ? `job ${job.id} (${job.name})` : countOf(jobs.length, 'job');
}
