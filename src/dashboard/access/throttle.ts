/** Refuses what comes too often; null: it may come, else after how many seconds it may come again. */
export interface Throttle {
  check(client: string, now: number): number | null;
}

/** As many clients as are remembered; of more, those that were not heard of for longest are forgotten. */
const MOST_CLIENTS = 10_000;

function remember<T>(map: Map<string, T>, client: string, value: T): void {
  map.delete(client);
  map.set(client, value);
  if (map.size <= MOST_CLIENTS) return;
  for (const oldest of map.keys()) return void map.delete(oldest);
}

export interface Rate {
  readonly perSecond: number;
  /** How many at once. */
  readonly burst: number;
}

/** So many per second and client, and a number of them at once. */
export function createRateLimit({ perSecond, burst }: Rate): Throttle {
  const clients = new Map<string, { readonly left: number; readonly at: number }>();
  return {
    check: (client, now) => {
      const last = clients.get(client) ?? { left: burst, at: now };
      const left = Math.min(burst, last.left + (Math.max(0, now - last.at) / 1_000) * perSecond);
      remember(clients, client, { left: left < 1 ? left : left - 1, at: now });
      return left < 1 ? Math.ceil((1 - left) / perSecond) : null;
    },
  };
}

export interface LoginThrottle extends Throttle {
  /** Notes a wrong credential; null: tell them so, else the seconds that are to be told instead. */
  noteFailure(client: string, now: number): number | null;
  noteSuccess(client: string): void;
}

const FREE_FAILURES = 5;
const LONGEST_WAIT_S = 300;
const FORGOTTEN_MS = 900_000;

/**
 * After some wrong credentials a client has to wait, each time twice as long. Of all clients together no more than so
 * many failures are told; this keeps nobody out who has the right one.
 */
export function createLoginThrottle(all: Rate = { perSecond: 1, burst: 60 }): LoginThrottle {
  const clients = new Map<string, { readonly failures: number; readonly until: number; readonly at: number }>();
  const together = createRateLimit(all);
  const waitOf = (client: string, now: number): number | null => {
    const until = clients.get(client)?.until ?? 0;
    return until > now ? Math.ceil((until - now) / 1_000) : null;
  };
  return {
    check: waitOf,
    noteFailure: (client, now) => {
      const last = clients.get(client);
      const failures = (last === undefined || now - last.at > FORGOTTEN_MS ? 0 : last.failures) + 1;
      const waitS = failures < FREE_FAILURES ? 0 : Math.min(LONGEST_WAIT_S, 2 ** (failures - FREE_FAILURES));
      remember(clients, client, { failures, until: now + 1_000 * waitS, at: now });
      return together.check('all', now);
    },
    noteSuccess: (client) => void clients.delete(client),
  };
}

/** Whom requests are counted for: an address, or of IPv6 the network that one customer gets. */
export function clientOf(address: string | undefined): string {
  if (address === undefined) return 'socket';
  const plain = address.replace(/^::ffff:/i, '');
  if (!plain.includes(':')) return plain;
  const [head = '', tail] = plain.split('::');
  const groups = head.split(':');
  const filled = tail === undefined ? groups : [...groups, ...Array(8).fill('0')];
  return filled.slice(0, 4).join(':');
}
