/*
 * Loaded into a runner by `NODE_OPTIONS=--require`, from outside: the product knows nothing of it.
 * It counts every step by which the runner's process changes anything outside itself, in their
 * order, can end the process by SIGKILL at any of them, and can set its clock.
 *
 *   FAULT_LOG       file that gets a line for each point: "<name>#<how often so far>", a tab, its place in the code
 *   FAULT_AT        "before <point>" or "after <point>"; the point by its line, or by its number from 1
 *   FAULT_CLOCK     "<ms>" or "<ms> from <number of a point>": what `Date.now()` is ahead of the
 *                   kernel's clock, which scripts and files go by; "<ms> when <path>": as soon as
 *                   there is that file, so that several processes have it at the same time
 *   FAULT_UPTIME    the seconds since its machine was booted
 *   FAULT_ZONE      the zone of its machine
 *   FAULT_PACE      how many times faster than it is its monotonic clock runs, and its timers by it: what waits
 *                   for 15 s waits 1.5 s at a pace of 10
 */
'use strict';

const fs = require('node:fs');
const childProcess = require('node:child_process');
const Module = require('node:module');
const os = require('node:os');

const { openSync, writeSync } = fs;
const kill = process.kill.bind(process);
const { FAULT_LOG: logPath, FAULT_AT: faultAt, FAULT_CLOCK: clock, FAULT_PACE: pace } = process.env;
const { FAULT_UPTIME: uptime, FAULT_ZONE: zone } = process.env;
const [, side, wanted] = /^(before|after) (.+)$/.exec(faultAt ?? '') ?? [];
const [aheadMs, stepAt = 0] = (clock ?? '').split(/ from | when .*/).map(Number);
const [, stepFile] = / when (.+)$/.exec(clock ?? '') ?? [];
const log = logPath === undefined ? null : openSync(logPath, 'a');
const counts = new Map();
let number = 0;
/** Within a step: what Node or a driver does to carry it out is part of it. */
let isInside = false;

/** Without `TZ`, a process lives in the zone of its machine. */
if (zone !== undefined) {
  process.env = new Proxy(process.env, {
    set: (env, name, value) => {
      env[name] = value;
      return true;
    },
    deleteProperty: (env, name) => {
      if (name === 'TZ') env.TZ = zone;
      else delete env[name];
      return true;
    },
  });
}

/** A new point; what it answers is told when the step has been done. */
function reach(name) {
  const count = (counts.get(name) ?? 0) + 1;
  counts.set(name, count);
  number += 1;
  const point = `${name}#${count}`;
  if (log !== null) writeSync(log, `${point}\t${tellPlace()}\n`);
  const isHit = wanted === point || wanted === String(number);
  if (isHit && side === 'before') kill(process.pid, 'SIGKILL');
  return () => isHit && kill(process.pid, 'SIGKILL');
}

