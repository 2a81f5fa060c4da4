/*
 * Loaded into a process by `--require`: sends it a signal before its n-th step in a folder, reading
 * steps among them. Real processes so meet, or die, between any two of them.
 *
 *   STEP_IN      the folder
 *   STEP_AT      n, from 1
 *   STEP_SIGNAL  SIGSTOP or SIGKILL
 */
'use strict';

const fs = require('node:fs');
const { syncBuiltinESMExports } = require('node:module');

const { STEP_IN: folder = '', STEP_AT: at, STEP_SIGNAL: signal } = process.env;
const kill = process.kill.bind(process);
let steps = 0;
let isInside = false;

const methods = [
  ...['mkdir', 'rmdir', 'rm', 'unlink', 'rename', 'open', 'readdir', 'lstat', 'stat'],
  ...['writeFile', 'utimes'],
];

for (const method of methods.flatMap((name) => [name, `${name}Sync`])) {
  const original = fs[method];
  fs[method] = Object.assign(function (path, ...rest) {
    if (isInside || !String(path).startsWith(folder)) return original.call(this, path, ...rest);
    steps += 1;
    if (steps === Number(at)) kill(process.pid, signal);
    isInside = true;
    try {
      return original.call(this, path, ...rest);
    } finally {
      isInside = false;
    }
  }, original);
}
syncBuiltinESMExports();
