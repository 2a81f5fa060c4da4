import { type Stats, statSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { readCrontabTimes } from '../checks/host/crontab-calls.ts';
import { Site } from '../discovery/site.ts';
import { type OpenQueueOptions, openSharedQueue, type SharedQueue } from '../queue/queue.ts';
import type { readJob } from '../queue/read/jobs.ts';
import { hasOpenWork } from '../report/model/runs/run.ts';
import { settingsFilesOf } from '../settings/load.ts';
import { toldPlainly } from '../store/describe-failure.ts';
import { logIdentity } from '../store/shared/which-log.ts';
import { commandClock } from '../system/base/clock.ts';
import { parseExactly } from '../system/base/exact-json.ts';
import { trustedFallbacksOf } from '../system/place/fallback.ts';
import { type StateFolder, stateFolderOf } from '../system/place/state-folder.ts';
import { type KeptOpen, keepOpen } from './keep-open.ts';
import { type ChangeFeed, createFeed } from './live/feed.ts';
import { type OpenedLog, openLogIfAny } from './open-log.ts';

/** The root that is shown, and its log, whatever becomes of the file meanwhile. */
export interface LiveSite {
  readonly root: string;
  readonly state: StateFolder;
  /** Folders that may hold records: the root's own, and those used while it cannot be written. */
  readonly states: readonly StateFolder[];
  readonly env: NodeJS.ProcessEnv;
  /** This package's version. */
  readonly version: string;
  /** The folder of the built command. */
  readonly distFolder: string;
  /** UTC epoch milliseconds. */
  readonly now: () => number;
  /** Reads a job for its page: default with all that it carries. */
  readonly readJob?: typeof readJob;
  /** Lets the site be read as it is now. Nothing in it is changed by reading. */
  read<T>(use: (site: Site) => Promise<T>): Promise<T>;
  /** Which log is there, and which of its commits is seen: another text after each commit. */
  revision(): Promise<string>;
  /** Tells of changes, for all who look. */
  readonly feed: ChangeFeed;
  /** Opens the log for writing once something is changed. */
  readonly changes: Changes;
  /** Ends the feed and what waits, and closes the log once nobody uses it any more. */
  close(): Promise<void>;
}

/** Removes paths from a text, so that a remote caller does not learn the site's place on its machine. */
export function withoutPlaces(
  text: string,
  { root, states, distFolder }: Pick<LiveSite, 'root' | 'states' | 'distFolder'>,
) {
  const elsewhere = states.map(({ path }) => path).filter((path) => !path.startsWith(root));
  const places = [[root, '<root>'], ...elsewhere.map((path) => [path, '<state>']), [distFolder, '<runner>']] as const;
  return places.reduce((left, [path = '', word = '']) => (path.length > 1 ? left.replaceAll(path, word) : left), text);
}

export type SitePlace = Pick<LiveSite, 'root' | 'env' | 'version' | 'now' | 'distFolder'>;

export function openSite(place: SitePlace): LiveSite {
  const state = stateFolderOf(place.root, place.env);
  const log = keepLogOpen(place.root, state);
  const { root, env, now } = place;
  const crontab = keepForAMinute(() => readCrontabTimes(root, env), now);
  const read: LiveSite['read'] = (use) =>
    log.use(({ store, problem }) =>
      toldPlainly(state, () => use(new Site({ root, env, nowMs: now(), store, problem, crontab }))),
    );
  const revision = () => log.use((opened) => toldPlainly(state, async () => revisionOf(opened)));
  const feed = createFeed({
    revision,
    changed: (since, ms, signal) => log.use((opened) => waitForChange(opened, since, ms, signal)),
    isBusy: () => read(async ({ view }) => hasOpenWork(await view())),
  });
  const changes = openChanges(place);
  return {
    ...place,
    ...{ state, read, revision, feed },
    states: [state, ...trustedFallbacksOf(root)],
    changes,
    close: async () => {
      feed.close();
      await changes.close();
      await log.close();
    },
  };
}

/** It takes programs of the host to read it. */
function keepForAMinute<T>(read: () => Promise<T>, now: () => number): () => Promise<T> {
  let kept: { readonly value: Promise<T>; readonly sinceMs: number } | null = null;
  return () => {
    const nowMs = now();
    if (kept === null || Math.abs(nowMs - kept.sinceMs) > 60_000) kept = { value: read(), sinceMs: nowMs };
    return kept.value;
  };
}

function revisionOf({ file, watch, problem }: OpenedLog, seen = watch?.look()): string {
  return `${file}/${seen ?? problem}`;
}

/** How often it is looked whether there is a log by now, or one that can be read. */
const POLL_MS = 1000;

/** May end before there is a change: whether there is one tells the revision. */
async function waitForChange(log: OpenedLog, since: string, ms: number, signal: AbortSignal): Promise<void> {
  const { watch } = log;
  const seen = watch?.look();
  if (revisionOf(log, seen) !== since) return;
  // A log that was replaced where files cannot be watched is found out by looking again.
  const untilMs = Date.now() + Math.min(ms, POLL_MS);
  if (watch !== null && seen !== undefined) await watch.changed(seen, untilMs, signal);
  else await wait(Math.min(ms, POLL_MS), undefined, { signal }).catch(() => undefined);
}

/** Another log is opened once it is in its place: a broken one is quarantined, a backup restored. */
function keepLogOpen(root: string, state: StateFolder): KeptOpen<OpenedLog> {
  return keepOpen({
    identity: () => logIdentity(state) ?? '',
    open: () => openLogIfAny(root, state),
    // It may be readable, or there, the next time.
    isGood: ({ store }) => store !== null,
    retire: ({ watch }) => watch?.close(),
    close: async ({ store }) => await store?.close(),
  });
}

/** Changes of the log, for all callers over one connection. */
interface Changes {
  /** Lets the queue, and whatever else is in the log, be changed in the name of who asks. */
  use<T>(work: (shared: SharedQueue) => Promise<T>): Promise<T>;
  /** The log is closed only once this is over. */
  hold(work: Promise<unknown>): void;
  /** Tells whoever waits for a job to wait no longer. */
  readonly closing: AbortSignal;
  close(): Promise<void>;
}

/**
 * Opens the log when something is first changed, which makes it where there is none; and anew once another file is
 * in its place, or the settings have changed.
 */
function openChanges({ root, env, now }: Required<Omit<OpenQueueOptions, 'cwd'>>): Changes {
  const state = stateFolderOf(root, env);
  const closing = new AbortController();
  const held = new Set<Promise<unknown>>();
  const queue = keepOpen({
    identity: () => [logIdentity(state), ...settingsFilesOf(root).map(stampOf)].join(),
    open: () => openSharedQueue({ root, env, now }, parseExactly, commandClock),
    close: (shared) => shared.close(),
  });
  const hold = (work: Promise<unknown>): void => {
    const settled: Promise<unknown> = work.catch(() => {}).finally(() => held.delete(settled));
    held.add(settled);
  };
  return {
    hold,
    closing: closing.signal,
    use: (work) => {
      const used = queue.use(work);
      hold(used);
      return used;
    },
    close: async () => {
      closing.abort();
      while (held.size > 0) await Promise.all(held);
      await queue.close();
    },
  };
}

function stampOf(path: string): string {
  const found: Stats | undefined = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? '' : `${path} ${found.mtimeMs} ${found.size}`;
}
