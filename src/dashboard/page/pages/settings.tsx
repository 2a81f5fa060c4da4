import type { ComponentChildren } from 'preact';
import { countOf, formatBytes, formatDuration } from '../../../system/base/format.ts';
import type { components } from '../../client/paths.ts';
import { Answered, FigureItem, FigureList, Notice, Page, Section } from '../components/page.tsx';
import { Table, type TableColumn } from '../components/table.tsx';
import { Name } from '../components/text.tsx';
import { useQuery } from '../data.ts';

type Answer = components['schemas']['Settings'];

/** Settings in force, with their defaults and sources; on top, the problem with them, if any. */
export function SettingsPage() {
  const asked = useQuery('/api/settings', {});
  return (
    <Page title="Settings">
      <Answered asked={asked}>
        {(answer) => (
          <>
            {answer.problem !== null && (
              <Notice tone="bad" title="The settings are wrong: nothing is started until this is fixed">
                <pre>{answer.problem}</pre>
              </Notice>
            )}
            <div class="card">
              <FigureList>
                <FigureItem label="root">
                  <Name text={answer.root} />
                </FigureItem>
                <FigureItem label="settings file">{answer.file ?? 'none'}</FigureItem>
                <FigureItem label="time zone of the server">{answer.zone}</FigureItem>
                <FigureItem label="runner">{answer.version}</FigureItem>
                <FigureItem label="Node">{answer.nodeVersion}</FigureItem>
              </FigureList>
            </div>
            {groupsOf(answer).map(({ title, rows }) => (
              <Section key={title} title={title}>
                <Table caption={title} columns={columns} rows={rows} keyOf={({ name }) => name} />
              </Section>
            ))}
            <p class="quiet small">
              Values of variables, addresses of channels and of pings are left out: they may be secrets.
            </p>
          </>
        )}
      </Answered>
    </Page>
  );
}

interface Setting {
  /** As the settings file has it: `queue.lease`. */
  readonly name: string;
  readonly value: ComponentChildren;
  /** The default, and who says otherwise; null: it is the default. */
  readonly change: { readonly from: string; readonly standard: string } | null;
}

const columns: readonly TableColumn<Setting>[] = [
  { title: 'Setting', cell: ({ name }) => <code>{name}</code>, onPhone: 'title' },
  { title: 'Value', cell: ({ value, change }) => (change === null ? value : <strong>{value}</strong>) },
  {
    title: 'From',
    cell: ({ change }) =>
      change === null ? (
        <span class="quiet">default</span>
      ) : (
        <>
          <strong>{change.from}</strong>
          {change.standard !== '' && <span class="quiet small"> instead of {change.standard}</span>}
        </>
      ),
  },
];

interface Group {
  readonly title: string;
  readonly rows: readonly Setting[];
}

/** Shows the set values of groups that scripts share, and all values of other groups. */
function groupsOf({ settings, standard, changed }: Answer): Group[] {
  const from = new Map(changed.map(({ path, from }) => [JSON.stringify(path), from]));
  const rowsOf = (value: unknown, standardValue: unknown, path: readonly string[]): Setting[] => {
    if (isGroup(value)) {
      const others = isGroup(standardValue) ? standardValue : {};
      return Object.entries(value).flatMap(([key, each]) => rowsOf(each, others[key], [...path, key]));
    }
    const source = from.get(JSON.stringify(path));
    const key = path.at(-1) ?? '';
    return [
      {
        name: path.map((part) => part.replace(/(?:Ms|Bytes)$/, '')).join('.'),
        value: describeValue(key, value),
        change: source === undefined ? null : { from: source, standard: describeValue(key, standardValue) },
      },
    ];
  };
  const all = Object.entries(settings).map(([key, value]) => {
    const found = rowsOf(value, (standard as Readonly<Record<string, unknown>>)[key], [key]);
    return { key, rows: found.filter(({ name, change }) => change !== null || !/\.isPinged$/.test(name)) };
  });
  const own = all.filter(({ key }) => !isGroup((settings as Readonly<Record<string, unknown>>)[key]));
  const groups = all.filter(({ key, rows }) => !own.some((each) => each.key === key) && rows.length > 0);
  const set = all.flatMap(({ rows }) => rows.filter(({ change }) => change !== null));
  return [
    ...(set.length === 0 ? [] : [{ title: 'Set here', rows: set }]),
    ...groups.map(({ key, rows }) => ({ title: titles[key] ?? key, rows })),
    { title: 'Others', rows: own.flatMap(({ rows }) => rows) },
  ];
}

const titles: Readonly<Record<string, string>> = {
  defaults: 'Every script',
  tiers: 'Tiers',
  scripts: 'Scripts by name',
  retention: 'How long runs are kept',
  limits: 'Limits of this machine',
  queue: 'Queue',
  workers: 'Workers',
  alerts: 'Alerts',
  checks: 'Health checks',
  report: 'Report',
  web: 'Dashboard',
};

function isGroup(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function describeValue(key: string, value: unknown): string {
  if (value === undefined) return '';
  if (value === null) return 'not set';
  if (typeof value === 'number' && key.endsWith('Ms')) return formatDuration(value);
  if (typeof value === 'number' && key.endsWith('Bytes')) return formatBytes(value);
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (!Array.isArray(value)) return String(value);
  if (value.length === 0) return 'none';
  return value.every((each) => typeof each === 'string') ? value.join(', ') : value.map(describeChannel).join('; ');
}

function describeChannel(channel: components['schemas']['Channel']): string {
  const { name, preset, severity, tags } = channel;
  const what = preset === null ? channel.kind : preset;
  const only = [severity, tags.length > 0 ? countOf(tags.length, 'tag') : null].filter(Boolean).join(', ');
  return `${name} (${what}${only === '' ? '' : `, ${only}`})`;
}
