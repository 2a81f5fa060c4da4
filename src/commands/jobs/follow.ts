import { givenOptions, verbOptions } from '../../queue/add/options.ts';
import { requireDelayMs } from '../../queue/add/values.ts';
import type { ClaimedJob, ClaimOptions } from '../../queue/api.ts';
import { SOON_MS } from '../../queue/claim/outside.ts';
import { expiredClaim, QueueError } from '../../queue/errors.ts';
import type { VerbQueue } from '../../queue/queue.ts';
import { LEASE_GRACE_MS } from '../../queue/settle/retry-policy.ts';
import { verbNames, verbOf } from '../../queue/settle/verbs.ts';
import { formatJsonLine } from '../../report/json.ts';
import { claimedJobRecord } from '../../report/model/jobs.ts';
import { openTextOutput } from '../../report/terminal/screen.ts';
import { StoreUnavailable } from '../../store/failures.ts';
import { sleepUntil } from '../../system/base/clock.ts';
import { UsageError } from '../../system/base/errors.ts';
import { nearestName } from '../../system/base/suggest.ts';
import { printableLine } from '../../system/base/text.ts';
import { createFileWatch } from '../../worker/loop/queue-limits.ts';
import type { CommandContext } from '../shared/context.ts';
import { filesOfDeploy } from '../shared/open.ts';
import { parseJson } from '../shared/queue.ts';

interface Following {
  readonly root: string;
  /** How long it waits for a job; undefined: for ever. */
  readonly wait: string | undefined;
  /** How long it goes on claiming, in milliseconds; undefined: for ever. */
  readonly forMs: number | undefined;
  readonly patterns: readonly string[];
  /** Largest number of jobs that are out at the same time. */
  readonly count: number;
  readonly how: ClaimOptions;
  readonly stop: {
    /** Claims no more. */
    readonly signal: AbortSignal;
    /** Waits for no more verdicts. */
    readonly again: AbortSignal;
    exitCode(): number | null;
  };
}

/** Hands out jobs, a line each, and reads what became of them, until its input or its time is over. */
export async function follow(context: CommandContext, queue: VerbQueue, following: Following): Promise<void> {
  const { stop } = following;
  const talk = await openTalk(context, queue);
  stop.signal.addEventListener('abort', talk.wake);
  stop.again.addEventListener('abort', talk.close);
  const listening = listen(talk, process.stdin).finally(talk.close);
  // Awaited below, where its error is thrown.
  listening.catch(() => {});
  try {
    await handOutJobs(talk, following, filesOfDeploy(context, following.root));
    while (talk.hand.size > 0 && !talk.isClosed()) {
      await nextChange(talk, talk.turn());
      await dropLost(talk);
    }
  } finally {
    process.stdin.destroy();
    await giveBack(talk);
  }
  await listening;
  if (stop.again.aborted) context.setExitCode(stop.exitCode() as number);
}

/** A job that was handed out and not judged yet. */
interface Held {
  readonly job: ClaimedJob;
  /** When its lease is over, in epoch milliseconds. */
  until: number;
  /** Whether its holder knows that its lease is nearly over. */
  isTold: boolean;
}

/** A conversation with whoever works off the jobs. */
interface Talk {
  readonly queue: VerbQueue;
  readonly hand: Map<number, Held>;
  readonly now: () => number;
  /** Writes a line. */
  tell(line: object): Promise<void>;
  /** To be asked before looking at the hand; aborted once that may be another one. */
  turn(): AbortSignal;
  readonly wake: () => void;
  /** Ends the talk: the worker is gone. */
  readonly close: () => void;
  isClosed(): boolean;
}

async function openTalk({ stdout, now, setExitCode }: CommandContext, queue: VerbQueue): Promise<Talk> {
  // The one that there is would end the process before its jobs are given back.
  stdout.removeAllListeners('error');
  const output = openTextOutput(stdout);
  let turn = new AbortController();
  let isClosed = false;
  const wake = (): void => turn.abort();
  const close = (): void => {
    isClosed = true;
    wake();
  };
  return {
    ...{ queue, now, wake, close },
    hand: new Map(),
    tell: async (line) => {
      if (await output.write(formatJsonLine(line))) return;
      setExitCode(1);
      close();
    },
    turn: () => {
      turn = new AbortController();
      return turn.signal;
    },
    isClosed: () => isClosed,
  };
}

