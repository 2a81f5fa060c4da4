/*
 * Loaded into a runner by `NODE_OPTIONS=--require`, from outside: the product knows nothing of it.
 * It writes what the call has cost to the file COST_LOG, as JSON, when its process ends.
 */
'use strict';

const fs = require('node:fs');
const Module = require('node:module');

const statements = [];
let writes = 0;

function note(text) {
  statements.push(text.trim().replace(/\s+/g, ' '));
}

/** One by itself, or all between `begin immediate` and `commit`: each waits for the write lock. */
function isWrite(statement, text) {
  return /^\s*begin immediate/.test(text) || (!statement.readonly && !statement.database.inTransaction);
}

function watchStatement(statement, text) {
  for (const method of ['run', 'get', 'all', 'iterate']) {
    const original = statement[method];
    statement[method] = function (...values) {
      note(text);
      if (isWrite(statement, text)) writes += 1;
      return original.apply(this, values);
    };
  }
  return statement;
}

function watchDriver(prototype) {
  const { prepare, exec, pragma } = prototype;
  prototype.prepare = function (text) {
    return watchStatement(prepare.call(this, text), text);
  };
  prototype.exec = function (text) {
    text.split(';').forEach(note);
    return exec.call(this, text);
  };
  prototype.pragma = function (...args) {
    note(`pragma ${args[0]}`);
    return pragma.apply(this, args);
  };
}

const watched = new Set();
const load = Module._load;
Module._load = function (request, ...rest) {
  const loaded = load.call(this, request, ...rest);
  if (/(?:^|\/)better-sqlite3(?:\.cjs)?$/.test(request) && !watched.has(loaded)) {
    watched.add(loaded);
    watchDriver(loaded.prototype);
  }
  return loaded;
};

/** How often the file system was asked for a file of variables. */
let looks = 0;
for (const ask of ['openSync', 'lstatSync', 'statSync', 'existsSync', 'readFileSync', 'accessSync']) {
  const original = fs[ask];
  fs[ask] = function (path, ...rest) {
    if (/\/\.env$/.test(String(path))) looks += 1;
    return original.call(this, path, ...rest);
  };
}

process.on('exit', () => {
  const files = Object.keys(require.cache).filter((path) => path !== __filename);
  fs.writeFileSync(process.env.COST_LOG, JSON.stringify({ statements, writes, files, looks }));
});
