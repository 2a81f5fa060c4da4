import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { discover } from '../discovery/discover.ts';
import { openHandlers } from '../discovery/handlers.ts';
import { QUEUE_TIER, readJobsFolder } from '../discovery/jobs-folder.ts';
import { findDisabled } from '../discovery/not-run.ts';
import { describeHosts, type Script } from '../discovery/script.ts';
import type { Settings } from '../settings/settings.ts';
import { isCopyFor } from '../store/statements/registers.ts';
import type { Store } from '../store/store.ts';
import { errorCode, UsageError } from '../system/base/errors.ts';
import { EXEC } from '../system/base/exec-name.ts';
import { matchAny } from '../system/base/glob.ts';
import { once } from '../system/base/values.ts';
import { copiesElsewhere, machinesElsewhere } from './machines.ts';

/** The place to look for scripts. */
export interface PresencePlace {
  readonly root: string;
  readonly settings: Settings;
  /** UTC epoch milliseconds. */
  readonly nowMs: number;
}

/** Tells whether scripts, handlers and tiers still exist. Each folder is read once, when it is first asked for. */
export interface Presence {
  /**
   * A few words on why a script or handler no longer runs. Null: it runs, or nobody knows now, because its folder is
   * unreadable or a link leads nowhere.
   */
  whyScriptIsGone(name: string): Promise<string | null>;
  /** The same of a tier. */
  whyTierIsGone(tier: string): Promise<string | null>;
}

/** A tier's scripts; `gone`: it has no folder any more; `unknown`: its folder cannot be read now. */
type TierContent = Pick<FoundScripts, 'here' | 'elsewhere'> | 'gone' | 'unknown';

interface FoundScripts {
  readonly here: ReadonlySet<string>;
  readonly elsewhere: ReadonlyMap<string, Script>;
}

export function openPresence(store: Pick<Store, 'fleet' | 'statements'>, place: PresencePlace): Presence {
  const { root, settings, nowMs } = place;
  const tiers = once(() => readTiers(root));
  const contents = new Map<string, Promise<TierContent>>();
  const contentOf = (tier: string): Promise<TierContent> => {
    const content = contents.get(tier) ?? tiers().then((names) => readContent(place, tier, names));
    contents.set(tier, content);
    return content;
  };
  const others = once(() => readOtherMachines(store, nowMs));
  const handlers = once(() => openHandlers(root, settings));
  const isHandlerGone = async (name: string): Promise<boolean> => {
    // No machine of a fleet says which handlers it has.
    if (store.fleet !== null || (await tiers()) === 'unknown') return false;
    const { problem, names } = await handlers();
    return problem === null && !names().includes(name);
  };
  return {
    whyTierIsGone: async (tier) => {
      if ((await contentOf(tier)) !== 'gone' || (await others()).hasTier(tier)) return null;
      return `jobs/${tier} does not exist any more`;
    },
    whyScriptIsGone: async (name) => {
      const [tier = '', ...label] = name.split('/');
      if (tier === QUEUE_TIER) {
        return (await isHandlerGone(label.join('/'))) ? 'its handler does not exist any more' : null;
      }
      // It has no file: whoever calls `runner exec` knows its command.
      if (tier === EXEC) return null;
      const content = await contentOf(tier);
      if (content === 'unknown' || (content !== 'gone' && content.here.has(name))) return null;
      const elsewhere = content === 'gone' ? undefined : content.elsewhere.get(name);
      if ((await others()).runs(name, elsewhere)) return null;
      if (content === 'gone') return `jobs/${tier} does not exist any more`;
      if (elsewhere !== undefined) return `it ${describeHosts(elsewhere)}`;
      return (await isDisabled(root, name)) ? 'it is disabled' : `jobs/${tier} has no script of that name any more`;
    },
  };
}

/** An empty `jobs/` may be a disk that is not mounted. */
async function readTiers(root: string): Promise<readonly string[] | 'unknown'> {
  try {
    const { tiers, ignored } = readJobsFolder(root);
    return tiers.length + ignored.length === 0 ? 'unknown' : tiers;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return 'unknown';
  }
}

async function readContent(
  { root, settings }: PresencePlace,
  tier: string,
  tiers: readonly string[] | 'unknown',
): Promise<TierContent> {
  if (tiers === 'unknown') return 'unknown';
  if (!tiers.includes(tier)) return isNothing(join(root, 'jobs', tier)) ? 'gone' : 'unknown';
  try {
    const found = await discover(root, settings, { tier });
    const [read] = found.tiers;
    if (read === undefined) return 'unknown';
    return {
      here: new Set(read.scripts.map(({ name }) => name)),
      elsewhere: new Map(found.elsewhere.map((script) => [script.name, script])),
    };
  } catch (error) {
    // It was removed since its name was read: the next look tells.
    if (!(error instanceof UsageError)) throw error;
    return 'unknown';
  }
}

/** Not of a link whose target is away. */
function isNothing(path: string): boolean {
  try {
    return !lstatSync(path).isSymbolicLink();
  } catch (error) {
    return errorCode(error) === 'ENOENT';
  }
}

async function isDisabled(root: string, name: string): Promise<boolean> {
  return findDisabled(root).some((script) => script.name === name);
}

interface OtherMachines {
  hasTier(tier: string): boolean;
  /** @param script the script as it is here, where it says that it is for other machines */
  runs(name: string, script: Script | undefined): boolean;
}

const alone: OtherMachines = { hasTier: () => false, runs: () => false };

async function readOtherMachines(store: Pick<Store, 'fleet' | 'statements'>, nowMs: number): Promise<OtherMachines> {
  if (store.fleet === null) return alone;
  const copies = await copiesElsewhere(store, nowMs);
  const hosts = await machinesElsewhere(store, nowMs);
  return {
    hasTier: (tier) => copies.some((copy) => copy.tier === tier),
    runs: (name, script) =>
      copies.some((copy) => copy.name === name && isCopyFor(copy, copy.host)) ||
      hosts.some((host) => matchAny(script?.options.host ?? [], host)),
  };
}
