import { useEffect, useState } from 'preact/hooks';
import { countOf, formatCount } from '../../../../system/base/format.ts';
import type { components, paths } from '../../../client/paths.ts';
import { ConfirmDialog } from '../../components/dialog.tsx';
import { Choice, readRange } from '../../components/fields.tsx';
import { Loading, Notice } from '../../components/page.tsx';
import { Words } from '../../components/text.tsx';
import { tell } from '../../components/toast.tsx';
import { client } from '../../data.ts';
import { written } from '../../manage/act.ts';
import { session } from '../../manage/session.ts';
import type { JobFilters } from './job-words.tsx';
import { labelOfVerb } from './verbs.tsx';

type Batch = paths['/api/jobs/batch']['post']['requestBody']['content']['application/json'];
type Filter = NonNullable<Batch['filter']>;
type Plan = components['schemas']['ChangePlan'];
type Verb = components['schemas']['Session']['buttons'][number]['verb'];

interface AllThatMatchProps {
  readonly filters: JobFilters;
  /** How many jobs fit; null: unknown, as with a search. */
  readonly total: number | null;
}

/** A button for all jobs that the filters choose, however many are shown. */
export function AllThatMatch({ filters, total }: AllThatMatchProps) {
  const [isAsking, setIsAsking] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setIsAsking(true)}>
        All {total === null ? '' : `${formatCount(total)} `}that match …
      </button>
      {isAsking && <ChangeAll filter={toFilter(filters)} onClose={() => setIsAsking(false)} />}
    </>
  );
}

function toFilter({ name, state, search, ...times }: JobFilters): Filter {
  return { ...(name && { name }), ...(state && { state }), ...(search && { search }), ...readRange(times) };
}

interface ChangeAllProps {
  readonly filter: Filter;
  readonly onClose: () => void;
}

/** Chooses a verb, and tells beforehand how many jobs it takes, and why they are in their state. */
function ChangeAll({ filter, onClose }: ChangeAllProps) {
  const buttons = session.value?.buttons ?? [];
  const [verb, setVerb] = useState<Verb | undefined>(
    (buttons.find((each) => each.verb === 'kick') ?? buttons[0])?.verb,
  );
  const button = buttons.find((each) => each.verb === verb);
  const { plan, problem } = usePlan(verb, filter);
  const jobs = plan?.jobs ?? 0;
  if (verb === undefined || button === undefined) return null;
  const confirm = async () => {
    const before = (plan?.last ?? 0) + 1;
    const { changed, refused } = await changeAll(verb, { ...filter, before });
    const rest = refused === 0 ? '' : ` ${countOf(refused, 'job was', 'jobs were')} refused.`;
    tell(`${countOf(changed, 'job')} ${button.done}.${rest}`, { isBad: refused > 0 });
  };
  return (
    <ConfirmDialog
      title="All jobs that match"
      action={labelOfVerb(button, countOf(jobs, 'job'))}
      isDangerous={button.isDangerous}
      isBlocked={jobs === 0}
      onConfirm={confirm}
      onClose={onClose}
    >
      <Choice<Verb>
        label="Do what"
        value={verb}
        options={buttons.map((each) => [each.verb, labelOfVerb(each)] as const)}
        onChange={setVerb}
      />
      <p class="quiet small">{button.effect}</p>
      {problem !== null && <Notice tone="bad" title={problem} />}
      {plan === null && problem === null && <Loading />}
      {plan !== null && <PlanText plan={plan} />}
      {button.warning !== null && <p>{button.warning}</p>}
    </ConfirmDialog>
  );
}

function PlanText({ plan: { jobs, refused, causes } }: { readonly plan: Plan }) {
  const isTold = causes.some(({ reason }) => reason !== null);
  return (
    <>
      <p role="status">
        {countOf(jobs, 'job')}
        {refused > 0 && `; ${countOf(refused, 'other', 'others')} that match cannot be changed so`}
      </p>
      {isTold && (
        <ul class="causes">
          {causes.map(({ reason, jobs: count }) => (
            <li key={reason}>
              <strong>{formatCount(count)}</strong> {reason === null ? 'without a reason' : <Words text={reason} />}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** The answer to a dry run; a search that stops after a while goes on until it has looked at all jobs. */
function usePlan(verb: Verb | undefined, filter: Filter) {
  const [found, setFound] = useState<{ readonly plan: Plan | null; readonly problem: string | null }>(unknown);
  useEffect(() => {
    let isOver = false;
    setFound(unknown);
    if (verb !== undefined) {
      planAll(verb, filter).then(
        (plan) => !isOver && setFound({ plan, problem: null }),
        ({ message }: Error) => !isOver && setFound({ plan: null, problem: message }),
      );
    }
    return () => {
      isOver = true;
    };
  }, [verb]);
  return found;
}

const unknown = { plan: null, problem: null };

async function planAll(verb: Verb, filter: Filter): Promise<Plan> {
  const whole = { jobs: 0, refused: 0, last: null as number | null, causes: [] as Plan['causes'][number][] };
  let after: number | undefined;
  do {
    const body = { verb, filter: { ...filter, ...(after !== undefined && { after }) }, dryRun: true };
    const { plan, next } = await written(client.POST('/api/jobs/batch', { body }));
    after = next ?? undefined;
    if (plan === null) break;
    whole.jobs += plan.jobs;
    whole.refused += plan.refused;
    whole.last = plan.last ?? whole.last;
    for (const { reason, jobs } of plan.causes) {
      const known = whole.causes.findIndex((each) => each.reason === reason);
      if (known === -1) whole.causes.push({ reason, jobs });
      else whole.causes[known] = { reason, jobs: (whole.causes[known]?.jobs ?? 0) + jobs };
    }
  } while (after !== undefined);
  return whole;
}

/** Step by step, until the server says that these were all. */
async function changeAll(verb: Verb, filter: Filter) {
  let [changed, refused] = [0, 0];
  let after: number | undefined;
  do {
    const body = { verb, filter: { ...filter, ...(after !== undefined && { after }) } };
    const { items, next } = await written(client.POST('/api/jobs/batch', { body }));
    changed += items.filter(({ ok }) => ok).length;
    refused += items.filter(({ ok }) => !ok).length;
    after = next ?? undefined;
  } while (after !== undefined);
  return { changed, refused };
}
