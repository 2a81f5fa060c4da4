/** `reconnecting`: the server did not answer just now. `offline`: not for a while, or this device has no network. */
export type LiveState = 'online' | 'reconnecting' | 'offline';

interface Listener {
  /** Something may have changed since an answer of another version. */
  readonly onChange: (version: string) => void;
  readonly onConnection: (connection: LiveState) => void;
}

/** A stream that has told nothing by then is held back by a proxy, or blocked. */
const FIRST_EVENT_MS = 6_000;

/** Longest silence of a stream: the server sends something every 30 seconds. */
const SILENCE_MS = 75_000;

const POLL_MS = 5_000;

/** Number of polls until a stream is tried again. */
const POLLS_PER_STREAM = 24;

/** Without an answer for so long, it is more than a restart. */
const OFFLINE_MS = 20_000;

/**
 * Follows the changes of a server by its stream of events; where no stream gets through, by asking every few
 * seconds. Nothing is asked while the page is hidden.
 *
 * @param url of the stream, which answers with the version alone to who asks for JSON
 */
export function followChanges(url: string, listener: Listener): void {
  const follower = new Follower(url, listener);
  document.addEventListener('visibilitychange', () => follower.begin());
  addEventListener('online', () => follower.begin());
  addEventListener('offline', () => follower.lose());
  follower.begin();
}

class Follower {
  readonly #url: string;
  readonly #listener: Listener;
  #source: EventSource | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #version: string | null = null;
  #polls = 0;
  /** Whether a stream has got through. */
  #hasStreamed = false;
  /** By `performance.now()`; null: the last answer was one. */
  #lostSince: number | null = null;

  constructor(url: string, listener: Listener) {
    this.#url = url;
    this.#listener = listener;
  }

  begin(): void {
    this.#stop();
    if (!document.hidden) this.#listen();
  }

  lose(): void {
    this.#lostSince ??= performance.now();
    const isOffline = !navigator.onLine || performance.now() - this.#lostSince > OFFLINE_MS;
    this.#listener.onConnection(isOffline ? 'offline' : 'reconnecting');
  }

  #stop(): void {
    this.#source?.close();
    this.#source = null;
    clearTimeout(this.#timer);
  }

  #after(ms: number, act: () => void): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(act, ms);
  }

  #listen(): void {
    this.#stop();
    const source = new EventSource(this.#url);
    this.#source = source;
    this.#polls = 0;
    this.#after(FIRST_EVENT_MS, () => this.#poll());
    source.addEventListener('changed', ({ data }) => {
      this.#hasStreamed = true;
      this.#after(SILENCE_MS, () => this.#listen());
      this.#hear(data);
    });
    source.addEventListener('error', () => {
      // Refused, or blocked from the beginning, it is over; else the browser tries again by itself.
      if (source.readyState === EventSource.CLOSED || !this.#hasStreamed) this.#poll();
      else {
        this.#after(SILENCE_MS, () => this.#listen());
        this.lose();
      }
    });
  }

  #hear(version: string): void {
    this.#lostSince = null;
    this.#listener.onConnection('online');
    if (version === this.#version) return;
    this.#version = version;
    this.#listener.onChange(version);
  }

  #poll(): void {
    this.#stop();
    this.#after(POLL_MS, () => (this.#polls < POLLS_PER_STREAM ? this.#poll() : this.#listen()));
    this.#polls += 1;
    const wasLost = this.#lostSince !== null;
    this.#ask().then(
      (version) => {
        this.#hear(version);
        if (wasLost && this.#hasStreamed && !document.hidden) this.#listen();
      },
      () => this.lose(),
    );
  }

  /** Refused for want of a credential, there is an answer, too: then all that is shown is asked again. Others are none. */
  async #ask(): Promise<string> {
    const signal = AbortSignal.timeout(POLL_MS);
    const response = await fetch(this.#url, { headers: { accept: 'application/json' }, cache: 'no-store', signal });
    if (response.ok) return (await response.json()).version;
    if (response.status === 401 || response.status === 403) return `refused ${response.status}`;
    throw new Error(`The server answered ${response.status}.`);
  }
}
