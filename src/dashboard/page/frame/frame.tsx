import { useEffect, useState } from 'preact/hooks';
import { Choice } from '../components/fields.tsx';
import { Icon } from '../components/icon.tsx';
import { Empty } from '../components/notice.tsx';
import { Page } from '../components/page.tsx';
import { Toasts } from '../components/toast.tsx';
import { isStatic, viewerZone } from '../data.ts';
import { session } from '../manage/session.ts';
import { type PageEntry, pages } from '../pages/pages.ts';
import { hrefOf, place } from '../router.ts';
import { ConnectionBadge, LateReport, Offline, Viewer } from './connection-badge.tsx';
import { isLoginNeeded, Login } from './login.tsx';
import { type Scheme, scheme } from './preferences.ts';

/** What is around each page: the way to the others, whether it is live, who looks, light or dark. */
export function PageFrame() {
  const { path, item } = place.value;
  return (
    <>
      <button type="button" class="skip hidden" onClick={skip}>
        Skip to the content
      </button>
      <div class="frame">
        <header class="top">
          <a class="brand" href={hrefOf('/')}>
            runner
          </a>
          {!isLoginNeeded.value && <ConnectionBadge />}
          {!isLoginNeeded.value && <Viewer />}
          <SchemeChoice />
        </header>
        {isLoginNeeded.value ? <div /> : <Navigation path={path} />}
        <main id="content" tabIndex={-1}>
          <Offline />
          <LateReport />
          {isLoginNeeded.value ? <Login /> : <Content key={`${path}/${item ?? ''}`} path={path} item={item} />}
          <Zones />
        </main>
      </div>
      <Toasts />
    </>
  );
}

/** By which clocks the page tells its times. */
function Zones() {
  const zone = session.value?.zone;
  if (!isStatic && zone === undefined) return null;
  const others = isStatic ? 'times within sentences and rules are the server’s' : `rules go by the server’s, ${zone}`;
  return (
    <p class="quiet small">
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

function Navigation({ path }: { readonly path: string }) {
  const [isOpen, setIsOpen] = useState(false);
  useEffect(() => setIsOpen(false), [place.value]);
  const shown = pages.filter(({ navigation }) => navigation !== undefined);
  return (
    <nav class="navigation" aria-label="Pages" data-open={isOpen}>
      <ul>
        {shown.map((page, index) => (
          <li key={page.path} class={index < AT_HAND ? '' : 'further'}>
            <NavigationLink page={page} isCurrent={page.path === path} />
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

function NavigationLink({ page, isCurrent }: { readonly page: PageEntry; readonly isCurrent: boolean }) {
  if (page.navigation === undefined) return null;
  const { words, icon } = page.navigation;
  return (
    <a href={hrefOf(page.path)} aria-current={isCurrent ? 'page' : undefined}>
      <Icon name={icon} />
      {words}
    </a>
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
