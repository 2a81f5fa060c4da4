import { computed, signal } from '@preact/signals';
import { options } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Choice } from '../components/fields.tsx';
import { Empty, Notice, Page } from '../components/page.tsx';
import { Icon, State } from '../components/state.tsx';
import { Name } from '../components/text.tsx';
import { serverNow, Time } from '../components/time.tsx';
import { Toasts } from '../components/toast.tsx';
import { client, connection, isStatic, viewerZone } from '../data.ts';
import { attempt, written } from '../manage/act.ts';
import { isWall, may, session } from '../manage/session.ts';
import { pages } from '../pages/pages.ts';
import { hrefOf, place } from '../router.ts';
import { siteStatus, useSiteStatus } from '../site-status.ts';
import { report } from '../source/embedded.ts';
import { Keys, KeysSwitch } from './keys.tsx';
import { isLoginNeeded, Login } from './login.tsx';
import { type Scheme, scheme } from './preferences.ts';
import { SiteSearch } from './search.tsx';

const { vnode: made } = options;

/** A viewer who may see the overview alone gets links without an address, which are plain text. */
options.vnode = (node) => {
  if (isWall.peek() && node.type === 'a') node.props = { ...node.props, href: undefined } as typeof node.props;
  made?.(node);
};

/** The frame of each page: links to the others, connection, viewer, light or dark. */
export function PageFrame() {
  const { path, item } = isWall.value ? { path: '/', item: null } : place.value;
  const hasPages = !isLoginNeeded.value && !isWall.value;
  return (
    <>
      <button type="button" class="skip hidden" onClick={skip}>
        Skip to the content
      </button>
      <div class={isWall.value ? 'frame wall' : 'frame'}>
        <header class="top">
          <a class="brand" href={hrefOf('/')}>
            runner
          </a>
          {!isLoginNeeded.value && <SiteName />}
          {hasPages && !isStatic && <SiteSearch />}
          {!isLoginNeeded.value && <ConnectionBadge />}
          {!isLoginNeeded.value && <Viewer />}
          {!isWall.value && <SchemeChoice />}
          {hasPages && <KeysSwitch />}
        </header>
        {hasPages ? <Navigation current={path} /> : <div />}
        <main id="content" tabIndex={-1}>
          <Offline />
          <LateReport />
          {isLoginNeeded.value ? <Login /> : <Content key={`${path}/${item ?? ''}`} path={path} item={item} />}
          <Zones />
        </main>
      </div>
      {hasPages && <Keys />}
      <Toasts />
    </>
  );
}

/** Which of a viewer's sites it is. */
function SiteName() {
  useSiteStatus();
  const { data } = siteStatus.value;
  return <span class="site-name">{data !== null && <Name text={data.site} />}</span>;
}

/** By which clocks the page tells its times. */
function Zones() {
  const zone = session.value?.zone;
  if (!isStatic && zone === undefined) return null;
  const others = isStatic ? 'times within sentences and rules are the server’s' : `rules go by the server’s, ${zone}`;
  return (
    <p class="zones quiet small">
      Times in {viewerZone}
      {zone === viewerZone ? '' : `; ${others}`}.
    </p>
  );
}

/** No link, as the address after `#` is that of the page. */
function skip(): void {
  document.getElementById('content')?.focus();
}

function Content({ path, item }: { readonly path: string; readonly item: string | null }) {
  const entry = pages.find((each) => each.path === path);
  if (item === null && entry?.View) return <entry.View />;
  if (item !== null && entry?.OneView) return <entry.OneView item={item} />;
  return (
    <Page title="There is no such page">
      <Empty title="The address leads nowhere.">
        <p>
          <a href={hrefOf('/')}>To the overview</a>
        </p>
      </Empty>
    </Page>
  );
}

/** As many as fit beside "More" at the foot of a phone. */
const AT_HAND = 4;

