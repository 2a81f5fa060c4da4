/* The function that the startup file of a Node app calls under Passenger or LiteSpeed. They start the file with a
   loader of their own, which has no arguments and takes over where the first server listens. As in `bin.cts`, any Node
   understands it. */
// biome-ignore-all lint: old Nodes know neither `const` nor arrow functions
var path = require('path');

module.exports = function serve(app: import('./web-app.d.cts').WebApp) {
  if (!app || typeof app.url !== 'string') {
    throw new TypeError(
      'folder-runner/web needs the address that browsers use: require("folder-runner/web")({ url: "https://example.org/runner" })',
    );
  }
  var root = app.root ? ['--root', app.root] : [];
  process.argv = [process.execPath, path.join(__dirname, 'bin.cjs'), 'web', '--loader', '--url', app.url].concat(root);
  require('./bin.cjs');
};
