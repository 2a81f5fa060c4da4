import { expect, test } from 'vitest';
import { cronPlace, runCommand } from '../support/command.ts';
import { queryLog } from '../support/log.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';

/** Loaded into the runner: once there is a file `gone`, its descriptors of output files answer as those of a dead server. */
const preload = `
const fs = require('node:fs');
const { existsSync, readlinkSync } = fs;
for (const name of ['fstatSync', 'readSync', 'ftruncateSync', 'closeSync']) {
  const real = fs[name];
  fs[name] = (fd, ...rest) => {
    let path = '';
    try { path = readlinkSync('/proc/self/fd/' + fd); } catch {}
    const isGone = path.includes('/output/') && existsSync(process.env.GONE);
    const answer = isGone && name !== 'closeSync' ? null : real(fd, ...rest);
    if (!isGone) return answer;
    throw Object.assign(new Error('ENOTCONN: socket is not connected, ' + name), { code: 'ENOTCONN' });
  };
}
`;

test('a home on the network that goes away during a run leaves the run its outcome, and the runner its end', () => {
  const root = makeTemporaryRoot({
    'gone.cjs': preload,
    'jobs/hourly/a.sh': executable('#!/bin/sh\necho hi; touch gone; sleep 0.5\n'),
    'jobs/hourly/b.sh': executable('#!/bin/sh\nexit 3\n'),
  });
  const place = cronPlace(root);
  const env = { ...place.env, NODE_OPTIONS: `--require=${root}/gone.cjs`, GONE: `${root}/gone` };
  const { status, stderr } = runCommand(['--root', root, 'hourly'], { ...place, env });
  expect([status, stderr.match(/^\s+at /m)]).toEqual([1, null]);
  expect(queryLog(root, 'select script, outcome from runs order by id')).toEqual([
    { script: 'hourly/a', outcome: 'succeeded' },
    { script: 'hourly/b', outcome: 'failed' },
  ]);
});
