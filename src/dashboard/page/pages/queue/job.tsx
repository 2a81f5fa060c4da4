import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { ExactJson, indentExactly, memberOf, parseExactly } from '../../../../system/base/exact-json.ts';
import { countOf, formatDuration } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import { Answered, Facts, Page, Section } from '../../components/page.tsx';
import { State } from '../../components/state.tsx';
import { figureColumn, Table, type TableColumn } from '../../components/table.tsx';
import { JobLink, Name, RunLink, Words } from '../../components/text.tsx';
import { Countdown, serverNow, Time, Until } from '../../components/time.tsx';
import { type Asked, useQuery } from '../../data.ts';
import { pausedWords } from '../../manage/pause.tsx';
import { may } from '../../manage/session.ts';
import { hrefOf } from '../../router.ts';
import { Happenings } from '../activity.tsx';
import { describeTries, ShownJobState } from './job-words.tsx';
import { JobVerbs } from './verbs.tsx';

type Story = components['schemas']['JobStory'];

/** One job of the queue: how it stands and why, what it was given, what it has given, and its life so far. */
export function OneJob({ item }: { readonly item: string }) {
  const id = Number(item);
  // As text, which is exact: numbers of JavaScript have no more than 15 digits.
  const asked = useQuery('/api/jobs/{id}', { params: { path: { id } }, parseAs: 'text' } as never);
  const text = asked as unknown as Asked<string>;
  return text.data === null ? (
    <Page title={`Job ${item}`}>
      <Answered asked={text}>{() => null}</Answered>
    </Page>
  ) : (
    <Whole text={text.data} problem={text.problem} />
  );
}

function Whole({ text, problem }: { readonly text: string; readonly problem: string | null }) {
  const job: Story = JSON.parse(text);
  const exact = parseExactly(text) ?? new ExactJson('{}');
  const result = memberOf(exact, 'result');
  const leave = (verb: string) => {
    if (verb === 'delete') location.hash = hrefOf('/queue');
  };
  const aside = (
    <>
      <ShownJobState job={job} nowMs={serverNow.value} />
      {may('run') && <JobVerbs jobs={[job]} onDone={leave} />}
    </>
  );
  return (
    <Page title={`Job ${job.id} ${job.name}`} aside={aside}>
      <Answered asked={{ data: job, problem }}>
        {() => (
          <>
            {job.reason !== null && (
              <p class="lead">
                <Words text={job.reason} />
              </p>
            )}
            <JobFacts job={job} />
            <Section title="Data">
              <ExactText json={memberOf(exact, 'data') ?? new ExactJson('null')} label="Data as JSON" />
            </Section>
            {result !== undefined && result.text !== 'null' && (
              <Section title="Result">
                <ExactText json={result} label="Result as JSON" />
              </Section>
            )}
            <Family job={job} />
            <RunsOfJob runs={job.runs} />
            <Section title="Its life">
              {/* Oldest first, as one tells a story. */}
              <Happenings items={job.activity} isOfOne />
            </Section>
          </>
        )}
      </Answered>
    </Page>
  );
}

function JobFacts({ job }: { readonly job: Story }) {
  const isWaiting = job.state === 'queued' || job.state === 'retrying';
  return (
    <div class="card">
      <Facts
        facts={[
          ['added', <Time at={job.createdAt} />],
          [isWaiting ? 'due' : 'was due', <Time at={job.runAt} />],
          ['paused', job.pause && <HeldBy pause={job.pause} />],
          ['scheduled for', job.scheduledFor && <Time at={job.scheduledFor} />],
          ['last try began', job.startedAt && <Time at={job.startedAt} />],
          ['ended', job.finishedAt && <Time at={job.finishedAt} />],
          ['claim expires', job.leasedUntil && <Countdown until={job.leasedUntil} />],
          ['tries', describeTries(job)],
          ['priority', job.priority],
          ['repeats', job.repeat && <RepeatRule job={job} />],
          ['unique key', job.uniqueKey && <Name text={job.uniqueKey} />],
          ['group', job.group && <Name text={job.group} />],
          ['lease', job.leaseMs && formatDuration(job.leaseMs)],
          ['so far', describeCounters(job.counters)],
        ]}
      />
    </div>
  );
}

function HeldBy({ pause: { name, kind, until } }: { readonly pause: NonNullable<Story['pause']> }) {
  return (
    <>
      {kind === 'pause' ? '' : 'fails once it is due, as '}
      {pausedWords(name)} <Until at={until} forever="it is resumed" />
    </>
  );
}

