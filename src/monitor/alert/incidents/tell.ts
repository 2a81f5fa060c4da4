import { CALM_MS } from '../../../queue/settle/retry-policy.ts';
import type { Runner, ScriptOptions } from '../../../settings/settings.ts';
import type { IncidentRow } from '../../../store/schema.ts';
import { incidentsOf, type Mute } from '../../../store/statements/monitor/incidents.ts';
import type { Store, StoreSession } from '../../../store/store.ts';
import { isOfRuns } from '../../../store/words.ts';
import { machineName } from '../../../system/process/identity.ts';
import { describeIncident, type IncidentDetail } from '../message.ts';
import { judge, type News, nextLook, withSiblings } from './judge.ts';
import { findChannels, queueFor, type TellableIncident } from './queue.ts';

/** What a pass under cron has to print of an incident. */
export interface PrintedIncident {
  readonly news: News;
  readonly incident: IncidentDetail;
}

interface Teller {
  readonly runner: Pick<Runner, 'root' | 'settings' | 'now'>;
  /** Whether what a pass prints now becomes a mail of cron's. */
  readonly prints: boolean;
}

interface Context extends Teller {
  readonly session: StoreSession;
  readonly at: number;
  readonly mutes: readonly Mute[];
  readonly optionsOf: OptionsOf;
}

/** What a subject's tags and settings say; of one that is no script, nothing. */
type OptionsOf = (subject: string) => Promise<ScriptOptions>;

/**
 * Decides what of all incidents is to be told now, and notes that it was told, in one transaction with the messages:
 * whoever is killed tells either nothing or all of it, once.
 *
 * @returns what the pass is to print
 */
export async function tellIncidents(store: Store, teller: Teller): Promise<readonly PrintedIncident[]> {
  const at = teller.runner.now();
  // Most often nothing is: that needs no lock.
  if ((await incidentsOf(store.statements).due(at)).length === 0) return [];
  const optionsOf = createOptionsBook(teller.runner);
  return await store.transaction(async (session) => {
    await incidentsOf(session.statements).lock();
    const mutes = await incidentsOf(session.statements).mutes(at);
    return await tellDue({ ...teller, session, at, mutes, optionsOf });
  });
}

/** So many incidents of a subject that are over are kept: a script that fails now and then has many. */
const MOST_OVER = 50;

async function tellDue(context: Context): Promise<readonly PrintedIncident[]> {
  const { session, at } = context;
  await endCalm(context);
  const due = await incidentsOf(session.statements).due(at);
  const current = await incidentsOf(session.statements).current([...new Set(due.map(({ subject }) => subject))]);
  const tellable: TellableIncident[] = [];
  const printed: PrintedIncident[] = [];
  for (const incident of withSiblings(due, current)) {
    const { told, prints } = await tellOne(context, incident, current);
    if (told !== null) tellable.push(told);
    if (prints !== null) printed.push(prints);
  }
  await incidentsOf(session.statements).prune(at - context.runner.settings.retention.failedMs, MOST_OVER);
  await queueFor(session, context.runner.settings.alerts, tellable, {
    ...{ at, host: machineName(), root: context.runner.root },
  });
  return printed;
}

interface Telling {
  readonly told: TellableIncident | null;
  readonly prints: PrintedIncident | null;
}

async function tellOne(context: Context, incident: IncidentRow, current: readonly IncidentRow[]): Promise<Telling> {
  const { session, at, mutes, prints, runner, optionsOf } = context;
  const { alerts } = runner.settings;
  const options = await optionsOf(incident.subject);
  const channels = findChannels(alerts, incident, options.tags ?? []);
  const judging = {
    ...{ at, mutes, prints, remindMs: alerts.remindMs, hasChannels: channels.length > 0 },
    hasMail: channels.some(({ kind }) => kind === 'mail'),
    after: options.alertAfter ?? alerts.after,
    current: current.filter(({ subject, code }) => subject === incident.subject && code === incident.code),
  };
  const { channelNews, printNews, set } = judge(incident, judging);
  const changed = { ...incident, ...set };
  await incidentsOf(session.statements).change([
    { id: incident.id, set: { ...set, due_at: nextLook(changed, judging) } },
  ]);
  if (channelNews === null && printNews === null) return { told: null, prints: null };
  const detail = await describeIncident(session, changed, runner.root);
  return {
    told: channelNews === null ? null : { news: channelNews, detail, channels },
    prints: printNews === null ? null : { news: printNews, incident: detail },
  };
}

/** Handlers of which no job has failed for a while, and one has succeeded since. */
async function endCalm({ session, at }: Context): Promise<void> {
  const due = (await incidentsOf(session.statements).due(at)).filter(isCalming);
  const subjects = [...new Set(due.map(({ subject }) => subject))];
  if (subjects.length === 0) return;
  const current = (await incidentsOf(session.statements).current(subjects)).filter(({ code }) => isOfRuns(code));
  const calm = current.filter(({ subject }) =>
    current.every((other) => other.subject !== subject || other.last_at <= at - CALM_MS),
  );
  const set = { recovered_at: at };
  await incidentsOf(session.statements).change(calm.filter(isCalming).map(({ id }) => ({ id, set })));
}

function isCalming({ recovered_at, succeeded_at }: IncidentRow): boolean {
  return recovered_at === null && succeeded_at !== null;
}

/** Only once something is to be told are the scripts looked for: of what is not found, nothing is said. */
function createOptionsBook({ root, settings }: Teller['runner']): OptionsOf {
  let found: Promise<ReadonlyMap<string, ScriptOptions>> | null = null;
  return async (subject) => {
    if (!subject.includes('/')) return {};
    found ??= readOptions(root, settings);
    return (await found).get(subject) ?? {};
  };
}

async function readOptions(root: string, settings: Runner['settings']): Promise<ReadonlyMap<string, ScriptOptions>> {
  const { discover } = await import('../../../discovery/discover.ts');
  const { UsageError } = await import('../../../system/base/errors.ts');
  try {
    const { tiers, handlers } = await discover(root, settings);
    const scripts = [...tiers.flatMap((tier) => tier.scripts), ...handlers];
    return new Map(scripts.map(({ name, options }) => [name, options]));
  } catch (error) {
    // What is wrong with jobs/ is told by who runs it.
    if (!(error instanceof UsageError)) throw error;
    return new Map();
  }
}
