#!/usr/bin/env node
/* This file alone must be understood by any Node, however old: it says what to do there.
   Nothing may be imported before the check: better-sqlite3 ends a too old Node without a word. */
// biome-ignore-all lint: old Nodes know neither `const` nor arrow functions
var path = require('path');

var found = process.versions.node.split('.').map(Number);
if (found[0]! > 22 || (found[0] === 22 && found[1]! >= 18)) {
  var home = process.env['HOME'];
  var caches = process.env['XDG_CACHE_HOME'] || (home && path.join(home, '.cache'));
  // Compiled once instead of at each start; without a writable home it goes on without.
  if (caches) require('module').enableCompileCache(path.join(caches, 'folder-runner'));
  require('./cli.cjs').main(__dirname);
} else {
  process.stderr.write(
    'runner: needs Node 22.18 or newer, and this is ' +
      process.versions.node +
      ' (' +
      process.execPath +
      ').\n' +
      'Choose a newer Node in the hosting panel, or put one beside the package with `npm install node@24` ' +
      'and start `npx runner`; then renew the crontab lines with `npx runner cron --install`.\n',
  );
  process.exitCode = 2;
}
