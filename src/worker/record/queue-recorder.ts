import type { Handlers } from '../../discovery/handlers.ts';
import { type RunEnd, toFinishedRun } from '../../execution/result/result.ts';
import { isKeptWarm } from '../../execution/warm/run.ts';
import { chooseJob } from '../../queue/claim/choose.ts';
import {
  type ClaimedRow,
  type ClaimHandlerFacts,
  claimNext,
  type WaitingChild,
} from '../../queue/claim/claim.ts';
import type { Claim } from '../../queue/claim/script-claim.ts';
import { findJob } from '../../queue/read/jobs.ts';
import { createArchive } from '../../queue/settle/archive.ts';
import { policyOf, type Verdict } from '../../queue/settle/retry-policy.ts';
import { endQueuedRun, recordRunEnd } from '../../queue/settle/settle-run.ts';
import { defaultTimeoutMs } from '../../schedule/period.ts';
import type { Runner } from '../../settings/settings.ts';
import { isStoreFailure } from '../../store/failures.ts';
import { removeOutput } from '../../store/prune.ts';
import { queryRaw } from '../../store/sqlite/queries.ts';
import type { Store } from '../../store/store.ts';
import type { Selector } from '../loop/selection.ts';
import type { GroupCommit } from './group-commit.ts';

/** A run of a handler that is over, and not in the log yet. */
export interface HandledRun {
  readonly claim: Claim;
  readonly end: RunEnd;
  /** False: another try would end alike. */
  readonly isRetryable: boolean;
}

export interface Turn {
  /** Null when nothing had ended, or somebody else has the say by now. */
  readonly verdict: Verdict | null;
  /** Null when none was asked for, or none is due. */
  readonly next: ClaimedRow | null;
}

/** Records the runs of a queue worker. */
export interface QueueJournal {
  /** Ends one run and takes the next job, both in one transaction. */
  turn(ended: HandledRun | null, child: WaitingChild | null): Promise<Turn>;
  /** Whether there is a job to take, were there room for it. */
  isAnyDue(): Promise<boolean>;
  /** Only ends one. */
  end(ended: HandledRun): Promise<Verdict | null>;
  /**
   * Progress: the job's data as its handler wants it from now on.
   *
   * @throws {QueueError} if the claim holds no more
   */
  update(claim: Claim, data: string): Promise<void>;
}

/** There was nothing to end, and nothing to take. */
export const idleTurn: Turn = { verdict: null, next: null };

interface Recording {
  readonly store: Store;
  readonly workerId: number;
  readonly runner: Runner;
  readonly handlers: Handlers;
  readonly selector: Selector;
  readonly commit: GroupCommit;
  /** Told, in one sentence, of an end that the log has refused. */
  readonly onRefused: (sentence: string) => void;
}

export function createQueueJournal(recording: Recording): QueueJournal {
  const { store, workerId, runner, handlers, selector, commit, onRefused } = recording;
  const { leaseMs: defaultLeaseMs, missedCap } = runner.settings.queue;
  const factsOf = createFactsBook(handlers);
  const write: GroupCommit['write'] = (work) => store.retryWhenFull(() => commit.write(work));
  const claimAhead: GroupCommit['write'] = (work) =>
    store.retryWhenFull(() => commit.writeAhead(work));
  const archive = createArchive(runner.settings.queue.archive, (files) =>
    removeOutput(runner.state, files),
  );
  const teller = { workerId, missedCap, archive, onRefused };
  const isAnyDueAt = async (at: number): Promise<boolean> =>
    (await chooseJob(store.db, await selector.select(at), at)) !== null;
  const end = (ended: HandledRun) => recordRunEnd(write, toRunEnd(ended), teller);
  return {
    isAnyDue: () => isAnyDueAt(runner.now()),
    turn: async (ended, child) => {
      const at = runner.now();
      // A transaction for nothing would be a commit, too, and wake whoever else waits.
      if (ended === null && !(await isAnyDueAt(at))) return idleTurn;
      const claiming = {
        ...{ workerId, at, defaultLeaseMs, handlerOf: factsOf },
        ...(child !== null && { child }),
      };
      // A job that has waited for a worker does not wait for the disk besides.
      const inTransaction = ended === null ? claimAhead : write;
      try {
        return await inTransaction(async (db) => {
          const verdict = ended === null ? null : await endQueuedRun(db, toRunEnd(ended), teller);
          const next = await claimNext(db, await selector.select(at, db), claiming);
          return { verdict, next };
        });
      } catch (error) {
        if (ended === null || isStoreFailure(error)) throw error;
        // Whichever of the two the log has refused: what has ended is told of alone.
        return { verdict: await end(ended), next: null };
      }
    },
    end,
    update: async ({ id, token }, data) => {
      const text = 'update jobs set data = ? where id = ? and claim_token = ? returning id';
      const written = await store.withoutSync((db) => queryRaw(db, text, [data, id, token]));
      // Its handler works in vain: the refusal says why.
      if (written.length === 0) await findJob(store.db, { id, token });
    },
  };
}

function toRunEnd({ claim, end, isRetryable }: HandledRun) {
  const { result = null, ask = null } = end;
  return { claim, run: toFinishedRun(end), result, ask, isRetryable };
}

/** What a claim needs to know of a handler; a changed one is another object. */
function createFactsBook(handlers: Handlers): (name: string) => ClaimHandlerFacts | null {
  const known = new WeakMap<object, ClaimHandlerFacts>();
  return (name) => {
    const script = handlers.find(name);
    if (script === null) return null;
    const facts = known.get(script) ?? {
      policy: policyOf(script.options),
      timeoutMs: script.options.timeoutMs ?? defaultTimeoutMs(script.tier),
      contentHash: script.contentHash,
      isWarm: isKeptWarm(script),
    };
    known.set(script, facts);
    return facts;
  };
}
