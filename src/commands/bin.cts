#!/usr/bin/env node
/* This file alone must be understood by any Node, however old: it says what to do there.
   Nothing may be imported before the check: better-sqlite3 ends a too old Node without a word. */
// biome-ignore-all lint: old Nodes know neither `const` nor arrow functions
var path = require('path');

/* Node runs the files of this folder. Under cron's umask 000 anybody could have added code, and under sudo the folder
   may be another user's. A folder that others could write is made anew. */
function makePrivate(caches: string, folder: string) {
  var fs = require('fs');
  var own = process.geteuid!();
  try {
    // A folder that root makes in a user's home would shut the user out.
    if (own === 0 && fs.statSync(path.dirname(caches)).uid !== own) return false;
    makeFolder(fs, caches);
    makeFolder(fs, folder);
    var stats = fs.lstatSync(folder);
    if (stats.uid !== own || !stats.isDirectory()) return false;
    if ((stats.mode & 63) === 0) return true;
    fs.rmSync(folder, { recursive: true });
    fs.mkdirSync(folder, { mode: 448 });
    return true;
  } catch (error) {
    return false;
  }
}

/* One at a time: where the file system says that there is no such folder whatever is made, as /proc
   and homes that are not mounted do, Node's own `recursive` tries for ever. */
function makeFolder(fs: typeof import('fs'), folder: string) {
  try {
    fs.mkdirSync(folder, 448);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

var found = process.versions.node.split('.').map(Number);
if (process.versions['pnp']) {
  /* Neither cron nor a script's process would find what lies in Yarn's archives. */
  process.stderr.write(
    "runner: Yarn's Plug'n'Play (PnP) is not supported: write `nodeLinker: node-modules` into .yarnrc.yml " +
      'and run `yarn install`.\n',
  );
  process.exitCode = 2;
} else if (found[0]! > 22 || (found[0] === 22 && found[1]! >= 18)) {
  // The caller's would give scripts' files another mode by hand than under cron, or shut their owner out.
  var umask = process.umask(18);
  var home = process.env['HOME'];
  var caches = process.env['XDG_CACHE_HOME'] || (home && path.join(home, '.cache')) || '';
  var cache = path.join(caches, 'folder-runner');
  // Compiled once instead of at each start; without a home of its own, by its full path, it goes on without.
  if (caches.charAt(0) === '/' && makePrivate(caches, cache)) require('module').enableCompileCache(cache);
  try {
    var cli = require('./cli.cjs');
  } catch (error) {
    var code = (error as NodeJS.ErrnoException).code;
    if (code !== 'MODULE_NOT_FOUND' && !(error instanceof SyntaxError)) throw error;
    process.stderr.write(
      'runner: the package is not complete (' +
        String((error as Error).message).split('\n')[0] +
        '): it is being installed, or was removed. The next call tries again; if this stays so, install it again.\n',
    );
    process.exitCode = 1;
  }
  if (cli) cli.main(__dirname, umask);
} else {
  process.stderr.write(
    'runner: needs Node 22.18 or newer, and this is ' +
      process.versions.node +
      ' (' +
      process.execPath +
      ').\n' +
      'Choose a newer Node in the hosting panel, or put one beside the package with `npm install node@24` ' +
      'and start `npx folder-runner`; then renew the crontab lines with `npx folder-runner cron --install`.\n',
  );
  process.exitCode = 2;
}
