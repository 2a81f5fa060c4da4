import { randomUUID } from 'node:crypto';
import prettyMilliseconds from 'pretty-ms';
import type { KeptEnd, RunEnd } from '../../execution/result/result.ts';
import { type Ping, type QueuedPing, sendPing } from '../../monitor/alert/channels.ts';
import type { Store } from '../../store/store.ts';
import { isFailure } from '../../store/words.ts';
import { printable, printableOutput } from '../../system/base/text.ts';
import type { Invocation, PassStarted, RunFinished, RunStarted, TierRequest } from './invocation.ts';
import { ifLogAllows } from './with-store.ts';

interface PingedCall extends Invocation {
  readonly store?: Store;
}

/** Longest time of a ping, in milliseconds. Scripts go on meanwhile; only the end of the process waits for it. */
const LONGEST_MS = 10_000;

/** Time until the first retry of a ping that did not arrive. */
const RETRY_MS = 60_000;

/** Services accept at least 10 KB; the last lines say most. */
const LONGEST_TEXT = 8_000;

/**
 * Runs a pass and informs the services that its scripts or its tier name: of each start, success and failure. A start
 * that does not arrive is dropped; an end is queued, and later invocations send it.
 */
export async function pingAround(
  call: PingedCall,
  { kind, tier }: TierRequest,
  run: () => Promise<readonly KeptEnd[] | null>,
): Promise<readonly KeptEnd[] | null> {
  const { events, runner } = call;
  const sender = new PingSender(call);
  const urls = new Map(tier.scripts.flatMap(({ name, options }) => (options.ping ? [[name, options.ping]] : [])));
  // A retry in another tier's pass does not prove that cron's line for this tier works.
  const ofTier = kind === 'tier' ? runner.settings.tiers[tier.name]?.ping : undefined;
  const onPass = ({ tier: name }: PassStarted) =>
    name === tier.name && ofTier && sender.start(tier.name, ofTier, 'pass');
  const onStart = ({ key, script }: RunStarted) => {
    const url = urls.get(script);
    if (url !== undefined) sender.start(script, url, key);
  };
  const onEnd = ({ key, script, end, nextTryAt }: RunFinished) => {
    const url = urls.get(script);
    if (url !== undefined) sender.end(script, url, key, judgeRun(end, nextTryAt));
  };
  events.on('pass-started', onPass).on('run-started', onStart).on('run-finished', onEnd);
  events.on('closing', (waits) => void waits.push(...sender.pending));
  try {
    const ends = await run();
    if (ends !== null && ofTier !== undefined) sender.end(tier.name, ofTier, 'pass', judgePass(ends));
    return ends;
  } finally {
    events.off('pass-started', onPass).off('run-started', onStart).off('run-finished', onEnd);
  }
}

type Judged = Pick<Ping, 'state' | 'exitCode' | 'text'>;

function judgeRun(end: RunEnd, nextTryAt: number | null): Judged {
  const { outcome, exitCode, durationMs, reason, output } = end;
  const hasFailed = isFailure(outcome);
  const took = durationMs === null ? '' : ` after ${prettyMilliseconds(durationMs)}`;
  const head = `${outcome}${took}${reason === null ? '' : `: ${reason}`}`;
  const text = `${printable(head)}\n\n${printableOutput(output.text).slice(-LONGEST_TEXT)}`.trimEnd();
  if (!hasFailed) return { state: outcome === 'succeeded' ? 'success' : 'log', exitCode: null, text };
  return { state: nextTryAt === null ? 'fail' : 'log', exitCode, text };
}

function judgePass(ends: readonly KeptEnd[]): Judged {
  const failed = ends.filter(({ outcome }) => isFailure(outcome)).length;
  const succeeded = ends.filter(({ outcome }) => outcome === 'succeeded').length;
  const text = failed === 0 ? `${succeeded} succeeded` : `${failed} of ${ends.length} did not succeed`;
  return { state: failed === 0 ? 'success' : 'fail', exitCode: null, text };
}

class PingSender {
  readonly #call: PingedCall;
  /** The number of each pinged run, and the sending of its start. */
  readonly #started = new Map<string, { readonly runId: string; readonly sent: Promise<unknown> }>();
  readonly pending: Promise<unknown>[] = [];

  constructor(call: PingedCall) {
    this.#call = call;
  }

  start(subject: string, url: string, key: string): void {
    const runId = randomUUID();
    const sent = this.#send({ url, state: 'start', exitCode: null, runId, text: '' });
    this.pending.push(sent);
    this.#started.set(`${subject} ${key}`, { runId, sent });
  }

  end(subject: string, url: string, key: string, judged: Judged): void {
    const started = this.#started.get(`${subject} ${key}`);
    const said = { runId: started?.runId ?? randomUUID(), ...judged };
    // Wait until the start has arrived or failed.
    this.pending.push(Promise.resolve(started?.sent).then(() => this.#sendOrQueue(subject, url, said)));
  }

  async #sendOrQueue(subject: string, url: string, said: QueuedPing): Promise<void> {
    const { store, runner } = this.#call;
    const sent = await this.#send({ url, ...said });
    if (store === undefined) return;
    await ifLogAllows(this.#call, async () => {
      // An older end would report an outdated state.
      await store.deliveries.supersede('ping', subject);
      if (sent.ok || said.state === 'log') return;
      const at = runner.now() + RETRY_MS;
      await store.deliveries.add([{ kind: 'ping', channel: subject, body: JSON.stringify(said), at }]);
    });
  }

  async #send(ping: Ping) {
    const signal = AbortSignal.any([this.#call.stop.signal, AbortSignal.timeout(LONGEST_MS)]);
    return await sendPing(ping, { ...this.#call.runner, signal });
  }
}
