import type { ComponentChildren } from 'preact';
import { useId, useState } from 'preact/hooks';
import { readLocalTime } from '../../../system/base/local-time.ts';
import { ConfirmDialog } from '../components/dialog.tsx';
import { serverNow } from '../components/time.tsx';
import { tell } from '../components/toast.tsx';
import { client, viewerZone } from '../data.ts';
import { hrefOf } from '../router.ts';
import { Refused, written } from './act.ts';
import { session } from './session.ts';

const noValues = { name: '', data: '{}', runAt: '', priority: '', uniqueKey: '', repeat: '' };

type Values = Readonly<typeof noValues>;
type Problems = { readonly [Key in keyof Values]?: string | undefined };

const keys = Object.keys(noValues) as (keyof Values)[];

interface AddJobProps {
  /** Names of the handlers to choose from. */
  readonly names: readonly string[];
  readonly onClose: () => void;
}

/** A dialog that adds a job to the queue. The server's complaint about a value stands beside its field. */
export function AddJob({ names, onClose }: AddJobProps) {
  const [values, setValues] = useState<Values>(noValues);
  const [refused, setRefused] = useState<Problems>({});
  const problems: Problems = { ...refused, ...problemsOf(values) };
  const bind = (key: keyof Values) => ({
    value: values[key],
    problem: problems[key],
    onInput: (value: string) => {
      setValues({ ...values, [key]: value });
      setRefused({ ...refused, [key]: undefined });
    },
  });
  const add = async () => {
    try {
      await send(values);
    } catch (error) {
      const found = error instanceof Refused ? fieldsOf(error) : {};
      setRefused(found);
      if (Object.keys(found).length === 0) throw error;
      throw new Error('Not added. Correct the marked fields.');
    }
  };
  const isBlocked = values.name.trim() === '' || Object.values(problemsOf(values)).some(Boolean);
  const list = useId();
  return (
    <ConfirmDialog title="Add a job" action="Add job" isBlocked={isBlocked} onConfirm={add} onClose={onClose}>
      <FormField
        label="Name"
        hint="the path of its handler in jobs/queue/: mail/welcome"
        list={list}
        {...bind('name')}
      />
      <datalist id={list}>
        {names.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <FormField label="Data" hint="any JSON" isLong {...bind('data')} />
      <div class="fields">
        <FormField
          label="Run at"
          hint={`empty: now; or +10 minutes, 2026-12-24 18:00 (${viewerZone})`}
          {...bind('runAt')}
        />
        <FormField label="Priority" hint="empty: 500; higher ones run first" {...bind('priority')} />
        <FormField label="Unique key" hint="at most one unfinished job has it" {...bind('uniqueKey')} />
        <FormField
          label="Repeat"
          hint={`a rule: daily at 10:00 (${session.value?.zone ?? 'zone of the server'})`}
          {...bind('repeat')}
        />
      </div>
    </ConfirmDialog>
  );
}

/** Problems that show without asking the server. */
function problemsOf({ data, priority }: Values): Problems {
  const isNumber = /^\s*(?:-?\d+)?\s*$/.test(priority);
  return {
    ...(data.trim() === '' ? {} : problemOfJson(data)),
    ...(isNumber ? {} : { priority: 'A priority must be a whole number' }),
  };
}

function problemOfJson(text: string): Problems {
  try {
    JSON.parse(text);
    return {};
  } catch (error) {
    return { data: `This is not JSON yet: ${error instanceof Error ? error.message : error}` };
  }
}

function fieldsOf({ fields }: Refused): Problems {
  return Object.fromEntries(keys.filter((key) => key in fields).map((key) => [key, fields[key]]));
}

async function send({ name, data, priority, ...words }: Values): Promise<void> {
  const given = Object.entries(words).map(([key, value]) => [key, value.trim()]);
  const plain = {
    name: name.trim(),
    ...(priority.trim() === '' ? {} : { priority: Number(priority) }),
    ...Object.fromEntries(given.filter(([, value]) => value !== '')),
    ...(words.runAt.trim() === '' ? {} : { runAt: inViewersZone(words.runAt.trim()) }),
  };
  // The data goes as it was typed: parsed and written again, long numbers would lose digits.
  const text = data.trim() === '' ? JSON.stringify(plain) : `${JSON.stringify(plain).slice(0, -1)},"data":${data}}`;
  const { items } = await written(client.POST('/api/jobs', { body: plain, bodySerializer: () => text }));
  const [job] = items;
  if (job === undefined) return;
  const link = { href: hrefOf('/jobs', job.id), words: `Job ${job.id}` };
  if (job.added) tell(`${plain.name} is added:`, { link });
  else tell('Nothing was added, as an unfinished job already has that unique key:', { link });
}

/** The instant that a viewer means; what is none yet (`+10 minutes`) or is wrong, the server reads. */
function inViewersZone(text: string): string {
  const meant = readLocalTime(text, serverNow.peek(), 'future');
  return meant === null ? text : new Date(meant.startMs).toISOString();
}

interface FormFieldProps {
  readonly label: string;
  readonly hint: string;
  readonly value: string;
  readonly problem: string | undefined;
  readonly list?: string;
  readonly isLong?: boolean;
  readonly onInput: (value: string) => void;
}

/** A value under its name, and below it what it may be, or what is wrong with it. */
export function FormField({ label, hint, value, problem, list, isLong = false, onInput }: FormFieldProps) {
  const id = useId();
  const about = `${id}-about`;
  const common = {
    id,
    value,
    'aria-describedby': about,
    'aria-invalid': problem !== undefined,
    autocomplete: 'off',
    spellcheck: false,
  } as const;
  const control: ComponentChildren = isLong ? (
    <textarea {...common} rows={5} class="mono" onInput={({ currentTarget }) => onInput(currentTarget.value)} />
  ) : (
    <input
      {...common}
      type="text"
      {...(list && { list })}
      onInput={({ currentTarget }) => onInput(currentTarget.value)}
    />
  );
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {control}
      <p id={about} class={problem === undefined ? 'small quiet' : 'field-problem small'}>
        {problem ?? hint}
      </p>
    </div>
  );
}