function Navigation({ current }: { readonly current: string }) {
  const [isOpen, setIsOpen] = useState(false);
  useEffect(() => setIsOpen(false), [place.value]);
  const shown = pages.flatMap(({ path, navigation }) => (navigation ? { path, ...navigation } : []));
  return (
    <nav class="navigation" aria-label="Pages" data-open={isOpen}>
      <ul>
        {shown.map(({ path, words, icon }, index) => (
          <li key={path} class={index < AT_HAND ? '' : 'further'}>
            <a href={hrefOf(path)} aria-current={path === current ? 'page' : undefined}>
              <Icon name={icon} />
              {words}
            </a>
          </li>
        ))}
        {shown.length > AT_HAND && (
          <li class="open-more">
            <button type="button" aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
              <Icon name="more" />
              {isOpen ? 'Less' : 'More'}
            </button>
          </li>
        )}
      </ul>
    </nav>
  );
}

const schemeWords = [
  ['auto', 'Auto'],
  ['light', 'Light'],
  ['dark', 'Dark'],
] as const satisfies readonly (readonly [Scheme, string])[];

function SchemeChoice() {
  const choose = (chosen: Scheme) => {
    scheme.value = chosen;
  };
  return <Choice label="Colours" value={scheme.value} options={schemeWords} onChange={choose} isBare />;
}

/** When the server was last known to be there. */
const heardAt = signal(Date.now());
let isOnline = true;
connection.subscribe((state) => {
  // Reconnecting becomes offline without a word of the server between.
  if (isOnline && state !== 'online') heardAt.value = serverNow.peek();
  isOnline = state === 'online';
});

const liveness = {
  online: ['live', 'good'],
  reconnecting: ['reconnecting', 'warning'],
  offline: ['offline', 'bad'],
} as const;

/** Whether what is shown is live. */
function ConnectionBadge() {
  if (isStatic) return <ReportBadge />;
  const [state, tone] = liveness[connection.value];
  return (
    <span role="status">
      <State state={state} tone={tone} />
    </span>
  );
}

function ReportBadge() {
  if (report.value === null) return null;
  const { madeAt, runsSince } = report.value;
  return (
    <span class="states">
      <State state="report" tone={isReportLate.value ? 'bad' : 'ended'} word="report" />
      <span class="quiet small">
        of <Time at={madeAt} as="minute" />, <Time at={madeAt} as="relative" />
        {runsSince !== null && (
          <>
            , runs from <Time at={runsSince} as="short" /> on
          </>
        )}
      </span>
    </span>
  );
}

/** Whether a pass should have replaced this report: on a host whose cron has died, it would stay green for ever. */
const isReportLate = computed(() => {
  const dueAt = report.value?.dueAt ?? null;
  return dueAt !== null && serverNow.value > Date.parse(dueAt);
});

/** Above each page of a report that a pass should have replaced. */
function LateReport() {
  if (!isReportLate.value || report.value === null) return null;
  const { madeAt, dueAt } = report.value;
  return (
    <Notice tone="bad" title="Nobody knows how things stand: this report is old">
      <p>
        It was written <Time at={madeAt} />, and a pass should have replaced it by <Time at={dueAt} as="minute" />. Cron
        may not call the runner any more: <code>npx folder-runner doctor</code> on the host tells why.
      </p>
    </Notice>
  );
}

/** Above each page, while nothing new is heard. */
function Offline() {
  if (isStatic || connection.value !== 'offline') return null;
  return (
    <Notice tone="warning" title="No connection to the server">
      <p>
        You see how things stood <Time at={new Date(heardAt.value).toISOString()} />. The page goes on by itself as soon
        as the server answers. If it has ended, start it again, and open the address that it prints.
      </p>
    </Notice>
  );
}

/** The viewer's name and permission, and a way to log out. */
function Viewer() {
  const viewer = session.value;
  if (viewer === null) return null;
  return (
    <span class="states">
      <span class="quiet small">
        <Name text={viewer.name} />
        {!may('run') && ', may only look'}
      </span>
      {viewer.expiresAt !== null && (
        <button type="button" onClick={logOut}>
          Log out
        </button>
      )}
    </span>
  );
}

async function logOut(): Promise<void> {
  await attempt(async () => {
    await written(client.DELETE('/api/session'));
    location.reload();
  });
}