/** One wait lasts as long as this at most: then files are looked at. */
const LONGEST_WAIT_MS = 5_000;

function lostAt({ until }: Held): number {
  return until + LEASE_GRACE_MS + 1;
}

/** Waits until the hand may be another one. */
async function nextChange({ hand, now }: Talk, turn: AbortSignal): Promise<void> {
  const first = Math.min(...[...hand.values()].map(lostAt));
  const waitMs = Math.min(Math.max(0, first - now()), LONGEST_WAIT_MS);
  await sleepUntil(turn, waitMs);
}

/** Drops jobs whose lease is over from the hand: the queue would refuse their verdicts. */
async function dropLost({ hand, now, tell }: Talk): Promise<void> {
  for (const [id, held] of hand) {
    if (now() < lostAt(held)) continue;
    hand.delete(id);
    await tell(errorLine(id, expiredClaim(held.job)));
  }
}

async function handOutJobs(talk: Talk, following: Following, watched: readonly string[]): Promise<void> {
  const { count, wait, forMs = Number.POSITIVE_INFINITY, stop } = following;
  const waitMs = wait === undefined ? Number.POSITIVE_INFINITY : requireDelayMs('The wait', wait);
  const endsAt = talk.now() + forMs;
  const files = createFileWatch(watched);
  const isOver = (): boolean => talk.isClosed() || stop.signal.aborted || files.findChanged() !== null;
  for (let idleSince = talk.now(); ; ) {
    await dropLost(talk);
    const turn = talk.turn();
    if (isOver() || talk.now() >= endsAt) return;
    const room = count - talk.hand.size;
    if (room > 0) {
      const until = Math.min(idleSince + waitMs, endsAt, talk.now() + LONGEST_WAIT_MS);
      const jobs = await claimOrWarn(talk, following, { room, until, turn });
      const isIdle = jobs.length === 0 && !turn.aborted;
      if (isIdle && talk.now() >= idleSince + waitMs) return;
      for (const job of jobs) talk.hand.set(job.id, { job, until: Number(job.leasedUntil), isTold: false });
      for (const job of jobs) if (!talk.isClosed()) await talk.tell({ job: claimedJobRecord.toJson(job) });
      if (isIdle) continue;
    } else await nextChange(talk, turn);
    idleSince = talk.now();
  }
}

interface Asking {
  readonly room: number;
  /** Epoch milliseconds. */
  readonly until: number;
  readonly turn: AbortSignal;
}

/** Nothing if the wait was broken off by what its holder has to know of. */
async function claimOrWarn(
  talk: Talk,
  { patterns, how }: Following,
  { room, until, turn }: Asking,
): Promise<readonly ClaimedJob[]> {
  const wait = `${Math.max(0, until - talk.now())}ms`;
  const holding = [...talk.hand.values()].filter(({ isTold }) => !isTold).map(({ job }) => job);
  try {
    return await talk.queue.claimMany(patterns, room, { ...how, wait, holding, signal: turn });
  } catch (error) {
    if (!(error instanceof QueueError && error.code === 'deadline-soon')) throw error;
    await warn(talk, holding);
    return [];
  }
}

async function warn({ queue, hand, now, tell, wake }: Talk, holding: readonly ClaimedJob[]): Promise<void> {
  for (const { id } of holding) {
    const { leasedUntil = null } = (await queue.get(id)) ?? {};
    const held = hand.get(id);
    if (held === undefined || leasedUntil === null || leasedUntil.getTime() > now() + SOON_MS) continue;
    held.isTold = true;
    await tell({ deadlineSoon: { id, leasedUntil } });
  }
  wake();
}

async function listen(talk: Talk, input: NodeJS.ReadStream): Promise<void> {
  try {
    for await (const line of readLines(input)) if (line !== '') await talk.tell(await answer(talk, line));
  } catch (error) {
    // It was closed here, as nothing more is wanted of it.
    if (!input.destroyed) throw error;
  }
}

/** A verdict has 1 MiB of result and as much data, however they are escaped. */
const LONGEST_LINE_BYTES = 16 * 1024 * 1024;

