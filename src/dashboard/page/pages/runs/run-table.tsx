import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { countOf, formatBytes, formatDuration } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import { More } from '../../components/fields.tsx';
import { Empty, Notice } from '../../components/notice.tsx';
import { RunOutcome } from '../../components/state.tsx';
import { Table, type TableColumn } from '../../components/table.tsx';
import { Elapsed, Time } from '../../components/time.tsx';
import { client, useAnswer } from '../../data.ts';
import { hrefOf } from '../../router.ts';
import { CUT } from '../../source/embedded.ts';

export type Run = components['schemas']['ToldRun'];

/** With the runs beside it. */
export type OneRun = components['schemas']['OneRun'];

/** Which runs; what is left out is of any kind. */
export interface RunQuery {
  readonly script?: string;
  readonly outcome?: string;
  readonly since?: string;
  readonly limit?: number;
}

interface FoundRuns {
  /** Newest first; null: not known yet. */
  readonly runs: readonly Run[] | null;
  readonly problem: string | null;
  /** Null: no more can be had. */
  readonly more: (() => void) | null;
  /** A report does not hold the rest. */
  readonly isCut: boolean;
}

interface Further {
  readonly key: string;
  readonly runs: readonly Run[];
  /** Where they go on; undefined: nobody has asked for more. */
  readonly next?: string | null;
}

/** The newest runs, again after each change, and older ones as they are asked for. */
export function useRuns(query: RunQuery): FoundRuns {
  const key = JSON.stringify(query);
  const asked = useAnswer('/api/runs', { params: { query: query as never } });
  const { problem } = asked;
  const data = useNewest(key, asked.data);
  const [further, setFurther] = useState<Further>({ key, runs: [] });
  const [failure, setFailure] = useState<string | null>(null);
  const isOf = further.key === key;
  useEffect(() => {
    // What was on the first page stays, though newer runs push it off.
    if (data !== null)
      setFurther((last) => ({
        ...(last.key === key ? last : { key }),
        runs: join(last.key === key ? last.runs : [], data.items),
      }));
  }, [data, key]);
  const next = isOf && further.next !== undefined ? further.next : (data?.next ?? null);
  const more = async () => {
    const asked = await client.GET('/api/runs', { params: { query: { ...query, cursor: next } as never } });
    if (asked.data === undefined) return setFailure('Older runs could not be read.');
    const { items, next: after } = asked.data;
    setFailure(null);
    setFurther((last) => (last.key === key ? { key, runs: join(last.runs, items), next: after } : last));
  };
  const runs = useMemo(() => (data === null ? null : join(isOf ? further.runs : [], data.items)), [data, further]);
  const refused = () => setFailure('The server cannot be reached.');
  const isCut = next === CUT;
  const isThereMore = next !== null && !isCut;
  return { runs, problem: problem ?? failure, more: isThereMore ? () => void more().catch(refused) : null, isCut };
}

/** An answer stays until there is a newer one: to another question it is none. */
function useNewest<Body>(key: string, data: Body | null): Body | null {
  const last = useRef<{ readonly key: string; readonly old: Body | null }>({ key, old: null });
  if (last.current.key !== key) last.current = { key, old: data };
  return data === last.current.old ? null : data;
}

/** Newer answers count; newest first. */
function join(known: readonly Run[], found: readonly Run[]): Run[] {
  const all = new Map([...known, ...found].map((run) => [run.id, run]));
  return [...all.values()].sort((one, other) => timeOf(other) - timeOf(one) || other.id - one.id);
}

interface RunsProps {
  readonly query: RunQuery;
  /** All are of one script, which need not be named. */
  readonly isOfOne?: boolean;
}

/** Runs as a table, with a way to older ones. */
export function Runs({ query, isOfOne = false }: RunsProps) {
  const { runs, problem, more, isCut } = useRuns(query);
  const shown = isOfOne ? columns.filter(({ title }) => title !== 'Script') : columns;
  return (
    <>
      {problem !== null && <Notice tone="bad" title={problem} />}
      {runs !== null && runs.length === 0 && (
        <Empty
          title={isCut ? 'This report holds no such runs; the command line shows all.' : 'There are no such runs.'}
        />
      )}
      {runs !== null && runs.length > 0 && (
        <>
          <Table caption="Runs, the newest first" columns={shown} rows={runs} keyOf={({ id }) => id} below={noteOf} />
          <More shown={countOf(runs.length, 'run')} onMore={more} isCut={isCut} />
        </>
      )}
    </>
  );
}

const columns: readonly TableColumn<Run>[] = [
  {
    title: 'Run',
    cell: ({ id }) => <a href={hrefOf('/runs', id)}>Run {id}</a>,
    sortBy: ({ id }) => id,
    onPhone: 'title',
  },
  {
    title: 'Script',
    isName: true,
    cell: ({ script }) => (
      <a href={hrefOf('/scripts', script)}>
        <bdi>{script}</bdi>
      </a>
    ),
    sortBy: ({ script }) => script,
    onPhone: 'wide',
  },
  {
    title: 'Outcome',
    cell: (run) => (
      <>
        <RunOutcome run={run} /> {run.attempt > 1 && <span class="quiet small">try {run.attempt}</span>}
      </>
    ),
    sortBy: ({ outcome }) => outcome,
  },
  { title: 'Started', cell: ({ startedAt }) => <Time at={startedAt} />, sortBy: ({ startedAt }) => startedAt },
  {
    title: 'Duration',
    cell: (run) => (run.outcome === 'running' ? <Elapsed since={run.startedAt} /> : formatDuration(run.durationMs)),
    sortBy: ({ durationMs }) => durationMs,
    isNumber: true,
  },
  { title: 'CPU', rank: 3, cell: (run) => formatDuration(cpuOf(run)), sortBy: cpuOf, isNumber: true },
  {
    title: 'Memory',
    rank: 3,
    cell: ({ maxRssBytes }) => formatBytes(maxRssBytes),
    sortBy: ({ maxRssBytes }) => maxRssBytes,
    isNumber: true,
  },
  {
    title: 'Output',
    rank: 2,
    cell: ({ outputBytes }) => formatBytes(outputBytes),
    sortBy: ({ outputBytes }) => outputBytes,
    isNumber: true,
    onPhone: 'none',
  },
];

/** User and system time together; null: neither is known. */
export function cpuOf({ userCpuMs, systemCpuMs }: Run): number | null {
  return userCpuMs === null && systemCpuMs === null ? null : (userCpuMs ?? 0) + (systemCpuMs ?? 0);
}

/** Why it failed, or in what it was unusual. */
function noteOf({ summary, unusual, warning }: Run) {
  const notes = [summary, ...unusual, warning].filter((note): note is string => Boolean(note));
  return notes.length === 0 ? null : <span class="run-note">{notes.join(' · ')}</span>;
}

function timeOf({ startedAt }: Run): number {
  return Date.parse(startedAt ?? '') || 0;
}
