import { useState } from 'preact/hooks';
import { countOf, formatCount, formatDuration } from '../../../../system/base/format.ts';
import { describeComing, describeLinks, lateWords, namesInPass } from '../../../../system/base/wait-words.ts';
import { ChoiceButtons, More } from '../../components/fields.tsx';
import { Answered, Empty, Facts, Notice, Page, Section } from '../../components/page.tsx';
import { State } from '../../components/state.tsx';
import { Table, type TableColumn } from '../../components/table.tsx';
import { Name, ScriptLink, Words } from '../../components/text.tsx';
import { Countdown, Time } from '../../components/time.tsx';
import { isStatic, useQuery } from '../../data.ts';
import { place, setQuery } from '../../router.ts';
import { hrefOfItem, type Item, ItemName, type NextAnswer } from './item.tsx';
import { Timeline } from './timeline.tsx';

type Late = NextAnswer['late'][number];

/** How far to look ahead; a report holds these. */
const spans = { '1h': 'Hour', '6h': '6 hours', '24h': 'Day', '7d': 'Week' } as const;

type Span = keyof typeof spans;

/** As many as a report holds. */
const MOST_ITEMS = 1000;

/** The page of coming runs, with those that did not come. */
export function NextPage() {
  const asked = place.value.query.for;
  const span: Span = asked !== undefined && asked in spans ? (asked as Span) : '24h';
  const next = useQuery('/api/next', { params: { query: { for: span, limit: MOST_ITEMS } } });
  const choose = (chosen: Span) => setQuery({ for: chosen });
  return (
    <Page title="Next" aside={<ChoiceButtons label="How far ahead" options={spans} chosen={span} onChoose={choose} />}>
      <Answered asked={next}>
        {(data) => (
          <>
            <Doubts {...data} />
            <DidNotCome late={data.late} />
            <Section title="What comes">
              <Coming {...data} />
            </Section>
            <Waiting waiting={data.waiting} />
            <Held {...data} />
          </>
        )}
      </Answered>
    </Page>
  );
}

/** Why the rest may not be the whole truth. */
function Doubts({ settingsProblem, isLogUnread, isCrontabUnread }: NextAnswer) {
  return (
    <>
      {settingsProblem !== null && (
        <Notice tone="bad" title="No call starts anything until the settings are fixed">
          <p>
            <Words text={settingsProblem} />
          </p>
        </Notice>
      )}
      {isLogUnread && (
        <Notice tone="bad" title="The log cannot be read">
          <p>Jobs of the queue, and tries that wait, are unknown.</p>
        </Notice>
      )}
      {isCrontabUnread && (
        <Notice tone="warning" title="The crontab cannot be read">
          <p>Calls of tiers are estimated from earlier ones.</p>
        </Notice>
      )}
    </>
  );
}

function DidNotCome({ late }: Pick<NextAnswer, 'late'>) {
  if (late.length === 0) return null;
  const hasNoLine = late.some(({ code }) => code === 'no-line');
  const isNotCalled = late.some(({ code }) => code === 'not-called');
  return (
    <Section title="Did not come">
      <Table
        caption="What should have run by now"
        columns={lateColumns}
        rows={late}
        keyOf={({ kind, name, code }) => `${kind} ${name} ${code}`}
      />
      {hasNoLine && (
        <p class="quiet small">
          <Words text="`npx folder-runner cron --install` writes a crontab line for each tier." />
        </p>
      )}
      {isNotCalled && (
        <p class="quiet small">
          <Words text="`npx folder-runner doctor` checks why cron does not call." />
        </p>
      )}
    </Section>
  );
}

const lateColumns: readonly TableColumn<Late>[] = [
  {
    ...{ title: 'Name', isName: true, onPhone: 'title' },
    cell: (late) => (
      <>
        <a href={hrefOfItem(late)}>
          <Name text={late.name} />
        </a>
        {late.count !== null && <span class="quiet small period">{countOf(late.count, 'job')}</span>}
      </>
    ),
  },
  {
    title: 'Why',
    cell: ({ code }) => <State state={code === 'paused' ? 'paused' : 'overdue'} word={lateWords[code]} />,
  },
  { title: 'Due since', cell: ({ since }) => since !== null && <Time at={since} /> },
  { title: 'Next pass', cell: ({ expected }) => expected !== null && <Time at={expected} as="short" /> },
];

/** As many rows are read at once. */
const PAGE = 50;