/** Lines without the white space around them; null stands for one that is too long. */
async function* readLines(input: AsyncIterable<Buffer>): AsyncGenerator<string | null> {
  let parts: Buffer[] = [];
  let bytes = 0;
  const add = (part: Buffer): void => {
    bytes += part.length;
    if (bytes > LONGEST_LINE_BYTES) parts = [];
    else parts.push(part);
  };
  const take = (): string | null => {
    const line = bytes > LONGEST_LINE_BYTES ? null : Buffer.concat(parts).toString('utf8').trim();
    [parts, bytes] = [[], 0];
    return line;
  };
  for await (const chunk of input) {
    let start = 0;
    for (let end = chunk.indexOf('\n'); end !== -1; end = chunk.indexOf('\n', start)) {
      add(chunk.subarray(start, end));
      yield take();
      start = end + 1;
    }
    add(chunk.subarray(start));
  }
  yield take();
}

interface Verdict {
  readonly id: number;
  readonly verb: string;
  readonly options: object;
}

/** The verbs of who holds a claim; one that deletes the job says nothing of its work. */
const verdicts = verbNames.filter((name) => verbOf(name).takesToken && name !== 'delete');

/**
 * Carries out a line's verdict.
 *
 * @returns the line to answer with: an error for a bad line, after which the next one is read
 */
async function answer(talk: Talk, line: string | null): Promise<object> {
  let id: number | null = null;
  try {
    const verdict = readVerdict(line);
    id = verdict.id;
    return { ok: await judge(talk, verdict) };
  } catch (error) {
    const line = errorLine(id, error);
    // No further verdict on the job can come with this claim.
    if (id !== null && !['invalid', 'unavailable'].includes(line.error.code) && talk.hand.delete(id)) talk.wake();
    return line;
  }
}

/** @throws what is none of its holder's business */
function errorLine(id: number | null, error: unknown) {
  if (error instanceof QueueError) return { error: { id, code: error.code, message: error.message } };
  if (error instanceof UsageError) return { error: { id, code: 'invalid', message: error.message } };
  if (error instanceof StoreUnavailable) return { error: { id, code: 'unavailable', message: error.message } };
  throw error;
}

const example = '{"id":7,"verb":"finish","result":{"sent":true}}';

function readVerdict(line: string | null): Verdict {
  if (line === null) throw new UsageError(`A verdict must be a line of at most ${LONGEST_LINE_BYTES} bytes.`);
  const json = parseJson(line, 'The verdict', example);
  if (json === null || !json.text.startsWith('{'))
    throw new UsageError(`A verdict must be an object such as ${example}.`);
  const { id, verb, ...found } = JSON.parse(line) as Readonly<Record<string, unknown>>;
  if (typeof id !== 'number') throw new UsageError(`A verdict needs the number of a job as its id, as in ${example}.`);
  return { id, verb: String(verb), options: givenOptions(verbOptions, found, json) };
}

async function judge(talk: Talk, { id, verb: word, options }: Verdict): Promise<object> {
  const verb = verdicts.find((each) => each === word);
  if (verb === undefined) throw wrongVerb(word);
  const held = talk.hand.get(id);
  if (held === undefined)
    throw new QueueError(
      'stale-claim',
      `Job ${id} is not in hand: its verdict came before, or it was never ` +
        'handed out. Send one verdict for each job.',
    );
  const leasedUntil = await talk.queue.apply(verb, held.job, options);
  if (verb === 'touch' || verb === 'update') held.isTold = false;
  else talk.hand.delete(id);
  talk.wake();
  if (!(leasedUntil instanceof Date)) return { id, verb };
  held.until = leasedUntil.getTime();
  return { id, verb, leasedUntil };
}

function wrongVerb(word: string): UsageError {
  const nearest = nearestName(word, verdicts);
  const cure = nearest === null ? '.' : `; did you mean ${nearest}?`;
  return new UsageError(
    `The verb of a verdict is one of ${verdicts.join(', ')}, found ${JSON.stringify(printableLine(word))}${cure}`,
  );
}

/** Gives back the jobs in the hand: their worker is gone. */
async function giveBack({ queue, hand }: Talk): Promise<void> {
  const reason = 'its worker ended before it had told what became of it';
  for (const { job } of hand.values()) {
    await queue.retry(job, { ignoreRepeat: true, reason }).catch((error: unknown) => {
      // Its claim is over.
      if (!(error instanceof QueueError)) throw error;
    });
  }
}