/** All that has called it, also from before it waited: "Us.run (pass-DmyrS9zf.cjs:36:2926) < async a (…)". */
function tellPlace() {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 100;
  const [, ...calls] = new Error().stack.split('\n');
  Error.stackTraceLimit = stackTraceLimit;
  const ofRunner = calls.filter((call) => !call.includes(__filename) && !call.includes('node:'));
  return ofRunner.map((call) => call.replace(/^ *at /, '').replace(/\(.*\/dist\//, '(')).join(' < ');
}

/** @param nameOf a step's name by its arguments; null: these change nothing */
function wrapSync(object, method, nameOf) {
  const original = object[method];
  if (typeof original !== 'function') return;
  const wrapped = function (...args) {
    const name = isInside ? null : nameOf(args, this);
    if (name === null) return original.apply(this, args);
    const done = reach(name);
    isInside = true;
    try {
      return original.apply(this, args);
    } finally {
      isInside = false;
      done();
    }
  };
  replace(object, method, wrapped);
}

/** The mark tells a test what is watched; `promisify` and the like find what the original has. */
function replace(object, method, wrapped) {
  object[method] = Object.assign(wrapped, object[method], { isFaultPoint: true });
}

function wrapCallback(object, method, nameOf) {
  const original = object[method];
  if (typeof original !== 'function') return;
  const wrapped = function (...args) {
    const name = isInside ? null : nameOf(args);
    const callback = args.at(-1);
    if (name === null || typeof callback !== 'function') return original.apply(this, args);
    const done = reach(name);
    const told = (...answer) => {
      done();
      callback(...answer);
    };
    return original.apply(this, [...args.slice(0, -1), told]);
  };
  replace(object, method, wrapped);
}

function wrapPromise(object, method, nameOf) {
  const original = object[method];
  if (typeof original !== 'function') return;
  const wrapped = async function (...args) {
    const name = nameOf(args);
    if (name === null) return await original.apply(this, args);
    const done = reach(name);
    try {
      return await original.apply(this, args);
    } finally {
      done();
    }
  };
  replace(object, method, wrapped);
}

/** The same in every run and every root: without pids, ids and tokens. */
function tellPath(path) {
  if (typeof path === 'number') return 'fd';
  return String(path)
    .replace(/^.*\/(?=\.runner(\/|$))/, '')
    .replace(/\/runner-\w{6}(?=\/|$)/, '/<root>')
    .replace(/[^./]+/g, tellPart);
}

function tellPart(part) {
  if (/^\d+$/.test(part)) return '<n>';
  // Of a trial: with or without a digit in what is random of it.
  if (/^try-\w{6}$/.test(part)) return '<token>';
  if (/^[a-z]+-\d+$/.test(part)) return part.replace(/\d+$/, '<n>');
  return /\d/.test(part) && part.length >= 8 ? '<token>' : part;
}

function changes([, flags = 'r']) {
  return typeof flags === 'number' ? (flags & fs.constants.O_CREAT) !== 0 : /[wa]/.test(flags);
}

const changing = [
  ...['mkdir', 'mkdtemp', 'rmdir', 'rm', 'unlink', 'rename', 'link', 'symlink', 'copyFile', 'cp'],
  ...['writeFile', 'appendFile', 'truncate', 'chmod', 'lchmod', 'chown', 'lchown', 'utimes', 'lutimes'],
];
const changingByDescriptor = [...['write', 'writev', 'ftruncate', 'fchmod', 'fchown', 'futimes', 'fsync', 'fdatasync']];

const nameFile = (method) => (args) => (leavesAll(method, args) ? null : `fs.${method} ${tellPath(args[0])}`);

/** What is there is not made, what is not there is not removed: that changes nothing, so it is no step. */
function leavesAll(method, [path, mode]) {
  const found = findFile(path);
  if (method === 'mkdir') return found !== undefined;
  if (['rm', 'rmdir', 'unlink'].includes(method)) return found === undefined;
  return method === 'chmod' && found !== undefined && !found.isSymbolicLink() && (found.mode & 0o7777) === mode;
}

/** Nothing as well where it cannot be looked at: nor can it be changed there. */
function findFile(path) {
  try {
    return fs.lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

const nameOpen = (args) => (changes(args) ? `fs.open ${tellPath(args[0])}` : null);
/** Standard output and error come and go with who listens. */
const nameDescriptor = (method) => () => `fs.${method}`;

for (const method of changing) {
  wrapSync(fs, `${method}Sync`, nameFile(method));
  wrapCallback(fs, method, nameFile(method));
  wrapPromise(fs.promises, method, nameFile(method));
}
for (const method of changingByDescriptor) {
  wrapSync(fs, `${method}Sync`, nameDescriptor(method));
  wrapCallback(fs, method, nameDescriptor(method));
}
wrapSync(fs, 'openSync', nameOpen);
wrapCallback(fs, 'open', nameOpen);
wrapPromise(fs.promises, 'open', nameOpen);
/** To read the crontab changes nothing, so it is no step. */
const nameSpawn = ([program, args]) => (program === 'crontab' && args[0] === '-l' ? null : 'spawn');

for (const method of ['spawn', 'spawnSync', 'exec', 'execSync', 'execFile', 'execFileSync', 'fork']) {
  wrapSync(childProcess, method, nameSpawn);
}
wrapSync(process, 'kill', ([, signal]) => (signal === 0 ? null : `kill ${signal ?? 'SIGTERM'}`));
wrapSync(os, 'setPriority', () => 'setPriority');

/** "insert jobs", "update runs set pid", "begin", "commit"; null for what only reads. */
function tellSql(text) {
  const words = String(text)
    .trim()
    .toLowerCase()
    .replaceAll('"', '')
    .split(/[\s(]+/);
  const [first, second, third, fourth] = words;
  if (['select', 'with', 'explain'].includes(first)) return null;
  if (first === 'insert' || first === 'delete') return `sql ${first} ${third}`;
  if (first === 'update') return `sql update ${second} set ${fourth}`;
  if (first === 'create') return `sql create ${words.slice(1, 4).join(' ')}`;
  if (first === 'pragma') return tellPragma(words.slice(1).join(' '));
  return `sql ${first}`;
}

function tellPragma(source) {
  const changesSomething = source.includes('=') || source.startsWith('incremental_vacuum');
  return changesSomething ? `sql pragma ${source.split(/[\s=(]/)[0]}` : null;
}

function wrapStatement(statement, text) {
  if (tellSql(text) === null) return statement;
  for (const method of ['run', 'get', 'all', 'iterate']) wrapSync(statement, method, () => tellSql(text));
  return statement;
}

function wrapDatabase(prototype) {
  const { prepare } = prototype;
  prototype.prepare = function (text, ...rest) {
    return wrapStatement(prepare.call(this, text, ...rest), text);
  };
  wrapSync(prototype, 'exec', ([text]) => tellSql(text));
  wrapSync(prototype, 'pragma', ([source]) => tellPragma(source.toLowerCase()));
  wrapSync(prototype, 'close', () => 'sql close');
  wrapPromise(prototype, 'backup', () => 'sql backup');
}

const wrappedModules = new Set();
const load = Module._load;
Module._load = function (request, ...rest) {
  return watchDriver(request, load.call(this, request, ...rest));
};
const { getBuiltinModule } = process;
process.getBuiltinModule = (id) => watchDriver(id, getBuiltinModule.call(process, id));

function watchDriver(request, loaded) {
  const isDriver = /^(?:node:sqlite|(?:\.\/)?better-sqlite3(?:\.cjs)?)$/.test(request);
  if (!isDriver || loaded === undefined || wrappedModules.has(request)) return loaded;
  wrappedModules.add(request);
  wrapDatabase((loaded.DatabaseSync ?? loaded.Database ?? loaded).prototype);
  return loaded;
}

if (clock !== undefined) setClock();
if (uptime !== undefined) os.uptime = () => Number(uptime);
if (pace !== undefined) setPace(Number(pace));

function setPace(factor) {
  const now = performance.now.bind(performance);
  performance.now = () => now() * factor;
  const { setTimeout } = globalThis;
  globalThis.setTimeout = (callback, ms, ...args) => setTimeout(callback, ms / factor, ...args);
}

/** Only the clock that tells the date: durations come from the monotonic one. */
function setClock() {
  const { now } = Date;
  const isSet = () => (stepFile === undefined ? number >= stepAt : fs.existsSync(stepFile));
  const read = () => now() + (isSet() ? aheadMs : 0);
  const ItsDate = class extends Date {
    constructor(...args) {
      super(...(args.length === 0 ? [read()] : args));
    }
  };
  ItsDate.now = read;
  globalThis.Date = ItsDate;
}