function Coming(next: NextAnswer) {
  const { items, more, completeUntil, until, passes, late } = next;
  const [count, setCount] = useState(PAGE);
  if (items.length === 0) {
    return (
      <Empty title="Nothing is expected in this time.">
        {passes.length === 0 && <p>There is no tier in jobs/, and no job waits in the queue.</p>}
        {passes.length > 0 && late.some(({ code }) => code === 'no-line') && <p>Cron does not call every tier.</p>}
      </Empty>
    );
  }
  return (
    <>
      <Timeline next={next} />
      <Table
        caption="What comes, in the order of time"
        columns={columnsOf(next)}
        rows={items}
        keyOf={keyOfItem}
        most={count}
      />
      <More
        shown={count < items.length ? `${formatCount(count)} of ${countOf(items.length, 'entry', 'entries')}` : ''}
        onMore={count < items.length ? () => setCount(count + PAGE) : null}
      />
      {completeUntil !== until && (
        <p class="quiet small">
          {more > 0 ? `${formatCount(more)} more` : 'More'} from <Time at={completeUntil} as="short" /> on; a shorter
          time shows all
        </p>
      )}
    </>
  );
}

function keyOfItem({ at, kind, name, reason, job }: Item): string {
  return `${at} ${kind} ${name} ${reason} ${job}`;
}

function columnsOf({ passes }: NextAnswer): readonly TableColumn<Item>[] {
  const scriptsOf = new Map(passes.map((pass) => [pass.tier, namesInPass(pass)]));
  return [
    {
      ...{ title: 'What', isName: true, onPhone: 'title' },
      cell: (item) => (
        <a href={hrefOfItem(item)}>
          <ItemName {...item} />
        </a>
      ),
    },
    {
      title: 'When',
      cell: ({ at }) => (
        <span class="stack">
          <Time at={at} as="short" />
          {!isStatic && (
            <span class="quiet small">
              <Countdown until={at} />
            </span>
          )}
        </span>
      ),
    },
    { title: 'Why', cell: (item) => <Why item={item} scripts={scriptsOf.get(item.name) ?? []} /> },
    { title: 'Usually', isNumber: true, cell: ({ usualMs }) => formatDuration(usualMs) },
    { ...{ title: 'Ends', rank: 2 }, cell: ({ end }) => end !== null && <Time at={end} as="short" /> },
  ];
}

/** More names are in the tooltip. */
const MOST_NAMES = 3;

function Why({ item, scripts }: { readonly item: Item; readonly scripts: readonly string[] }) {
  const { kind, due, at, isPaused, links } = item;
  const rest = scripts.length > MOST_NAMES ? ', …' : '';
  return (
    <span class="stack">
      {isPaused && <State state="paused" />}
      {kind === 'tier' ? (
        <span title={scripts.join(', ')}>
          {countOf(scripts.length, 'script')}: <Name text={scripts.slice(0, MOST_NAMES).join(', ') + rest} />
        </span>
      ) : (
        <Name text={describeComing(item, describeLinks(links)).join(' · ')} />
      )}
      {due !== null && due !== at && (
        <span class="quiet small">
          due <Time at={due} as="short" />
        </span>
      )}
    </span>
  );
}

/** Queued scripts that wait, for longer than is shown, or nobody knows how long. */
function Waiting({ waiting }: Pick<NextAnswer, 'waiting'>) {
  if (waiting.length === 0) return null;
  return (
    <Section title="Waiting">
      <Table
        caption="What is queued, and waits"
        columns={waitingColumns}
        rows={waiting}
        keyOf={({ script }) => script}
      />
    </Section>
  );
}

const waitingColumns: readonly TableColumn<NextAnswer['waiting'][number]>[] = [
  { ...{ title: 'Name', isName: true, onPhone: 'title' }, cell: ({ script }) => <ScriptLink name={script} /> },
  { title: 'Why', cell: ({ reason }) => <Words text={reason} /> },
  { title: 'Queued since', cell: ({ since }) => <Time at={since} /> },
];

/** Scripts that are there and do not run. */
function Held({ afterBoot, disabled, refused, pauses }: NextAnswer) {
  const names = (list: readonly string[]) => (list.length === 0 ? null : <Name text={list.join(', ')} />);
  const paused = pauses.map(({ name }) => (name === '*' ? 'everything' : name));
  if (afterBoot.length + disabled.length + refused.length + paused.length === 0) return null;
  return (
    <Section title="Not by the clock">
      <Facts
        facts={[
          ['After the next boot', names(afterBoot)],
          ['Paused now', names(paused)],
          ['Disabled', names(disabled)],
          ['Refused', names(refused)],
        ]}
      />
    </Section>
  );
}
