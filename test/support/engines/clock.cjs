/*
 * Loaded into a runner by `NODE_OPTIONS=--require`, from outside: the product knows nothing of it. It moves the clock
 * of the machine and that of the database, as this process sees them.
 *
 *   FLEET_CLOCK     file with the milliseconds that the database's clock is ahead of the kernel's
 *   FLEET_SKEW_MS   what this machine's clock is ahead of the database's
 */
'use strict';

const { readFileSync } = require('node:fs');
const Module = require('node:module');

const { FLEET_CLOCK: path, FLEET_SKEW_MS: skew = '0' } = process.env;
const RealDate = Date;
const KNOWN_FOR_MS = 5;
let movedMs = 0;
let readAt = Number.NEGATIVE_INFINITY;

function moved() {
  const now = performance.now();
  if (now - readAt > KNOWN_FOR_MS) {
    movedMs = Number(readFileSync(path, 'utf8'));
    readAt = now;
  }
  return movedMs;
}

const now = () => RealDate.now() + moved() + Number(skew);

globalThis.Date = class extends RealDate {
  constructor(...args) {
    if (args.length === 0) super(now());
    else super(...args);
  }

  static now() {
    return now();
  }
};

/** The database tells its time where it is asked for it, and in no other way: PostgreSQL, MySQL. */
const CLOCKS = {
  'clock_timestamp()': () => `interval '${moved()} milliseconds'`,
  'now(3)': () => `interval ${moved() * 1000} microsecond`,
};

function moveClock(query) {
  const text = typeof query === 'string' ? query : query.text;
  const clock = Object.keys(CLOCKS).find((each) => typeof text === 'string' && text.includes(each));
  if (clock === undefined) return query;
  const changed = text.replaceAll(clock, `(${clock} + ${CLOCKS[clock]()})`);
  // A prepared statement has one text.
  return typeof query === 'string' ? changed : { ...query, name: undefined, text: changed };
}

/** Has the driver's connections, which have this prototype, ask by the moved clock. */
function moveClockOf(connection) {
  const { query } = connection;
  connection.query = function (first, ...others) {
    return Reflect.apply(query, this, [moveClock(first), ...others]);
  };
}

const known = new Set();

const load = Module._load;
Module._load = function (request, ...rest) {
  const loaded = Reflect.apply(load, this, [request, ...rest]);
  const driver = { pg: 'Client', 'mysql2/promise': 'PromiseConnection' }[request];
  if (driver !== undefined && !known.has(loaded)) {
    known.add(loaded);
    moveClockOf(loaded[driver].prototype);
  }
  return loaded;
};
// Whoever imports it as a module gets what is loaded here.
require(process.env.RUNNER_DATABASE_URL?.startsWith('mysql:') ? 'mysql2/promise' : 'pg');