/** The rule, and the next times that it gives. */
function RepeatRule({ job }: { readonly job: Story }) {
  const { next } = job;
  return (
    <>
      <Name text={job.repeat ?? ''} /> · missed times: {job.missed}
      {next.length > 0 && (
        <ol class="next-times">
          {next.map(({ at, isExpected }) => (
            <li key={at}>
              {isExpected && '~ '}
              <Time at={at} />
            </li>
          ))}
        </ol>
      )}
    </>
  );
}

const counterWords: Readonly<Record<keyof Story['counters'], readonly [one: string, many?: string]>> = {
  reserves: ['claim'],
  timeouts: ['expired lease'],
  releases: ['release'],
  buries: ['burial'],
  kicks: ['time run now', 'times run now'],
  crashes: ['crash', 'crashes'],
};

function describeCounters(counters: Story['counters']): string | null {
  const keys = Object.keys(counterWords) as (keyof Story['counters'])[];
  const told = keys.filter((key) => counters[key] > 0);
  return told.map((key) => countOf(counters[key], ...counterWords[key])).join(' · ') || null;
}

/** Its parent, and its children. */
function Family({ job: { parent, children } }: { readonly job: Story }) {
  if (parent === null && children.length === 0) return null;
  return (
    <Section title={parent === null ? 'Children' : 'Parent'}>
      {parent !== null && <JobLink id={parent} />}
      <ul class="children">
        {children.map(({ id, name, state }) => (
          <li key={id}>
            <State state={state} /> <JobLink id={id} /> <Name text={name} />
          </li>
        ))}
      </ul>
    </Section>
  );
}

const runColumns: readonly TableColumn<Story['runs'][number]>[] = [
  { title: 'Run', isShort: true, cell: ({ id }) => <RunLink id={id} />, onPhone: 'title' },
  { title: 'Try', cell: ({ attempt }) => attempt, isNumber: true },
  { title: 'Outcome', cell: ({ outcome }) => <State state={outcome} /> },
  { title: 'Started', cell: ({ startedAt }) => <Time at={startedAt} /> },
  figureColumn('Duration', ({ durationMs }) => durationMs, formatDuration),
];

function RunsOfJob({ runs }: { readonly runs: Story['runs'] }) {
  if (runs.length === 0) return null;
  const reasonOf = ({ reason }: Story['runs'][number]) =>
    reason && (
      <span class="small quiet">
        <Words text={reason} />
      </span>
    );
  return (
    <Section title="Runs">
      <Table
        caption="Its runs, the newest first"
        columns={runColumns}
        rows={runs}
        keyOf={({ id }) => id}
        below={reasonOf}
      />
    </Section>
  );
}

/** Words and signs of JSON that is indented. A lookahead behind a text would try each way to split it. */
const parts = /(?<text>"(?:[^"\\]+|\\.)*")|(?<sign>[[\]{},:\s]+)|[^"[\]{},:\s]+/g;

function kindOf({ 0: piece, index, groups }: RegExpExecArray, text: string): 'key' | 'text' | 'sign' | 'number' {
  if (groups?.text === undefined) return groups?.sign === undefined ? 'number' : 'sign';
  return text[index + piece.length] === ':' ? 'key' : 'text';
}

/** Limits up to which a browser stays fast. */
const MOST_LETTERS = 100_000;
const MOST_PIECES = 5_000;

/** So deep a line is indented; JSON may be 1 MiB of brackets. */
const DEEPEST = 40;

/** JSON for people, exactly as it is in the log. A long text is shown whole on request. */
function ExactText({ json, label }: { readonly json: ExactJson; readonly label: string }): VNode {
  const [isWhole, setWhole] = useState(false);
  const { text } = json;
  const isLong = text.length > MOST_LETTERS;
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard has to reach it */}
      <section class="json" tabIndex={0} aria-label={label}>
        <pre>
          {isLong && !isWhole ? (
            `${text.slice(0, MOST_LETTERS)}…`
          ) : (
            <Coloured text={indentExactly(json, '', DEEPEST)} />
          )}
        </pre>
      </section>
      {isLong && !isWhole && (
        <button type="button" onClick={() => setWhole(true)}>
          Show all {Math.ceil(text.length / 1024).toLocaleString('en')} KB
        </button>
      )}
    </>
  );
}

function Coloured({ text }: { readonly text: string }) {
  const pieces = [...text.matchAll(parts)];
  if (pieces.length > MOST_PIECES) return <>{text}</>;
  return (
    <>
      {pieces.map((piece) => (
        <span key={piece.index} class={kindOf(piece, text)}>
          {piece[0]}
        </span>
      ))}
    </>
  );
}
